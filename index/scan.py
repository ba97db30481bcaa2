"""Where a bound predicate is TRUE on rows, in partition values and by a file's statistics.

One semantics for all of them: the sets of values that a leaf carries. Rows are judged in vectors, never one
by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.index.column_comparisons import compare_columns
from tailbit.index.membership import in_values
from tailbit.index.predicate import And, Compare, Constant, Leaf, Node, Or
from tailbit.index.pruning import leaf_can_match
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.partition_values import partition_array

Mask = npt.NDArray[np.bool_]


def matches(node: Node, table: pa.Table, partition: Mapping[str, str | None]) -> Mask:
    """Rows of a table where `node` is TRUE.

    Args:
        node: a bound predicate.
        table: its non-partition columns by `Column.id`, in their logical Arrow types.
        partition: physical name to the log's text, of the file the rows are from.

    Cost: one vector operation per leaf and chunk; independent of the number of constants but for sorting
    them.
    """
    if isinstance(node, And):
        return reduce(np.logical_and, (matches(child, table, partition) for child in node.children))
    if isinstance(node, Or):
        return reduce(np.logical_or, (matches(child, table, partition) for child in node.children))
    if isinstance(node, Constant):
        return np.full(table.num_rows, node.value is True)
    if isinstance(node, Compare):
        left, right = _array(node.left, table, partition), _array(node.right, table, partition)
        return compare_columns(left, right, node)
    if node.column.partition:
        return np.full(table.num_rows, partition_value_matches(node, partition.get(node.column.physical[0])))
    parts = [in_values(chunk, node.true, node.column.type) for chunk in table[node.column.id].chunks]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.bool_)


def _array(column: Column, table: pa.Table, partition: Mapping[str, str | None]) -> pa.Array:
    if column.partition:
        return partition_array(column, partition.get(column.physical[0]), table.num_rows)
    found = table[column.id]
    return found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)


@lru_cache(maxsize=1 << 16)
def partition_value_matches(leaf: Leaf, text: str | None) -> bool:
    """Whether a condition on a partition column is TRUE for a file whose log text of it is `text`.

    Raises:
        MalformedLogError: the text is no value of the column's type.
    """
    return bool(in_values(partition_array(leaf.column, text, 1), leaf.true, leaf.column.type)[0])


def whole_file_truth(node: Node, piece: FileSlice) -> bool | None:
    """Whether partition values alone make `node` TRUE for every row of a file (True) or for none (False)."""
    if isinstance(node, (And, Or)):
        found = [whole_file_truth(child, piece) for child in node.children]
        decisive = isinstance(node, Or)
        if decisive in found:
            return decisive
        return None if None in found else not decisive
    if isinstance(node, Constant):
        return node.value is True
    if isinstance(node, Leaf) and node.column.partition:
        return partition_value_matches(node, piece.partition.get(node.column.physical[0]))
    return None


def file_can_match(node: Node, piece: FileSlice) -> bool:
    """Whether a row of a file may make `node` TRUE, by partition values and statistics; in doubt, it may."""
    if isinstance(node, And):
        return all(file_can_match(child, piece) for child in node.children)
    if isinstance(node, Or):
        return any(file_can_match(child, piece) for child in node.children)
    if isinstance(node, Constant):
        return node.value is True
    if isinstance(node, Compare):
        return True
    if node.column.partition:
        return partition_value_matches(node, piece.partition.get(node.column.physical[0]))
    return leaf_can_match(node, piece.stats)
