"""Pruning of many files or row groups by bounds of columns: the log's statistics, footers, column statistics.

For a leaf, two questions are answered per file: may it hold a row where the leaf is TRUE, and do surely all
its rows make the leaf TRUE? When in doubt, the answers are yes and no. The bounds of a column are sorted
once. A leaf then locates its few ends among the bounds of all files or, if its list is longer than the list
of files, each file in its list: the cost is never the product of both lengths.

Example: the bounds of four files, with `values` 3 5 8 9; `x < 6` is the span whose end is index 2.

    bounds              3..5   5..9   8..8   unknown
    low, high           0, 1   1, 3   2, 2   -1, 4
    x < 6: may          x      x             x
    x < 6: surely       x
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from tailbit.base.arrays import Longs, Mask
from tailbit.index.predicate.tree import Leaf
from tailbit.index.predicate.value_sets import Rank, Span, closed, meets, rank_of
from tailbit.tables.model import Column, FileBounds, FileSlice

_A_RANK = 40
"""Approximate bytes that a bound takes in Python."""


def file_bounds(slices: Sequence[FileSlice], columns: Sequence[Column]) -> dict[str, ColumnBounds]:
    """Return the bounds of columns in files, by `Column.id`. Cost: one parse of the statistics per file."""
    bounds_of_files = [[slice_.bounds(column) for column in columns] for slice_ in slices]
    return {
        column.id: ColumnBounds.of(column, [row[n] for row in bounds_of_files])
        for n, column in enumerate(columns)
    }


class ColumnBounds:
    """Bounds of one column in some files or row groups; those of some files may be unknown.

    The bounds hold for every non-null row, hidden or not, and are rounded outwards. `values`: the distinct
    bounds as ranks (`value_sets`), ascending; `low`, `high`: per file the indexes of its bounds in `values`,
    -1 and `len(values)` where unbounded. `nulls`: whether a row may be NULL, `only_nulls`: whether every row
    surely is. A row count of 0 is not trusted: the footer of the file decides when it is read.
    """

    def __init__(self, values: list[Any], low: Longs, high: Longs, nulls: Mask, only_nulls: Mask) -> None:
        self._values, self._low, self._high = values, low, high
        self._nulls, self._only_nulls = nulls, only_nulls

    @property
    def size(self) -> int:
        """Estimate the bytes that the bounds take in memory; long texts take a few more."""
        arrays = (self._low, self._high, self._nulls, self._only_nulls)
        return sum(array.nbytes for array in arrays) + _A_RANK * len(self._values)

    @classmethod
    def of(cls, column: Column, bounds_of_files: Sequence[FileBounds | None]) -> ColumnBounds:
        """Return the bounds of a column from the statistics of files; None stands for a file without them."""
        ends = [(None, None) if bounds is None else _ranks(column, bounds) for bounds in bounds_of_files]
        nulls = [bounds is None or bounds.null_count != 0 for bounds in bounds_of_files]
        only_nulls = [
            bounds is not None and bool(bounds.null_count) and bounds.null_count == bounds.num_records
            for bounds in bounds_of_files
        ]
        low, high = [lo for lo, _ in ends], [hi for _, hi in ends]
        return cls.of_ranks(low, high, np.array(nulls, dtype=bool), np.array(only_nulls, dtype=bool))

    @classmethod
    def of_ranks(
        cls, low: Sequence[Rank | None], high: Sequence[Rank | None], nulls: Mask, only_nulls: Mask
    ) -> ColumnBounds:
        """Return bounds from the ranks of both ends, per file; None where a file is unbounded."""
        values: list[Any] = sorted({rank for part in (low, high) for rank in part if rank is not None})
        places = {value: at for at, value in enumerate(values)}
        low_at = np.array([-1 if r is None else places[r] for r in low], dtype=np.int64)
        high_at = np.array([len(values) if r is None else places[r] for r in high], dtype=np.int64)
        return cls(values, low_at, high_at, nulls, only_nulls)

    @classmethod
    def of_numbers(
        cls, low: Longs, high: Longs, bounded: Mask, nulls: Mask, only_nulls: Mask
    ) -> ColumnBounds:
        """Return bounds from int64 ranks; a file where `bounded` is False is unbounded. Cost: one sort."""
        values, places = np.unique(np.concatenate([low[bounded], high[bounded]]), return_inverse=True)
        low_at, high_at = np.full(len(low), -1, dtype=np.int64), np.full(len(low), len(values), np.int64)
        low_at[bounded], high_at[bounded] = np.split(places.reshape(-1), 2)
        return cls(values.tolist(), low_at, high_at, nulls, only_nulls)

    def can_match(self, leaf: Leaf) -> Mask:
        """Return, per file, whether one of its rows may make a leaf of this column TRUE."""
        touched = self._touched(leaf.true.spans()) & ~self._only_nulls
        return touched | self._nulls if leaf.true.nulls else touched

    def all_match(self, leaf: Leaf) -> Mask:
        """Return, per file, whether every one of its rows surely makes a leaf of this column TRUE."""
        inside = self._inside(leaf.true.spans()) | self._only_nulls
        return inside if leaf.true.nulls else inside & ~self._nulls

    def _touched(self, spans: list[Span]) -> Mask:
        """Return, per file, whether its bounds meet a span."""
        if len(spans) > len(self._low):
            return np.array([meets(spans, self._span(n)) for n in range(len(self._low))], dtype=bool)
        begins, ends = self._places(spans)
        at = np.searchsorted(ends, self._low, side="right")
        touched = (at < len(spans)) & (begins[np.minimum(at, len(spans))] <= self._high)
        return np.asarray(touched & (self._low <= self._high), dtype=bool)

    def _inside(self, spans: list[Span]) -> Mask:
        """Return, per file, whether its bounds lie in a span."""
        begins, ends = self._places(spans)
        at = np.searchsorted(ends, self._high, side="right")
        inside = (at < len(spans)) & (begins[np.minimum(at, len(spans))] <= self._low)
        return np.asarray(inside & (self._low <= self._high), dtype=bool)

    def _places(self, spans: list[Span]) -> tuple[Longs, Longs]:
        """Return, per span, the index in `values` of its first value, and the index behind its last value.

        The first array has a further 0 at its end, for files above all spans.
        """
        begins = [-1 if lo[0] < 0 else self._place(lo[1], lo[2]) for lo, _ in spans]
        ends = [len(self._values) + 1 if hi[0] > 0 else self._place(hi[1], hi[2]) for _, hi in spans]
        return np.array([*begins, 0], dtype=np.int64), np.array(ends, dtype=np.int64)

    def _place(self, rank: Rank, above: int) -> int:
        return (bisect_right if above else bisect_left)(self._values, rank)

    def _span(self, number: int) -> Span:
        """Return the bounds of one file as a span."""
        low, high = int(self._low[number]), int(self._high[number])
        lo, hi = closed(None, None)
        known = len(self._values)
        return (
            lo if low < 0 else (0, self._values[low], 0),
            hi if high >= known else (0, self._values[high], 1),
        )


def _ranks(column: Column, bounds: FileBounds) -> tuple[Rank | None, Rank | None]:
    scale = column.type.scale
    return _rank(bounds.min, scale, math.floor), _rank(bounds.max, scale, math.ceil)


def _rank(bound: Any, scale: int, outwards: Any) -> Rank | None:
    """Return the rank of a bound of `FileBounds`; a decimal is rounded outwards to the column's scale."""
    if isinstance(bound, str):
        return bound.encode()
    if isinstance(bound, Decimal):
        return int(outwards(Fraction(bound) * 10**scale))
    return rank_of(bound) if isinstance(bound, (int, float)) else None
