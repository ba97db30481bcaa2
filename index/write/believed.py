"""Check of the log's statistics of a column against the values of a file, while the values are decoded.

Queries prune files that the index does not cover by these statistics, as Spark does. If the index covered a
file whose statistics are wrong, it would return rows that a query without the index does not. So such a file
is not covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from tailbit.base.errors import DataFileError
from tailbit.tables import compute as pc
from tailbit.tables.model import Column, FileBounds, FileSlice
from tailbit.tables.parquet.bounds import row_group_bounds
from tailbit.tables.parquet.data_file import DataFile
from tailbit.tables.parquet.layout import layout_of


def believed(
    file: DataFile, slice_: FileSlice, column: Column, values: Iterator[pa.ChunkedArray]
) -> Iterator[pa.ChunkedArray]:
    """Yield the values of a column, after comparing each batch with the log's statistics of the file.

    Cost: a look at the footer, whose bounds usually prove the statistics; else the minimum and maximum of
    each batch.

    Raises:
        DataFileError: a value lies outside of the statistics, by which files are pruned.
    """
    stated = slice_.bounds(column)
    if stated is None or _footer_agrees(file, column, stated):
        yield from values
        return
    only_nulls = bool(stated.null_count) and stated.null_count == stated.num_records
    for batch in values:
        if stated.null_count == 0 and batch.null_count:
            raise _disproved(slice_, column, "no NULL, the file has some")
        if only_nulls and batch.null_count < len(batch):
            raise _disproved(slice_, column, "NULL alone, the file has values")
        for which, end, beyond in (("least", stated.min, _below), ("greatest", stated.max, _above)):
            if end is not None and beyond(batch, end):
                raise _disproved(slice_, column, f"{end} as the {which} value, the file has others")
        yield batch


def _disproved(slice_: FileSlice, column: Column, fault: str) -> DataFileError:
    reason = f"the log's statistics of column {column.label} are wrong: {fault}"
    return DataFileError(file=slice_.path, reason=reason)


def _footer_agrees(file: DataFile, column: Column, stated: FileBounds) -> bool:
    """Return whether the footer, row group by row group, proves all that the log says of a column."""
    if stated.null_count and stated.null_count == stated.num_records:
        return False
    groups = row_group_bounds(layout_of(file.metadata, file.tree, file.head), file.path, column)
    return all(
        bounds is not None
        and (stated.min is None or bounds.min >= stated.min)
        and (stated.max is None or bounds.max <= stated.max)
        and (stated.null_count != 0 or bounds.null_count == 0)
        for bounds in groups
    )


def _below(batch: pa.ChunkedArray, end: Any) -> bool:
    least = _of_each(batch, pc.min)
    return least is not None and least < _as_bytes(end)


def _above(batch: pa.ChunkedArray, end: Any) -> bool:
    greatest = _of_each(batch, pc.max)
    return greatest is not None and greatest > _as_bytes(end)


def _as_bytes(end: Any) -> Any:
    """Return a text of the statistics as UTF-8 bytes, which sort as code points do; else the value itself."""
    return end.encode("utf-8", "surrogatepass") if isinstance(end, str) else end


def _of_each(batch: pa.ChunkedArray, which: Callable[[pa.Array], pa.Scalar]) -> Any:
    """Return the least or greatest value, comparable with statistics.

    Of dictionary-coded values, only those that occur count. Texts are compared as bytes: a file may hold
    bytes that are no UTF-8.
    """
    if pa.types.is_dictionary(batch.type):
        parts = [chunk.dictionary.take(pc.unique(chunk.indices.drop_null())) for chunk in batch.chunks]
        batch = pa.chunked_array(parts, batch.type.value_type)
    if pa.types.is_date(batch.type):
        batch = batch.cast(pa.int32())
    elif pa.types.is_timestamp(batch.type):
        batch = batch.cast(pa.int64())
    elif pa.types.is_string(batch.type):
        batch = batch.cast(pa.binary())
    return which(batch).as_py()
