"""What is recorded of Spark is not asked again, what is not is asked, and a proof asks all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support import verdicts
from support.verdicts import FOLDER, Verdicts, decoded, digest_of, encoded, read

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
        assert "verdicts" in text or "replayed_spark" in text
        assert read(record)
