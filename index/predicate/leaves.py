"""Conditions on one column as leaves of the tree: the values for which a condition is TRUE or FALSE."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tailbit.base.lazy import lazy
from tailbit.index.ordered import Value
from tailbit.index.predicate.tree import Constant, Interval, Leaf, ValueSet
from tailbit.index.predicate.value_sets import NULL, VALUES, beyond_prefix
from tailbit.tables.model import Column
from tailbit.tables.schema import presence_of

if TYPE_CHECKING:
    from tailbit.index.functions.texts import patterns
else:
    patterns = lazy("tailbit.index.functions.texts.patterns")


Truth = tuple[ValueSet, ValueSet]
"""Values where a condition is TRUE, and values where it is FALSE."""

COMPARED: dict[str, Callable[[Value, Value, bool], Interval]] = {
    "=": lambda a, b, c: Interval(a, c, b, c),
    "<>": lambda a, b, c: Interval(a, c, b, c),
    "<=>": lambda a, b, c: Interval(a, c, b, c),
    "<": lambda a, _, __: Interval(None, False, a, False),
    "<=": lambda a, _, __: Interval(None, False, a, True),
    ">": lambda a, _, __: Interval(a, False, None, False),
    ">=": lambda a, _, __: Interval(a, True, None, False),
}
"""By operator, the interval of the values for which the comparison is TRUE; for `<>`, of the equal values."""


def leaf_of(column: Column, truth: Truth, text: str) -> Leaf | Constant:
    """Return a comparison with constants as a leaf; the constant NULL if both of its sets are empty."""
    true, false = truth
    empty = ValueSet()
    return Constant(None) if true == empty == false else Leaf(column, true, false, text)


def leaf_of_truth(column: Column) -> Leaf:
    """Return a boolean column as a condition."""
    return Leaf(column, ValueSet.points([True]), ValueSet.points([False]), column.label)


def leaf_of_null(column: Column) -> Leaf:
    """Return IS NULL of a column."""
    return Leaf(presence_of(column), NULL, NULL.inverse(), f"{column.label} IS NULL")


def leaf_of_like(column: Column, pattern: str, escape: str, text: str) -> Leaf | None:
    """Return LIKE as a range of texts; None if the pattern has other wildcards than a trailing %."""
    true = texts_like(pattern, escape)
    return None if true is None else Leaf(column, true, true.others(), text)


def texts_like(pattern: str, escape: str) -> ValueSet | None:
    """Return the texts that a pattern matches; None if it has other wildcards than a trailing %."""
    prefix = patterns.like_prefix(pattern, escape)
    if prefix is None:
        return None
    start, wildcard = prefix[0].encode(), prefix[1]
    return texts_from(start) if wildcard else ValueSet.points([start])


def texts_from(start: bytes) -> ValueSet:
    """Return the texts that begin with `start`; all texts if `start` is empty."""
    if not start:
        return VALUES
    return ValueSet.of([Interval(start, True, beyond_prefix(start), False)])
