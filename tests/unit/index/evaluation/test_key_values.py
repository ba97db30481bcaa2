"""Values of functions over the keys of a segment: computed once, kept within the memory bound."""

from __future__ import annotations

from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa
import pytest

import tailbit
from support.tables import index_of
from tailbit.index.evaluation import computed
from tailbit.index.evaluation.computed import KeyValues
from tailbit.index.expression.evaluate import evaluate
from tailbit.index.functions import groups
from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.functions.vectors import Raised, Vector, per_distinct
from tailbit.index.values.literals import STRING, Literal
from tailbit.tables.cache import Cache
from tailbit.tables.model import Column

COLUMN = Column(("s",), ("s",), STRING)
TEXTS = pa.array([f"user-{n % 7}-{n}" for n in range(1000)] + [None])


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> Cache[object, Vector]:
    held: Cache[object, Vector] = Cache(1 << 20)
    monkeypatch.setattr(computed, "_VALUES", held)
    return held


def part(number: int) -> Call:
    args: tuple[Expression, ...] = (Ref(COLUMN), Literal(STRING, b"-"))
    return Call("split_part", args, STRING, (number,))


@pytest.mark.parametrize("number", [2, 3])
def test_kept_values_are_those_that_were_computed(number: int, cache: Cache[object, Vector]) -> None:
    computed = evaluate(part(number), {"s": TEXTS}, len(TEXTS))
    kept = KeyValues("segment")
    for _ in range(2):
        assert evaluate(part(number), {"s": TEXTS}, len(TEXTS), kept.of).values.equals(computed.values)
    assert len(cache.items()) == 1


def test_a_function_is_computed_once_for_conditions_with_other_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"s": TEXTS}))
    index_of(path, ["s"])
    called: list[int] = []
    part_of = groups.part_of

    def counted(call: Call, args: list[pa.Array]) -> Vector:
        called.append(1)
        return part_of(call, args)

    monkeypatch.setattr(groups, "part_of", counted)
    table = tailbit.open(path)
    counts = [table.where(f"split_part(s, '-', 2) = '{n}'").count() for n in range(8)]
    assert counts == [143, 143, 143, 143, 143, 143, 142, 0]
    assert len(called) == 1


def test_values_of_other_segments_and_other_types_are_not_taken_for_these(
    cache: Cache[object, Vector],
) -> None:
    others = pa.array(["a-b"] * len(TEXTS))
    first = evaluate(part(2), {"s": TEXTS}, len(TEXTS), KeyValues("one").of)
    second = evaluate(part(2), {"s": others}, len(TEXTS), KeyValues("other").of)
    assert not first.values.equals(second.values)
    assert second.values.unique().to_pylist() == ["b"]


def test_values_larger_than_their_share_of_the_memory_are_not_kept(
    cache: Cache[object, Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computed, "_LIMIT", 100)
    evaluate(part(3), {"s": TEXTS}, len(TEXTS), KeyValues("segment").of)
    assert cache.items() == []


@pytest.mark.parametrize("columns", [1, 2])
def test_a_function_is_called_once_for_each_distinct_row_without_null(columns: int) -> None:
    called: list[tuple[bytes, ...]] = []

    def apply(*texts: bytes) -> bytes:
        called.append(texts)
        return b"".join(texts)

    texts = pa.array(["a", None, "b", "a", "c", "b"])
    others = pa.array(["x", "y", "x", "x", None, "z"])
    args = [texts, others][:columns]
    vector = per_distinct(args, [STRING] * columns, STRING, apply)
    expected = {1: ["a", None, "b", "a", "c", "b"], 2: ["ax", None, "bx", "ax", None, "bz"]}[columns]
    assert vector.values.to_pylist() == expected
    assert vector.raised is None
    assert len(called) == len(set(called)) == 3


def test_rows_that_raise_are_told_and_the_others_have_their_values() -> None:
    def apply(text: bytes, other: bytes) -> bytes:
        if text == b"b":
            raise Raised("DIVIDE_BY_ZERO")
        return text + other

    constant = pa.array(["-"] * 4)
    vector = per_distinct([pa.array(["a", "b", None, "a"]), constant], [STRING, STRING], STRING, apply)
    assert vector.values.to_pylist() == ["a-", None, None, "a-"]
    assert np.flatnonzero(vector.failed).tolist() == [1]


@pytest.mark.parametrize("args", [(["a", "b"], [None, None]), ([None, None], ["a", "b"]), ([], [])])
def test_a_function_without_a_whole_row_is_not_called(args: tuple[list[str | None], ...]) -> None:
    arrays = [pa.array(values, pa.string()) for values in args]
    vector = per_distinct(arrays, [STRING, STRING], STRING, lambda *_: pytest.fail("called"))
    assert vector.values.to_pylist() == [None] * len(args[0])


@pytest.mark.parametrize(
    ("texts", "coded"),
    [
        ([f"{n % 30}" for n in range(20_000)], True),
        ([f"{n // 5}" for n in range(20_000)], True),
        ([f"{n}" for n in range(20_000)], False),
    ],
    ids=["few", "neighbours are equal", "distinct"],
)
def test_texts_that_repeat_are_kept_as_a_dictionary(
    texts: list[str], coded: bool, cache: Cache[object, Vector]
) -> None:
    values = pa.array(texts)
    kept = KeyValues("segment")
    for _ in range(2):
        assert kept.of(part(2), lambda: Vector(values)).values.equals(values)
    ((_, held),) = cache.items()
    assert pa.types.is_dictionary(held.values.type) == coded
