"""The files and answers of Spark that a test replays are those that were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import replay, scheduling, verdicts
from support.replay import Replay
from support.verdicts import Verdicts


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


def test_a_proof_replays_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, roots: list[Path]) -> None:
    page = tmp_path / "x.arrow"
    record(monkeypatch, page, roots[0], Writer(roots[0]))
    monkeypatch.setattr(replay, "PROOF", True)
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
