"""Row groups with wanted rows whose chunks hold nothing but a dictionary and codes of it.

Writers give up the dictionary of a chunk where it grows too large: the rest of the values then stand as they
are. Such a file is left to others, and so is one that lacks a column or where values are repeated or nested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import find_column, open_layout
from tailbit.tables.parquet.layout import DictionaryPage, Ints, Layout, Pages
from tailbit.tables.parquet.picked.footer import CODECS
from tailbit.tables.storage import Storage

Read = tuple[FileSlice, npt.NDArray[np.uint64]]
"""A file and ascending positions of rows in it."""

_PACKED = 28 << 20
"""Compressed bytes of chunks that are decoded at once."""
_ROWS = 8 << 20
"""Rows of chunks that are decoded at once."""


class Chunk(NamedTuple):
    """A column chunk: its leaf and codec; its pages, all of which hold codes, and their dictionary."""

    leaf: int
    codec: str
    pages: Pages
    dictionary: DictionaryPage


class Group(NamedTuple):
    """A row group with wanted rows, and its chunks, a column each."""

    slice_: FileSlice
    layout: Layout
    number: int
    wanted: Ints
    chunks: Sequence[Chunk]

    @property
    def rows(self) -> int:
        """All of its rows."""
        return int(self.layout.starts[self.number + 1] - self.layout.starts[self.number])

    @property
    def packed(self) -> int:
        """Bytes of its chunks."""
        return sum(int(its.pages.ends[-1] - its.pages.starts[0]) for its in self.chunks)

    @property
    def form(self) -> tuple[object, ...]:
        """Equal for row groups that one file can hold."""
        metadata = self.layout.metadata
        texts = frozenset((metadata.metadata or {}).items())
        return self.layout.head, metadata.created_by, texts, *(its.leaf for its in self.chunks)


def positions_of(batch: Sequence[Group]) -> list[Read]:
    """The wanted rows of row groups, as positions in their files."""
    out: dict[str, tuple[FileSlice, list[Ints]]] = {}
    for group in batch:
        at = group.wanted + group.layout.starts[group.number]
        out.setdefault(group.slice_.path, (group.slice_, []))[1].append(at)
    return [(slice_, np.concatenate(parts).astype(np.uint64)) for slice_, parts in out.values()]


def coded_groups(storage: Storage, read: Read, columns: Sequence[Column]) -> list[Group]:
    """The row groups of a file that hold wanted rows; none where a column cannot be read as numbers."""
    slice_, positions = read
    layout = open_layout(storage, slice_.path, slice_.size)
    leaves = [_leaf(layout, column, slice_.path) for column in columns]
    cuts = np.searchsorted(positions, layout.starts.astype(np.uint64))
    at = np.flatnonzero(np.diff(cuts)).tolist()
    out: list[Group] = []
    if not columns or any(leaf is None for leaf in leaves):
        return out
    with storage.open(storage.resolve(slice_.path)) as source:
        for number in at:
            chunks = [_chunk(layout, source, number, leaf) for leaf in leaves if leaf is not None]
            known = [chunk for chunk in chunks if chunk is not None]
            if len(known) < len(columns):
                return []
            rows = positions[cuts[number] : cuts[number + 1]].astype(np.int64) - layout.starts[number]
            out.append(Group(slice_, layout, number, rows, known))
    return out


def _leaf(layout: Layout, column: Column, path: str) -> int | None:
    """The leaf of a column that stands at the top and is no struct, list or map."""
    steps = find_column(layout.tree, column, path)
    if not steps or len(steps) != 1 or steps[0].children:
        return None
    leaf = layout.metadata.schema.column(steps[0].first)
    nested = leaf.max_repetition_level or leaf.max_definition_level > 1
    return None if nested else steps[0].first


def _chunk(layout: Layout, source: pa.NativeFile, group: int, leaf: int) -> Chunk | None:
    codec = str(layout.metadata.row_group(group).column(leaf).compression)
    pages = layout.pages(source, group, leaf) if codec in CODECS else None
    if pages is None or pages.dictionary is None or not pages.coded.all():
        return None
    return Chunk(leaf, codec, pages, pages.dictionary)


def in_batches(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """As many row groups as are decoded at once, of one form."""
    out: list[Group] = []
    packed = rows = 0
    for group in groups:
        full = packed + group.packed > _PACKED or rows + group.rows > _ROWS
        if out and (full or group.form != out[0].form):
            yield out
            out, packed, rows = [], 0, 0
        out.append(group)
        packed, rows = packed + group.packed, rows + group.rows
    if out:
        yield out
