"""Where a bound predicate is TRUE on rows, in partition values and by files' statistics.

One semantics for all of them: the sets of values that a leaf carries. Rows and files are judged in vectors,
never one by one; a node that stands in several places of a predicate is judged once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.index.column_comparisons import compare_columns
from tailbit.index.membership import in_values
from tailbit.index.predicate import And, Compare, Constant, Leaf, Node, Or, shared_in
from tailbit.tables.model import Column
from tailbit.tables.partition_values import partition_array

Mask = npt.NDArray[np.bool_]


def matches(node: Node, table: pa.Table, partition: Mapping[str, str | None]) -> Mask:
    """Rows of a table where `node` is TRUE.

    Args:
        node: a bound predicate.
        table: its non-partition columns by `Column.id`, in their logical Arrow types.
        partition: physical name to the log's text, of the file the rows are from.

    Cost: one vector operation per leaf and chunk; independent of the number of constants but for sorting
    them. Memory: a byte a row for each node on the way down and for each that has several parents.
    """
    return _Rows(table, partition, shared_in(node)).matches(node)


class _Rows:
    """The rows of one table, and where the nodes with several parents are TRUE among them."""

    def __init__(self, table: pa.Table, partition: Mapping[str, str | None], shared: frozenset[int]) -> None:
        self.table, self.partition, self.shared = table, partition, shared
        self.known: dict[int, Mask] = {}

    def matches(self, node: Node) -> Mask:
        if isinstance(node, (And, Or)):
            found = self.known.get(id(node))
            if found is None:
                found = self._combined(node)
                if id(node) in self.shared:
                    self.known[id(node)] = found
            return found
        if isinstance(node, Constant):
            return np.full(self.table.num_rows, node.value is True)
        if isinstance(node, Compare):
            return compare_columns(self._array(node.left), self._array(node.right), node)
        return self._leaf(node)

    def _combined(self, node: And | Or) -> Mask:
        """All children of an AND, or of an OR; none after the one that decides every row."""
        whole = isinstance(node, Or)
        out = self.matches(node.children[0])
        for child in node.children[1:]:
            if (out if whole else ~out).all():
                break
            found = self.matches(child)
            out = np.logical_or(out, found) if whole else np.logical_and(out, found)
        return out

    def _leaf(self, leaf: Leaf) -> Mask:
        if leaf.column.partition:
            text = self.partition.get(leaf.column.physical[0])
            return np.full(self.table.num_rows, partition_value_matches(leaf, text))
        chunks = self.table[leaf.column.id].chunks
        parts = [in_values(chunk, leaf.true, leaf.column.type) for chunk in chunks]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.bool_)

    def _array(self, column: Column) -> pa.Array:
        if column.partition:
            text = self.partition.get(column.physical[0])
            return partition_array(column, text, self.table.num_rows)
        found = self.table[column.id]
        return found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)


def partition_value_matches(leaf: Leaf, text: str | None) -> bool:
    """Whether a condition on a partition column is TRUE for a file whose log text of it is `text`.

    Raises:
        MalformedLogError: the text is no value of the column's type.
    """
    return bool(partition_values_match(leaf, [text])[0])


def partition_values_match(leaf: Leaf, texts: Sequence[str | None]) -> Mask:
    """Per text of a partition column whether the condition is TRUE; all texts in one vector.

    Raises:
        MalformedLogError: a text is no value of the column's type.
    """
    if not texts:
        return np.zeros(0, dtype=np.bool_)
    values = pa.concat_arrays([partition_array(leaf.column, text, 1) for text in texts])
    return in_values(values, leaf.true, leaf.column.type)
