"""Decoding of a row group's column in batches, if the column is too large to decode at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tailbit.base.errors import DataFileError
from tailbit.tables.model import Column
from tailbit.tables.parquet.data_file import (
    DataFile,
    as_column,
    column_of,
    find_column,
    opened_again,
    read_columns,
)
from tailbit.tables.parquet.file import check_chunks
from tailbit.tables.parquet.int96 import int96_leaves
from tailbit.tables.schema import arrow_type

_CODED_BYTES = 4
"""A chunk of at most this many bytes per row is mostly codes."""


def read_in_batches(file: DataFile, column: Column, group: int, rows: int) -> Iterator[pa.ChunkedArray]:
    """Yield a column (no partition column) of one row group, decoded as `read_columns` does, in batches.

    A batch has at most `rows` rows; a column that is missing, INT96 or mostly codes comes as one batch.
    Memory: the compressed column chunk and a batch.

    Raises:
        DataFileError, LegacyCalendarError, ColumnTypeError: a value cannot be decoded (see `read_columns`).
    """
    type_, steps = arrow_type(column.type, column.label), find_column(file.tree, column, file.path)
    leaves = list(steps[-1].leaves) if steps else []
    if not steps or int96_leaves(file.metadata, leaves) or _is_mostly_codes(file, column, group, leaves):
        yield read_columns(file, [column], [group])[column.id]
        return
    left = file.metadata.row_group(group).num_rows
    try:
        check_chunks(file.metadata, [group], leaves)
        with _opened_plain(file) as opened:
            for batch in opened.reader.iter_batches(rows, [group], column_indices=leaves, use_threads=False):
                stored = column_of(pa.Table.from_batches([batch]), file.tree, steps, set(leaves))
                left -= len(batch)
                yield as_column(opened, column, type_, steps, stored)
        if left:
            raise ValueError(f"{left} rows of row group {group} cannot be read")
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise DataFileError(file=file.path, reason=f"its columns cannot be decoded: {wrong}") from wrong


def _is_mostly_codes(file: DataFile, column: Column, group: int, leaves: Sequence[int]) -> bool:
    """Return whether a column chunk is read as codes, and its dictionary takes few of its bytes."""
    row_group = file.metadata.row_group(group)
    unpacked = sum(row_group.column(leaf).total_uncompressed_size for leaf in leaves)
    return column.id in file.coded and bool(unpacked <= _CODED_BYTES * row_group.num_rows)


def _opened_plain(file: DataFile) -> DataFile:
    """Open the Parquet file a second time, with every column read as values instead of dictionary codes.

    With codes, each batch would repeat the dictionary values of all batches before it. The caller's file
    object is not used, since pyarrow keeps a column chunk that was read in batches in memory until its file
    object is freed.
    """
    if file.reopen is None:
        raise ValueError("it cannot be opened a second time")
    return opened_again(file.reopen(), file, {})
