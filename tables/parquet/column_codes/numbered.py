"""Columns at wanted rows of many files as numbers of their values, without decoding a value per row.

Writers store a column chunk as a dictionary and one code per row. Grouping needs the codes, and each value
only once. So the chunks of many files are assembled as one Parquet file in memory, with their dictionaries
replaced by numbers that count on from chunk to chunk: whatever the type of a column, decoding yields numbers,
of the wanted rows only (see `by_polars`). The values of the numbers that occur are decoded separately (see
`dictionaries`).

Example with two chunks:

    dictionary of chunk 1     SFO  LAX        codes 0 1 1, all wanted       numbers 1 2 2
    dictionary of chunk 2     LAX  SFO  JFK   codes 2 0 NULL, all wanted    numbers 5 3 0
    values of numbers 0 1 2 3 5               NULL SFO LAX LAX JFK

If a page holds anything but codes, a file lacks the column, values are repeated or nested, or anything fails,
the rows are left to the caller, which decodes values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Ints, Longs, occurrences
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError, LegacyCalendarError
from tailbit.tables import compute as pc
from tailbit.tables.ahead import in_order
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.model import Column
from tailbit.tables.parquet.column_codes.dictionaries import Used, values_of
from tailbit.tables.parquet.column_codes.row_groups import Group, Read, coded_groups, in_batches, positions_of
from tailbit.tables.parquet.file import ParquetFile, arrow_buffer
from tailbit.tables.parquet.row_assembly.assembly import Assembly
from tailbit.tables.parquet.row_assembly.by_polars import CHECKED, MASK_LEAF, failures, polars, wanted_rows
from tailbit.tables.parquet.row_assembly.footer import written_leaf
from tailbit.tables.partition_values import partition_array
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from types import ModuleType


@dataclass(frozen=True, eq=False)
class Numbered:
    """One column of some rows.

    `numbers`: int32 per row. `used`: the numbers that occur, ascending. `counts`: how often each occurs.
    `values`: the value of each; two numbers may have the same value.
    """

    numbers: Ints
    used: Longs
    counts: Longs
    values: pa.Array


def numbered(
    storage: Storage, wanted: Iterable[Read], columns: Sequence[Column], masked: bool | None = None
) -> Iterator[tuple[list[Numbered], list[Read]]]:
    """Yield columns at wanted rows, batch by batch, and the reads that must be decoded as values instead.

    `wanted`: files with ascending row positions. `masked`: True if Polars filters the rows while it decodes,
    False if pyarrow decodes all rows; None: Polars if it is already loaded. Polars is not loaded for this:
    pyarrow is hardly slower. Cost: the compressed chunks of row groups with wanted rows are copied, and their
    codes decoded on all cores. Memory: some 28 MB, or a row group, for each core and three more; 4 bytes per
    column and row.

    Raises:
        DataFileError: a file is missing, not of the size in the log, or not readable Parquet.
    """
    stored = [column for column in columns if not column.partition]
    left: list[Read] = []

    def read(batch: Sequence[Group], _: bool) -> tuple[list[Numbered], list[Read]]:
        numbered_columns = _read(storage, batch, columns, stored, masked)
        return (numbered_columns, []) if numbered_columns is not None else ([], positions_of(batch))

    yield from in_order(partial(read, batch) for batch in in_batches(_coded(storage, wanted, stored, left)))
    if left:
        yield [], left


def _coded(
    storage: Storage, wanted: Iterable[Read], columns: Sequence[Column], left: list[Read]
) -> Iterator[Group]:
    """Yield the row groups that can be read as numbers, file by file; add other files to `left`."""
    for read in wanted:
        groups = coded_groups(storage, read, columns)
        yield from groups
        if not groups and len(read[1]):
            left.append(read)


def _read(
    storage: Storage,
    batch: Sequence[Group],
    columns: Sequence[Column],
    stored: Sequence[Column],
    masked: bool | None,
) -> list[Numbered] | None:
    """Return the columns at the wanted rows of row groups; None if anything fails."""
    failed: tuple[type[BaseException], ...] = (pa.ArrowException, OSError, ValueError, KeyError)
    failed = (*failed, DataFileError, LegacyCalendarError)
    partly = any(group.some is not None for group in batch)
    masked = "polars" in sys.modules if masked is None else masked
    checked = all(chunk.codec in CHECKED for group in batch for chunk in group.chunks)
    library = polars() if masked and partly and checked else None
    if library is not None:
        failed = (*failed, *failures(library))
    try:
        decoded = _decoded(storage, batch, len(stored), library)
        if any(len(numbers) != sum(len(group.positions) for group in batch) for numbers in decoded):
            return None
        named = dict(zip((column.id for column in stored), enumerate(decoded), strict=True))
        return [
            _of_files(batch, column)
            if column.partition
            else _with_values(storage, batch, column, *named[column.id])
            for column in columns
        ]
    except failed:
        return None


def _decoded(
    storage: Storage, batch: Sequence[Group], columns: int, library: ModuleType | None
) -> list[Ints]:
    """Return the numbers of the wanted rows, per column."""
    data = _assembled(storage, batch, columns, library is not None)
    if library is not None:
        frame = wanted_rows(library, data)
        return [frame.to_series(n).fill_null(0).to_numpy() for n in range(columns)]
    table = ParquetFile(pa.BufferReader(arrow_buffer([data]))).read()
    numbers = [_filled(table.column(n)) for n in range(columns)]
    if all(group.some is None for group in batch):
        return numbers
    return [_wanted(every, batch) for every in numbers]


def _filled(numbers: pa.ChunkedArray) -> Ints:
    out: Ints = numpy_of(filled(numbers, 0))
    return out


def _wanted(numbers: Ints, batch: Sequence[Group]) -> Ints:
    """Select the numbers of the wanted rows from those of all rows of the row groups."""
    ends = np.cumsum([group.rows for group in batch])
    parts = zip(batch, np.split(numbers, ends[:-1]), strict=True)
    return np.concatenate([part if group.some is None else part.take(group.some) for group, part in parts])


def _assembled(storage: Storage, batch: Sequence[Group], columns: int, masked: bool) -> bytes:
    """Assemble the row groups as a Parquet file, dictionaries replaced by numbers; `masked` adds a mask."""
    out, firsts = Assembly(), [1] * columns
    for group in batch:
        for n, chunk in enumerate(group.chunks):
            numbers = np.arange(firsts[n], firsts[n] + chunk.dictionary.values, dtype=np.int32)
            out.add_numbers(numbers, chunk.pages, chunk.codec, group.slice_.path)
            firsts[n] += len(numbers)
        if masked:
            out.add_mask(group.at, group.rows)
        out.end_row_group(group.rows)
    schema = batch[0].layout.metadata.schema
    nullable = [bool(schema.column(chunk.leaf).max_definition_level) for chunk in batch[0].chunks]
    leaves = [written_leaf(str(n), "INT32", nullable=is_nullable) for n, is_nullable in enumerate(nullable)]
    if masked:
        leaves.append(MASK_LEAF)
    return out.done(storage, leaves)


def _with_values(
    storage: Storage, batch: Sequence[Group], column: Column, place: int, numbers: Ints
) -> Numbered:
    """Return a column as numbers, with the value of each number that occurs, read from the dictionaries.

    `place`: the index of the column among the chunks of each group. `numbers`: one per row; 0 is NULL.
    """
    chunks = [group.chunks[place] for group in batch]
    sizes = [chunk.dictionary.values for chunk in chunks]
    firsts = 1 + np.concatenate([[0], np.cumsum(sizes)])
    counts = occurrences(numbers, int(firsts[-1]))
    used = np.flatnonzero(counts)
    cuts = np.searchsorted(used, firsts)
    wanted = [
        Used(group.slice_.path, chunk.dictionary, chunk.codec, used[low:high] - first)
        for group, chunk, low, high, first in zip(
            batch, chunks, cuts[:-1], cuts[1:], firsts[:-1], strict=True
        )
        if low < high
    ]
    values = values_of(storage, batch[0].layout, chunks[0].leaf, column, wanted)
    if len(used) and used[0] == 0:
        values = pa.concat_arrays([pa.nulls(1, values.type), values])
    if len(values) != len(used):
        raise ValueError(f"{len(values)} values of {len(used)} numbers")
    return Numbered(numbers, used, counts[used], values)


def _of_files(batch: Sequence[Group], column: Column) -> Numbered:
    """Return a partition column, whose value the log states per file."""
    texts: dict[str | None, int] = {}
    physical = column.physical[0]
    codes = [texts.setdefault(group.slice_.partition.get(physical), len(texts)) for group in batch]
    sizes = [len(group.positions) for group in batch]
    numbers = np.repeat(np.array(codes, dtype=np.int32), sizes)
    counts = np.bincount(numbers, minlength=len(texts))
    values = pa.concat_arrays([partition_array(column, text, 1) for text in texts])
    used = np.flatnonzero(counts)
    return Numbered(numbers, used, counts[used], pc.take(values, arrow_array(used)))
