"""Segments: immutable files of postings of some columns of one row space.

A posting is (column, key) and the portable 32-bit Roaring bitmap of its positions in the row space. Rows are
sorted by (column, key), NULL first; a column never shares a row group with another, so that the statistics of
a row group name one column and a range of keys. Row groups hold at most KEYS_PER_GROUP keys and about
BYTES_PER_GROUP of bitmaps: a look-up decodes one of them.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap

from tailbit.errors import CorruptIndexError
from tailbit.index.files import open_index_file, write_index_file, write_parquet
from tailbit.index.model import IndexFile
from tailbit.tables.storage import Storage

KIND = "bitmap_index"
KEYS_PER_GROUP = 10_000
BYTES_PER_GROUP = 1 << 20
CACHE_BYTES = 512 << 20
"""Serialized bytes of postings kept decoded by one process."""

_ROWS = "tailbit.rows"

SCHEMA = pa.schema(
    [
        ("space", pa.string()),
        ("column", pa.string()),
        ("key_type", pa.string()),
        ("key", pa.binary()),
        ("cardinality", pa.int64()),
        ("bitmap", pa.binary()),
    ]
)

KeyRange = tuple["bytes | None", bool, "bytes | None", bool]
"""(low, low is included, high, high is included); None is unbounded. NULL is in no range."""


@dataclass(frozen=True)
class Postings:
    """All postings of one column of one row space, or a rising part of them.

    `keys`: sorted, the null entry (NULL) first. `cardinality`: int64 set positions. `bitmaps`: portable,
    serialized.
    """

    column: str
    key_type: str
    keys: pa.BinaryArray
    cardinality: npt.NDArray[np.int64]
    bitmaps: pa.BinaryArray


def write_segment(
    storage: Storage, index_dir: str, space: str, rows: int, postings: Iterable[Postings]
) -> IndexFile:
    """Write the postings, which come by rising column and key, as one file. Memory: one `Postings` at a time.

    `rows`: the extent of the row space, kept in the file's metadata, against which bitmaps are checked when
    read.
    """
    schema = SCHEMA.with_metadata({_ROWS: str(rows)})
    groups = (
        _table(space, part, schema).slice(start, end - start)
        for part in postings
        for start, end in _groups(part.bitmaps)
    )
    return write_index_file(storage, KIND, space, lambda to: write_parquet(to, schema, groups, ["bitmap"]))


def _table(space: str, part: Postings, schema: pa.Schema) -> pa.Table:
    n = len(part.keys)
    constant = [pa.repeat(text, n) for text in (space, part.column, part.key_type)]
    cardinality = pa.array(np.asarray(part.cardinality, dtype=np.int64))
    return pa.table([*constant, _whole(part.keys), cardinality, _whole(part.bitmaps)], schema=schema)


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _groups(bitmaps: pa.BinaryArray) -> Iterator[tuple[int, int]]:
    """Ranges of rows that make a row group each."""
    ends = np.cumsum(np.asarray(pc.binary_length(bitmaps), dtype=np.int64))
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + BYTES_PER_GROUP, side="right"))
        end = min(max(end, start + 1), start + KEYS_PER_GROUP)
        yield start, end
        start = end


class _Group(NamedTuple):
    number: int
    low: bytes | None
    high: bytes | None


class _Decoded(NamedTuple):
    """One row group, decoded: keys ascending without NULL, their bitmaps, the NULL posting."""

    keys: list[bytes]
    bitmaps: list[BitMap]
    null: BitMap | None
    size: int


class _Cache:
    """Decoded row groups by (file, row group), least recently used first out, bounded by serialized bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._held: OrderedDict[tuple[str, int], _Decoded] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, int], load: Callable[[], _Decoded]) -> _Decoded:
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found
        found = load()
        with self._lock:
            if key not in self._held:
                self._held[key] = found
                self._size += found.size
            while self._size > self._limit and len(self._held) > 1:
                _, old = self._held.popitem(last=False)
                self._size -= old.size
        return found


_cache = _Cache(CACHE_BYTES)


class Segment:
    """A segment file, opened when first asked. Its bitmaps are shared from a cache and must not be changed.

    `bytes_read`: serialized bitmap bytes that were read from the file for questions so far.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self.bytes_read = 0
        self._storage = storage

    @property
    def space(self) -> str:
        """The row space."""
        return self.path.rpartition("/")[2].partition("-")[0]

    @cached_property
    def _file(self) -> pq.ParquetFile:
        return open_index_file(self._storage, self.path)

    @cached_property
    def rows(self) -> int:
        """The extent of the row space that the file was written for."""
        return int(self._file.schema_arrow.metadata[_ROWS.encode()])

    @cached_property
    def _directory(self) -> tuple[dict[str, str], dict[str, list[_Group]]]:
        """Key type and row groups per column, from the footer's statistics."""
        types: dict[str, str] = {}
        groups: dict[str, list[_Group]] = {}
        meta = self._file.metadata
        for number in range(meta.num_row_groups):
            group = meta.row_group(number)
            column = group.column(1).statistics.min
            types[column] = group.column(2).statistics.min
            keys = group.column(3).statistics
            low, high = (keys.min, keys.max) if keys is not None and keys.has_min_max else (None, None)
            groups.setdefault(column, []).append(_Group(number, low, high))
        return types, groups

    @property
    def columns(self) -> dict[str, str]:
        """Column id to key type.

        Raises:
            CorruptIndexError: the file is missing, truncated or altered.
        """
        return self._directory[0]

    def lookup(self, column: str, key: bytes | None) -> BitMap | None:
        """The posting of one key, None for NULL's; None where there is none. Cost: one row group, once."""
        for group in self._directory[1].get(column, ()):
            if key is None:
                return self._decoded(group.number).null
            if group.high is not None and group.low is not None and group.low <= key <= group.high:
                found = self._decoded(group.number)
                at = bisect_left(found.keys, key)
                if at < len(found.keys) and found.keys[at] == key:
                    return found.bitmaps[at]
        return None

    def select(self, column: str, ranges: Sequence[KeyRange]) -> tuple[list[bytes], list[BitMap]]:
        """Keys in the ranges, ascending in each, and their postings. Cost: the row groups that overlap."""
        keys: list[bytes] = []
        bitmaps: list[BitMap] = []
        groups = self._directory[1].get(column, [])
        highs = [g.high or b"" for g in groups]
        for low, low_closed, high, high_closed in ranges:
            first = 0 if low is None else bisect_left(highs, low)
            for group in groups[first:]:
                if group.low is None:
                    continue
                if high is not None and group.low > high:
                    break
                found = self._decoded(group.number)
                a = 0 if low is None else (bisect_left if low_closed else bisect_right)(found.keys, low)
                last = bisect_right if high_closed else bisect_left
                b = len(found.keys) if high is None else last(found.keys, high)
                keys += found.keys[a:b]
                bitmaps += found.bitmaps[a:b]
        return keys, bitmaps

    def key_count(self, column: str) -> int:
        """Number of postings of a column, NULL's included; from the footer alone."""
        meta = self._file.metadata
        return sum(meta.row_group(g.number).num_rows for g in self._directory[1].get(column, ()))

    def keys(self, column: str) -> tuple[pa.BinaryArray, npt.NDArray[np.int64]]:
        """Keys of a column (null: NULL, first) and their cardinalities; no bitmap is read."""
        numbers = [g.number for g in self._directory[1].get(column, ())]
        table = self._read(numbers, ["key", "cardinality"])
        return table["key"].combine_chunks(), np.asarray(table["cardinality"], dtype=np.int64)

    def parts(self, column: str) -> Iterator[pa.Table]:
        """The stored rows (key, cardinality, bitmap) of a column by rising key, a row group at a time."""
        for group in self._directory[1].get(column, ()):
            yield self._read([group.number], ["key", "cardinality", "bitmap"])

    def postings(self, column: str) -> Iterator[tuple[pa.BinaryArray, list[BitMap]]]:
        """Keys of a column (null, for NULL, first) and their postings, a row group at a time, not cached."""
        for part in self.parts(column):
            yield part["key"].combine_chunks(), [self._checked(d) for d in part["bitmap"].to_pylist()]

    def _decoded(self, number: int) -> _Decoded:
        return _cache.get((self._storage.local_path(self.path), number), lambda: self._decode(number))

    def _decode(self, number: int) -> _Decoded:
        table = self._read([number], ["key", "bitmap"])
        keys, data = table["key"].to_pylist(), table["bitmap"].to_pylist()
        bitmaps = [self._checked(d) for d in data]
        size = sum(map(len, data))
        self.bytes_read += size
        if keys and keys[0] is None:
            return _Decoded(keys[1:], bitmaps[1:], bitmaps[0], size)
        return _Decoded(keys, bitmaps, None, size)

    def _checked(self, data: bytes) -> BitMap:
        try:
            bits = BitMap.deserialize(data)
        except (ValueError, MemoryError) as damage:
            raise CorruptIndexError(file=self.path, reason=f"a bitmap is damaged: {damage}") from damage
        if bits and bits.max() >= self.rows:
            raise CorruptIndexError(file=self.path, reason=f"a position is beyond its {self.rows} rows")
        return bits

    def _read(self, groups: list[int], columns: list[str]) -> pa.Table:
        try:
            return self._file.read_row_groups(groups, columns=columns)
        except (pa.ArrowException, OSError) as damage:
            raise CorruptIndexError(file=self.path, reason=str(damage)) from damage
