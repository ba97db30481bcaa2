"""A bound predicate as a condition on the values that data files store.

Partition columns become constants, since the log records one value per file. A leaf becomes a test by its
value set; a condition computed from one column becomes a test by the function that evaluates rows. The other
parts of an AND are the residual filter, evaluated on the rows that pass the condition: a row that does not
pass cannot match, whatever the other parts return or raise for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.base.errors import ColumnTypeError
from tailbit.base.lazy import lazy
from tailbit.index.keys import SIGN, WORD_DIGITS, float_at, is_textual, key_type_of, ordered_int, scale_of
from tailbit.index.predicate.computed import Computed, judge
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, all_of
from tailbit.index.predicate.value_sets import Interval
from tailbit.tables.model import Column
from tailbit.tables.parquet.condition import AllOf, AnyOf, Condition, Floats, Numbers, Test
from tailbit.tables.schema import arrow_type

if TYPE_CHECKING:
    from tailbit.index.predicate import truth
else:
    truth = lazy("tailbit.index.predicate.truth")

_MOST_TESTS = 32
"""Limit of tests in one condition; each test assembles a column."""
_MOST_RANGES = 16
"""Limit of ranges in one test that are no single values; each range is compared with every row."""

Constants = Mapping[str, str | None]
"""Partition values as the log's text, by physical column name."""


def condition_of(node: Node, partition: Constants) -> tuple[Condition | bool | None, Node | None]:
    """Split a predicate into the condition that rows of a file must pass, and the residual filter.

    The condition is True or False if partition values decide it, and None if nothing can be pushed down.
    """
    budget = _Budget()
    if not isinstance(node, And):
        condition = _condition(node, partition, budget)
        return condition, None if condition is not None else node
    conditions = [(child, budget.condition_of_part(child, partition)) for child in node.children]
    decided = [condition for _, condition in conditions if condition is not None]
    rest = [child for child, condition in conditions if condition is None]
    if any(condition is False for condition in decided):
        return False, None
    tests = [condition for condition in decided if not isinstance(condition, bool)]
    if not tests:
        return (True, None) if not rest else (None, all_of(rest))
    return tests[0] if len(tests) == 1 else AllOf(tests), all_of(rest) if rest else None


class _Budget:
    """The number of tests that a condition may still add; a shared node counts each time that it occurs."""

    def __init__(self) -> None:
        self.remaining = _MOST_TESTS

    def condition_of_part(self, node: Node, partition: Constants) -> Condition | bool | None:
        """Return the condition of a node; if there is none, return None and leave the budget as it was."""
        before = self.remaining
        condition = _condition(node, partition, self)
        if condition is None:
            self.remaining = before
        return condition


def _condition(node: Node, partition: Constants, budget: _Budget) -> Condition | bool | None:
    if isinstance(node, Constant):
        return node.value is True
    if isinstance(node, (And, Or)):
        return _joined(node, partition, budget)
    budget.remaining -= 1
    if budget.remaining < 0:
        return None
    if isinstance(node, Leaf):
        if node.column.partition:
            return truth.partition_value_matches(node, partition.get(node.column.physical[0]))
        return _test_of_leaf(node)
    if isinstance(node, Computed) and node.column is not None:
        if node.column.partition:
            true, raised = truth.partition_values_match(node, [partition.get(node.column.physical[0])])
            return None if raised[0] else bool(true[0])
        return _test_of_computed(node, node.column)
    return None


def _joined(node: And | Or, partition: Constants, budget: _Budget) -> Condition | bool | None:
    decides = isinstance(node, Or)
    tests: list[Condition] = []
    for child in node.children:
        test = _condition(child, partition, budget)
        if test is None:
            return None
        if test is decides:
            return decides
        if not isinstance(test, bool):
            tests.append(test)
    if not tests:
        return not decides
    return tests[0] if len(tests) == 1 else AnyOf(tests) if decides else AllOf(tests)


def _test_of_leaf(leaf: Leaf) -> Test:
    stored, column = _stored(leaf), leaf.column
    return Test(column, partial(_of_leaf, leaf), stored, leaf.true.complement, leaf.true.nulls)


def _of_leaf(leaf: Leaf, values: pa.Array) -> Mask:
    return truth.in_values(values, leaf.true, leaf.column.type)


def _stored(leaf: Leaf) -> Numbers | Floats | None:
    """Return the intervals of a leaf in the form in which data files store the values.

    None if the intervals are too many, or the type has no such form.
    """
    type_, intervals = leaf.column.type, leaf.true.intervals
    try:
        key_type = key_type_of(type_)
    except ColumnTypeError:
        return None
    wider = sum(i.lo is None or i.lo != i.hi for i in intervals)
    if wider > _MOST_RANGES or type_.char_length or is_textual(key_type):
        return None
    if scale_of(key_type) is not None:
        return Numbers(_whole(intervals)) if type_.precision <= WORD_DIGITS else None
    ends = list(zip(*(numbers.tolist() for numbers in truth.ends_of(leaf.true, type_)), strict=True))
    return _floats(ends) if key_type == "double" else Numbers(ends)


def _whole(intervals: Sequence[Interval]) -> list[tuple[int, int]]:
    """Convert intervals of unscaled decimals to closed integer ranges."""
    ranges = [
        (
            -SIGN if i.lo is None else math.floor(i.lo) + 1 if not i.lo_closed else math.ceil(i.lo),
            SIGN - 1 if i.hi is None else math.ceil(i.hi) - 1 if not i.hi_closed else math.floor(i.hi),
        )
        for i in intervals
        if not isinstance(i.lo, bytes) and not isinstance(i.hi, bytes)
    ]
    return [(lo, hi) for lo, hi in ranges if lo <= hi]


_NAN, _INFINITE = (ordered_int(value, "double") for value in (math.nan, math.inf))
_NEGATIVE_ZERO = -1
"""The rank of -0.0 in the order of doubles; no value has it, because -0.0 is stored as 0.0."""


def _floats(ends: Sequence[tuple[int, int]]) -> Floats:
    """Convert ranges of ranks in the order of doubles to ranges of doubles, and whether NaN is within."""
    inside = [(max(lo, -_INFINITE - 1), min(hi, _INFINITE)) for lo, hi in ends]
    ranges = [(lo, hi - (hi == _NEGATIVE_ZERO)) for lo, hi in inside]
    return Floats(
        [(float_at(lo), float_at(hi)) for lo, hi in ranges if lo <= hi],
        any(lo <= _NAN <= hi for lo, hi in ends),
    )


def _test_of_computed(node: Computed, column: Column) -> Test | None:
    nothing = pa.nulls(1, arrow_type(column.type, column.label))
    true, raised = judge(node, {column.id: nothing}, 1)
    if raised[0]:
        return None
    return Test(column, partial(_of_computed, node), None, False, bool(true[0]))


def _of_computed(node: Computed, values: pa.Array) -> Mask | None:
    assert node.column is not None
    true, raised = judge(node, {node.column.id: values}, len(values))
    return None if raised.any() else true
