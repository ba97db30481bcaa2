"""The offsets of the pages of a column chunk and the least value of each, read from the page headers.

Headers are chained: each says where the next one is. A thousand of them are read in some milliseconds by a
pattern of the bytes that Parquet writers put there; a header that does not fit it is read field by field.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.postings import gaps
from tailbit.index.postings.gaps import FIRST
from tailbit.index.postings.layout import PAGE_ROWS, UUID_BYTES
from tailbit.index.postings.paged_forms import form_of
from tailbit.tables.arrow import arrow_array
from tailbit.tables.parquet.thrift import read_struct

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_DATA_HEADER, _STATISTICS, _LEAST = 5, 5, 6
"""Thrift field numbers: the data page header in a page header, its statistics, and their least value."""

_WIDTHS = {"INT32": 4, "INT64": 8, "FIXED_LEN_BYTE_ARRAY": UUID_BYTES}
"""Bytes of a value, by physical type; values of other types differ in length."""

_NO_VALUE = {"INT64": bytes(7) + b"\x80", "FIXED_LEN_BYTE_ARRAY": bytes(UUID_BYTES)}
"""A stand-in for the least value of a page that holds only nulls, which sort first."""


def _header(width: int | None) -> re.Pattern[bytes]:
    """Return a pattern of page headers; its groups: compressed size, number of values, and least value.

    The byte before a Thrift field holds the field's type, and its number minus that of the field before it.
    `width`: None for values of any length up to 127 bytes, whose least values the pattern does not tell.
    """
    number = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
    page = rb"\x15\x00\x15%(n)s\x15(%(n)s)\x15%(n)s\x1c\x15(%(n)s)\x15%(n)s\x15%(n)s\x15%(n)s"
    if width is None:
        return re.compile(page % {b"n": number} + rb"(\x1c(?:[\x16\x36]%s)?(\x28)?)?" % number, re.DOTALL)
    text = rb"%s.{%d}" % (re.escape(bytes([width])), width)
    former = rb"(?:\x18%(t)s\x18%(t)s)?(?:[\x16\x36]%(n)s)?"
    bounds = rb"(?:\x28%(t)s\x18(%(t)s)[\x11\x12]{0,2})?"
    whole = page + rb"\x1c" + former + bounds + rb"\x00\x00\x00"
    return re.compile(whole % {b"n": number, b"t": text}, re.DOTALL)


_HEADERS = {kind: _header(width) for kind, width in _WIDTHS.items()}


_NO_STATISTICS, _SOME_STATISTICS = b"\x00\x00", b"\x00\x00\x00"
"""The ends of a page header: of the data page header and the page header, and of statistics before these."""


@dataclass(frozen=True, eq=False)
class Pages:
    """The pages of a column chunk: `edges`, int64, their offsets in the file, one more than pages.

    `firsts`: int64, the first row of each page within the row group, then the number of rows. `lows`: the
    least value of each page, if the column has statistics: int64, binary of sixteen bytes, or binary.
    `width`: bytes of a value, or 0.
    """

    type: str
    codec: str
    width: int
    edges: Longs
    firsts: Longs
    lows: pa.Array

    @classmethod
    def of(cls, source: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> Pages:
        """Return the pages of a column chunk. Cost: reads the chunk.

        Raises:
            ValueError: a header is damaged, or there is a dictionary.
        """
        start, size, kind = chunk.data_page_offset, chunk.total_compressed_size, str(chunk.physical_type)
        data = source.read_at(size, start)
        edges, counts, lows = [0], [0], list[bytes]()
        offset, read = 0, _reader(kind)
        while offset < len(data):
            end, packed, count, low = read(data, offset) or _field_by_field(data, offset)
            offset = end + packed
            counts.append(count)
            lows.append(low)
            edges.append(offset)
        firsts = np.cumsum(counts)
        if firsts[-1] != chunk.num_values or offset != size:
            raise ValueError("pages do not add up to their column")
        edges_in_file = np.array(edges, dtype=np.int64) + start
        return cls(
            kind, str(chunk.compression), _WIDTHS.get(kind, 0), edges_in_file, firsts, _lows(lows, kind)
        )


_Header = tuple[int, int, int, bytes]
"""The end of a page header, the page's bytes behind it, its number of values, and its least value."""


def _reader(kind: str) -> Callable[[bytes, int], _Header | None]:
    """Return a function that reads the header at an offset, or returns None if the header is unusual."""
    pattern = _HEADERS.get(kind)

    def fixed(data: bytes, offset: int) -> _Header | None:
        match = pattern.match(data, offset) if pattern is not None else None
        if match is None:
            return None
        packed, many, low = match.groups()
        return match.end(), _number(packed), _number(many), low[1:] if low else b""

    return _read_varying if kind == "BYTE_ARRAY" else fixed


def _read_varying(data: bytes, offset: int) -> _Header | None:
    """Read the header of a page whose values vary in length, up to 127 bytes."""
    match = _VARYING.match(data, offset)
    if match is None:
        return None
    packed, many, statistics, bounds = match.groups()
    low, end, stop = b"", match.end(), _NO_STATISTICS if statistics is None else _SOME_STATISTICS
    if bounds is not None:
        least = end + 1 + data[end]
        begin = least + 2
        end = begin + data[least + 1]
        if data[match.end()] > 127 or data[least] != 0x18 or data[least + 1] > 127:
            return None
        low = data[begin:end]
        while data[end] in _EXACT:
            end += 1
    if not data.startswith(stop, end):
        return None
    return end + len(stop), _number(packed), _number(many), low


_VARYING = _header(None)
_EXACT = b"\x11\x12"
"""Fields of statistics that tell whether bounds are exact."""


def _field_by_field(data: bytes, offset: int) -> _Header:
    header, end = read_struct(data, offset)
    inner = header[_DATA_HEADER]
    return end, header[3], inner[1], inner.get(_STATISTICS, {}).get(_LEAST, b"")


def _number(raw: bytes) -> int:
    """Decode a varint in zigzag form whose number is not negative."""
    value = 0
    for place, byte in enumerate(raw):
        value |= (byte & 0x7F) << (7 * place)
    return value >> 1


def _lows(lows: list[bytes], kind: str) -> pa.Array:
    if kind not in _NO_VALUE:
        return arrow_array(lows, pa.binary())
    joined = b"".join([low or _NO_VALUE[kind] for low in lows])
    type_ = pa.int64() if kind == "INT64" else pa.binary(UUID_BYTES)
    return pa.Array.from_buffers(type_, len(lows), [None, pa.py_buffer(joined)])


class Group:
    """The pages of the columns of a row group, each column's read on first use.

    `form`: how its keys are stored. `columns`: the columns that hold its positions: the first position alone
    if every key has one position.
    """

    def __init__(self, group: pq.RowGroupMetaData, key_type: str) -> None:
        self._chunks = {
            group.column(leaf).path_in_schema: group.column(leaf) for leaf in range(group.num_columns)
        }
        self.form = form_of(self._chunks, key_type)
        many, nowhere = self._chunks["cardinality"].statistics, self._chunks[FIRST].statistics
        single = many is not None and nowhere is not None and many.max == 1 and nowhere.null_count == 0
        self.columns = (FIRST,) if single else ("cardinality", "bitmap", *gaps.COLUMNS)
        self.rows = int(group.num_rows)
        self._decoded, self._due, self._several = 0, self.many, False
        self._pages: dict[str, Pages] = {}

    @property
    def name(self) -> str:
        """Return the column that holds the keys."""
        return self.form.value

    def pages(self, source: pa.NativeFile, name: str) -> Pages:
        """Return the pages of a column, whose `firsts` are those of the keys' pages if they are equal.

        Cost: reads the column, once.
        """
        pages = self._pages.get(name)
        if pages is None:
            pages = Pages.of(source, self._chunks[name])
            keys = pages if name == self.name else self.pages(source, self.name)
            if np.array_equal(pages.firsts, keys.firsts):
                pages = replace(pages, firsts=keys.firsts)
            self._pages[name] = pages
        return pages

    def read_keys(self, source: pa.NativeFile) -> Pages:
        """Return the pages of the keys, read if they have not been."""
        return self.pages(source, self.name)

    @property
    def key_pages(self) -> Pages:
        """Return the pages of the keys, which have been read."""
        return self._pages[self.name]

    def pays_whole(self, pages: int, roomy: bool) -> bool:
        """Return whether to decode the row group whole rather than some of its pages, and count these.

        It is decoded whole if that costs less; or, if the cache has room for it (`roomy`), for the second
        lookup that asks for several pages, and once lookups have asked for many, since more lookups will.
        Then the count begins anew, should the cache not keep the row group, and must reach twice as far.
        """
        several = pages > 1
        often = (self._several and several) or self._decoded * _OFTEN > self._due
        if not (roomy and often) and pages * _A_PAGE <= self.many:
            self._decoded += pages
            self._several |= several
            return False
        self._decoded, self._due, self._several = 0, 2 * self._due, False
        return True

    @property
    def many(self) -> int:
        """Return the number of pages of a column."""
        return -(-self.rows // PAGE_ROWS)

    @property
    def size(self) -> int:
        """Return the bytes of memory that the places of all columns take, about."""
        return _PLACE_BYTES * self.many


_A_PAGE = 2
"""More pages than half of a row group cost more by themselves than the row group as a whole."""

_OFTEN = 4
"""A row group of which lookups have asked for more than a quarter is decoded whole and cached.

The whole row group costs about as much as all of its pages, each by itself, whatever its keys are: lookups
have paid a quarter of it by then.
"""

_PLACE_BYTES = 200
"""Bytes of memory that the places of one page of each column take, about."""
