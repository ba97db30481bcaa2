"""Row groups with wanted rows whose chunks hold only a dictionary and codes.

Writers abandon the dictionary of a chunk when it grows too large: the remaining values are then stored plain.
Files with such a chunk are left to other readers, and so are files that lack a column or have repeated or
nested values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import flat_column, open_layout
from tailbit.tables.parquet.layout import DictionaryPage, Layout, Pages
from tailbit.tables.parquet.row_assembly.excerpt import pick
from tailbit.tables.parquet.row_assembly.footer import CODECS
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
    return [(slice_, np.concatenate(parts)) for slice_, parts in out.values()]


def coded_groups(storage: Storage, read: Read, columns: Sequence[Column]) -> list[Group]:
    """Return the row groups of a file that hold wanted rows.

    The list is empty if a column cannot be read as numbers, if a reader of pages would read far less, or if
    the dictionaries have nearly as many values as there are wanted rows.
    """
    slice_, positions = read
    layout = open_layout(storage, slice_.path, slice_.size)
    nodes = [flat_column(layout, column, slice_.path) for column in columns]
    cuts = np.searchsorted(positions, layout.starts.astype(np.uint64))
    at = np.flatnonzero(np.diff(cuts)).tolist()
    out: list[Group] = []
    leaves = [node.first for node in nodes if node is not None]
    if not columns or len(leaves) < len(columns):
        return out
    values, most = 0, max(_VALUES, len(positions) // _ROWS_A_VALUE)
    with storage.open(storage.resolve(slice_.path)) as source:
        for seen, number in enumerate(at, 1):
            chunks = [_chunk(layout, source, number, leaf) for leaf in leaves]
            known = [chunk for chunk in chunks if chunk is not None]
            values += sum(chunk.dictionary.values for chunk in known)
            # Finding the pages of all row groups first would cost as much as decoding them.
            if len(known) < len(columns) or values * len(at) > most * seen:
                return []
            here = positions[cuts[number] : cuts[number + 1]]
            if len(here) == layout.starts[number + 1] - layout.starts[number]:
                out.append(Group(slice_, layout, here, None, known))
                continue
            cut = _cut(known, here.view(np.int64) - layout.starts[number])
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
    parts = [chunk.pages.of(numbers[0]) for chunk, (numbers, _) in zip(chunks, picks, strict=True)]
    whole, cut = sum(chunk.pages.packed for chunk in chunks), sum(part.packed for part in parts)
    if cut * _FEW > whole:
        return rows, chunks
    if len({chunk.pages.same_rows for chunk in chunks}) > 1:
        return None if cut * _VERY_FEW < whole else (rows, chunks)
    return picks[0][1], [chunk._replace(pages=part) for chunk, part in zip(chunks, parts, strict=True)]


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
