"""Bounds of a column in each row group of a data file, from the footer's statistics; None if in doubt.

Only types whose order all writers agree on have bounds: integers, dates, times, decimals and text. Spark
prunes row groups by the same statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailbit.errors import TailbitError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column, FileBounds
from tailbit.tables.parquet.data_file import flat_column
from tailbit.tables.parquet.decode import Decoder
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.leaves import ParquetNode
from tailbit.tables.schema import arrow_type

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_ORDERED = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "decimal", "string")
_PHYSICAL = ("INT32", "INT64", "BYTE_ARRAY")


def row_group_bounds(layout: Layout, path: str, column: Column) -> list[FileBounds | None]:
    """Return the bounds of a column per row group, None if unknown; the layout caches them.

    Raises:
        DataFileError: the name of the column is ambiguous in the file.
    """
    known = layout.bounds.get(column.id, None)
    if known is None or known[0] != column.type:
        known = layout.bounds[column.id] = (column.type, _bounds(layout, path, column))
    return known[1]


def _bounds(layout: Layout, path: str, column: Column) -> list[FileBounds | None]:
    groups = layout.metadata.num_row_groups
    node = flat_column(layout, column, path)
    if node is None or column.type.char_length:
        return [None] * groups
    leaf = layout.metadata.schema.column(node.first)
    if column.type.name not in _ORDERED or str(leaf.physical_type) not in _PHYSICAL:
        return [None] * groups
    stated = [_stated(layout, group, node.first) for group in range(groups)]
    try:
        low = _values(
            layout, path, column, node, [_end(statistics, "min", node.field.type) for statistics in stated]
        )
        high = _values(
            layout, path, column, node, [_end(statistics, "max", node.field.type) for statistics in stated]
        )
    except (TailbitError, pa.ArrowException, ValueError, TypeError, OverflowError):
        return [None] * groups
    return [
        None
        if statistics is None or lo is None or hi is None or lo > hi
        else FileBounds(lo, hi, statistics.null_count if statistics.has_null_count else None, None)
        for statistics, lo, hi in zip(stated, low, high, strict=True)
    ]


def _stated(layout: Layout, group: int, leaf: int) -> pq.Statistics | None:
    """Return the footer's statistics of a chunk, or None if the chunk's type differs from its column's.

    pyarrow would abort the process on statistics of such a chunk.
    """
    if layout.chunk(group, leaf).type != str(layout.metadata.schema.column(leaf).physical_type):
        return None
    return layout.metadata.row_group(group).column(leaf).statistics


def _end(stated: pq.Statistics | None, which: str, type_: pa.DataType) -> object:
    """Return a bound that a footer states; times in microseconds as the number that is stored."""
    if stated is None or not stated.has_min_max:
        return None
    in_micros = pa.types.is_timestamp(type_) and type_.unit == "us"
    if in_micros and "timeUnit=microseconds" in str(stated.logical_type):
        return getattr(stated, f"{which}_raw")
    return getattr(stated, which)


def _values(
    layout: Layout, path: str, column: Column, node: ParquetNode, stored: Sequence[object]
) -> list[Any]:
    """Convert stored bounds to canonical values of the table's type, as `FileBounds` holds them."""
    decode = Decoder(layout.metadata, path, column.label)
    type_ = node.field.type
    decoded = decode.array(arrow_array(stored, type_), column, node)
    values = pc.cast(decoded, arrow_type(column.type, column.label))
    if pa.types.is_date(values.type):
        values = pc.cast(values, pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = pc.cast(values, pa.int64())
    out: list[Any] = values.to_pylist()
    return out
