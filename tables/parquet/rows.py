"""Rows of data files by position: which are visible, and columns at positions.

Input: a file slice. Output: uint64 physical positions, or Arrow tables with columns named by id. Only the row
groups that hold wanted positions are read, one at a time, so memory is bounded by a row group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import DataFile, open_data_file, read_columns
from tailbit.tables.partition_values import partition_array
from tailbit.tables.storage import Storage

Positions = npt.NDArray[np.uint64]


def without(positions: Positions, hidden: BitMap | None) -> Positions:
    """Ascending positions less the hidden ones."""
    if not hidden or not len(positions):
        return positions
    gone = np.frombuffer(hidden.to_array(), dtype=np.uint32)
    return positions[~np.isin(positions, gone, assume_unique=True)]


def visible_positions(rows: int, hidden: BitMap | None) -> Positions:
    """Every physical position of a file but the hidden ones."""
    return without(np.arange(rows, dtype=np.uint64), hidden)


def fetch(
    storage: Storage, slice_: FileSlice, columns: Sequence[Column], positions: Positions | None
) -> Iterator[pa.Table]:
    """Tables of `columns` (named by column id) at ascending positions (None: all rows), one per row group."""
    stored = [c for c in columns if not c.partition]
    for _, local, table in row_groups(storage, slice_, stored, positions):
        picked = table if local is None else table.take(pa.array(local.astype(np.int64)))
        n = picked.num_rows if stored else (table.num_rows if local is None else len(local))
        arrays = [
            partition_array(c, slice_.partition.get(c.physical[0]), n) if c.partition else picked[c.id]
            for c in columns
        ]
        yield pa.table(dict(zip([c.id for c in columns], arrays, strict=True)))


def row_groups(
    storage: Storage, slice_: FileSlice, columns: Sequence[Column], among: Positions | None
) -> Iterator[tuple[int, Positions | None, pa.Table]]:
    """(first position, wanted positions relative to it or None for all, decoded columns) per row group."""
    file = open_data_file(storage, slice_.path, slice_.size)
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


def _decoded(file: DataFile, columns: Sequence[Column], group: int, size: int) -> pa.Table:
    if not columns:
        return pa.table({"": pa.nulls(size)})
    return read_columns(file, columns, row_groups=[group])
