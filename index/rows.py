"""Rows of data files by position: find where a predicate is TRUE, and fetch columns at positions.

Input: a file slice. Output: uint64 physical positions, or Arrow tables in the table's logical schema. Only the row groups
that hold wanted positions are read, one at a time, so memory is bounded by a row group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from tailbit.index.predicate import Node, columns_of
from tailbit.index.scan import matches
from tailbit.tables.data_file import open_data_file, partition_array, read_columns
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.storage import Storage

Positions = npt.NDArray[np.uint64]


def scan(
    storage: Storage, piece: FileSlice, node: Node, hidden: BitMap | None, among: Positions | None = None
) -> Positions:
    """Physical positions of visible rows of a file where `node` is TRUE; only `among` these where given.

    Cost: decodes the predicate's columns, in the row groups that hold `among`.

    Raises:
        DataFileError: the file is missing or is not Parquet.
    """
    columns = [c for c in columns_of(node) if not c.partition]
    found = []
    for start, local, table in _row_groups(storage, piece, columns, among):
        hits = matches(node, table, piece.partition)
        at = np.flatnonzero(hits).astype(np.uint64) if local is None else local[hits[local]]
        found.append(at + np.uint64(start))
    out = np.concatenate(found) if found else np.zeros(0, np.uint64)
    return _without(out, hidden)


def _without(positions: Positions, hidden: BitMap | None) -> Positions:
    if not hidden or not len(positions):
        return positions
    gone = np.frombuffer(hidden.to_array(), dtype=np.uint32)
    return positions[~np.isin(positions, gone, assume_unique=True)]


def visible_positions(rows: int, hidden: BitMap | None) -> Positions:
    """Every physical position of a file but the hidden ones."""
    return _without(np.arange(rows, dtype=np.uint64), hidden)


def physical_rows(storage: Storage, piece: FileSlice) -> int:
    """The number of physical rows of a file: from the log where it says, else from the file's footer."""
    if piece.rows is not None:
        return piece.rows
    return int(open_data_file(storage, piece.path, piece.size).metadata.num_rows)


def fetch(
    storage: Storage, piece: FileSlice, columns: Sequence[Column], positions: Positions | None
) -> Iterator[pa.Table]:
    """Tables of `columns` (named by column id) at ascending positions (None: all rows), one per row group."""
    stored = [c for c in columns if not c.partition]
    for _, local, table in _row_groups(storage, piece, stored, positions):
        picked = table if local is None else table.take(pa.array(local.astype(np.int64)))
        n = picked.num_rows if stored else (table.num_rows if local is None else len(local))
        arrays = [
            partition_array(c, piece.partition.get(c.physical[0]), n) if c.partition else picked[c.id]
            for c in columns
        ]
        yield pa.table(dict(zip([c.id for c in columns], arrays, strict=True)))


def _row_groups(
    storage: Storage, piece: FileSlice, columns: Sequence[Column], among: Positions | None
) -> Iterator[tuple[int, Positions | None, pa.Table]]:
    """(first position, wanted positions relative to it or None for all, decoded columns) per row group."""
    file = open_data_file(storage, piece.path, piece.size)
    sizes = [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
    start = 0
    for group, size in enumerate(sizes):
        if among is None:
            yield start, None, _decoded(file, columns, group, size)
        else:
            low, high = np.searchsorted(among, np.array([start, start + size], dtype=np.uint64))
            if high > low:
                yield start, among[low:high] - np.uint64(start), _decoded(file, columns, group, size)
        start += size


def _decoded(file: pq.ParquetFile, columns: Sequence[Column], group: int, size: int) -> pa.Table:
    if not columns:
        return pa.table({"": pa.nulls(size)})
    return read_columns(file, columns, row_groups=[group])
