"""Lookups of many keys in a segment: by tables of whole row groups, or by those pages that may hold a key.

A row group becomes a table of sorted keys, which is cached, if a lookup asks for most of its pages, or once
lookups have asked for some of them before. Otherwise the pages that may hold wanted keys, of neighbouring row
groups together, are joined to one small Parquet file in memory, which pyarrow decodes at once; and after that
the positions in those pages in which keys were found. No step is taken key by key. Only segments of record
keys have small pages; of other segments, every row group that may hold a key becomes a table.

Worked example: two row groups with pages of two keys, and the wanted keys 3, 8 and 9.

    row group        0               1
    pages            1 3 | 4 6       7 9 | 12 15
    decoded          1 3             7 9            8 is nowhere

A table of sorted keys with their positions, by which many keys are looked up at once.

It holds a row group of postings, or the keys of some of its pages. Positions of sparse keys lie one after the
other; a dense key has its bitmap, which is decoded for wanted keys alone, all bitmaps together.

Worked example: the keys 3, 5 and 9; 5 is dense.

    keys         3        5         9
    ends      0      2         2         3
    positions    4 17               8
    bitmaps               {0 1 2 3}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, pairwise
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.index.keys import ordered_of
from tailbit.index.postings.gaps import FIRST, Gaps
from tailbit.index.postings.layout import NUMBER, PAGE_ROWS, is_numbered
from tailbit.index.postings.paged_forms import Form
from tailbit.index.postings.pages import Group, Pages
from tailbit.index.postings.segment import CACHE_BYTES, POSTINGS, Segment
from tailbit.index.postings.sorted_keys import LookupKeys, SortedKeys
from tailbit.index.roaring.containers import ranges
from tailbit.index.roaring.decode import positions_of
from tailbit.tables import compute as pc
from tailbit.tables.ahead import in_order
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.parquet.assembly import Assembly, written_leaf
from tailbit.tables.parquet.file import ParquetFile
from tailbit.tables.positions import BitPositions, bitmap_of

_LARGE = 4096
"""Bitmaps of more positions are united sooner than their positions."""

Placed = tuple[Longs, BitPositions]
"""Keys and positions, an entry per pair of them; a key is given by its index among the wanted keys."""


class _Bitmaps(NamedTuple):
    """Serialized bitmaps: `of`, int32, per key the number of its bitmap, or -1; `counts`: their positions."""

    of: npt.NDArray[np.int32]
    data: pa.BinaryArray
    counts: Longs


class PositionLists(NamedTuple):
    """The positions of some keys, by the number of the key.

    `ends`: int32, one more than keys, where the positions of each key begin and end; None if every key has
    one position. `rows`: the row count of the row space.
    """

    ends: npt.NDArray[np.int32] | None
    positions: BitPositions
    bitmaps: _Bitmaps | None
    rows: int

    @classmethod
    def of(cls, postings: pa.Table, rows: int) -> PositionLists:
        """Decode rows of a segment; without the column `cardinality`, each key has one position.

        Raises:
            ValueError: positions are damaged.
        """
        if "cardinality" not in postings.column_names:
            first = numpy_of(filled(postings[FIRST].combine_chunks(), -1))
            if len(first) and not 0 <= int(first.min()) <= int(first.max()) < rows:
                raise ValueError(f"a position is not among the {rows} rows")
            return cls(None, first.view(np.uint32), None, rows)
        cardinality = numpy_of(postings["cardinality"], dtype=np.int64)
        sparse = FIRST in postings.column_names
        gaps = Gaps.of(postings, cardinality, rows) if sparse else Gaps.none(len(postings), rows)
        ends = np.zeros(len(postings) + 1, dtype=np.int32)
        np.cumsum(gaps.counts, out=ends[1:])
        bitmaps = None if gaps.is_sparse.all() else _bitmaps(postings, gaps, cardinality)
        return cls(ends, gaps.positions(0, len(postings)), bitmaps, rows)

    @property
    def size(self) -> int:
        """Return the bytes of memory that the lists take."""
        ends = 0 if self.ends is None else self.ends.nbytes
        bitmaps = 0 if self.bitmaps is None else self.bitmaps.of.nbytes + self.bitmaps.data.nbytes
        return ends + self.positions.nbytes + bitmaps

    def placed(self, owners: Longs, keys: Longs) -> Placed:
        """Return the positions of the keys with the numbers `keys`, each with its owner."""
        if self.ends is None:
            return owners, self.positions[keys]
        counts = (self.ends[keys + 1] - self.ends[keys]).astype(np.int64)
        positions = self.positions[ranges(self.ends[keys].astype(np.int64), counts)]
        listed = np.repeat(owners, counts)
        if self.bitmaps is None:
            return listed, positions
        numbers = self.bitmaps.of[keys]
        dense = numbers >= 0
        data = pc.take(self.bitmaps.data, arrow_array(numbers[dense]))
        many = self.bitmaps.counts[numbers[dense]]
        decoded = positions_of(data, many, self.rows)
        return np.concatenate([listed, np.repeat(owners[dense], many)]), np.concatenate([positions, decoded])

    def covered(self, _: Longs, keys: Longs) -> list[BitMap]:
        """Return bitmaps whose union is that of the keys with the numbers `keys`."""
        large = np.zeros(len(keys), dtype=np.bool_)
        if self.bitmaps is not None:
            numbers = self.bitmaps.of[keys]
            large = (numbers >= 0) & (self.bitmaps.counts[numbers] > _LARGE)
        bitmaps = [self._bitmap(number) for number in numbers[large].tolist()] if large.any() else []
        return [*bitmaps, bitmap_of(self.placed(keys[~large], keys[~large])[1])]

    def _bitmap(self, number: int) -> BitMap:
        assert self.bitmaps is not None
        bits = BitMap.deserialize(self.bitmaps.data[number].as_py())
        if len(bits) != self.bitmaps.counts[number] or bits.max() >= self.rows:
            raise ValueError("a bitmap has other positions than are recorded")
        return bits


class KeyTable(NamedTuple):
    """The keys of a row group and their positions; NULL's posting is left out."""

    keys: SortedKeys
    lists: PositionLists

    @classmethod
    def of(cls, postings: pa.Table, rows: int) -> KeyTable:
        """Decode a row group of a segment, whose first column has the keys as they are stored.

        `rows`: the row count of the row space.
        """
        own = postings.slice(postings[0].null_count)
        return cls(SortedKeys.of(own[0].combine_chunks()).with_filters(), PositionLists.of(own, rows))

    @property
    def size(self) -> int:
        """Return the bytes of memory that the table takes."""
        return self.keys.size + self.lists.size


def _bitmaps(postings: pa.Table, gaps: Gaps, cardinality: Longs) -> _Bitmaps:
    dense = ~gaps.is_sparse
    of = np.where(dense, np.cumsum(dense) - 1, -1).astype(np.int32)
    data = pc.filter(postings["bitmap"].combine_chunks(), arrow_array(dense))
    if data.null_count:
        raise ValueError("a posting has two forms, or none")
    return _Bitmaps(of, data, cardinality[dense])


_BATCH_PAGES = 1 << 9
"""Pages that are decoded together: enough to pay for a thread."""

_NEAR = 1 << 14
"""Up to this many bytes between wanted pages are read with them, which costs no more than another read."""

_A_KEY = 16
"""Bytes of memory that a key with its positions takes in a table, about."""

_FEW = 1 << 16
"""Wanted keys that are found in cached tables sooner than by several threads."""

T = TypeVar("T")

_NOTHING: Placed = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint32))


class _Span(NamedTuple):
    """A row group `number` that may hold the wanted keys `[low, high)`."""

    number: int
    low: int
    high: int


class _Chosen(NamedTuple):
    """Some pages of a row group, ascending, that may hold the wanted keys of a span."""

    span: _Span
    group: Group
    pages: Longs

    @property
    def kind(self) -> tuple[object, ...]:
        """Return what row groups must share so that their pages can be decoded together."""
        return self.group.form, self.group.columns


def placed(segment: Segment, column: str, keys: LookupKeys) -> Placed:
    """Return (key, position) pairs as two arrays; a key is given by its index (int64) in `keys`.

    Cost: the pages that the keys fall into, unless their row groups are cached; a binary search of each key.
    """
    owners, positions = zip(_NOTHING, *_looked_up(segment, column, keys, PositionLists.placed), strict=True)
    return np.concatenate(owners), np.concatenate(positions)


def covered(segment: Segment, column: str, keys: LookupKeys) -> list[BitMap]:
    """Return bitmaps whose union is that of the postings of some keys.

    Cost: that of `placed`; bitmaps of many positions are not decoded to positions.
    """
    return list(chain.from_iterable(_looked_up(segment, column, keys, PositionLists.covered)))


def decoding(segment: Segment, column: str, targets: LookupKeys) -> float:
    """Estimate the ms of CPU that a lookup of many keys takes to decode what later lookups find cached.

    That are the row groups that it decodes whole, and where the pages of others begin.
    """
    total = 0.0
    for number, low, high in _spans(segment, column, targets):
        if not _holds_table(segment, number):
            whole = segment.keys_of(number) * _key_cost(segment, column, number)
            if not segment.is_paged or _pays_unseen(segment, number, high - low):
                total += whole
            elif not _holds_pages(segment, number):
                total += whole / _HEADERS
    return total


_HEADERS = 4
"""To find out where the pages of a row group begin costs a quarter of what it costs to decode it, or less."""


def _spans(segment: Segment, column: str, targets: LookupKeys) -> list[_Span]:
    """Return the row groups that may hold wanted keys; looked for once."""
    place = segment.name, column
    if place not in targets.spans:
        targets.spans[place] = segment.spans(column, targets.codes)
    return [_Span(*span) for span in targets.spans[place]]


_PLACED, _BYTES, _LISTED = 4e-5, 8e-5, 1e-4
"""Milliseconds to decode a key and its only position; more for bytes as a key, and for several positions."""


def _key_cost(segment: Segment, column: str, number: int) -> float:
    """Estimate the ms of CPU to decode a key of a row group with its positions."""
    if not segment.is_paged:
        return _PLACED + _BYTES + _LISTED
    group = Group(segment.footer.row_group(number), segment.columns[column])
    return _PLACED + _BYTES * (group.form is Form.TEXT) + _LISTED * (len(group.columns) > 1)


def _looked_up(
    segment: Segment, column: str, keys: LookupKeys, answer: Callable[[PositionLists, Longs, Longs], T]
) -> list[T]:
    """Return what `answer` makes of the positions of the keys that are found, some row groups at a time.

    `answer`: a function of lists, the indices of wanted keys, and the numbers of their lists.
    """
    try:
        return list(_answers(segment, column, _spans(segment, column, keys), keys, answer))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError) as damage:
        raise CorruptIndexError(file=segment.path, reason=str(damage)) from damage


def _answers(
    segment: Segment,
    column: str,
    spans: Sequence[_Span],
    keys: LookupKeys,
    answer: Callable[[PositionLists, Longs, Longs], T],
) -> Iterator[T]:
    """Yield what is found in cached tables, in row groups that are decoded whole, and in single pages."""
    whole, chosen = list[_Span](), list[_Chosen]()
    roomy = segment.weight(column)[0] * _A_KEY <= CACHE_BYTES // 2
    for span in spans:
        is_whole = not segment.is_paged or _holds_table(segment, span.number)
        if is_whole or (roomy and _pays_unseen(segment, span.number, span.high - span.low)):
            whole.append(span)
        else:
            chosen.append(_Chosen(span, _group_of(segment, column, span.number), _NOTHING[0]))
    if chosen:
        with segment.source() as source:
            paged = [_with_pages(item, source, keys) for item in chosen]
            by_pages = list[_Chosen]()
            for item in paged:
                if item.group.pays_whole(len(item.pages), roomy):
                    whole.append(item.span)
                else:
                    by_pages.append(item)
            for lists, owners, numbers in _by_pages(segment, source, by_pages, keys):
                yield answer(lists, owners, numbers)

    def answer_of(span: _Span, _: bool) -> T:
        table = _table_of(segment, column, span.number)
        return answer(table.lists, *table.keys.find(keys, span.low, span.high))

    if _are_light(segment, whole):
        yield from (answer_of(span, True) for span in whole)
    else:
        yield from in_order(partial(answer_of, span) for span in whole)


def holds_tables(segment: Segment, column: str, keys: LookupKeys) -> bool:
    """Return whether keys are few, and the tables of all row groups that may hold some are cached."""
    return _are_light(segment, _spans(segment, column, keys))


def _are_light(segment: Segment, spans: Sequence[_Span]) -> bool:
    """Return whether spans have few keys, and the tables of all their row groups are cached."""
    return sum(high - low for _, low, high in spans) < _FEW and all(
        _holds_table(segment, span.number) for span in spans
    )


def _holds_table(segment: Segment, number: int) -> bool:
    """Return whether the table of a row group is cached."""
    return POSTINGS.cached((f"{segment.name}#keys", number)) is not None


def _holds_pages(segment: Segment, number: int) -> bool:
    """Return whether it is cached where the pages of a row group begin."""
    return POSTINGS.cached((f"{segment.name}#pages", number)) is not None


def _pays_unseen(segment: Segment, number: int, keys: int) -> bool:
    """Return whether to decode a row group whole for many keys without a look at its pages.

    Where pages begin is read header by header, in up to a quarter of the time that the row group takes.
    """
    pages = -(-segment.keys_of(number) // PAGE_ROWS)
    return keys > 1 and keys * _PAGES_A_KEY >= pages and not _holds_pages(segment, number)


_PAGES_A_KEY = 2
"""A row group is decoded for many keys if there is one for two pages, or more: they may lie in most pages."""


def _table_of(segment: Segment, column: str, number: int) -> KeyTable:
    """Return the table of a row group, cached."""

    def read() -> tuple[KeyTable, int]:
        columns = list[str]()
        if segment.is_paged:
            group = _group_of(segment, column, number)
            columns = [group.name, *group.columns]
        stored = segment.stored(number, columns)
        if not segment.is_paged and is_numbered(segment.columns[column]):
            stored = stored.set_column(0, NUMBER, ordered_of(stored[0].combine_chunks()))
        table = KeyTable.of(stored, segment.rows)
        return table, table.size

    held: KeyTable = POSTINGS.get((f"{segment.name}#keys", number), read)
    return held


def _group_of(segment: Segment, column: str, number: int) -> Group:
    def read() -> tuple[Group, int]:
        group = Group(segment.footer.row_group(number), segment.columns[column])
        return group, group.size

    held: Group = POSTINGS.get((f"{segment.name}#pages", number), read)
    return held


def _with_pages(item: _Chosen, source: pa.NativeFile, lookup_keys: LookupKeys) -> _Chosen:
    """Return the pages that may hold the wanted keys of a span."""
    keys = item.group.read_keys(source)
    pages = lookup_keys.pages(item.group.form, keys.lows, item.span.low, item.span.high)
    return item._replace(pages=pages[np.flatnonzero(np.diff(pages, prepend=-1))])


def _by_pages(
    segment: Segment, source: pa.NativeFile, chosen: Sequence[_Chosen], keys: LookupKeys
) -> Iterator[_Hits]:
    """Yield the keys that are found in single pages, some pages at a time; on all cores if they are many."""
    reading = Lock()  # Not every source may be read by two threads at once.
    chosen = sorted((item for item in chosen if len(item.pages)), key=lambda item: str(item.kind))
    lookups = [
        _Lookup(source, reading, batch, keys, segment.rows)
        for _, items in groupby(chosen, key=lambda item: item.kind)
        for batch in _batches(list(items))
    ]
    return (hits for hits in in_order(lookup.hits for lookup in lookups) if hits is not None)


def _batches(chosen: Sequence[_Chosen]) -> Iterator[list[_Chosen]]:
    """Yield row groups with some of their pages, together about as many pages as are decoded together."""
    batch, size = list[_Chosen](), 0
    for item in chosen:
        batch.append(item)
        size += len(item.pages)
        if size >= _BATCH_PAGES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _Hits(NamedTuple):
    """Keys that are found: `owners`, their indices among all; `numbers`, those of their lists."""

    lists: PositionLists
    owners: Longs
    numbers: Longs


class _ColumnPages(NamedTuple):
    """Some pages of a column: `pieces`, their bytes, of `rows` rows; `like`: the pages of some row group.

    `selection`: int64, which of the rows are meant, in order; None if all are.
    """

    name: str
    like: Pages
    pieces: Sequence[bytes | memoryview]
    rows: int
    selection: Longs | None


@dataclass(frozen=True, eq=False)
class _Lookup:
    """A lookup of keys in pages of ascending row groups of one kind."""

    source: pa.NativeFile
    reading: Lock
    chosen: Sequence[_Chosen]
    keys: LookupKeys
    rows: int

    def hits(self, _: bool) -> _Hits | None:
        """Return the wanted keys that are in the pages, with their positions; None if there are none."""
        group = self.chosen[0].group
        pages = [item.pages for item in self.chosen]
        keys = self._decoded([group.name], pages)[0].combine_chunks()
        begin = keys.null_count
        low, high = self.chosen[0].span.low, self.chosen[-1].span.high
        owners, numbers = SortedKeys.of(keys.slice(begin)).find(self.keys, low, high)
        if not len(owners):
            return None
        hit, rows = self._hit(pages, numbers + begin)
        return _Hits(PositionLists.of(self._decoded(group.columns, hit), self.rows), owners, rows)

    def _hit(self, pages: Sequence[Longs], numbers: Longs) -> tuple[list[Longs], Longs]:
        """Return those of the pages that hold some rows, and the numbers of the rows in these pages alone.

        `numbers`: numbers of rows in all of `pages`, laid one after the other.
        """
        counts = [np.diff(group.key_pages.firsts)[own] for group, own in self._pairs(pages)]
        sizes = np.concatenate(counts)
        begins = np.cumsum(sizes) - sizes
        of = np.searchsorted(begins, numbers, side="right") - 1
        some = np.zeros(len(sizes), dtype=np.bool_)
        some[of] = True
        begins_there = np.cumsum(sizes * some) - sizes * some
        masks = np.split(some, np.cumsum([len(own) for own in pages])[:-1])
        return [own[mask] for own, mask in zip(pages, masks, strict=True)], numbers - begins[
            of
        ] + begins_there[of]

    def _pairs(self, pages: Sequence[Longs]) -> list[tuple[Group, Longs]]:
        """Return the row groups that have some of the pages, each with its own."""
        return [(item.group, own) for item, own in zip(self.chosen, pages, strict=True) if len(own)]

    def _decoded(self, names: Sequence[str], pages: Sequence[Longs]) -> pa.Table:
        """Return the columns `names` of the rows of some pages of keys of each row group.

        Pages of a column may begin at other rows than those of the keys: a column of NULLs has large pages.
        """
        pairs = self._pairs(pages)
        with self.reading:
            columns_of_pages = [self._read_column(name, pairs) for name in names]
        tables = [decoded([column for column in columns_of_pages if column.selection is None])]
        for column in columns_of_pages:
            if column.selection is not None:
                tables.append(pc.take(decoded([column]), arrow_array(column.selection)))
        columns = {name: table[name] for table in tables for name in table.column_names}
        return pa.table([columns[name] for name in names], list(names))

    def _read_column(self, name: str, pairs: Sequence[tuple[Group, Longs]]) -> _ColumnPages:
        """Read a column of the rows of some pages of keys."""
        pieces, row_numbers, rows, alike = list[bytes | memoryview](), list[Longs](), 0, True
        for group, own in pairs:
            keys, column_pages = group.key_pages, group.pages(self.source, name)
            used = own
            if column_pages.firsts is not keys.firsts:
                alike = False
                rows_of_keys = ranges(keys.firsts[own], np.diff(keys.firsts)[own])
                of = np.searchsorted(column_pages.firsts, rows_of_keys, side="right") - 1
                used, place = np.unique(of, return_inverse=True)
                sizes = np.diff(column_pages.firsts)[used]
                row_numbers.append(
                    rows + (np.cumsum(sizes) - sizes)[place] + rows_of_keys - column_pages.firsts[of]
                )
            rows += int(np.diff(column_pages.firsts)[used].sum())
            pieces += self._read(column_pages, used)
        like = pairs[0][0].pages(self.source, name)
        return _ColumnPages(name, like, pieces, rows, None if alike else np.concatenate(row_numbers))

    def _read(self, pages: Pages, numbers: Longs) -> Iterator[bytes | memoryview]:
        """Yield the bytes of some pages, in ascending order, as pieces of one or more pages."""
        starts, ends = pages.edges[:-1][numbers], pages.edges[1:][numbers]
        apart = np.flatnonzero(starts[1:] != ends[:-1])
        starts, ends = starts[np.r_[0, apart + 1]], ends[np.r_[apart, len(ends) - 1]]
        far = np.flatnonzero(starts[1:] - ends[:-1] > _NEAR) + 1
        lows, highs = starts.tolist(), ends.tolist()
        for first, last in pairwise([0, *far.tolist(), len(lows)]):
            begin = lows[first]
            view = memoryview(self.source.read_at(highs[last - 1] - begin, begin))
            yield from (view[lows[index] - begin : highs[index] - begin] for index in range(first, last))


def decoded(columns: Sequence[_ColumnPages]) -> pa.Table:
    """Decode pages of columns, with as many rows in each, to a table."""
    if not columns:
        return pa.table({})
    out, rows = Assembly(), columns[0].rows
    for column in columns:
        size = sum(map(len, column.pieces))
        out.add_written(column.like.type, column.like.codec, rows, size, column.pieces)
    out.end_row_group(rows)
    leaves = [written_leaf(column.name, column.like.type, True, column.like.width) for column in columns]
    source = pa.BufferReader(out.excerpt(leaves=leaves))
    return ParquetFile(source, page_checksum_verification=True).read(use_threads=False)
