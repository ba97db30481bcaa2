"""Matching rows per value of a column, as Python values."""

from __future__ import annotations

from typing import Any

from tailbit.index.analytics.counting import KeyCounts, key_counts
from tailbit.index.keys import is_textual
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.tables.model import Column


def facet_counts(selection: Selection, column: Column, recorded: RecordedCounts | None) -> dict[Any, int]:
    """Value to number of matching rows, most frequent first, ties by key order; None stands for NULL.

    `recorded`: the value counts of the index, where it speaks of this source. Values are Python's; a date or
    time outside its calendar is text. Cost: that of `choice` per row space; one step per file for a partition
    column; rows of uncovered files and rows with truncated keys are read.

    Raises:
        ColumnTypeError: the column's type has no keys (struct, array, map ...).
    """
    return as_facets(key_counts(selection, column, recorded))


def as_facets(found: KeyCounts) -> dict[Any, int]:
    """Counts by value, the most frequent first; texts that look the same are one."""
    order = found.most_frequent_first()
    listed, counts = found.values(), found.counts[order].tolist()
    values = [listed[place] for place in order.tolist()]
    if not is_textual(found.key_type) or found.key_type == "binary":
        return dict(zip(values, counts, strict=True))
    out: dict[Any, int] = {}
    for text, n in zip(values, counts, strict=True):
        out[text] = out.get(text, 0) + n
    return out
