"""Predicates as sets of values, and their ranges over stored keys."""

from __future__ import annotations

import math
import random
from functools import reduce

import pytest

from tailbit.errors import ColumnTypeError
from tailbit.index.functions.tree import Call, Ref
from tailbit.index.keys import encode_value
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.key_ranges import key_ranges
from tailbit.index.predicate.tree import (
    And,
    Constant,
    Leaf,
    Or,
    all_of,
    any_of,
    columns_of,
    is_null,
    is_true,
    negate,
)
from tailbit.index.predicate.value_sets import NULL, Interval, ValueSet
from tailbit.index.values.literals import BOOLEAN
from tailbit.tables.model import Column, DataType

INTEGER = DataType("integer")
X = Column(("x",), ("x",), INTEGER)
Y = Column(("y",), ("y",), INTEGER)
BELOW = Computed(Call("<", (Ref(X), Ref(Y)), BOOLEAN), "x < y")


def leaf(column: Column, *points: int) -> Leaf:
    true = ValueSet.points(points)
    return Leaf(column, true, true.others(), f"{column.label} IN {points}")


def above(column: Column, value: int) -> Leaf:
    true = ValueSet.of([Interval(value, False, None, False)])
    return Leaf(column, true, true.others(), f"{column.label} > {value}")


def below(column: Column, value: int) -> Leaf:
    true = ValueSet.of([Interval(None, False, value, False)])
    return Leaf(column, true, true.others(), f"{column.label} < {value}")


def test_conditions_on_one_column_under_one_and_are_one_interval() -> None:
    node = all_of([above(X, 1), leaf(Y, 3), below(X, 9)])
    assert isinstance(node, And)
    first = node.children[0]
    assert isinstance(first, Leaf)
    assert first.true.intervals == (Interval(1, False, 9, False),)
    assert first.text == "x > 1 AND x < 9"
    assert [c.id for c in columns_of(node)] == ["x", "y"]


def test_conditions_on_one_column_under_one_or_are_one_set() -> None:
    node = any_of([leaf(X, 5), leaf(X, 1), above(X, 8)])
    assert isinstance(node, Leaf)
    assert node.true.intervals == (
        Interval(1, True, 1, True),
        Interval(5, True, 5, True),
        Interval(8, False, None, False),
    )
    assert node.false == node.true.others()


def test_constants_disappear_and_null_stays() -> None:
    assert all_of([leaf(X, 1), Constant(True)]) == leaf(X, 1)
    assert all_of([leaf(X, 1), Constant(False)]) == Constant(False)
    assert any_of([leaf(X, 1), Constant(False)]) == leaf(X, 1)
    assert any_of([leaf(X, 1), Constant(True)]) == Constant(True)
    assert all_of([]) == Constant(True)
    assert any_of([]) == Constant(False)
    assert all_of([leaf(X, 1), Constant(None)]) == And((leaf(X, 1), Constant(None)))


def test_not_goes_to_the_leaves() -> None:
    node = negate(all_of([leaf(X, 1), BELOW, Constant(None)]))
    assert isinstance(node, Or)
    first = node.children[0]
    assert isinstance(first, Leaf)
    assert (first.true, first.false) == (leaf(X, 1).false, leaf(X, 1).true)
    assert node.children[1:] == (negate(BELOW), Constant(None))


def test_a_comparison_of_columns_is_itself_when_negated_twice() -> None:
    assert negate(BELOW) != BELOW == negate(negate(BELOW))


def test_is_true_is_never_null() -> None:
    for node in (is_true(leaf(X, 1)), negate(is_true(leaf(X, 1))), is_null(leaf(X, 1))):
        assert isinstance(node, Leaf)
        assert all(node.true.contains(v) != node.false.contains(v) for v in (1, 2, None))
    assert is_true(is_true(BELOW)) == is_true(BELOW) != BELOW
    assert is_true(Constant(None)) == Constant(False)
    assert is_null(Constant(None)) == Constant(True)


def test_a_set_touches_the_bounds_of_a_file() -> None:
    wanted = ValueSet.of([Interval(5, True, 9, False)])
    assert [wanted.touches(lo, hi) for lo, hi in ((None, 4), (4, 5), (9, None), (8, 8), (None, None))] == [
        False,
        True,
        False,
        True,
        True,
    ]
    assert not wanted.others().touches(6, 7)
    assert wanted.others().touches(6, 9)
    assert not ValueSet(nulls=True).touches(None, None)


@pytest.mark.parametrize(
    ("interval", "current", "stored", "expected"),
    [
        (Interval(1.5, True, 3.0, False), "double", "integer", (2, 2)),
        (Interval(1.0, False, 3.0, True), "double", "integer", (2, 3)),
        (Interval(-math.inf, False, math.inf, False), "double", "integer", (-(2**63), 2**63 - 1)),
        (Interval(1e300, True, None, False), "double", "integer", None),
        (Interval(math.nan, True, math.nan, True), "double", "integer", None),
        (Interval(None, False, -1e300, True), "double", "integer", None),
        (Interval(150, True, 350, True), "decimal(2)", "integer", (2, 3)),
        (Interval(-150, True, -50, True), "decimal(2)", "integer", (-1, -1)),
        (Interval(10**37, True, None, False), "decimal(2)", "integer", None),
        (Interval(155, False, None, False), "decimal(2)", "decimal(1)", (16, 2**127 - 1)),
        (Interval(1, True, 86_400_000_000, True), "timestamp_ntz", "date", (1, 1)),
        (Interval(1, True, 2, True), "timestamp_ntz", "date", None),
    ],
)
def test_bounds_narrow_to_the_type_that_a_segment_was_written_in(
    interval: Interval, current: str, stored: str, expected: tuple[int, int] | None
) -> None:
    ranges = key_ranges(ValueSet.of([interval], complement=True, nulls=True), current, stored)
    wanted = [] if expected is None else [tuple(encode_value(v, stored) for v in expected)]
    assert [(lo, hi) for lo, _, hi, _ in ranges.sure] == wanted
    assert all(lo_closed and hi_closed for _, lo_closed, _, hi_closed in ranges.sure)
    assert ranges.maybe == ()


def test_a_segment_of_another_type_is_refused() -> None:
    with pytest.raises(ColumnTypeError, match="do not widen"):
        key_ranges(NULL, "integer", "string")


def random_set(rng: random.Random) -> ValueSet:
    ends = [
        sorted(rng.choices((None, *range(8)), k=2), key=lambda e: -1 if e is None else e) for _ in range(2)
    ]
    intervals = (Interval(low, rng.random() < 0.5, high, rng.random() < 0.5) for low, high in ends)
    return ValueSet.of(intervals, rng.random() < 0.5, rng.random() < 0.3)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_the_union_and_the_intersection_of_many_sets_are_those_made_one_by_one(count: int) -> None:
    rng = random.Random(count)
    for _ in range(200):
        sets = [random_set(rng) for _ in range(count)]
        assert ValueSet.union_of(sets) == reduce(ValueSet.union, sets, ValueSet())
        assert ValueSet.intersection_of(sets) == reduce(ValueSet.intersect, sets, ValueSet().inverse())


def test_a_long_chain_of_one_column_is_merged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    merges = []
    monkeypatch.setattr(ValueSet, "intersect", lambda *sets: merges.append(sets))
    assert isinstance(any_of(leaf(X, n) for n in range(1000)), Leaf)
    assert isinstance(all_of(negate(leaf(X, n)) for n in range(1000)), Leaf)
    assert merges == []
