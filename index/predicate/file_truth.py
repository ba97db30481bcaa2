"""Truth of a predicate for many files, by partition values and statistics alone: all, no or some rows.

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

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.once import once
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.pruning import Pruning
from tailbit.index.predicate.statistics import ColumnBounds, file_bounds
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or
from tailbit.index.predicate.truth import partition_values, values_match
from tailbit.index.predicate.walks import columns_of
from tailbit.tables.model import Column, FileSlice

_MANY = 16
"""From this many alternatives of an OR on, those that no row of a file can meet are pruned per file."""


class FileTruths(Pruning):
    """A predicate evaluated for some files without reading them.

    Cost: one parse of the statistics per file, and one vector operation over all files per node.
    """

    def __init__(self, node: Node, slices: Sequence[FileSlice]) -> None:
        super().__init__(len(slices))
        self.node, self.slices = node, slices
        self._whole: dict[int, tuple[Mask, Mask]] = {}
        self._partitions: dict[str, tuple[pa.Array, Longs]] = {}
        """By partition column its distinct values, and which of them each file has."""

    @once
    def all_rows(self) -> Mask:
        """Return, per file, whether partition values alone make the predicate TRUE for every row."""
        return self._decided(self.node)[0]

    @once
    def no_row(self) -> Mask:
        """Return, per file, whether partition values alone make the predicate TRUE for no row."""
        return self._decided(self.node)[1]

    @once
    def can_match(self) -> Mask:
        """Return, per file, whether one of its rows may make the predicate TRUE; True when in doubt."""
        return ~self.no_row & self.may(self.node)

    def never(self, part: Node, statistics: bool = False) -> Mask:
        """Return, per file, whether no row makes a part of the predicate TRUE.

        Partition values decide, or with `statistics` partition values and statistics.
        """
        return ~self.may(part) if statistics else self._decided(part)[1]

    def narrowed(self, order: int) -> Node:
        """Return the predicate without the alternatives that no row of one file can meet."""
        alternatives = self._alternatives
        if alternatives is None or not isinstance(self.node, Or):
            return self.node
        kept = tuple(self.node.children[n] for n in np.flatnonzero(alternatives[:, order]).tolist())
        return Or(kept) if kept else Constant(False)

    @once
    def _alternatives(self) -> Mask | None:
        """Return, per alternative and file, whether a row of the file can meet the alternative."""
        if not isinstance(self.node, Or) or len(self.node.children) < _MANY:
            return None
        return np.stack([self.may(child) for child in self.node.children])

    def _decided(self, node: Node) -> tuple[Mask, Mask]:
        """Return, per file, whether partition values make a node TRUE for all rows, and whether for none."""
        if id(node) not in self._whole:
            self._whole[id(node)] = self._decide(node)
        return self._whole[id(node)]

    def _decide(self, node: Node) -> tuple[Mask, Mask]:
        if isinstance(node, (And, Or)):
            parts = [self._decided(child) for child in node.children]
            true, false = [t for t, _ in parts], [f for _, f in parts]
            return (_all(true), _any(false)) if isinstance(node, And) else (_any(true), _all(false))
        if isinstance(node, Constant):
            holds = self.every(node.value is True)
            return holds, ~holds
        if isinstance(node, (Leaf, Computed)) and node.column is not None and node.column.partition:
            holds, raised = self._by_partition(node, node.column)
            return holds, ~holds & ~raised
        unknown = self.every(False)
        return unknown, unknown

    def _by_partition(self, node: Leaf | Computed, column: Column) -> tuple[Mask, Mask]:
        """Return, per file, whether a condition on a partition column is TRUE, and whether it raises."""
        if not self.slices:
            return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
        if column.id not in self._partitions:
            texts = [slice_.partition.get(column.physical[0]) for slice_ in self.slices]
            distinct = list(dict.fromkeys(texts))
            number = {text: n for n, text in enumerate(distinct)}
            at = np.array([number[text] for text in texts], dtype=np.int64)
            self._partitions[column.id] = partition_values(column, distinct), at
        values, at = self._partitions[column.id]
        true, raised = values_match(node, values)
        return true[at], raised[at]

    def leaf_may(self, leaf: Leaf) -> Mask:
        """Return, per file, whether the statistics admit a row where a leaf is TRUE."""
        possible = self.every(False)
        possible[~self.no_row] = self._bounds[leaf.column.id].can_match(leaf)
        return possible

    def partition(self, node: Leaf | Computed) -> tuple[Mask, Mask]:
        """Return, per file, whether a condition on a partition column is TRUE, and whether it raises."""
        true, false = self._decided(node)
        return true, ~true & ~false

    @once
    def _bounds(self) -> dict[str, ColumnBounds]:
        """Return min/max bounds per column for the files that partition pruning kept."""
        left = [self.slices[n] for n in np.flatnonzero(~self.no_row).tolist()]
        return file_bounds(left, [c for c in columns_of(self.node) if not c.partition])


def _all(parts: list[Mask]) -> Mask:
    return np.asarray(np.logical_and.reduce(parts), dtype=bool)


def _any(parts: list[Mask]) -> Mask:
    return np.asarray(np.logical_or.reduce(parts), dtype=bool)


def first_ruled_out(parts: Sequence[Node], slices: Sequence[FileSlice]) -> list[tuple[int, bool] | None]:
    """Return, per file, the index of the first condition that no row can meet; None if none is ruled out.

    Also return whether partition values rule the condition out; otherwise statistics do. Cost: as for
    `FileTruths`; statistics are read only for files where partition values rule out no earlier condition.
    """
    either = Or(tuple(parts))
    decided = FileTruths(either, slices)
    by_partition = np.array([decided.never(part) for part in parts]).reshape(len(parts), len(slices))
    by_log = by_partition.copy()
    asking = [n for n, part in enumerate(parts) if any(not c.partition for c in columns_of(part))]
    if asking:
        open_files = np.flatnonzero(~by_partition[: asking[0] + 1].any(axis=0))
        truths = FileTruths(either, [slices[n] for n in open_files.tolist()])
        for n, part in enumerate(parts):
            by_log[n, open_files] |= truths.never(part, statistics=True)
    first = by_log.argmax(axis=0).tolist()
    return [(n, bool(by_partition[n, at])) if by_log[n, at] else None for at, n in enumerate(first)]
