"""A column of a row group that is too large to be decoded at once, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tailbit.errors import DataFileError
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
"""Bytes a row up to which a chunk is mostly codes."""


def read_in_batches(file: DataFile, column: Column, group: int, rows: int) -> Iterator[pa.ChunkedArray]:
    """A column (no partition column) of one row group as `read_columns` gives it, `rows` rows at a time.

    Memory: the compressed chunk and a batch.

    Raises:
        as `read_columns`.
    """
    type_, steps = arrow_type(column.type, column.label), find_column(file.tree, column, file.path)
    leaves = list(steps[-1].leaves) if steps else []
    if not steps or int96_leaves(file.metadata, leaves) or _is_mostly_codes(file, column, group, leaves):
        yield read_columns(file, [column], [group])[column.id]
        return
    left = file.metadata.row_group(group).num_rows
    try:
        check_chunks(file.metadata, [group], leaves)
        with _again(file) as opened:
            for batch in opened.reader.iter_batches(rows, [group], column_indices=leaves, use_threads=False):
                stored = column_of(pa.Table.from_batches([batch]), file.tree, steps, set(leaves))
                left -= len(batch)
                yield as_column(opened, column, type_, steps, stored)
        if left:
            raise ValueError(f"{left} rows of row group {group} cannot be read")
    except (pa.ArrowException, OSError, ValueError) as wrong:
        raise DataFileError(file=file.path, reason=f"its columns cannot be decoded: {wrong}") from wrong


def _is_mostly_codes(file: DataFile, column: Column, group: int, leaves: Sequence[int]) -> bool:
    """Whether a chunk is read as codes, and few bytes of it can be values."""
    row_group = file.metadata.row_group(group)
    unpacked = sum(row_group.column(leaf).total_uncompressed_size for leaf in leaves)
    return column.id in file.coded and bool(unpacked <= _CODED_BYTES * row_group.num_rows)


def _again(file: DataFile) -> DataFile:
    """The file once more, reading no column as codes.

    As codes, each batch would come with the values of all batches before it. And a reader holds the chunk
    that it has read in batches as long as it is there.
    """
    if file.reopen is None:
        raise ValueError("it cannot be opened a second time")
    return opened_again(file.reopen(), file, {})
