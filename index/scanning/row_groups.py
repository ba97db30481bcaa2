"""Row group pruning: which row groups of a file may hold a matching row, by its footer."""

from __future__ import annotations

from tailbit.arrays import Mask
from tailbit.index.predicate.pruning import Pruning
from tailbit.index.predicate.statistics import ColumnBounds
from tailbit.index.predicate.tree import Computed, Leaf, Node
from tailbit.index.predicate.truth import partition_value_matches
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.bounds import row_group_bounds
from tailbit.tables.parquet.layout import Layout


def can_match(node: Node, layout: Layout, slice_: FileSlice) -> Mask:
    """Return, per row group, whether one of its rows may make `node` TRUE; True when in doubt.

    Raises:
        DataFileError: the name of a column is ambiguous in the file.
        MalformedLogError: the text of a partition value is no value of its column's type.
    """
    return _RowGroups(layout, slice_).may(node)


class _RowGroups(Pruning):
    """Row groups of one file, judged by the footer."""

    def __init__(self, layout: Layout, slice_: FileSlice) -> None:
        super().__init__(layout.metadata.num_row_groups)
        self._layout, self._slice = layout, slice_
        self._bounds: dict[str, ColumnBounds] = {}

    def leaf_may(self, leaf: Leaf) -> Mask:
        """Return, per row group, whether a row may make a leaf TRUE."""
        column = leaf.column
        if column.id not in self._bounds:
            bounds = row_group_bounds(self._layout, self._slice.path, column)
            self._bounds[column.id] = ColumnBounds.of(column, bounds)
        return self._bounds[column.id].can_match(leaf)

    def partition(self, node: Leaf | Computed) -> tuple[Mask, Mask]:
        """Return whether the file's partition value makes a condition TRUE; a computed one may be."""
        if isinstance(node, Computed):
            return self.every(False), self.every(True)
        assert node.column is not None
        text = self._slice.partition.get(node.column.physical[0])
        return self.every(partition_value_matches(node, text)), self.every(False)
