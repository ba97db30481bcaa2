"""Dictionary-coded column chunks, decoded to the numbers of their values instead of the values.

Writers store a column chunk as a dictionary and one code per row. Grouping needs the codes, and each value
only once. So the chunks of many files are assembled as one Parquet file in memory, with their dictionaries
replaced by numbers that count on from chunk to chunk: whatever the type of a column, decoding yields numbers,
of the wanted rows only. The values of the numbers that occur are decoded to the table's types by the decoder
of data files, from a small file of their own: values of fixed width become one page; texts stay in their
dictionary pages, each followed by a page of the wanted codes.

Example with two chunks:

    dictionary of chunk 1     SFO  LAX        codes 0 1 1, all wanted       numbers 1 2 2
    dictionary of chunk 2     LAX  SFO  JFK   codes 2 0 NULL, all wanted    numbers 5 3 0
    values of numbers 0 1 2 3 5               NULL SFO LAX LAX JFK

If a page holds anything but codes (writers give up a dictionary that grows too large), a file lacks the
column, values are repeated or nested, or anything fails, the caller gets the rows, and decodes values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from types import ModuleType
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Ints, Longs, occurrences
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError, LegacyCalendarError
from tailbit.tables import compute as pc
from tailbit.tables.ahead import in_order
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.assembly import (
    CHECKED,
    CODECS,
    MASK_LEAF,
    Assembly,
    failures,
    pick,
    polars,
    wanted_rows,
    written_codes,
    written_leaf,
    written_values,
)
from tailbit.tables.parquet.data_file import file_in_memory, flat_column, open_layout, read_columns
from tailbit.tables.parquet.file import ParquetFile, arrow_buffer
from tailbit.tables.parquet.layout import DictionaryPage, Layout, Pages
from tailbit.tables.partition_values import partition_array
from tailbit.tables.storage import Storage

Read = tuple[FileSlice, npt.NDArray[np.uint64]]
"""A file, and the ascending positions of rows in it."""

_PACKED = 28 << 20
"""Most compressed bytes of the chunks that are decoded at once."""
_ROWS = 8 << 20
"""Most rows of the chunks that are decoded at once."""
_VALUES, _ROWS_A_VALUE = 1 << 15, 8
"""If a file's dictionaries have more than 32,768 values (estimated from its first row groups), the file is
read as codes only if at least 8 rows are wanted per dictionary value."""
_FEW, _VERY_FEW = 2, 8
"""Chunks are cut to their pages if at most one page in 2 is wanted. No chunk is read whole if fewer than one
byte in 8 is wanted."""


class Chunk(NamedTuple):
    """A column chunk: leaf and codec, its pages, all of which hold codes, and their dictionary."""

    leaf: int
    codec: str
    pages: Pages
    dictionary: DictionaryPage


class Group(NamedTuple):
    """A row group with wanted rows, which are at `positions` in the file, and one chunk per column.

    If few pages hold wanted rows, the chunks are cut to these pages. `some`: the wanted rows among the rows
    of the chunks; None: all.
    """

    slice_: FileSlice
    layout: Layout
    positions: npt.NDArray[np.uint64]
    some: Longs | None
    chunks: Sequence[Chunk]

    @property
    def rows(self) -> int:
        """The row count of the chunks."""
        return int(self.chunks[0].pages.firsts[-1])

    @property
    def at(self) -> Longs:
        """The wanted rows, among the rows of the chunks."""
        return np.arange(self.rows) if self.some is None else self.some

    @property
    def packed(self) -> int:
        """Compressed bytes of the chunks."""
        return sum(chunk.pages.packed for chunk in self.chunks)

    @property
    def form(self) -> tuple[object, ...]:
        """A key that is equal for row groups that one file can hold."""
        return *self.layout.form, *(chunk.leaf for chunk in self.chunks)


def positions_of(batch: Sequence[Group]) -> list[Read]:
    """Return the wanted rows of row groups, as positions in their files."""
    out: dict[str, tuple[FileSlice, list[npt.NDArray[np.uint64]]]] = {}
    for group in batch:
        out.setdefault(group.slice_.path, (group.slice_, []))[1].append(group.positions)
    return [(slice_, np.concatenate(positions)) for slice_, positions in out.values()]


def coded_groups(storage: Storage, read: Read, columns: Sequence[Column]) -> list[Group]:
    """Return the row groups of a file that hold wanted rows.

    The list is empty if a column cannot be read as numbers, if a reader of pages would read far less, or if
    the dictionaries have nearly as many values as there are wanted rows.
    """
    slice_, positions = read
    layout = open_layout(storage, slice_.path, slice_.size)
    nodes = [flat_column(layout, column, slice_.path) for column in columns]
    cuts = np.searchsorted(positions, layout.starts.astype(np.uint64))
    numbers = np.flatnonzero(np.diff(cuts)).tolist()
    out: list[Group] = []
    leaves = [node.first for node in nodes if node is not None]
    if not columns or len(leaves) < len(columns):
        return out
    values, most = 0, max(_VALUES, len(positions) // _ROWS_A_VALUE)
    with storage.open(storage.resolve(slice_.path)) as source:
        for seen, number in enumerate(numbers, 1):
            chunks = [_chunk(layout, source, number, leaf) for leaf in leaves]
            readable = [chunk for chunk in chunks if chunk is not None]
            values += sum(chunk.dictionary.values for chunk in readable)
            # Finding the pages of all row groups first would cost as much as decoding them.
            if len(readable) < len(columns) or values * len(numbers) > most * seen:
                return []
            here = positions[cuts[number] : cuts[number + 1]]
            if len(here) == layout.starts[number + 1] - layout.starts[number]:
                out.append(Group(slice_, layout, here, None, readable))
                continue
            cut = _cut(readable, here.view(np.int64) - layout.starts[number])
            if cut is None:
                return []
            out.append(Group(slice_, layout, here, *cut))
    return out


def _cut(chunks: Sequence[Chunk], rows: Longs) -> tuple[Longs, Sequence[Chunk]] | None:
    """Return the wanted rows and the chunks that hold them, cut to their pages if these are few.

    The result is None if the pages are very few, and pages of different chunks do not hold the same rows.
    """
    if not any(_in_few_pages(chunk.pages, rows) for chunk in chunks):
        return rows, chunks
    picks = [pick([chunk.pages], [rows]) for chunk in chunks]
    cut_pages = [chunk.pages.of(numbers[0]) for chunk, (numbers, _) in zip(chunks, picks, strict=True)]
    whole, cut = sum(chunk.pages.packed for chunk in chunks), sum(pages.packed for pages in cut_pages)
    if cut * _FEW > whole:
        return rows, chunks
    if len({chunk.pages.same_rows for chunk in chunks}) > 1:
        return None if cut * _VERY_FEW < whole else (rows, chunks)
    return picks[0][1], [chunk._replace(pages=pages) for chunk, pages in zip(chunks, cut_pages, strict=True)]


def _in_few_pages(pages: Pages, rows: Longs) -> bool:
    return len(pages.holding(rows)) * _FEW <= len(pages.starts)


def _chunk(layout: Layout, source: pa.NativeFile, group: int, leaf: int) -> Chunk | None:
    codec = layout.chunk(group, leaf).codec
    pages = layout.pages(source, group, leaf) if codec in CODECS else None
    if pages is None or pages.dictionary is None or not pages.coded.all():
        return None
    return Chunk(leaf, codec, pages, pages.dictionary)


class Sized(Protocol):
    """A row group of chunks: compressed bytes, row count, and a key that tells which may share a file."""

    @property
    def packed(self) -> int:
        """Compressed bytes of the chunks."""

    @property
    def rows(self) -> int:
        """The row count of the chunks."""

    @property
    def form(self) -> tuple[object, ...]:
        """A key that is equal for row groups that one file can hold."""


S = TypeVar("S", bound=Sized)


def in_batches(groups: Iterable[S], most_rows: int = _ROWS) -> Iterator[list[S]]:
    """Yield batches of row groups with the same `form`; each batch is decoded at once."""
    out: list[S] = []
    packed = rows = 0
    for group in groups:
        full = packed + group.packed > _PACKED or rows + group.rows > most_rows
        if out and (full or group.form != out[0].form):
            yield out
            out, packed, rows = [], 0, 0
        out.append(group)
        packed, rows = packed + group.packed, rows + group.rows
    if out:
        yield out


_DTYPES = {4: "u4", 8: "u8"}
"""Numbers are selected five times as fast as bytes of the same width."""
_WIDTHS = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class Used(NamedTuple):
    """The used codes of a chunk's dictionary, ascending, with the file, dictionary page and codec."""

    path: str
    page: DictionaryPage
    codec: str
    codes: Longs


def values_of(storage: Storage, layout: Layout, leaf: int, column: Column, used: Sequence[Used]) -> pa.Array:
    """Decode the values of the used codes of one leaf, chunk by chunk; all files have the schema of `layout`.

    Raises:
        DataFileError, LegacyCalendarError, ColumnTypeError: a value cannot be decoded (see `read_columns`).
        ValueError: a dictionary has fewer values than its header says, or its page ends too early.
    """
    described = layout.metadata.schema.column(leaf)
    physical, nullable = str(described.physical_type), bool(described.max_definition_level)
    width = described.length if physical == "FIXED_LEN_BYTE_ARRAY" else _WIDTHS.get(physical)
    out, with_pages = Assembly(layout), _pages(storage, used)
    if width:
        values_page, rows = _selected_values(with_pages, width, nullable)
        out.add_written(physical, "UNCOMPRESSED", rows, len(values_page), [values_page], leaf=leaf)
        out.end_row_group(rows)
    else:
        for group, page in with_pages:
            codes, rows = written_codes(group.codes, nullable, group.codec), len(group.codes)
            size = group.page.unpacked + 64 + 4 * rows
            out.add_written(physical, group.codec, rows, size, [codes], page, leaf)
            out.end_row_group(rows)
    file = file_in_memory(out.excerpt(), used[0].path if used else "", layout.tree, {})
    values = read_columns(file, [column])[column.id]
    return pa.concat_arrays([pa.nulls(0, values.type), *values.chunks])


def _pages(storage: Storage, used: Sequence[Used]) -> Iterator[tuple[Used, bytes]]:
    """Yield the dictionary page of each chunk, header included."""
    for path, some in groupby(used, lambda group: group.path):
        with storage.open(storage.resolve(path)) as source:
            for group in some:
                page = source.read_at(group.page.end - group.page.start, group.page.start)
                if len(page) != group.page.end - group.page.start:
                    raise ValueError(f"it ends before byte {group.page.end}")
                yield group, page


def _selected_values(pages: Iterator[tuple[Used, bytes]], width: int, nullable: bool) -> tuple[bytes, int]:
    """Select the values of all codes, which have a fixed width, into one page; return it and its rows."""
    pieces, rows = [], 0
    for group, page in pages:
        head = group.page.body - group.page.start
        body = page[head:]
        if group.codec != "UNCOMPRESSED":
            size = group.page.unpacked - head
            body = pa.decompress(body, decompressed_size=size, codec=group.codec.lower())
        if len(body) != group.page.values * width:
            raise ValueError(f"a dictionary of {group.page.values} values has {len(body)} bytes")
        pieces.append(np.frombuffer(body, dtype=_DTYPES.get(width, f"V{width}")).take(group.codes).tobytes())
        rows += len(group.codes)
    return written_values(b"".join(pieces), rows, nullable), rows


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
    storage: Storage, reads: Iterable[Read], columns: Sequence[Column], masked: bool | None = None
) -> Iterator[tuple[list[Numbered], list[Read]]]:
    """Yield columns at wanted rows, batch by batch, and the reads that must be decoded as values instead.

    `reads`: files with ascending row positions. `masked`: True if Polars filters the rows while it decodes,
    False if pyarrow decodes all rows; None: Polars if it is already loaded. Polars is not loaded for this:
    pyarrow is hardly slower. Cost: the compressed chunks of row groups with wanted rows are copied, and their
    codes decoded on all cores. Memory: some 28 MB, or a row group, for each core and three more; 4 bytes per
    column and row.
    """
    stored = [column for column in columns if not column.partition]
    undecided: list[Read] = []

    def read(batch: Sequence[Group], _: bool) -> tuple[list[Numbered], list[Read]]:
        numbered_columns = _read(storage, batch, columns, stored, masked)
        return (numbered_columns, []) if numbered_columns is not None else ([], positions_of(batch))

    yield from in_order(
        partial(read, batch) for batch in in_batches(_coded_groups(storage, reads, stored, undecided))
    )
    if undecided:
        yield [], undecided


def _coded_groups(
    storage: Storage, reads: Iterable[Read], columns: Sequence[Column], undecided: list[Read]
) -> Iterator[Group]:
    """Yield the row groups that can be read as numbers, file by file; add other files to `undecided`."""
    for read in reads:
        groups = coded_groups(storage, read, columns)
        yield from groups
        if not groups and len(read[1]):
            undecided.append(read)


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
    return [_of_rows(every, batch) for every in numbers]


def _filled(numbers: pa.ChunkedArray) -> Ints:
    out: Ints = numpy_of(filled(numbers, 0))
    return out


def _of_rows(numbers: Ints, batch: Sequence[Group]) -> Ints:
    """Select the numbers of the wanted rows from those of all rows of the row groups."""
    ends = np.cumsum([group.rows for group in batch])
    numbers_of_groups = zip(batch, np.split(numbers, ends[:-1]), strict=True)
    return np.concatenate(
        [
            of_group if group.some is None else of_group.take(group.some)
            for group, of_group in numbers_of_groups
        ]
    )


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
    chunks_used = [
        Used(group.slice_.path, chunk.dictionary, chunk.codec, used[low:high] - first)
        for group, chunk, low, high, first in zip(
            batch, chunks, cuts[:-1], cuts[1:], firsts[:-1], strict=True
        )
        if low < high
    ]
    values = values_of(storage, batch[0].layout, chunks[0].leaf, column, chunks_used)
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
