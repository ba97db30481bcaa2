"""Row group pruning: which row groups of a file may hold a matching row, by its footer and Bloom filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tailbit.base.arrays import Mask
from tailbit.base.lazy import lazy
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.pruning import ColumnBounds, Pruning
from tailbit.index.predicate.tree import Leaf, Node
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.bloom import MOST_VALUES
from tailbit.tables.parquet.bounds import row_group_bounds
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.index.predicate import truth
    from tailbit.tables.parquet import bloom as bloom_pruning
else:
    bloom_pruning = lazy("tailbit.tables.parquet.bloom")
    truth = lazy("tailbit.index.predicate.truth")


def can_match(node: Node, layout: Layout, slice_: FileSlice, storage: Storage) -> Mask:
    """Return, per row group, whether one of its rows may make `node` TRUE; True when in doubt.

    Cost: the footer; for a condition that lists values, a read of 32 bytes per value in each Bloom filter.
    """
    return _RowGroups(layout, slice_, storage).may(node)


class _RowGroups(Pruning):
    """Row groups of one file, judged by the footer and the filters in the file."""

    def __init__(self, layout: Layout, slice_: FileSlice, storage: Storage) -> None:
        super().__init__(layout.metadata.num_row_groups)
        self._layout, self._slice, self._storage = layout, slice_, storage
        self._bounds: dict[str, ColumnBounds] = {}

    def leaf_may(self, leaf: Leaf) -> Mask:
        """Return, per row group, whether a row may make a leaf TRUE."""
        column = leaf.column
        if column.id not in self._bounds:
            bounds = row_group_bounds(self._layout, self._slice.path, column)
            self._bounds[column.id] = ColumnBounds.of(column, bounds)
        may = self._bounds[column.id].can_match(leaf)
        values = leaf.true.listed(MOST_VALUES) if may.any() else None
        if values is None:
            return may
        candidates = np.flatnonzero(may)
        file = self._storage, self._layout, self._slice.path
        may[candidates] = bloom_pruning.groups_with_any(*file, column, candidates.tolist(), values)
        return may

    def partition(self, node: Leaf | Computed) -> tuple[Mask, Mask]:
        """Return masks of one value: a condition is TRUE for the file's partition value; it may raise."""
        if isinstance(node, Computed):
            return self.every(False), self.every(True)
        assert node.column is not None
        text = self._slice.partition.get(node.column.physical[0])
        return self.every(truth.partition_value_matches(node, text)), self.every(False)
