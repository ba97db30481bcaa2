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

Truth of a predicate for many files, by partition values and statistics alone: all, no or some rows.

Worked example: eight files; `region` is a partition column, and the log has min and max of `x` for most
files.

    file                    0      1      2      3      4      5      6      7
    region                  EU     EU     EU     NULL   US     US     EU     US
    x from, to              0, 5   11, 20 5, 15  0, 20  0, 5   11, 20 -      -

    region = 'EU' AND x > 10
      all_rows
      no_row                                     x      x      x             x
      can_match                    x      x                           x

    region = 'EU' OR x > 10
      all_rows              x      x      x                           x
      no_row
      can_match             x      x      x      x             x      x      x

Bounds of `x` never make a predicate TRUE of a whole file; they leave out file 0 under AND, file 4 under OR.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.once import once
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, columns_of
from tailbit.index.predicate.truth import partition_values, values_match
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
        values: list[Any] = sorted({rank for ends in (low, high) for rank in ends if rank is not None})
        index_of = {value: index for index, value in enumerate(values)}
        low_at = np.array([-1 if r is None else index_of[r] for r in low], dtype=np.int64)
        high_at = np.array([len(values) if r is None else index_of[r] for r in high], dtype=np.int64)
        return cls(values, low_at, high_at, nulls, only_nulls)

    @classmethod
    def of_numbers(
        cls, low: Longs, high: Longs, bounded: Mask, nulls: Mask, only_nulls: Mask
    ) -> ColumnBounds:
        """Return bounds from int64 ranks; a file where `bounded` is False is unbounded. Cost: one sort."""
        values, indexes = np.unique(np.concatenate([low[bounded], high[bounded]]), return_inverse=True)
        low_at, high_at = np.full(len(low), -1, dtype=np.int64), np.full(len(low), len(values), np.int64)
        low_at[bounded], high_at[bounded] = np.split(indexes.reshape(-1), 2)
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
        if len(spans) > len(self._low):
            return np.array([meets(spans, self._span(n)) for n in range(len(self._low))], dtype=bool)
        begins, ends = self._rank_spans(spans)
        index = np.searchsorted(ends, self._low, side="right")
        touched = (index < len(spans)) & (begins[np.minimum(index, len(spans))] <= self._high)
        return np.asarray(touched & (self._low <= self._high), dtype=bool)

    def _inside(self, spans: list[Span]) -> Mask:
        begins, ends = self._rank_spans(spans)
        index = np.searchsorted(ends, self._high, side="right")
        inside = (index < len(spans)) & (begins[np.minimum(index, len(spans))] <= self._low)
        return np.asarray(inside & (self._low <= self._high), dtype=bool)

    def _rank_spans(self, spans: list[Span]) -> tuple[Longs, Longs]:
        """Return, per span, the index in `values` of its first value, and the index behind its last value.

        The first array has a further 0 at its end, for files above all spans.
        """
        begins = [-1 if lo[0] < 0 else self._place(lo[1], lo[2]) for lo, _ in spans]
        ends = [len(self._values) + 1 if hi[0] > 0 else self._place(hi[1], hi[2]) for _, hi in spans]
        return np.array([*begins, 0], dtype=np.int64), np.array(ends, dtype=np.int64)

    def _place(self, rank: Rank, above: int) -> int:
        return (bisect_right if above else bisect_left)(self._values, rank)

    def _span(self, number: int) -> Span:
        low, high = int(self._low[number]), int(self._high[number])
        lo, hi = closed(None, None)
        count = len(self._values)
        return (
            lo if low < 0 else (0, self._values[low], 0),
            hi if high >= count else (0, self._values[high], 1),
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


class Pruning(ABC):
    """A predicate judged for `units` units without reading them; a node is judged once."""

    def __init__(self, units: int) -> None:
        self.units = units
        self._truths: dict[tuple[int, bool], Mask] = {}

    def leaf_may(self, leaf: Leaf) -> Mask:
        """Return, per unit, whether a row may make a leaf TRUE; the column is no partition column."""
        return self.every(True)

    def leaf_all(self, leaf: Leaf) -> Mask:
        """Return, per unit, whether all rows surely make a leaf TRUE; by default, for no unit."""
        return self.every(False)

    @abstractmethod
    def partition(self, node: Leaf | Computed) -> tuple[Mask, Mask]:
        """Return, per unit, whether a condition on a partition column is TRUE, and whether it raises."""

    def every(self, value: bool) -> Mask:
        """Return a mask with one value for all units."""
        return np.full(self.units, value)

    def may(self, node: Node) -> Mask:
        """Return, per unit, whether one of its rows may make a node TRUE; True when in doubt."""
        return self._truth(node, True)

    def all(self, node: Node) -> Mask:
        """Return, per unit, whether all of its rows surely make a node TRUE; False when in doubt."""
        return self._truth(node, False)

    def _truth(self, node: Node, may: bool) -> Mask:
        if (id(node), may) not in self._truths:
            self._truths[id(node), may] = self._judged(node, may)
        return self._truths[id(node), may]

    def _judged(self, node: Node, may: bool) -> Mask:
        if isinstance(node, (And, Or)):
            join = np.logical_and if isinstance(node, And) else np.logical_or
            return np.asarray(join.reduce([self._truth(child, may) for child in node.children]), dtype=bool)
        if isinstance(node, Constant):
            return self.every(node.value is True)
        if node.column is not None and node.column.partition:
            true, raises = self.partition(node)
            return true | raises if may else true
        if isinstance(node, Leaf):
            return self.leaf_may(node) if may else self.leaf_all(node)
        return self.every(may)


class _PartitionTruths(Pruning):
    """A predicate judged for some files by their partition values alone."""

    def __init__(self, slices: Sequence[FileSlice]) -> None:
        super().__init__(len(slices))
        self.slices = slices
        self._outcomes: dict[int, tuple[Mask, Mask]] = {}
        self._distinct: dict[str, tuple[pa.Array, Longs]] = {}
        """By partition column its distinct values, and which of them each file has."""

    def partition(self, node: Leaf | Computed) -> tuple[Mask, Mask]:
        """Return, per file, whether a condition on a partition column is TRUE, and whether it raises."""
        if not self.slices:
            return self.every(False), self.every(False)
        assert node.column is not None
        if id(node) not in self._outcomes:
            values, indexes = self._values(node.column)
            true, raised = values_match(node, values)
            self._outcomes[id(node)] = true[indexes], raised[indexes]
        return self._outcomes[id(node)]

    def _values(self, column: Column) -> tuple[pa.Array, Longs]:
        if column.id not in self._distinct:
            texts = [slice_.partition.get(column.physical[0]) for slice_ in self.slices]
            number = {text: n for n, text in enumerate(dict.fromkeys(texts))}
            indexes = np.array([number[text] for text in texts], dtype=np.int64)
            self._distinct[column.id] = partition_values(column, list(number)), indexes
        return self._distinct[column.id]


_MANY = 16
"""From this many alternatives of an OR on, those that no row of a file can meet are pruned per file."""


class FileTruths(Pruning):
    """A predicate evaluated for some files without reading them.

    Cost: one parse of the statistics per file, and one vector operation over all files per node.
    """

    def __init__(self, node: Node, slices: Sequence[FileSlice]) -> None:
        super().__init__(len(slices))
        self.node, self.slices = node, slices
        self._by_values = _PartitionTruths(slices)

    @once
    def all_rows(self) -> Mask:
        """Return, per file, whether partition values alone make the predicate TRUE for every row."""
        return self._by_values.all(self.node)

    @once
    def no_row(self) -> Mask:
        """Return, per file, whether partition values alone make the predicate TRUE for no row."""
        return ~self._by_values.may(self.node)

    @once
    def can_match(self) -> Mask:
        """Return, per file, whether one of its rows may make the predicate TRUE; True when in doubt."""
        return ~self.no_row & self.may(self.node)

    def never(self, node: Node, statistics: bool = False) -> Mask:
        """Return, per file, whether no row makes a part of the predicate TRUE.

        Partition values decide, or with `statistics` partition values and statistics.
        """
        return ~(self if statistics else self._by_values).may(node)

    def narrowed(self, order: int) -> Node:
        """Return the predicate without the alternatives that no row of one file can meet."""
        alternatives = self._alternatives
        if alternatives is None or not isinstance(self.node, Or):
            return self.node
        alternatives_open = tuple(
            self.node.children[n] for n in np.flatnonzero(alternatives[:, order]).tolist()
        )
        return Or(alternatives_open) if alternatives_open else Constant(False)

    @once
    def _alternatives(self) -> Mask | None:
        """Return, per alternative and file, whether a row of the file can meet the alternative."""
        if not isinstance(self.node, Or) or len(self.node.children) < _MANY:
            return None
        return np.stack([self.may(child) for child in self.node.children])

    def leaf_may(self, leaf: Leaf) -> Mask:
        """Return, per file, whether the statistics admit a row where a leaf is TRUE."""
        possible = self.every(False)
        possible[~self.no_row] = self._bounds[leaf.column.id].can_match(leaf)
        return possible

    def partition(self, node: Leaf | Computed) -> tuple[Mask, Mask]:
        """Return, per file, whether a condition on a partition column is TRUE, and whether it raises."""
        return self._by_values.partition(node)

    @once
    def _bounds(self) -> dict[str, ColumnBounds]:
        """Return min/max bounds per column for the files that partition pruning kept."""
        slices = [self.slices[n] for n in np.flatnonzero(~self.no_row).tolist()]
        return file_bounds(slices, [c for c in columns_of(self.node) if not c.partition])


def first_ruled_out(conditions: Sequence[Node], slices: Sequence[FileSlice]) -> list[tuple[int, bool] | None]:
    """Return, per file, the index of the first condition that no row can meet; None if none is ruled out.

    Also return whether partition values rule the condition out; otherwise statistics do. Cost: as for
    `FileTruths`; statistics are read only for files where partition values rule out no earlier condition.
    """
    either = Or(tuple(conditions))
    decided = FileTruths(either, slices)
    by_partition = np.array([decided.never(condition) for condition in conditions]).reshape(
        len(conditions), len(slices)
    )
    by_log = by_partition.copy()
    asking = [
        n for n, condition in enumerate(conditions) if any(not c.partition for c in columns_of(condition))
    ]
    if asking:
        open_files = np.flatnonzero(~by_partition[: asking[0] + 1].any(axis=0))
        truths = FileTruths(either, [slices[n] for n in open_files.tolist()])
        for n, condition in enumerate(conditions):
            by_log[n, open_files] |= truths.never(condition, statistics=True)
    first = by_log.argmax(axis=0).tolist()
    return [(n, bool(by_partition[n, file])) if by_log[n, file] else None for file, n in enumerate(first)]
