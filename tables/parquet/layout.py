"""Where the pages of a data file lie, and which rows each of them holds.

Pages are found by their own headers, one read a page, so files of every writer have them, with or without a
page index, and a row count is the one that a reader of the page meets. What was found is kept for the
process: a data file does not change, and a file of one name is told from another by size, time and inode.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tailbit.arrays import Longs, Mask
from tailbit.once import once
from tailbit.tables.cache import Cache, share
from tailbit.tables.parquet.leaves import ParquetNode
from tailbit.tables.parquet.thrift import read_struct
from tailbit.tables.storage import Stat, Storage

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_V1_HEADER, _DICTIONARY_HEADER, _V2_HEADER = 5, 7, 8
_CODED = (2, 8)
"""PLAIN_DICTIONARY and RLE_DICTIONARY."""
_HEADER, _LONG_HEADER = 256, 1 << 16
"""Bytes that hold most page headers, and all but those with long statistics."""
_INT = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_SIZES = rb"\x15" + _INT + rb"\x15" + _INT
_CHECKSUM = rb"(?:%b|\x15[\x80-\xff]{0,4}[\x00-\x7f]%b)"
_DATA_OWN = _CHECKSUM % (b"\x2c", b"\x1c") + rb"\x15" + _INT + rb"\x15([\x00-\x7f])\x15.\x15.\0"
_DICTIONARY_OWN = _CHECKSUM % (b"\x4c", b"\x3c") + rb"\x15" + _INT + rb"\x15([\x00-\x7f])[\x11\x12]?\0"
_USUAL_DATA = re.compile(rb"\x15\x00" + _SIZES + _DATA_OWN + rb"\0", re.DOTALL)
_USUAL_DICTIONARY = re.compile(rb"\x15\x04" + _SIZES + _DICTIONARY_OWN + rb"\0", re.DOTALL)
"""Headers as Thrift's compact protocol has them, of data pages of the first version without statistics and
of dictionaries: sizes, a checksum or none, values, encodings. Others are read field by field, at thirty times
the cost.
"""


class DictionaryPage(NamedTuple):
    """Where a dictionary page and its `body` lie; its bytes unpacked, header included; its values."""

    start: int
    end: int
    unpacked: int
    body: int
    values: int


@dataclass(frozen=True, eq=False)
class Pages:
    """The pages of one column chunk without repeated values.

    `starts`, `ends`: where each data page lies in the file, its header included. `firsts`: the first row of
    each in its row group, and at the end the rows of the group. `unpacked`: bytes of each once decompressed,
    its header included. `coded`: whether a page holds dictionary codes. `dictionary`: None where there is
    none. `same_rows`: equal for chunks whose pages hold the same rows.
    """

    starts: Longs
    ends: Longs
    firsts: Longs
    unpacked: Longs
    coded: Mask
    dictionary: DictionaryPage | None
    same_rows: bytes

    @property
    def packed(self) -> int:
        """Bytes of the data pages in the file."""
        return int((self.ends - self.starts).sum())

    def holding(self, rows: Longs) -> Longs:
        """The numbers of the pages that hold ascending rows of the row group."""
        return np.flatnonzero(np.bincount(np.searchsorted(self.firsts, rows, side="right") - 1))

    def of(self, numbers: Longs) -> Pages:
        """Some of the pages, by ascending number, as if they were all."""
        counts = self.firsts[numbers + 1] - self.firsts[numbers]
        firsts = np.concatenate([[0], np.cumsum(counts)])
        return replace(
            self,
            starts=self.starts[numbers],
            ends=self.ends[numbers],
            firsts=firsts,
            unpacked=self.unpacked[numbers],
            coded=self.coded[numbers],
            same_rows=firsts.tobytes(),
        )


class Chunk(NamedTuple):
    """A column chunk, as the footer says.

    `start`: where its first page lies. `data`: bytes from there to its first data page. `packed`, `unpacked`:
    its bytes in the file, and decompressed. `coded`: whether it has a dictionary.
    """

    start: int
    data: int
    packed: int
    unpacked: int
    values: int
    type: str
    codec: str
    coded: bool


@dataclass(frozen=True, eq=False)
class Layout:
    """A data file whose footer was checked.

    `head`: the bytes of its footer that hold version and schema. `starts`: the first row of each row group,
    and at the end the rows of the file. `number`: no other layout has it; what is kept of the file by it
    does not keep the footer too. `bounds`: what was made of its statistics (see `bounds`). `found`: the
    fields of columns that were asked for (see `data_file`) and the like.
    """

    metadata: pq.FileMetaData
    tree: ParquetNode
    head: bytes
    starts: Longs
    number: int = field(default_factory=itertools.count().__next__)
    bounds: dict[str, Any] = field(default_factory=dict, repr=False)
    found: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False)
    _chunks: dict[tuple[int, int], Chunk] = field(default_factory=dict, repr=False)

    @once
    def form(self) -> tuple[object, ...]:
        """Equal for files whose values are decoded alike: those of one schema, one writer and its marks."""
        texts = frozenset((self.metadata.metadata or {}).items())
        try:
            writer: object = self.metadata.created_by
        except UnicodeDecodeError:
            writer = self.number
        return self.head, writer, texts

    def groups_of(self, positions: npt.NDArray[np.uint64]) -> Longs:
        """Per position the number of its row group."""
        return np.searchsorted(self.starts[1:], positions.view(np.int64), side="right")

    def groups_with(self, positions: npt.NDArray[np.uint64] | None) -> Sequence[int]:
        """The row groups that have one of ascending positions; None: of all. Empty ones have none."""
        starts = self.starts if positions is None else np.searchsorted(positions.view(np.int64), self.starts)
        groups: list[int] = np.flatnonzero(np.diff(starts)).tolist()
        return groups

    def positions(self, groups: Iterable[int]) -> npt.NDArray[np.uint64]:
        """Every position of some row groups."""
        parts = [np.arange(self.starts[group], self.starts[group + 1], dtype=np.uint64) for group in groups]
        return np.concatenate([np.zeros(0, np.uint64), *parts])

    def chunk(self, group: int, leaf: int) -> Chunk:
        """A column chunk of a row group. pyarrow makes some objects for each look at one: kept once made."""
        chunk_layout = self._chunks.get((group, leaf))
        if chunk_layout is None:
            metadata = self.metadata.row_group(group).column(leaf)
            data, dictionary = metadata.data_page_offset, metadata.dictionary_page_offset
            start = min(data, dictionary) if dictionary else data
            chunk_layout = Chunk(
                start,
                data - start,
                metadata.total_compressed_size,
                metadata.total_uncompressed_size,
                metadata.num_values,
                str(metadata.physical_type),
                str(metadata.compression),
                bool(dictionary),
            )
            self._chunks[group, leaf] = chunk_layout
        return chunk_layout

    def pages(self, source: pa.NativeFile, group: int, leaf: int) -> Pages | None:
        """The pages of a column chunk; None where they cannot be told. Cost: a read a page, once."""
        key = (self.number, group, leaf)
        held = _PAGES.held(key)
        if held is None:
            try:
                held = (_find_pages(source, self, group, leaf),)
            except (ValueError, KeyError, TypeError, AttributeError, OSError):
                held = (None,)
            _PAGES.hold(key, held, 1 if held[0] is None else 1 + len(held[0].starts))
        return held[0]


_LAYOUTS: Cache[tuple[Storage, str, Stat], Layout] = Cache(share(3 / 32))
"""By store, name and state."""
_PARSED = 12
"""Bytes that a byte of a footer takes: pyarrow's objects are nine of them."""
_PAGES: Cache[tuple[int, int, int], tuple[Pages | None]] = Cache(share(1 / 32) // 50)
"""By number of a layout, row group and leaf; a chunk counts by its pages, of some 50 bytes each."""

CACHES = (_LAYOUTS, _PAGES)
"""What this process keeps of data files."""


def known_layout(storage: Storage, name: str, stat: Stat) -> Layout | None:
    """The layout that was kept for exactly this state of a file; None where there is none."""
    return _LAYOUTS.held((storage, name, stat))


def layout_of(metadata: pq.FileMetaData, tree: ParquetNode, head: bytes) -> Layout:
    """Return what a footer that was checked says; it is not kept."""
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return Layout(metadata, tree, head, np.concatenate([[0], np.cumsum(rows, dtype=np.int64)]))


def keep_layout(
    storage: Storage, name: str, stat: Stat, metadata: pq.FileMetaData, tree: ParquetNode, head: bytes
) -> Layout:
    """Keep what is known of a file whose footer was checked."""
    layout = layout_of(metadata, tree, head)
    return _LAYOUTS.hold((storage, name, stat), layout, 1 + _PARSED * metadata.serialized_size)


def _find_pages(source: pa.NativeFile, layout: Layout, group: int, leaf: int) -> Pages | None:
    """The pages of a chunk, header by header; None for repeated values and for what does not add up."""
    metadata = layout.metadata
    if metadata.schema.column(leaf).max_repetition_level:
        return None
    rows, chunk = metadata.row_group(group).num_rows, layout.chunk(group, leaf)
    at, end = chunk.start, chunk.start + chunk.packed
    dictionary: DictionaryPage | None = None
    pages: list[tuple[int, int, int, int, bool]] = []
    while at < end:
        header, size = _header(source, at, end)
        if header[2] < 0 or header[3] < 0:
            return None
        after, unpacked = at + size + header[3], size + header[2]
        if header[1] == _DICTIONARY and dictionary is None and not pages:
            values = header[_DICTIONARY_HEADER][1]
            dictionary = DictionaryPage(at, after, unpacked, at + size, values)
        elif header[1] in (_DATA, _DATA_V2):
            inner = header[_V1_HEADER if header[1] == _DATA else _V2_HEADER]
            encoding = inner[2] if header[1] == _DATA else inner[4]
            pages.append((at, after, inner[1], unpacked, encoding in _CODED))
        else:
            return None
        at = after
    if at != end or min((n for _, _, n, _, _ in pages), default=0) < 0:
        return None
    starts, ends, counts, sizes, coded = (np.array(part) for part in zip(*pages, strict=True))
    firsts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    if int(firsts[-1]) != rows or chunk.values != rows:
        return None
    return Pages(starts, ends, firsts, sizes, coded, dictionary, firsts.tobytes())


def _header(source: pa.NativeFile, at: int, end: int) -> tuple[dict[int, Any], int]:
    """The header of a page and its length in bytes."""
    data = source.read_at(min(_HEADER, end - at), at)
    type_, inner, usual = _DATA, _V1_HEADER, _USUAL_DATA.match(data)
    if usual is None:
        type_, inner, usual = _DICTIONARY, _DICTIONARY_HEADER, _USUAL_DICTIONARY.match(data)
    if usual is not None:
        unpacked, packed, values, encoding = map(_read_int, usual.groups())
        return {1: type_, 2: unpacked, 3: packed, inner: {1: values, 2: encoding}}, usual.end()
    try:
        return read_struct(data, 0)
    except ValueError:
        return read_struct(source.read_at(min(_LONG_HEADER, end - at), at), 0)


def _read_int(data: bytes) -> int:
    """A number of up to 35 bits as it stands in a field of an integer type."""
    raw = data[0] & 0x7F
    for place in range(1, len(data)):
        raw |= (data[place] & 0x7F) << 7 * place
    return raw >> 1 ^ -(raw & 1)
