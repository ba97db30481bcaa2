"""Whether the log's statistics of a column are true of the values of a file, looked at as they are decoded.

Questions prune files that the index does not cover by these statistics, as Spark does. An index that covered
a file whose statistics are wrong would find rows that are not found without it. Such a file is not covered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tailbit.errors import DataFileError
from tailbit.tables.model import Column, FileBounds, FileSlice
from tailbit.tables.parquet.bounds import row_group_bounds
from tailbit.tables.parquet.data_file import DataFile
from tailbit.tables.parquet.layout import layout_of


def believed(
    file: DataFile, slice_: FileSlice, column: Column, values: Iterator[pa.ChunkedArray]
) -> Iterator[pa.ChunkedArray]:
    """Return the values of a column, each compared with the log's statistics of the file.

    Cost: a look at the footer, which mostly agrees; else the least and the greatest value of each batch.

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


def _disproved(slice_: FileSlice, column: Column, what: str) -> DataFileError:
    reason = f"the log's statistics of column {column.label} are wrong: {what}"
    return DataFileError(file=slice_.path, reason=reason)


def _footer_agrees(file: DataFile, column: Column, stated: FileBounds) -> bool:
    """Return whether all that the log says of a column follows from the footer, row group by row group."""
    if stated.null_count and stated.null_count == stated.num_records:
        return False
    groups = row_group_bounds(layout_of(file.metadata, file.tree, file.head), file.path, column)
    return all(
        its is not None
        and (stated.min is None or its.min >= stated.min)
        and (stated.max is None or its.max <= stated.max)
        and (stated.null_count != 0 or its.null_count == 0)
        for its in groups
    )


def _below(batch: pa.ChunkedArray, end: Any) -> bool:
    least = _of_each(batch, pc.min)
    return least is not None and least < end


def _above(batch: pa.ChunkedArray, end: Any) -> bool:
    greatest = _of_each(batch, pc.max)
    return greatest is not None and greatest > end


def _of_each(batch: pa.ChunkedArray, which: Callable[[pa.Array], pa.Scalar]) -> Any:
    """Return the least or greatest value, as statistics have it; of codes that of the values that occur."""
    if pa.types.is_dictionary(batch.type):
        parts = [chunk.dictionary.take(pc.unique(chunk.indices.drop_null())) for chunk in batch.chunks]
        batch = pa.chunked_array(parts, batch.type.value_type)
    if pa.types.is_date(batch.type):
        batch = batch.cast(pa.int32())
    elif pa.types.is_timestamp(batch.type):
        batch = batch.cast(pa.int64())
    return which(batch).as_py()
