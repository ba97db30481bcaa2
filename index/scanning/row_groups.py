"""Row group pruning: which row groups of a file may hold a matching row, by its footer."""

from __future__ import annotations

import numpy as np

from tailbit.arrays import Mask
from tailbit.index.predicate.statistics import ColumnBounds
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or
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


class _RowGroups:
    """Row groups of one file; the result of each node is cached."""

    def __init__(self, layout: Layout, slice_: FileSlice) -> None:
        self.layout, self.slice_ = layout, slice_
        self._known: dict[int, Mask] = {}
        self._bounds: dict[str, ColumnBounds] = {}

    def may(self, node: Node) -> Mask:
        if id(node) not in self._known:
            self._known[id(node)] = self._may(node)
        return self._known[id(node)]

    def _may(self, node: Node) -> Mask:
        if isinstance(node, (And, Or)):
            join = np.logical_and if isinstance(node, And) else np.logical_or
            return np.asarray(join.reduce([self.may(child) for child in node.children]), dtype=np.bool_)
        if isinstance(node, Leaf) and not node.column.partition:
            return self._of_column(node).can_match(node)
        whole = True
        if isinstance(node, Leaf):
            whole = partition_value_matches(node, self.slice_.partition.get(node.column.physical[0]))
        elif isinstance(node, Constant):
            whole = node.value is True
        return np.full(self.layout.metadata.num_row_groups, whole)

    def _of_column(self, leaf: Leaf) -> ColumnBounds:
        column = leaf.column
        if column.id not in self._bounds:
            bounds = row_group_bounds(self.layout, self.slice_.path, column)
            self._bounds[column.id] = ColumnBounds(column, bounds)
        return self._bounds[column.id]
