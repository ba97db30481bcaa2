"""The files and answers of Spark that a test replays are those that were recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support import replay, scheduling, verdicts
from support.mutations import TABLE, faults, wrong_entries
from support.replay import Replay
from support.verdicts import FOLDER, Verdicts, decoded, digest_of, encoded, read


class Writer:
    """A statement that writes files and an answer, and counts how often it was asked."""

    def __init__(self, root: Path, text: str = "rows") -> None:
        self.root, self.text, self.asked = root, text, 0

    def write(self) -> None:
        self.asked += 1
        (self.root / "table").mkdir(exist_ok=True)
        (self.root / "table" / "1").write_text(self.text)
        (self.root / "table" / "0").unlink(missing_ok=True)

    def answer(self) -> list[str]:
        self.asked += 1
        return [f"{self.root}/table/1"]


@pytest.fixture(autouse=True)
def no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "PROOF", False)


def record(monkeypatch: pytest.MonkeyPatch, page: Path, root: Path, writer: Writer) -> None:
    for module in (replay, verdicts):
        monkeypatch.setattr(module, "RECORDING", True)
    recorded = Verdicts(page)
    asked(Replay(recorded, "test_x", root), writer)
    recorded.save()
    for module in (replay, verdicts):
        monkeypatch.setattr(module, "RECORDING", False)


def asked(replayed: Replay, writer: Writer) -> object:
    replayed.run([f"insert into {writer.root}"], writer.write)
    answer = replayed.answer(["count", 1], writer.answer)
    replayed.close()
    return answer


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        (folder / "table").mkdir(parents=True)
    return folders


def test_a_statement_that_was_recorded_leaves_its_files_and_answers_in_another_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, roots: list[Path]
) -> None:
    page = tmp_path / "x.arrow"
    record(monkeypatch, page, roots[0], Writer(roots[0]))
    writer = Writer(roots[1])
    assert asked(Replay(Verdicts(page), "test_x", roots[1]), writer) == [f"{roots[1]}/table/1"]
    assert (roots[1] / "table" / "1").read_text() == "rows"
    assert writer.asked == 0


def test_spark_is_asked_from_the_first_statement_that_finds_other_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, roots: list[Path]
) -> None:
    page = tmp_path / "x.arrow"
    record(monkeypatch, page, roots[0], Writer(roots[0]))
    (roots[1] / "table" / "more").write_text("of another writer")
    writer, recorded = Writer(roots[1], "others"), Verdicts(page)
    asked(Replay(recorded, "test_x", roots[1]), writer)
    assert (writer.asked, recorded.unrecorded) == (2, 1)
    assert (roots[1] / "table" / "1").read_text() == "others"


def test_a_test_whose_files_name_its_folder_is_recorded_as_one_that_needs_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, roots: list[Path]
) -> None:
    page = tmp_path / "x.arrow"
    record(monkeypatch, page, roots[0], Writer(roots[0], f"clone of {roots[0]}"))
    writer, recorded = Writer(roots[1]), Verdicts(page)
    asked(Replay(recorded, "test_x", roots[1]), writer)
    assert (writer.asked, recorded.unrecorded) == (2, 0)


def test_a_test_that_writes_between_two_statements_is_recorded_as_one_that_needs_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, roots: list[Path]
) -> None:
    page = tmp_path / "x.arrow"
    (roots[0] / "table" / "0").write_text("of the test")
    record(monkeypatch, page, roots[0], Writer(roots[0]))
    (roots[1] / "table" / "0").write_text("of the test")
    writer = Writer(roots[1])
    asked(Replay(Verdicts(page), "test_x", roots[1]), writer)
    assert writer.asked == 2


def test_a_test_whose_questions_are_all_recorded_is_any_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "tests" / "integration"
    folder.mkdir(parents=True)
    (folder / "test_replayed.py").write_text("def spark(replayed_spark): ...\n\ndef test_a(spark): ...\n")
    (folder / "test_asked.py").write_text("def test_a(verdicts): ...\n\ndef test_b(spark, tmp_path): ...\n")
    for module in (replay, verdicts):
        monkeypatch.setattr(module, "RECORDING", True)
    for name in ("replayed", "asked"):
        recorded = Verdicts(tmp_path / "tests" / "verdicts" / f"test_{name}.arrow")
        recorded.record("answer", "", "question", 1)
        recorded.record(replay.LIVE, "", f"tests/integration/test_{name}.py::test_a[live]", True)
        recorded.save()
    monkeypatch.setattr(scheduling, "FOLDER", tmp_path / "tests" / "verdicts")
    monkeypatch.setattr(scheduling, "PROOF", False)

    def worker(test: str) -> str:
        return scheduling.OneSpark._split_scope(None, f"tests/integration/{test}")

    assert worker("test_replayed.py::test_a[x]") == "tests/integration/test_replayed.py"
    assert worker("test_replayed.py::test_a[live]") == scheduling.SHARED
    assert worker("test_asked.py::test_a") == "tests/integration/test_asked.py"
    assert worker("test_asked.py::test_b[1]") == scheduling.SHARED
    assert worker("test_without_a_record.py::test_a") == scheduling.SHARED


def test_tests_that_begin_alike_have_their_own_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, roots: list[Path]
) -> None:
    page, recorded = tmp_path / "x.arrow", Verdicts(tmp_path / "x.arrow")
    for module in (replay, verdicts):
        monkeypatch.setattr(module, "RECORDING", True)
    for root, test in zip(roots, ("test_x", "test_y"), strict=True):
        asked(Replay(recorded, test, root), Writer(root, f"rows of {test}"))
    recorded.save()
    for module in (replay, verdicts):
        monkeypatch.setattr(module, "RECORDING", False)
    for test in ("test_x", "test_y"):
        root = tmp_path / test
        (root / "table").mkdir(parents=True)
        writer = Writer(root)
        asked(Replay(Verdicts(page), test, root), writer)
        assert writer.asked == 0
        assert (root / "table" / "1").read_text() == f"rows of {test}"


def test_a_test_that_uses_the_session_itself_is_recorded_as_one_that_needs_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, roots: list[Path]
) -> None:
    page = tmp_path / "x.arrow"
    for module in (replay, verdicts):
        monkeypatch.setattr(module, "RECORDING", True)
    recorded = Verdicts(page)
    session = replay.ReplayedSpark(lambda: "a session", Replay(recorded, "test_x", roots[0]))
    writer = Writer(roots[0])
    replay.write(session, "rows", lambda: (session.upper(), writer.write()))
    session.replay.close()
    recorded.save()
    assert Verdicts(page).recorded(replay.LIVE, "", "test_x") is None
    assert session.upper() == "A SESSION"
    session.replay.close()
    recorded.save()
    assert Verdicts(page).recorded(replay.LIVE, "", "test_x") is True


ANSWERS = [
    None,
    True,
    "DIVIDE_BY_ZERO",
    [True, None, False],
    pa.array([1, None], pa.int8()),
    pa.array([float("nan"), -0.0]),
    pa.array([{"a": [1, 2]}, None]),
    pa.array([], pa.decimal128(38, 2)),
    pa.array(["ä", ""]).dictionary_encode(),
]


class Judge:
    """Answers questions by their length, and remembers which it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, questions: Sequence[str]) -> list[int]:
        self.asked += questions
        return [len(question) for question in questions]


@pytest.mark.parametrize("answer", ANSWERS, ids=[str(number) for number in range(len(ANSWERS))])
def test_an_answer_is_read_as_it_was_recorded(answer: Any) -> None:
    again = decoded(encoded(answer))
    assert type(again) is type(answer)
    assert encoded(again) == encoded(answer)
    if isinstance(answer, pa.Array):
        assert again.type == answer.type


def test_only_what_is_not_recorded_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "PROOF", False)
    monkeypatch.setattr(verdicts, "RECORDING", True)
    first = Judge()
    recorded = Verdicts(tmp_path / "folder" / "module.arrow")
    assert recorded.answers("length", ["a", "bcd"], first) == [1, 3]
    recorded.save()
    assert sorted(first.asked) == ["a", "bcd"]
    monkeypatch.setattr(verdicts, "RECORDING", False)
    judge = Judge()
    recorded = Verdicts(tmp_path / "folder" / "module.arrow")
    assert recorded.answers("length", ["bcd", "ef", "a"], judge) == [3, 2, 1]
    assert (judge.asked, recorded.unrecorded) == (["ef"], 1)
    assert recorded.answers("length", ["ef"], judge) == [2]
    assert recorded.answers("length", ["a"], judge, about="another table") == [1]
    assert recorded.answers("another kind", ["a"], judge) == [1]
    assert (judge.asked, recorded.unrecorded) == (["ef", "a", "a"], 3)
    recorded.save()
    assert len(read(tmp_path / "folder" / "module.arrow")) == 2


def test_a_proof_asks_everything_and_fails_where_the_answer_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "PROOF", True)
    recorded, judge = Verdicts(tmp_path / "module.arrow"), Judge()
    for _ in range(2):
        assert recorded.answers("length", ["a"], judge) == [1]
    assert (judge.asked, recorded.unrecorded) == (["a", "a"], 1)
    with pytest.raises(AssertionError, match="not the recorded one: a"):
        recorded.answers("length", ["a"], lambda _: [2])


def test_a_digest_tells_tables_of_other_values_names_or_types_apart() -> None:
    table = pa.table({"a": [1, 2]})
    others = [pa.table({"a": [1, 3]}), pa.table({"b": [1, 2]}), pa.table({"a": pa.array([1, 2], pa.int32())})]
    assert len({digest_of(other) for other in (table, *others)}) == 4
    assert digest_of(pa.concat_tables([table.slice(0, 1), table.slice(1)])) == digest_of(table)


def test_every_record_belongs_to_a_test_module_that_asks_for_it() -> None:
    records = sorted(FOLDER.glob("*.arrow"))
    assert records
    for record in records:
        [module] = (FOLDER.parent / "integration").glob(f"{record.stem}.py")
        text = module.read_text(encoding="utf-8")
        assert "verdicts" in text or "replayed_" in text
        assert read(record)


def test_every_hand_made_fault_quotes_a_text_that_stands_once_and_names_tests_that_are_there() -> None:
    assert wrong_entries(faults(TABLE.read_text(encoding="utf-8"))) == []
