"""Conditions on one column as leaves of the tree: the values for which a condition is TRUE or FALSE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailbit.index.predicate.tree import Constant, Interval, Leaf, ValueSet
from tailbit.index.predicate.value_sets import NULL, beyond_prefix
from tailbit.once import lazy
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index.functions.texts import patterns
else:
    patterns = lazy("tailbit.index.functions.texts.patterns")


def leaf_of(column: Column, truth: tuple[ValueSet, ValueSet], text: str) -> Leaf | Constant:
    """Return a comparison with constants as a leaf; the constant NULL if both of its sets are empty."""
    true, false = truth
    empty = ValueSet()
    return Constant(None) if true == empty == false else Leaf(column, true, false, text)


def leaf_of_truth(column: Column) -> Leaf:
    """Return a boolean column as a condition."""
    return Leaf(column, ValueSet.points([True]), ValueSet.points([False]), column.label)


def leaf_of_null(column: Column) -> Leaf:
    """Return IS NULL of a column."""
    return Leaf(column, NULL, NULL.inverse(), f"{column.label} IS NULL")


def leaf_of_like(column: Column, pattern: str, escape: str, text: str) -> Leaf | None:
    """Return LIKE as a range of texts; None if the pattern has other wildcards than a trailing %."""
    prefix = patterns.like_prefix(pattern, escape)
    if prefix is None:
        return None
    start = prefix[0].encode()
    if not prefix[1]:
        true = ValueSet.points([start])
    elif not start:
        true = ValueSet(complement=True)
    else:
        true = ValueSet.of([Interval(start, True, beyond_prefix(start), False)])
    return Leaf(column, true, true.others(), text)
