"""Pruning of many files by the log's statistics: which files may hold a row where a leaf is TRUE.

When in doubt, a file may. The statistics of a column are read and sorted once. A leaf then locates its few
ends among the bounds of all files or, if its list is longer than the list of files, each file in its list:
neither costs their product.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from tailbit.arrays import Mask
from tailbit.index.ordered import Value
from tailbit.index.predicate.tree import Leaf
from tailbit.index.predicate.value_sets import Span, closed, meets
from tailbit.tables.model import Column, FileBounds, FileSlice


def file_bounds(slices: Sequence[FileSlice], columns: Sequence[Column]) -> dict[str, ColumnBounds]:
    """Return the bounds of columns in files, by `Column.id`. Cost: one parse of the statistics per file."""
    bounds_of_files = [[slice_.bounds(column) for column in columns] for slice_ in slices]
    return {
        column.id: ColumnBounds(column, [row[n] for row in bounds_of_files])
        for n, column in enumerate(columns)
    }


class ColumnBounds:
    """Statistics of one column in some files or row groups; None for a file without statistics.

    The bounds hold for every non-null row, hidden or not, and are rounded outwards. A row count of 0 is not
    trusted: the footer of the file decides when it is read.
    """

    def __init__(self, column: Column, bounds_of_files: Sequence[FileBounds | None]) -> None:
        counts = [bounds for bounds in bounds_of_files if bounds is not None]
        self._unknown = np.array([bounds is None for bounds in bounds_of_files], dtype=bool)
        self._nulls = self._spread([bounds.null_count != 0 for bounds in counts])
        self._only_nulls = self._spread(
            [bool(bounds.null_count) and bounds.null_count == bounds.num_records for bounds in counts]
        )
        self._spans = [_span(column, bounds) for bounds in counts]
        self._cuts = sorted({cut for span in self._spans for cut in span})
        places = {cut: at for at, cut in enumerate(self._cuts)}
        self._low = np.array([places[lo] for lo, _ in self._spans], dtype=np.int64)
        self._high = np.array([places[hi] for _, hi in self._spans], dtype=np.int64)

    def can_match(self, leaf: Leaf) -> Mask:
        """Return, per file, whether one of its rows may make a leaf of this column TRUE."""
        touched = self._spread(self._touched(leaf.true.spans())) & ~self._only_nulls
        if leaf.true.nulls:
            touched |= self._nulls
        return self._unknown | touched

    def _touched(self, spans: list[Span]) -> Mask:
        """Return, per file with statistics, whether its bounds meet a span."""
        if len(spans) > len(self._spans):
            return np.array([meets(spans, own) for own in self._spans], dtype=bool)
        if not spans:
            return np.zeros(len(self._spans), dtype=bool)
        begins = np.array([bisect_right(self._cuts, lo) for lo, _ in spans], dtype=np.int64)
        ends = np.array([bisect_left(self._cuts, hi) for _, hi in spans], dtype=np.int64)
        at = np.searchsorted(ends, self._low, side="right")
        touched = (at < len(spans)) & (begins[np.minimum(at, len(spans) - 1)] <= self._high)
        return np.asarray(touched & (self._low < self._high), dtype=bool)

    def _spread(self, known: Sequence[bool] | Mask) -> Mask:
        """Expand a mask of the files with statistics to all files."""
        out = np.zeros(len(self._unknown), dtype=bool)
        out[~self._unknown] = known
        return out


def _span(column: Column, bounds: FileBounds) -> Span:
    scale = column.type.scale
    return closed(_canonical(bounds.min, scale, math.floor), _canonical(bounds.max, scale, math.ceil))


def _canonical(bound: Any, scale: int, outwards: Any) -> Value | None:
    if isinstance(bound, str):
        return bound.encode()
    if isinstance(bound, Decimal):
        return int(outwards(Fraction(bound) * 10**scale))
    return bound if isinstance(bound, (int, float)) else None
