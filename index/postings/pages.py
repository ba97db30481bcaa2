"""Lookups of many keys in the small pages of a paged segment: only pages that may hold a key are decoded.

Of each row group the places of the pages are cached, and the least key of each page. The pages that the
wanted keys fall into, of all row groups together, are put one after the other as one small Parquet file in
memory, which pyarrow decodes at once.

Worked example: two row groups with pages of two keys, and the wanted keys 3, 8 and 9.

    row group        0               1
    pages            1 3 | 4 6       7 9 | 12 15
    decoded          1 3             7 9            8 is nowhere
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.errors import CorruptIndexError
from tailbit.index.keys import ordered_of
from tailbit.index.postings.gaps import FIRST
from tailbit.index.postings.layout import NUMBER, is_numbered
from tailbit.index.postings.segment import POSTINGS, Segment
from tailbit.once import lazy
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.parquet.file import MAGIC, arrow_buffer
from tailbit.tables.parquet.row_assembly.footer import (
    written_chunk,
    written_end,
    written_leaf,
    written_row_group,
)
from tailbit.tables.parquet.thrift import read_struct
from tailbit.tables.positions import BitPositions

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = lazy("pyarrow.parquet")

_DATA_HEADER, _STATISTICS, _LEAST = 5, 5, 6
"""Fields of Thrift: a data page's header in that of a page, its statistics, and the least value there."""

_LEAST_NUMBER = bytes(7) + b"\x80"
"""What stands for the least value of a page of nulls, which sort first."""

_WHOLE = 8
"""A chunk is read as a whole if an eighth of its pages or more is wanted."""


@dataclass(frozen=True, eq=False)
class Pages:
    """Where the pages of a column chunk lie: `edges` in the file, one more than pages.

    `firsts`: int64, the row of the row group with which each page begins, and the number of rows. `lows`: the
    least value of each page, int64 or bytes.
    """

    type: str
    codec: str
    edges: list[int]
    firsts: Longs
    lows: Longs | list[bytes]

    @classmethod
    def of(cls, source: pa.NativeFile, chunk: pq.ColumnChunkMetaData) -> Pages:
        """Return the pages of a chunk of a file. Cost: the chunk is read.

        Raises:
            ValueError: a header is damaged, or there is a dictionary.
        """
        start, size = chunk.data_page_offset, chunk.total_compressed_size
        data = source.read_at(size, start)
        edges, firsts, lows = [0], [0], list[bytes]()
        while edges[-1] < len(data):
            header, at = read_struct(data, edges[-1])
            inner = header[_DATA_HEADER]
            edges.append(at + header[3])
            firsts.append(firsts[-1] + inner[1])
            lows.append(inner.get(_STATISTICS, {}).get(_LEAST, b""))
        if firsts[-1] != chunk.num_values or edges[-1] != size:
            raise ValueError("pages do not add up to their column")
        kind = str(chunk.physical_type)
        least: Longs | list[bytes] = lows
        if kind == "INT64":
            least = np.frombuffer(b"".join(low or _LEAST_NUMBER for low in lows), dtype="<i8")
        return cls(kind, str(chunk.compression), [start + edge for edge in edges], np.array(firsts), least)

    def of_keys(self, wanted: Any) -> Longs:
        """Return the numbers of the pages that may hold some keys, ascending: int64 or a list of bytes."""
        if isinstance(self.lows, list):
            at = np.array([bisect_right(self.lows, key) for key in wanted], dtype=np.int64) - 1
        else:
            at = np.searchsorted(self.lows, wanted, side="right") - 1
        return np.unique(np.maximum(at, 0))


class Decoder:
    """Pages of some columns, put together and decoded as one row group."""

    def __init__(self, columns: Sequence[tuple[str, Pages]]) -> None:
        self._columns = columns
        self._parts: list[list[bytes | memoryview]] = [[] for _ in columns]
        self.rows = 0

    def add(self, source: pa.NativeFile, pages: Sequence[Pages], numbers: Longs) -> None:
        """Add some pages of a row group; `pages`: of each column, with the same rows."""
        for parts, own in zip(self._parts, pages, strict=True):
            parts += _read(source, own, numbers)
        firsts = pages[0].firsts
        self.rows += int((firsts[numbers + 1] - firsts[numbers]).sum())

    def table(self) -> pa.Table:
        """Return the decoded columns of all pages."""
        head, chunks, leaves = len(MAGIC), list[bytes](), list[bytes]()
        body: list[bytes | memoryview] = [MAGIC]
        for (name, pages), parts in zip(self._columns, self._parts, strict=True):
            size = sum(map(len, parts))
            chunks.append(written_chunk(pages.type, pages.codec, self.rows, size, size, head, None))
            leaves.append(written_leaf(name, pages.type, True))
            body += parts
            head += size
        group = written_row_group(chunks, head, self.rows)
        body.append(written_end(leaves, [group], self.rows))
        file = pq.ParquetFile(pa.BufferReader(arrow_buffer(body)), page_checksum_verification=True)
        return file.read(use_threads=self.rows > 1 << 16)


def _read(source: pa.NativeFile, pages: Pages, numbers: Longs) -> Iterator[bytes | memoryview]:
    """Yield the bytes of some pages, ascending, in pieces."""
    runs = list(_runs(pages.edges, numbers.tolist()))
    if len(numbers) * _WHOLE < len(pages.edges) - 1:
        for a, b in runs:
            yield source.read_at(b - a, a)
        return
    low, high = runs[0][0], runs[-1][1]
    data = memoryview(source.read_at(high - low, low))
    for a, b in runs:
        yield data[a - low : b - low]


def _runs(edges: list[int], numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield where the runs of neighbouring pages begin and end in the file. No arrays: pages are few."""
    begin = end = numbers[0]
    for number in numbers:
        if number > end:
            yield edges[begin], edges[end]
            begin = number
        end = number + 1
    yield edges[begin], edges[end]


class _Group(NamedTuple):
    """The pages of a row group: of the keys, of the first positions, and of the numbers of positions.

    `single`: every key has one position, so that the numbers of positions need not be read.
    """

    keys: Pages
    firsts: Pages
    counts: Pages
    single: bool

    @classmethod
    def of(cls, source: pa.NativeFile, group: pq.RowGroupMetaData, numbered: bool) -> _Group:
        """Return the pages of a row group of a file.

        Raises:
            ValueError: pages of these columns hold other rows each, or are damaged.
        """
        leaves = {group.column(leaf).path_in_schema: group.column(leaf) for leaf in range(group.num_columns)}
        names = (NUMBER if numbered else "key", FIRST, "cardinality")
        keys, firsts, counts = (Pages.of(source, leaves[name]) for name in names)
        if not all(np.array_equal(keys.firsts, other.firsts) for other in (firsts, counts)):
            raise ValueError("pages of one row group hold other rows each")
        many, nowhere = leaves["cardinality"].statistics, leaves[FIRST].statistics
        single = many is not None and nowhere is not None and many.max == 1 and nowhere.null_count == 0
        return cls(keys, firsts, counts, single)


def placed(
    segment: Segment, column: str, spans: Sequence[tuple[int, int, int]], codes: pa.BinaryArray
) -> tuple[Longs, BitPositions]:
    """Return the positions of some keys, and for each position the number (int64) of its key in `codes`.

    `codes`: distinct keys, ascending; `spans`: row group, and the keys `[low, high)` that may be in it.
    Cost: the pages that the keys fall into; whole row groups for keys of several positions.

    Raises:
        CorruptIndexError: the segment is damaged.
    """
    numbered = is_numbered(segment.columns[column])
    wanted = numpy_of(ordered_of(codes)) if numbered else codes.to_pylist()
    try:
        with segment.source() as source:
            groups = [_group_of(segment, source, number, numbered) for number, *_ in spans]
            single = all(group.single for group in groups)
            own = [group[:2] if single else group[:3] for group in groups]
            decoder = Decoder(list(zip(_NAMES, own[0], strict=False)))
            for pages, (_, low, high) in zip(own, spans, strict=True):
                decoder.add(source, pages, pages[0].of_keys(wanted[low:high]))
        rows = decoder.table()
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError) as damage:
        raise CorruptIndexError(file=segment.path, reason=str(damage)) from damage
    owners, at = _matched(rows["key"].combine_chunks(), wanted, codes)
    positions = _taken(rows[FIRST], at)
    if single:
        return owners, positions.astype(np.uint32)
    alone = _taken(rows["cardinality"], at) == 1
    alone &= numpy_of(rows[FIRST].is_valid())[at]
    several = np.sort(owners[~alone])
    parts = [
        (owners[alone], positions[alone].astype(np.uint32)),
        *_of_several(segment, spans, codes, several),
    ]
    return np.concatenate([part for part, _ in parts]), np.concatenate([part for _, part in parts])


_NAMES = ("key", FIRST, "cardinality")


def _group_of(segment: Segment, source: pa.NativeFile, number: int, numbered: bool) -> _Group:
    def read() -> tuple[_Group, int]:
        group = _Group.of(source, segment.footer.row_group(number), numbered)
        return group, _PAGE_BYTES * len(group.keys.edges)

    held: _Group = POSTINGS.get((f"{segment.name}#pages", number), read)
    return held


_PAGE_BYTES = 120
"""Bytes of memory that the places of a page take, with its least key, about."""


def _matched(keys: pa.Array, wanted: Any, codes: pa.BinaryArray) -> tuple[Longs, Longs]:
    """Return the numbers of the wanted keys that there are, and their rows; int64."""
    if isinstance(wanted, list):
        found = numpy_of(filled(pc.index_in(keys, value_set=codes), -1), dtype=np.int64)
        at = np.flatnonzero(found >= 0)
        return found[at], at
    begin = keys.null_count
    numbers = numpy_of(keys.slice(begin))
    if not len(numbers):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    there = np.flatnonzero(numbers[at] == wanted)
    return there, at[there] + begin


def _taken(column: pa.ChunkedArray, at: Longs) -> Longs:
    return numpy_of(filled(column.combine_chunks(), 0))[at].astype(np.int64)


def _of_several(
    segment: Segment, spans: Sequence[tuple[int, int, int]], codes: pa.BinaryArray, several: Longs
) -> Iterator[tuple[Longs, BitPositions]]:
    """Yield the positions of keys by row groups; `several`: numbers of the keys, ascending."""
    for number, low, high in spans:
        mine = several[(several >= low) & (several < high)]
        if len(mine):
            (group,) = segment.in_order([number])
            owners, at = group.placed(codes.take(arrow_array(mine)))
            yield mine[owners], at
