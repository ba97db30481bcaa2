"""Rows of data files by position: which are visible, and columns at positions.

Input: a file slice. Output: uint64 physical positions, or Arrow tables with columns named by id, in the order
of positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.tables.ahead import in_order
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.picked.mask import Groups
from tailbit.tables.parquet.picked.rows import read_picked
from tailbit.tables.parquet.picked.ways import Group, Way, batched, planned
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import positions_in
from tailbit.tables.storage import Storage

Positions = npt.NDArray[np.uint64]

_A_COUNT = 256
"""Bytes that the row count of a file takes in memory."""
_COUNTS: Cache[tuple[Storage, str, int, int], int] = Cache(share(1 / 64) // _A_COUNT)
"""Rows by store, path, size and time of a slice: data files never change."""


def without(positions: Positions, hidden: BitMap | None) -> Positions:
    """Ascending positions less the hidden ones."""
    if not hidden or not len(positions):
        return positions
    gone = positions_in(hidden)
    return positions[~np.isin(positions, gone, assume_unique=True)]


def visible_positions(rows: int, hidden: BitMap | None) -> Positions:
    """Every physical position of a file but the hidden ones."""
    return without(np.arange(rows, dtype=np.uint64), hidden)


def row_counts(storage: Storage, slices: Sequence[FileSlice]) -> list[int]:
    """Return the physical rows of data files, hidden ones included, as their footers give them.

    The log's own numbers are not asked: some writers get them wrong. Cost: a footer of each file that this
    process has not counted before, on all cores.

    Raises:
        DataFileError: a file is missing or is not Parquet.
    """
    keys = [(storage, slice_.path, slice_.size, slice_.mtime) for slice_ in slices]
    found = [_COUNTS.held(key) for key in keys]
    unknown = [n for n, rows in enumerate(found) if rows is None]
    read = in_order(partial(_count, storage, slices[n].path) for n in unknown)
    for n, rows in zip(unknown, read, strict=True):
        found[n] = _COUNTS.hold(keys[n], rows)
    return [rows for rows in found if rows is not None]


def _count(storage: Storage, path: str, alone: bool) -> int:
    """Return the physical rows of a data file of whatever size; what `in_order` calls."""
    return int(open_layout(storage, path).starts[-1])


def fetch(
    storage: Storage,
    slice_: FileSlice,
    columns: Sequence[Column],
    positions: Positions | None,
    way: Way | None = None,
) -> Iterator[pa.Table]:
    """Tables of `columns` (named by column id) at ascending positions (None: all rows), in batches.

    `way`: how they are decoded, where that is not to be chosen by its cost.
    Cost and memory: pages of some 16 MB that hold wanted rows, or row groups of some 64 MB, or one, a table.

    Raises:
        DataFileError: the file is missing, of another size than the log says, or not readable Parquet.
    """
    for batch in _batches(storage, [(slice_, positions)], columns, way):
        yield batch(False)


def fetch_files(
    storage: Storage,
    wanted: Iterable[tuple[FileSlice, Positions | None]],
    columns: Sequence[Column],
) -> Iterator[pa.Table]:
    """`fetch` of one file after the other, as many batches at once as there are cores; one may be of several.

    The order is that of the files and positions. Memory: a batch a core, and three more.
    """
    return in_order(_batches(storage, wanted, columns))


def _batches(
    storage: Storage,
    wanted: Iterable[tuple[FileSlice, Positions | None]],
    columns: Sequence[Column],
    way: Way | None = None,
) -> Iterator[partial[pa.Table]]:
    """What gives the tables, each by itself. Cost: one look at each file, if its footer is known."""
    stored = [c for c in columns if not c.partition]
    for chosen, parts in batched(_planned(storage, slice_, stored, at, way) for slice_, at in wanted):
        yield partial(_batch, storage, parts, columns, stored, chosen)


def _planned(
    storage: Storage,
    slice_: FileSlice,
    stored: Sequence[Column],
    positions: Positions | None,
    way: Way | None = None,
) -> tuple[FileSlice, Way | None, Sequence[Group]]:
    layout = open_layout(storage, slice_.path, slice_.size)
    return (slice_, *planned(layout, slice_.path, stored, positions, way))


def _batch(
    storage: Storage,
    parts: Sequence[tuple[FileSlice, Groups]],
    columns: Sequence[Column],
    stored: Sequence[Column],
    way: Way | None,
    threads: bool,
) -> pa.Table:
    """One batch: the columns at rows of row groups; without columns, a table of the same number of rows."""
    sizes = [sum(len(rows) for _, rows in groups) for _, groups in parts]
    if not stored:
        tables = [_rows_alone(n) for n in sizes]
    else:
        tables = read_picked(storage, parts, stored, way, threads)
    if columns:
        tables = [
            _with_partitions(table, slice_, columns, n)
            for table, (slice_, _), n in zip(tables, parts, sizes, strict=True)
        ]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _with_partitions(table: pa.Table, slice_: FileSlice, columns: Sequence[Column], rows: int) -> pa.Table:
    arrays = [
        partition_array(c, slice_.partition.get(c.physical[0]), rows) if c.partition else table[c.id]
        for c in columns
    ]
    return pa.table(dict(zip([c.id for c in columns], arrays, strict=True)))


def batches_of(
    storage: Storage, slice_: FileSlice, columns: Sequence[Column], positions: Positions | None
) -> Iterator[tuple[Way, Sequence[int], int]]:
    """How `fetch` would read a file: per batch the way, the row groups and the number of rows.

    Pages that turn out to be large are read by mask all the same. Cost: one look at the file and its footer.
    """
    stored = [c for c in columns if not c.partition]
    for way, ((_, groups),) in batched([_planned(storage, slice_, stored, positions)]):
        yield way or Way.PAGES, [group for group, _ in groups], sum(len(rows) for _, rows in groups)


def pieces(
    storage: Storage, slice_: FileSlice, columns: Sequence[Column], positions: Positions | None
) -> Iterator[tuple[Positions, partial[pa.Table]]]:
    """The batches of `fetch`: physical positions, and what reads the columns there when it is called.

    It is told whether it may use all cores (see `in_order`).
    """
    stored = [c for c in columns if not c.partition]
    layout = open_layout(storage, slice_.path, slice_.size)
    for way, parts in batched([_planned(storage, slice_, stored, positions)]):
        at = np.concatenate([rows + layout.starts[group] for _, groups in parts for group, rows in groups])
        yield at.astype(np.uint64), partial(_batch, storage, parts, columns, stored, way)


def _rows_alone(rows: int) -> pa.Table:
    """A table of `rows` rows that has no column to speak of."""
    return pa.table({"": pa.nulls(rows)})
