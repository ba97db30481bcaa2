"""Rows of data files by position: visible positions, and columns at positions.

Input: a file slice. Output: uint64 physical positions, or Arrow tables with columns named by id, in the order
of positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.tables.ahead import in_order
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.row_selection import (
    Group,
    Groups,
    OpenFile,
    ReadMethod,
    batched,
    is_loaded,
    load_for,
    planned,
    read_picked,
)
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import positions_in
from tailbit.tables.storage import Storage, at_once

Positions = npt.NDArray[np.uint64]
T = TypeVar("T")

_WEIGHED = 16
"""Files whose costs are estimated together before the first is read; all are opened even for a few rows."""

_A_COUNT = 256
"""Bytes of memory that the row count of a file takes."""
_COUNTS: Cache[tuple[Storage, str, int, int], int] = Cache(share(1 / 64) // _A_COUNT)
"""Row counts by store, path, size and time of a slice: data files never change."""


def without(positions: Positions, hidden: BitMap | None) -> Positions:
    """Return the ascending positions that are not hidden."""
    if not hidden or not len(positions):
        return positions
    gone = positions_in(hidden)
    return positions[~np.isin(positions, gone, assume_unique=True)]


def visible_positions(rows: int, hidden: BitMap | None) -> Positions:
    """Return all physical positions of a file that are not hidden."""
    return without(np.arange(rows, dtype=np.uint64), hidden)


def row_counts(storage: Storage, slices: Sequence[FileSlice]) -> list[int]:
    """Return the number of physical rows of each data file, hidden rows included, according to its footer.

    The log's row counts are not used: some writers get them wrong. Cost: reads the footer of each file that
    this process has not counted before, on all cores.
    """
    keys = [(storage, slice_.path, slice_.size, slice_.mtime) for slice_ in slices]
    counts = [_COUNTS.cached(key) for key in keys]
    unknown = [n for n, rows in enumerate(counts) if rows is None]
    if storage.remote:
        read = at_once(storage, [partial(_count, storage, slices[n].path, True) for n in unknown])
    else:
        read = in_order(partial(_count, storage, slices[n].path) for n in unknown)
    for n, rows in zip(unknown, read, strict=True):
        counts[n] = _COUNTS.hold(keys[n], rows)
    return [rows for rows in counts if rows is not None]


def _count(storage: Storage, path: str, alone: bool) -> int:
    """Return the number of physical rows of a data file of any size; `alone` (of `in_order`) is ignored."""
    return int(open_layout(storage, path).starts[-1])


def fetch(
    storage: Storage,
    slice_: FileSlice,
    columns: Sequence[Column],
    positions: Positions | None,
    method: ReadMethod | None = None,
    cached: bool = True,
) -> Iterator[pa.Table]:
    """Yield tables of `columns` (named by column id) at ascending positions (None: all rows), in batches.

    `method` sets how the rows are decoded, instead of the method with the lower estimated cost.
    `cached=False`: for a file that is read once, so nothing of it is cached. Cost and memory: a table holds
    some 16 MB of pages with wanted rows, or row groups of some 64 MB, or one larger row group.
    """
    for batch in _batches(storage, [(slice_, positions)], columns, method, cached):
        yield batch(False)


def fetch_files(
    storage: Storage, reads: Iterable[tuple[FileSlice, Positions | None]], columns: Sequence[Column]
) -> Iterator[pa.Table]:
    """Yield the rows of many files in the order of files and positions, decoding one batch per core at once.

    `reads`: file slices with ascending physical positions, None for all rows. A batch may span several
    files. Memory: one batch per core, and three more.
    """
    return each_batch(storage, reads, columns, lambda batch: batch)


def each_batch(
    storage: Storage,
    reads: Iterable[tuple[FileSlice, Positions | None]],
    columns: Sequence[Column],
    function: Callable[[pa.Table], T],
) -> Iterator[T]:
    """Yield what a function makes of each batch of `fetch_files`, on the core that has decoded it."""

    def work(batch: partial[pa.Table]) -> Callable[[bool], T]:
        return lambda threads: function(batch(threads))

    return in_order(map(work, _batches(storage, reads, columns)))


def _batches(
    storage: Storage,
    reads: Iterable[tuple[FileSlice, Positions | None]],
    columns: Sequence[Column],
    method: ReadMethod | None = None,
    cached: bool = True,
) -> Iterator[partial[pa.Table]]:
    """Yield functions that each read one batch as a table.

    `reads`: file slices with the ascending physical positions of the rows to read; None for all rows.
    `method`: how rows are decoded, by default the method with the lower estimated cost. Cost of planning: one
    stat per file whose footer is cached, else also a read of the footer.
    """
    stored = [c for c in columns if not c.partition]
    for chosen, files in batched(_plans(storage, reads, stored, method, cached)):
        yield partial(_batch, storage, files, columns, stored, chosen)


def _plans(
    storage: Storage,
    reads: Iterable[tuple[FileSlice, Positions | None]],
    stored: Sequence[Column],
    method: ReadMethod | None,
    cached: bool,
) -> Iterator[tuple[OpenFile, ReadMethod | None, Sequence[Group]]]:
    """Yield the plan of each file; the first files together decide whether to load Polars, if it is not."""
    files = iter(reads)
    first = [] if method or is_loaded() else list(islice(files, _WEIGHED))
    weighed = [
        partial(_planned, storage, slice_, stored, positions, None, cached) for slice_, positions in first
    ]
    plans = list(at_once(storage, weighed))
    if load_for(groups for _, _, groups in plans):
        files = chain(first, files)
    else:
        yield from plans
    yield from at_once(
        storage,
        (
            partial(_planned, storage, slice_, stored, positions, method, cached)
            for slice_, positions in files
        ),
    )


def _planned(
    storage: Storage,
    slice_: FileSlice,
    stored: Sequence[Column],
    positions: Positions | None,
    method: ReadMethod | None = None,
    cached: bool = True,
) -> tuple[OpenFile, ReadMethod | None, Sequence[Group]]:
    layout = open_layout(storage, slice_.path, slice_.size, cached)
    return (OpenFile(slice_, layout), *planned(layout, slice_.path, stored, positions, method))


def _batch(
    storage: Storage,
    files: Sequence[tuple[OpenFile, Groups]],
    columns: Sequence[Column],
    stored: Sequence[Column],
    method: ReadMethod | None,
    threads: bool,
) -> pa.Table:
    """Read one batch: columns at rows of row groups; without columns, a table of that many rows."""
    sizes = [sum(len(rows) for _, rows in groups) for _, groups in files]
    if not stored:
        tables = [_rows_alone(n) for n in sizes]
    else:
        tables = read_picked(storage, files, stored, method, threads)
    if columns:
        tables = [
            _with_partitions(table, file.slice, columns, n)
            for table, (file, _), n in zip(tables, files, sizes, strict=True)
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
) -> Iterator[tuple[ReadMethod, Sequence[int], int]]:
    """Yield how `fetch` would read a file: method, row groups and number of rows per batch.

    Pages that turn out to be large are read by mask nevertheless. Cost: one stat of the file and its footer.
    """
    stored = [c for c in columns if not c.partition]
    for method, ((_, groups),) in batched([_planned(storage, slice_, stored, positions)]):
        yield method or ReadMethod.PAGES, [group for group, _ in groups], sum(len(rows) for _, rows in groups)


class PagesOfRows(NamedTuple):
    """The estimated bytes of the pages that hold some rows, and the rows and bytes of their row groups.

    Bytes are decompressed, of some columns alone.
    """

    touched: int
    rows: int
    bytes: int


def pages_of_rows(
    storage: Storage, slice_: FileSlice, columns: Sequence[Column], positions: Positions
) -> PagesOfRows:
    """Return the pages that hold some rows of a file. Cost: one stat of the file and its footer."""
    stored = [c for c in columns if not c.partition]
    _, _, groups = _planned(storage, slice_, stored, positions)
    sums = zip(*((group.cut, group.rows, group.unpacked) for group in groups), strict=True)
    return PagesOfRows(*map(sum, sums)) if groups else PagesOfRows(0, 0, 0)


def pieces(
    storage: Storage, slice_: FileSlice, columns: Sequence[Column], positions: Positions | None
) -> Iterator[tuple[Positions, partial[pa.Table]]]:
    """Yield the batches of `fetch`: physical positions, and a function that reads the columns there.

    The function takes whether it may use all cores (see `in_order`).
    """
    stored = [c for c in columns if not c.partition]
    plan = _planned(storage, slice_, stored, positions)
    for method, files in batched([plan]):
        rows = _positions(plan[0].layout, [group for _, groups in files for group in groups])
        yield rows.view(np.uint64), partial(_batch, storage, files, columns, stored, method)


def _positions(layout: Layout, groups: Groups) -> Longs:
    """Return the physical positions of wanted rows of ascending row groups."""
    first, end = layout.starts[groups[0][0]], layout.starts[groups[-1][0] + 1]
    if sum(len(rows) for _, rows in groups) == end - first:
        return np.arange(first, end)
    return np.concatenate([rows + layout.starts[group] for group, rows in groups])


def _rows_alone(rows: int) -> pa.Table:
    """Return a table of `rows` rows with one unnamed null column."""
    return pa.table({"": pa.nulls(rows)})
