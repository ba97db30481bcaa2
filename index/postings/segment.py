"""Reading of segments: a lookup decodes one row group, which is then cached up to a limit."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Mask
from tailbit.base.errors import CorruptIndexError
from tailbit.base.lazy import lazy
from tailbit.base.once import once
from tailbit.index.index_files import open_index_file, reopen_index_file
from tailbit.index.keys import KeyRange, bytes_of, encode_value
from tailbit.index.postings import gaps
from tailbit.index.postings.layout import NUMBER, ROWS, SCHEMA, UUID, GroupSize, Section, sections_of
from tailbit.index.postings.paged_forms import uuid_text, with_keys
from tailbit.index.postings.row_group import Cover, RowGroup
from tailbit.tables.ahead import in_order, shared_out
from tailbit.tables.arrow import numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from tailbit.index.roaring import containers, decode
else:
    decode = lazy("tailbit.index.roaring.decode")
    containers = lazy("tailbit.index.roaring.containers")

_DENSE = ("key", "cardinality", "bitmap")
STORED = (*_DENSE, *gaps.COLUMNS)
"""The columns of a posting: all but those constant in a row group. The last ones are null for dense keys."""


_WORTH_A_THREAD = 2 << 20
"""Bytes of postings in the file whose reading takes some ten times as long as starting a thread."""

_WORTH_DECODING_APART = 1 << 19
"""Number of sparse positions whose decoding takes some ten times as long as starting a thread."""

CACHE_BYTES = share(7 / 32)
"""Bytes of postings that one process caches, serialized and decoded together."""

_MANY_RANGES = 64
"""More ranges than these are taken for all keys in estimates, which cost a step for each range."""

ALL_KEYS: KeyRange = (None, False, None, False)

POSTINGS: Cache[tuple[str, str | int], Any] = Cache(CACHE_BYTES)
"""The row groups and keys of segments that this process has read."""


_KEY = SCHEMA.get_field_index("key")


class Place(NamedTuple):
    """Rows of one column and their first and last key; None if they are only NULL's posting.

    `number`: index into the spans of the segment.
    """

    number: int
    low: bytes | None
    high: bytes | None


class Span(NamedTuple):
    """Rows of one column in a row group: all of them, or those of one section of a shared row group.

    `start`: the first row. `share`: of the bytes of the row group.
    """

    group: int
    start: int = 0
    section: Section | None = None
    share: float = 1.0


class Directory(NamedTuple):
    """A footer as key types by column, spans, and per column its places and their highest keys."""

    types: dict[str, str]
    spans: list[Span]
    entries: dict[str, tuple[list[Place], list[bytes]]]

    def add(self, column: str, key_type: str, span: Span, low: bytes | None, high: bytes | None) -> None:
        """Add the next rows of a column."""
        self.types[column] = key_type
        entries, highs = self.entries.setdefault(column, ([], []))
        entries.append(Place(len(self.spans), low, high))
        highs.append(high or b"")
        self.spans.append(span)

    @classmethod
    def of(cls, footer: pq.FileMetaData, path: str) -> Directory:
        """Return where the rows of each column of a segment lie, read from its footer.

        Raises:
            CorruptIndexError: a row group holds several columns, and the file does not say which rows.
        """
        out = cls({}, [], {})
        try:
            shared = sections_of(footer.metadata or {})
        except (ValueError, TypeError) as damage:
            raise CorruptIndexError(file=path, reason=str(damage)) from damage
        for number in range(footer.num_row_groups):
            group, start = footer.row_group(number), 0
            sections = shared.get(number, [])
            total = sum(section.size for section in sections)
            for own in sections:
                span = Span(number, start, own, own.size / total)
                out.add(own.column, own.key_type, span, own.low, own.high)
                start += own.keys
            if sections:
                continue
            column, types = (group.column(leaf).statistics for leaf in (1, 2))
            if column.min != column.max:
                raise CorruptIndexError(file=path, reason="it does not say whose its rows are")
            out.add(column.min, types.min, Span(number), *_ends(group))
        return out


def _overlaps(place: Place, key_range: KeyRange) -> bool:
    low, _, high, _ = key_range
    above = low is None or (place.high or b"") >= low
    return above and (high is None or (place.low or b"") <= high)


class Segment:
    """A file of postings of one row space, opened on first use.

    Its bitmaps are cached and must not be changed.

    No file stays open; the footer is kept. `bytes_read`: bytes read from the file for queries so far.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self.bytes_read = 0
        self._counting = Lock()
        self._storage = storage
        self._name = f"{storage.root}/{path}"
        self._sizes: dict[int, GroupSize] = {}

    @property
    def storage(self) -> Storage:
        """Return the store of the index."""
        return self._storage

    @property
    def name(self) -> str:
        """Return the name of the file, unique among all indexes: the key for caches of derived values."""
        return self._name

    @property
    def space(self) -> str:
        """Return the name of the row space whose positions the postings hold."""
        return self.path.rpartition("/")[2].partition("-")[0]

    @property
    def columns(self) -> dict[str, str]:
        """Map column id to key type."""
        return self._directory.types

    @once
    def rows(self) -> int:
        """Return the row count of the row space when the file was written, gaps between claims included."""
        stored_rows = (self.footer.metadata or {}).get(ROWS.encode())
        if stored_rows is None:
            raise CorruptIndexError(file=self.path, reason="it does not say how many rows it is about")
        return int(stored_rows)

    def lookup(self, column: str, key: bytes | None) -> BitMap | None:
        """Return the posting of a key of a column, or None if the segment has none; the key None means NULL.

        Cost: decodes one row group, which is cached.
        """
        entries, highs = self._entries(column)
        if key is None:
            return self._group(entries[0].number).null if entries else None
        # The first place may hold the posting of NULL alone, without a key.
        index = bisect_left(highs, key, int(bool(entries) and entries[0].low is None))
        if index == len(entries) or key < (entries[index].low or b""):
            return None
        return self._group(entries[index].number).find(key)

    def ends(self, column: str) -> list[bytes]:
        """Return the least and the greatest key of a column, as far as it has keys beside NULL."""
        entries, highs = self._entries(column)
        lows = [place.low for place in entries if place.low is not None]
        return [lows[0], highs[-1]] if lows else []

    def select(self, column: str, ranges: Sequence[KeyRange]) -> tuple[list[bytes], list[BitMap]]:
        """Return the keys in the ranges and their postings; the keys of each range ascend.

        Cost: decodes the row groups whose keys overlap a range.
        """
        keys: list[bytes] = []
        bitmaps: list[BitMap] = []
        for group, key_range in self._overlapping(column, ranges):
            selected_keys, selected = group.select(key_range)
            keys += selected_keys
            bitmaps += selected
        return keys, bitmaps

    def _overlapping(self, column: str, ranges: Sequence[KeyRange]) -> Iterator[tuple[RowGroup, KeyRange]]:
        """Yield the row groups that may hold keys of each range, in range order; read on all cores."""
        overlapping = list(self._numbers(column, ranges))
        groups = self.in_order([number for number, _ in overlapping])
        return zip(groups, (key_range for _, key_range in overlapping), strict=True)

    def spans(self, column: str, keys: pa.BinaryArray) -> list[tuple[int, int, int]]:
        """Return (row group, low, high) where a row group may hold any of the sorted `keys[low:high]`."""
        spans = list[tuple[int, int, int]]()
        every = range(len(keys))
        ends, codes = bytes_of(keys)
        data, offsets = codes.data, ends.data

        def key(number: int) -> bytes:
            return bytes(data[offsets[number] : offsets[number + 1]])

        for place in self._entries(column)[0]:
            if place.low is not None:
                low = bisect_left(every, place.low, spans[-1][2] if spans else 0, key=key)
                high = bisect_right(every, place.high or b"", low, key=key)
                spans.append((place.number, low, high))
        return [(number, low, high) for number, low, high in spans if low < high]

    def keys_of(self, number: int) -> int:
        """Return the number of keys of a row group, from the cached footer."""
        return self._size(number).keys

    def stored(self, number: int, columns: Sequence[str] = ()) -> pa.Table:
        """Return the given columns of a row group as they are stored, or those of its postings; uncached."""
        if columns:
            return self._read_leaves([self._directory.spans[number].group], columns)
        return self._read([number], STORED if self._size(number).sparse else _DENSE)

    def in_order(self, numbers: Sequence[int]) -> Iterator[RowGroup]:
        """Return the row groups of these numbers, in this order; those not cached are read on all cores."""
        read = self._read_anew(numbers)
        return (read.get(number) or self._group(number) for number in numbers)

    def _read_anew(self, numbers: Sequence[int]) -> dict[int, RowGroup]:
        """Read and return those row groups, by number, that are not cached; none if `numbers` is only one."""
        several = numbers if len(numbers) > 1 else ()
        new = sorted({n for n in several if POSTINGS.cached((self._name, n)) is None})
        if not new:
            return {}
        shares = shared_out(new, [self._size(n).packed for n in new], _WORTH_A_THREAD)
        return dict(chain.from_iterable(in_order(partial(self._numbered, share) for share in shares)))

    def _numbered(self, numbers: Sequence[int], _: bool) -> list[tuple[int, RowGroup]]:
        return [(number, self._group(number)) for number in numbers]

    def _numbers(self, column: str, ranges: Sequence[KeyRange]) -> Iterator[tuple[int, KeyRange]]:
        entries, highs = self._entries(column)
        for key_range in ranges:
            low, _, high, _ = key_range
            for index in range(0 if low is None else bisect_left(highs, low), len(entries)):
                place = entries[index]
                if place.low is None:
                    continue
                if high is not None and place.low > high:
                    break
                yield place.number, key_range

    def keys(self, column: str) -> tuple[pa.BinaryArray, npt.NDArray[np.int64]]:
        """Return the keys of a column (null, for NULL, first) and their cardinalities; no bitmap is read."""
        keys: tuple[pa.BinaryArray, npt.NDArray[np.int64]] = POSTINGS.get(
            (self._name, column), lambda: self._read_keys(column)
        )
        return keys

    def keys_once(self, column: str) -> tuple[pa.BinaryArray, npt.NDArray[np.int64]]:
        """Return what `keys` does, and cache nothing: for a segment that is about to leave the index."""
        if self.holds_keys(column):
            return self.keys(column)
        keys, _ = self._read_keys(column)
        return keys

    def holds_keys(self, column: str) -> bool:
        """Return whether the keys of a column are cached."""
        return POSTINGS.cached((self._name, column)) is not None

    def cover(self, column: str, ranges: Sequence[KeyRange]) -> list[BitMap]:
        """Return bitmaps whose union is that of the postings of the keys in the ranges.

        Cost: the row groups that overlap. Dense postings come unchanged, all sparse ones as one bitmap.
        """
        overlapping = list(self._overlapping(column, ranges))
        few = len(overlapping) == 1
        return _covered(
            [(group.listed, partial(group.cover, key_range, few)) for group, key_range in overlapping],
            self.rows,
        )

    def cover_keys(self, column: str, marked: Mask) -> list[BitMap]:
        """Return what `cover` does, for the keys that `marked` marks among `keys`."""
        entries = self._entries(column)[0]
        cuts = np.cumsum([self._size(place.number).keys for place in entries])[:-1]
        some = [
            (p.number, keys) for p, keys in zip(entries, np.split(marked, cuts), strict=True) if keys.any()
        ]
        groups = zip(self.in_order([number for number, _ in some]), some, strict=True)
        covers = [(group.listed, partial(group.cover_some, keys)) for group, (_, keys) in groups]
        return _covered(covers, self.rows)

    def postings(self, column: str) -> Iterator[tuple[pa.BinaryArray, list[BitMap]]]:
        """Yield the keys of a column (null, for NULL, first) and their postings, by row group, uncached."""
        for place in self._entries(column)[0]:
            group, _ = self._read_group(place.number)
            yield group.keys, group.every()

    def row_groups(self, column: str) -> Iterator[tuple[int, Callable[[Sequence[str]], pa.Table]]]:
        """Yield per row group the index of its first key and a reader of columns of STORED; uncached."""
        first = 0
        for place in self._entries(column)[0]:
            yield first, partial(self._read, [place.number])
            first += self._size(place.number).keys

    def weight(self, column: str, ranges: Sequence[KeyRange] | None = None) -> tuple[int, int]:
        """Return the number of keys of a column and the bytes of their postings, from the cached footer.

        With `ranges`, only row groups that overlap the ranges count, unless the ranges are many.
        """
        entries = self._entries(column)[0]
        if ranges is not None and len(ranges) <= _MANY_RANGES:
            entries = [p for p in entries if p.low is not None and any(_overlaps(p, r) for r in ranges)]
        sizes = [self._size(place.number) for place in entries]
        return sum(size.keys for size in sizes), sum(size.unpacked for size in sizes)

    def sparse_positions(self, column: str) -> int:
        """Estimate the positions of a column's sparse keys from the footer, at most a fifth too high."""
        return sum(self._size(place.number).positions for place in self._entries(column)[0])

    def forms(self, column: str) -> tuple[int, int, int]:
        """Return a column's number of keys, of sparse keys, and bytes of its row groups, by the footer.

        A shared row group counts with the column's share of its bytes.
        """
        numbers = [place.number for place in self._entries(column)[0]]
        spans = [self._directory.spans[n] for n in numbers]
        groups = [self.footer.row_group(span.group) for span in spans]
        sizes = [sum(g.column(leaf).total_compressed_size for leaf in range(g.num_columns)) for g in groups]
        size = sum(round(size * span.share) for size, span in zip(sizes, spans, strict=True))
        counted = [self._size(number) for number in numbers]
        return sum(section.keys for section in counted), sum(section.sparse for section in counted), size

    def _size(self, number: int) -> GroupSize:
        """Return the size of a span, cached: pyarrow creates objects on each look at a footer."""
        size = self._sizes.get(number)
        if size is None:
            span = self._directory.spans[number]
            size = GroupSize.of(self.footer.row_group(span.group))
            if (own := span.section) is not None:
                shares = (round(whole * span.share) for whole in (size.unpacked, size.packed))
                size = GroupSize(own.keys, own.sparse, own.positions, *shares)
            self._sizes[number] = size
        return size

    def unread(self, column: str, ranges: Sequence[KeyRange] = (ALL_KEYS,)) -> int:
        """Return the uncompressed bytes of the row groups that overlap the ranges and are not cached.

        All row groups of the column count if the ranges are many.
        """
        ranges = ranges if len(ranges) <= _MANY_RANGES else (ALL_KEYS,)
        numbers = {number for number, _ in self._numbers(column, ranges)}
        return sum(self._size(n).unpacked for n in numbers if POSTINGS.cached((self._name, n)) is None)

    def touched(self, column: str, ranges: Sequence[KeyRange] | None = None) -> int:
        """Return the uncompressed bytes of the row groups that overlap the ranges; None: of all of them."""
        if ranges is None:
            numbers = {place.number for place in self._entries(column)[0]}
        else:
            numbers = {number for number, _ in self._numbers(column, ranges)}
        return sum(self._size(number).unpacked for number in numbers)

    def is_held(self, column: str) -> bool:
        """Return whether the postings of a column are cached; the last row group stands for all."""
        entries = self._entries(column)[0]
        return bool(entries) and POSTINGS.cached((self._name, entries[-1].number)) is not None

    @property
    def is_paged(self) -> bool:
        """Whether single pages of row groups are read, as for postings of record keys."""
        return bool(self._forms)

    @once
    def _forms(self) -> list[str]:
        """Return the columns that hold keys in other forms than bytes."""
        names = self.footer.schema.names
        return [name for name in (NUMBER, UUID) if name in names]

    def source(self) -> pa.NativeFile:
        """Return the open file.

        Raises:
            CorruptIndexError: it is missing.
        """
        try:
            return self._storage.open_fixed(self.path)
        except FileNotFoundError as gone:
            raise CorruptIndexError(file=self.path, reason="it is missing") from gone

    @once
    def footer(self) -> pq.FileMetaData:
        """Return the footer, checked against the name of the file."""
        with open_index_file(self._storage, self.path) as file:
            return file.metadata

    @once
    def _directory(self) -> Directory:
        """Return where the rows of each column lie, read from the footer."""
        return Directory.of(self.footer, self.path)

    def _entries(self, column: str) -> tuple[list[Place], list[bytes]]:
        return self._directory.entries.get(column, ([], []))

    def _group(self, number: int) -> RowGroup:
        group: RowGroup = POSTINGS.get((self._name, number), lambda: self._read_group(number))
        return group

    def _read_group(self, number: int) -> tuple[RowGroup, int]:
        columns = STORED if self._size(number).sparse else _DENSE
        group = RowGroup(self._read([number], columns), self.rows, self.path)
        return group, group.size

    def _read_keys(self, column: str) -> tuple[tuple[pa.BinaryArray, npt.NDArray[np.int64]], int]:
        numbers = [place.number for place in self._entries(column)[0]]
        cached = [group for n in numbers if (group := POSTINGS.cached((self._name, n))) is not None]
        if numbers and len(cached) == len(numbers):
            keys = pa.concat_arrays([group.keys for group in cached])
            return (keys, np.concatenate([group.cardinality for group in cached])), keys.nbytes + 8 * len(
                keys
            )
        table = self._read(numbers, STORED[:2])
        keys_read = table["key"].combine_chunks(), numpy_of(table["cardinality"], dtype=np.int64)
        return keys_read, table.nbytes

    def _read(self, numbers: list[int], columns: Sequence[str]) -> pa.Table:
        """Read spans of one column, in order; the rows of a shared row group are read together and cached."""
        spans = [self._directory.spans[number] for number in numbers]
        whole = [span.group for span in spans if span.section is None]
        rows = self._read_groups(whole, columns) if whole or not spans else None
        if rows is not None and len(whole) == len(spans):
            return rows
        tables, offset = [], 0
        for span in spans:
            if span.section is not None:
                shared = self._shared(span.group).select(list(columns))
                tables.append(shared.slice(span.start, span.section.keys))
            elif rows is not None:
                tables.append(rows.slice(offset, self.footer.row_group(span.group).num_rows))
                offset += len(tables[-1])
        return pa.concat_tables(tables)

    def _shared(self, group: int) -> pa.Table:
        def read() -> tuple[pa.Table, int]:
            rows = self._read_groups([group], STORED).combine_chunks()
            return rows, rows.nbytes

        return POSTINGS.get((self._name, -1 - group), read)

    def _read_groups(self, groups: list[int], columns: Sequence[str]) -> pa.Table:
        forms = self._forms if "key" in columns else []
        rows = self._read_leaves(groups, [*columns, *forms])
        return with_keys(rows) if forms else rows

    def _read_leaves(self, groups: list[int], columns: Sequence[str]) -> pa.Table:
        """Read row groups as they are stored."""
        names = self.footer.schema.names
        numbers = [names.index(name) for name in columns]
        row_groups = [self.footer.row_group(group) for group in groups]
        with self._counting:
            self.bytes_read += sum(
                row_group.column(n).total_compressed_size for row_group in row_groups for n in numbers
            )
        try:
            with reopen_index_file(self._storage, self.path, self.footer) as file:
                rows = file.read_row_groups(groups, columns=columns, use_threads=False)
        except (pa.ArrowException, OSError) as damage:
            raise CorruptIndexError(file=self.path, reason=str(damage)) from damage
        return rows.select(columns)


def _covered(work: Sequence[tuple[int, Callable[[], Cover]]], rows: int) -> list[BitMap]:
    """Decode postings to bitmaps: one per dense posting, and one of all sparse postings together, if any.

    `work`: functions that decode, each with an estimate of the sparse positions that it decodes. `rows`: the
    row count of the row space.
    """
    sizes = [size for size, _ in work]
    if sum(sizes) < 2 * _WORTH_DECODING_APART:
        decoded = [call() for _, call in work]
    else:
        batches = shared_out([call for _, call in work], sizes, _WORTH_DECODING_APART)
        decoded = list(chain.from_iterable(in_order(partial(_done, some) for some in batches)))
    dense = [bits for bitmaps, _ in decoded for bits in bitmaps]
    sparse = [positions for _, listed in decoded for positions in listed]
    return [*dense, containers.union_of(sparse, rows)] if sparse else dense


def _done(calls: Sequence[Callable[[], Cover]], _: bool) -> list[Cover]:
    return [call() for call in calls]


def _ends(group: pq.RowGroupMetaData) -> tuple[bytes | None, bytes | None]:
    """Return the first and the last key of a row group; None if it has only NULL's posting."""
    for leaf in (_KEY, *range(len(SCHEMA), group.num_columns)):
        column = group.column(leaf)
        if column.statistics is not None and column.statistics.has_min_max:
            low, high = column.statistics.min, column.statistics.max
            if column.path_in_schema == NUMBER:
                return encode_value(low, "integer"), encode_value(high, "integer")
            if column.path_in_schema == UUID:
                return uuid_text(low), uuid_text(high)
            return low, high
    return None, None
