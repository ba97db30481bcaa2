"""Times that data files label with another unit than their table declares, read by the rules of Hudi.

Writers of Hudi 0.14.1 to 1.0 stored milliseconds as instants in microseconds, and local times without any
unit. The table's schema says which they are. Hudi reads them so from release 1.1 on; older releases read
instants in 1970. It goes by the names of fields in a file, so lists of three levels have times as labelled:
it expects those of two, which the writers at fault wrote. Source: SchemaRepair of Hudi 1.2, and what it reads
(`tests/hudi_tables`); apache/hudi pull request 14161.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tailbit.tables.model import Column
from tailbit.tables.parquet.leaves import ParquetNode, plain_type


def declared_type(stored: pa.DataType, column: Column) -> pa.DataType | None:
    """Return the type that stored numbers have by the table's schema; None if the file's label is right.

    >>> from tailbit.tables.model import DataType
    >>> at = Column(("at",), ("at",), DataType("timestamp"), unit="ms")
    >>> declared_type(pa.timestamp("us", "UTC"), at)
    TimestampType(timestamp[ms, tz=UTC])
    >>> declared_type(pa.timestamp("ms", "UTC"), at) is None
    True
    """
    kind, types = column.type.name, pa.types
    if kind == "timestamp" and column.unit == "ms":
        is_wrong = types.is_timestamp(stored) and stored.unit == "us" and stored.tz is not None
        return pa.timestamp("ms", stored.tz) if is_wrong else None
    if kind == "timestamp_ntz" and column.unit:
        return pa.timestamp(column.unit) if types.is_int64(stored) else None
    return None


def has_unit(column: Column) -> bool:
    """Return whether the table declares the unit of times in a column, at any depth."""
    return bool(column.unit) or any(map(has_unit, column.type.fields))


def element_column(column: Column, node: ParquetNode) -> Column:
    """Return the element of an array; times have no unit but the file's where its list has three levels."""
    element = column.type.fields[0]
    if node.children[0].field.name == "array" or not has_unit(element):
        return element
    return _without_unit(element)


def _without_unit(column: Column) -> Column:
    fields = tuple(map(_without_unit, column.type.fields))
    return replace(column, unit="", type=replace(column.type, fields=fields))


def is_relabelled(column: Column, node: ParquetNode) -> bool:
    """Return whether values of a file depend on the unit that the table declares, at any depth."""
    if declared_type(plain_type(node.field.type), column) is not None:
        return True
    if column.type.name == "struct":
        named = ((inner, node.child(inner.physical[-1])) for inner in column.type.fields)
        return any(child is not None and is_relabelled(inner, child) for inner, child in named)
    if column.type.name == "array" and node.children:
        return is_relabelled(element_column(column, node), node.children[0])
    return any(map(is_relabelled, column.type.fields, node.children))
