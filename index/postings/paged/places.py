"""The offsets of the pages of a column chunk and the least value of each, read from the page headers.

Headers are chained: each says where the next one is. A thousand of them are read in some milliseconds by a
pattern of the bytes that Parquet writers put there; a header that does not fit it is read field by field.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.imports.dataclass import dataclass
from tailbit.index.postings.gaps import FIRST
from tailbit.index.postings.layout import UUID_BYTES
from tailbit.index.postings.paged_forms import Form, Lows, form_of
from tailbit.tables.parquet.thrift import read_struct

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_DATA_HEADER, _STATISTICS, _LEAST = 5, 5, 6
"""Thrift field numbers: the data page header in a page header, its statistics, and their least value."""

_WIDTHS = {"INT32": 4, "INT64": 8, "FIXED_LEN_BYTE_ARRAY": UUID_BYTES}
"""Bytes of a value, by physical type."""

_NO_VALUE = {"INT64": bytes(7) + b"\x80", "FIXED_LEN_BYTE_ARRAY": bytes(UUID_BYTES)}
"""A stand-in for the least value of a page that holds only nulls, which sort first."""


def _header(width: int) -> re.Pattern[bytes]:
    """Return a pattern of page headers; its groups: compressed size, number of values, and least value.

    The byte before a Thrift field holds the field's type, and its number minus that of the field before it.
    """
    number = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
    text = rb"%s.{%d}" % (re.escape(bytes([width])), width)
    page = rb"\x15\x00\x15%(n)s\x15(%(n)s)\x15%(n)s\x1c\x15(%(n)s)\x15%(n)s\x15%(n)s\x15%(n)s"
    former = rb"(?:\x18%(t)s\x18%(t)s)?(?:[\x16\x36]%(n)s)?"
    bounds = rb"(?:\x28%(t)s\x18(%(t)s)[\x11\x12]{0,2})?"
    whole = page + rb"\x1c" + former + bounds + rb"\x00\x00\x00"
    return re.compile(whole % {b"n": number, b"t": text}, re.DOTALL)


_HEADERS = {kind: _header(width) for kind, width in _WIDTHS.items()}


@dataclass(frozen=True, eq=False)
class Pages:
    """The pages of a column chunk: `edges`, int64, their offsets in the file, one more than pages.

    `firsts`: int64, the first row of each page within the row group, then the number of rows. `lows`: the
    least value of each page: int64, texts of sixteen bytes, or bytes. `width`: bytes of a value, or 0.
    """

    type: str
    codec: str
    width: int
    edges: Longs
    firsts: Longs
    lows: Lows

    @classmethod
    def of(cls, source: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> Pages:
        """Return the pages of a column chunk. Cost: reads the chunk.

        Raises:
            ValueError: a header is damaged, or there is a dictionary.
        """
        start, size, kind = chunk.data_page_offset, chunk.total_compressed_size, str(chunk.physical_type)
        data = source.read_at(size, start)
        edges, counts, lows = [0], [0], list[bytes]()
        at, pattern, width = 0, _HEADERS.get(kind), _WIDTHS.get(kind, 0)
        while at < len(data):
            match = pattern.match(data, at) if pattern is not None else None
            if match is not None:
                packed, many, low = match.groups()
                at = match.end() + _number(packed)
                counts.append(_number(many))
                lows.append(low[1:] if low else b"")
            else:
                header, end = read_struct(data, at)
                inner = header[_DATA_HEADER]
                at = end + header[3]
                counts.append(inner[1])
                lows.append(inner.get(_STATISTICS, {}).get(_LEAST, b""))
            edges.append(at)
        firsts = np.cumsum(counts)
        if firsts[-1] != chunk.num_values or at != size:
            raise ValueError("pages do not add up to their column")
        edges_in_file = np.array(edges, dtype=np.int64) + start
        return cls(kind, str(chunk.compression), width, edges_in_file, firsts, _lows(lows, kind))


def _number(raw: bytes) -> int:
    """Decode a varint in zigzag form whose number is not negative."""
    value = 0
    for place, byte in enumerate(raw):
        value |= (byte & 0x7F) << (7 * place)
    return value >> 1


def _lows(lows: list[bytes], kind: str) -> Lows:
    if kind not in _NO_VALUE:
        return lows
    joined = b"".join([low or _NO_VALUE[kind] for low in lows])
    if kind == "INT64":
        return np.frombuffer(joined, dtype="<i8")
    return np.frombuffer(joined, dtype=f"S{UUID_BYTES}")


class Group(NamedTuple):
    """The pages of three columns of a row group: keys, first positions, and numbers of positions.

    `form`: how its keys are stored. `counts`: None if every key has one position, so that the numbers of
    positions need not be read.
    """

    form: Form
    keys: Pages
    firsts: Pages
    counts: Pages | None

    @classmethod
    def of(cls, source: pa.NativeFile, group: pq.RowGroupMetaData, key_type: str) -> Group:
        """Return the pages of a row group of a file.

        Raises:
            ValueError: the columns' pages do not begin at the same rows, or are damaged.
        """
        leaves = {group.column(leaf).path_in_schema: group.column(leaf) for leaf in range(group.num_columns)}
        form = form_of(leaves, key_type)
        keys, firsts = (Pages.of(source, leaves[name]) for name in (form.value, FIRST))
        many, nowhere = leaves["cardinality"].statistics, leaves[FIRST].statistics
        single = many is not None and nowhere is not None and many.max == 1 and nowhere.null_count == 0
        counts = None if single else Pages.of(source, leaves["cardinality"])
        others = [firsts] if counts is None else [firsts, counts]
        if not all(np.array_equal(keys.firsts, other.firsts) for other in others):
            raise ValueError("pages of one row group hold other rows each")
        return cls(form, keys, firsts, counts)

    @property
    def size(self) -> int:
        """Return the bytes of memory that these places take, about."""
        return _PLACE_BYTES * len(self.keys.firsts)


_PLACE_BYTES = 120
"""Bytes of memory that the place of a page takes, about."""
