"""The layout of a data file: where its pages lie, and which rows each page holds.

Pages are found by reading their own headers, one read per page, so this works for files of every writer, with
or without a page index, and the row counts are those that a reader of the page sees. Layouts are cached for
the process: a data file does not change, and files of the same name differ in size, time or inode.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.once import once
from tailbit.tables.cache import Cache, share
from tailbit.tables.parquet.file import ParquetNode
from tailbit.tables.parquet.thrift import read_struct
from tailbit.tables.storage import Stat, Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_V1_HEADER, _DICTIONARY_HEADER, _V2_HEADER = 5, 7, 8
_CODED = (2, 8)
"""PLAIN_DICTIONARY and RLE_DICTIONARY."""
_HEADER, _LONG_HEADER = 256, 1 << 16
"""Bytes that hold most page headers, and bytes that hold all but those with long statistics."""
_INT = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
_SIZES = rb"\x15" + _INT + rb"\x15" + _INT
_CHECKSUM = rb"(?:%b|\x15[\x80-\xff]{0,4}[\x00-\x7f]%b)"
_DATA_OWN = _CHECKSUM % (b"\x2c", b"\x1c") + rb"\x15" + _INT + rb"\x15([\x00-\x7f])\x15.\x15.\0"
_DICTIONARY_OWN = _CHECKSUM % (b"\x4c", b"\x3c") + rb"\x15" + _INT + rb"\x15([\x00-\x7f])[\x11\x12]?\0"
_USUAL_DATA = re.compile(rb"\x15\x00" + _SIZES + _DATA_OWN + rb"\0", re.DOTALL)
_USUAL_DICTIONARY = re.compile(rb"\x15\x04" + _SIZES + _DICTIONARY_OWN + rb"\0", re.DOTALL)
"""Page headers in Thrift's compact protocol: version 1 data pages without statistics, dictionary pages.

They hold sizes, an optional checksum, the value count and the encodings. Other headers are read field by
field, at thirty times the cost.
"""


class DictionaryPage(NamedTuple):
    """A dictionary page: its offsets, decompressed bytes with header, offset of its `body`, value count."""

    start: int
    end: int
    unpacked: int
    body: int
    values: int


@dataclass(frozen=True, eq=False)
class Pages:
    """The pages of one column chunk without repeated values.

    `starts`, `ends`: the offsets of each data page in the file, header included. `firsts`: the first row of
    each page in the row group, and the row count of the group as the last item. `unpacked`: decompressed
    bytes of each page, header included. `coded`: whether each page holds dictionary codes. `dictionary`: None
    if there is none. `same_rows`: equal for chunks whose pages hold the same rows.

    Example: pages of 3, 2 and 4 rows have `firsts` 0 3 5 9; rows 1 and 6 are in pages 0 and 2, and those two
    pages alone have `firsts` 0 3 7.
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
        """Return the numbers of the pages that hold the given rows (ascending, of the row group)."""
        return np.flatnonzero(np.diff(np.searchsorted(rows, self.firsts)))

    def of(self, numbers: Longs) -> Pages:
        """Select pages by ascending number, numbered as if the chunk had no others."""
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
    """A column chunk according to the footer.

    `start`: the offset of its first page. `data`: bytes from there to its first data page. `packed`,
    `unpacked`: its bytes in the file and decompressed. `coded`: whether it has a dictionary.
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
    """The layout of a data file whose footer has been checked.

    `head`: the bytes of the footer that hold version and schema. `starts`: the first row of each row group,
    and the row count of the file as the last item. `number`: unique per layout, so caches keyed by it do not
    keep the footer alive. `bounds`: cached statistics per column (see `bounds`). `derived`: cached results of
    column lookups (see `data_file`) and the like. `cached`: whether this process holds the layout for later
    reads, and with it what else is found out about the file.
    """

    metadata: pq.FileMetaData
    tree: ParquetNode
    head: bytes
    starts: Longs
    number: int = field(default_factory=itertools.count().__next__)
    bounds: dict[str, Any] = field(default_factory=dict, repr=False)
    derived: dict[tuple[object, ...], Any] = field(default_factory=dict, repr=False)
    cached: bool = False
    _chunks: dict[tuple[int, int], Chunk] = field(default_factory=dict, repr=False)
    _pages_found: dict[tuple[int, int], tuple[Pages | None]] = field(default_factory=dict, repr=False)

    @once
    def form(self) -> tuple[object, ...]:
        """Return a key that is equal for files decoded alike: same schema, same writer, same metadata."""
        texts = frozenset((self.metadata.metadata or {}).items())
        try:
            writer: object = self.metadata.created_by
        except UnicodeDecodeError:
            writer = self.number
        return self.head, writer, texts

    def groups_of(self, positions: npt.NDArray[np.uint64]) -> Longs:
        """Return the number of the row group of each position."""
        return np.searchsorted(self.starts[1:], positions.view(np.int64), side="right")

    def groups_with(self, positions: npt.NDArray[np.uint64] | None) -> Sequence[int]:
        """Return the row groups that hold any of the ascending positions; None: every non-empty group."""
        starts = self.starts if positions is None else np.searchsorted(positions.view(np.int64), self.starts)
        groups: list[int] = np.flatnonzero(np.diff(starts)).tolist()
        return groups

    def positions(self, groups: Iterable[int]) -> npt.NDArray[np.uint64]:
        """Return all positions of some row groups."""
        ranges = [np.arange(self.starts[group], self.starts[group + 1], dtype=np.uint64) for group in groups]
        return np.concatenate([np.zeros(0, np.uint64), *ranges])

    def chunk(self, group: int, leaf: int) -> Chunk:
        """Return a column chunk of a row group, cached: pyarrow creates several objects per access."""
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
        """Return the pages of a column chunk, cached; None if undeterminable. Cost: one read per page."""
        key = (self.number, group, leaf)
        cached = _PAGES.cached(key) if self.cached else self._pages_found.get((group, leaf))
        if cached is None:
            try:
                cached = (_find_pages(source, self, group, leaf),)
            except (ValueError, KeyError, TypeError, AttributeError, OSError):
                cached = (None,)
            if self.cached:
                _PAGES.hold(key, cached, 1 if cached[0] is None else _OF_A_CHUNK + len(cached[0].starts))
            else:
                self._pages_found[group, leaf] = cached
        return cached[0]


_LAYOUTS: Cache[tuple[Storage, str, Stat], Layout] = Cache(share(1 / 8))
"""Layouts by store, name and stat."""
_PARSED = 12
"""Bytes of memory per byte of a footer; nine of these bytes are pyarrow's objects."""
_PAGES: Cache[tuple[int, int, int], tuple[Pages | None]] = Cache(share(1 / 32) // 50)
"""Pages by layout number, row group and leaf, in units of 50 bytes, of which a page takes one."""
_OF_A_CHUNK = 26
"""Units that a chunk takes besides its pages: the objects of its arrays."""

CACHES = (_LAYOUTS, _PAGES)
"""The caches of data file layouts and pages."""


def known_layout(storage: Storage, name: str, stat: Stat) -> Layout | None:
    """Return the cached layout of a file in exactly this state, or None."""
    return _LAYOUTS.cached((storage, name, stat))


def layout_of(metadata: pq.FileMetaData, tree: ParquetNode, head: bytes, cached: bool = False) -> Layout:
    """Return the layout of a file from its checked footer; `cached`: the caller caches it."""
    rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return Layout(metadata, tree, head, np.concatenate([[0], np.cumsum(rows, dtype=np.int64)]), cached=cached)


def keep_layout(
    storage: Storage, name: str, stat: Stat, metadata: pq.FileMetaData, tree: ParquetNode, head: bytes
) -> Layout:
    """Cache the layout of a file whose footer has been checked."""
    layout = layout_of(metadata, tree, head, cached=True)
    return _LAYOUTS.hold((storage, name, stat), layout, 1 + _PARSED * metadata.serialized_size)


def _find_pages(source: pa.NativeFile, layout: Layout, group: int, leaf: int) -> Pages | None:
    """Find the pages of a chunk header by header; None for repeated values or inconsistent headers."""
    metadata = layout.metadata
    if metadata.schema.column(leaf).max_repetition_level:
        return None
    rows, chunk = metadata.row_group(group).num_rows, layout.chunk(group, leaf)
    offset, end = chunk.start, chunk.start + chunk.packed
    dictionary: DictionaryPage | None = None
    pages: list[tuple[int, int, int, int, bool]] = []
    while offset < end:
        header, size = _header(source, offset, end)
        if header[2] < 0 or header[3] < 0:
            return None
        after, unpacked = offset + size + header[3], size + header[2]
        if header[1] == _DICTIONARY and dictionary is None and not pages:
            values = header[_DICTIONARY_HEADER][1]
            dictionary = DictionaryPage(offset, after, unpacked, offset + size, values)
        elif header[1] in (_DATA, _DATA_V2):
            inner = header[_V1_HEADER if header[1] == _DATA else _V2_HEADER]
            encoding = inner[2] if header[1] == _DATA else inner[4]
            pages.append((offset, after, inner[1], unpacked, encoding in _CODED))
        else:
            return None
        offset = after
    if offset != end or min((page[2] for page in pages), default=0) < 0:
        return None
    starts, ends, counts, sizes, coded = (np.array(field_values) for field_values in zip(*pages, strict=True))
    firsts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    if int(firsts[-1]) != rows or chunk.values != rows:
        return None
    return Pages(starts, ends, firsts, sizes, coded, dictionary, firsts.tobytes())


def _header(source: pa.NativeFile, offset: int, end: int) -> tuple[dict[int, Any], int]:
    """Read the header of a page; return its fields and its length in bytes."""
    data = source.read_at(min(_HEADER, end - offset), offset)
    type_, inner, usual = _DATA, _V1_HEADER, _USUAL_DATA.match(data)
    if usual is None:
        type_, inner, usual = _DICTIONARY, _DICTIONARY_HEADER, _USUAL_DICTIONARY.match(data)
    if usual is not None:
        unpacked, packed, values, encoding = map(_read_int, usual.groups())
        return {1: type_, 2: unpacked, 3: packed, inner: {1: values, 2: encoding}}, usual.end()
    try:
        return read_struct(data, 0)
    except ValueError:
        return read_struct(source.read_at(min(_LONG_HEADER, end - offset), offset), 0)


def _read_int(data: bytes) -> int:
    """Decode an integer field of up to 35 bits: zigzag varint."""
    raw = data[0] & 0x7F
    for place in range(1, len(data)):
        raw |= (data[place] & 0x7F) << 7 * place
    return raw >> 1 ^ -(raw & 1)
