"""The leaf columns of each field in a Parquet file's schema.

Parquet readers select columns by dotted names, which are ambiguous if names hold dots. Leaves are numbered in
schema order, so a walk over the Arrow schema yields the numbers without ambiguity.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa


class ParquetNode(NamedTuple):
    """A field, its leaves `first` to `end` (excluded), and the fields inside it."""

    field: pa.Field
    first: int
    end: int
    children: tuple[ParquetNode, ...]

    @property
    def leaves(self) -> range:
        """The numbers of the field's leaf columns."""
        return range(self.first, self.end)

    def child(self, name: str) -> ParquetNode | None:
        """Return the inner field of exactly this name, or None."""
        return next((c for c in self.children if c.field.name == name), None)


def parquet_tree(schema: pa.Schema, leaves: int) -> ParquetNode:
    """Return the fields of a file with `leaves` leaf columns as one tree whose root stands for a row.

    Raises:
        ValueError: the Arrow schema stored in the file does not match its columns.
    """
    root = _node(pa.field("", pa.struct(list(schema))), 0)
    if root.end != leaves:
        raise ValueError(f"{leaves} columns, but its schema has {root.end}")
    return root


def _node(field: pa.Field, first: int) -> ParquetNode:
    children: list[ParquetNode] = []
    at = first
    for inner in _inner(field.type):
        children.append(_node(inner, at))
        at = children[-1].end
    return ParquetNode(field, first, at if children else first + 1, tuple(children))


def _inner(type_: pa.DataType) -> list[pa.Field]:
    if isinstance(type_, pa.BaseExtensionType):
        return _inner(type_.storage_type)
    if pa.types.is_struct(type_):
        return [type_.field(i) for i in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return [type_.value_field]
    return []


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the plain text or binary type of a dictionary, large or view type in a file's schema."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    if type_ in (pa.large_string(), pa.string_view()):
        return pa.string()
    return pa.binary() if type_ in (pa.large_binary(), pa.binary_view()) else type_
