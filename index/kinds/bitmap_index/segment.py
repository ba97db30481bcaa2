"""Segments: immutable files of postings of some columns of one row space.

A posting is (column, key) and the portable 32-bit Roaring bitmap of its positions in the row space. Rows are
sorted by (column, key), NULL first; a column never shares a row group with another, so that the statistics of
a row group name one column and a range of keys. Row groups hold at most GROUP_ROWS keys and about
GROUP_BYTES of bitmaps: a look-up decodes one of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap

from tailbit.errors import CorruptIndexError
from tailbit.index.kinds.bitmap_index.row_group import KeyRange, RowGroup, read_bitmap
from tailbit.index.kinds.bitmap_index.written import check_bitmaps
from tailbit.index.model import IndexFile
from tailbit.index.parquet.index_file import (
    open_index_file,
    reopen_index_file,
    write_index_file,
    write_parquet,
)
from tailbit.index.parquet.sorted_rows import GROUP_BYTES, GROUP_ROWS
from tailbit.once import once
from tailbit.tables.cache import Cache
from tailbit.tables.storage import Storage

NAME = "bitmap_index"

_ROWS = "tailbit.rows"
_STORED = ("key", "cardinality", "bitmap")

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


def write_segment(storage: Storage, space: str, rows: int, postings: Iterable[Postings]) -> IndexFile:
    """Write the postings, which come by rising column and key, as one file.

    `rows`: the extent of the row space, kept in the file's metadata, against which bitmaps are checked now
    and when read. Memory: one `Postings` and a row group at a time.

    Raises:
        BrokenBitmapError: a bitmap does not check; no file is left.
        StorageError: the disk is full or refuses.
    """
    schema = SCHEMA.with_metadata({_ROWS: str(rows)})
    groups = _row_groups(_table(space, _checked(space, part, rows), schema) for part in postings)
    return write_index_file(storage, NAME, space, lambda to: write_parquet(to, schema, groups, ["bitmap"]))


def _checked(space: str, part: Postings, rows: int) -> Postings:
    part = replace(part, bitmaps=_whole(part.bitmaps))
    check_bitmaps(space, part.column, part.cardinality, part.bitmaps, rows)
    return part


def _table(space: str, part: Postings, schema: pa.Schema) -> pa.Table:
    n = len(part.keys)
    constant = [pa.repeat(text, n) for text in (space, part.column, part.key_type)]
    cardinality = pa.array(np.asarray(part.cardinality, dtype=np.int64))
    return pa.table([*constant, _whole(part.keys), cardinality, _whole(part.bitmaps)], schema=schema)


def _whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _row_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Rows regrouped: as full as the limits allow, and never of two columns."""
    held: pa.Table | None = None
    for part in parts:
        if not len(part):
            continue
        if held is not None and held["column"][0] != part["column"][0]:
            yield from _cut(held)
            held = None
        pieces = list(_cut(part if held is None else pa.concat_tables([held, part])))
        yield from pieces[:-1]
        held = pieces[-1]
    if held is not None:
        yield held.combine_chunks()


def _cut(table: pa.Table) -> Iterator[pa.Table]:
    """Row groups of at most GROUP_ROWS rows and GROUP_BYTES of bitmaps, or of one larger bitmap."""
    ends = np.cumsum(np.asarray(pc.binary_length(table["bitmap"]), dtype=np.int64))
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + GROUP_BYTES, side="right"))
        end = min(max(end, start + 1), start + GROUP_ROWS)
        yield table.slice(start, end - start)
        start = end


class _Place(NamedTuple):
    """A row group and the keys it spans; None where it holds nothing but NULL's posting."""

    number: int
    low: bytes | None
    high: bytes | None


CACHE_BYTES = 256 << 20
"""Bytes of postings that one process keeps, serialized and decoded ones taken together."""

POSTINGS: Cache[tuple[str, str | int], Any] = Cache(CACHE_BYTES)
"""What this process has read of segments."""


class Segment:
    """A segment file, opened when first asked. Its bitmaps are shared from a cache and must not be changed.

    No file stays open; the footer does. `bytes_read`: what was read from the file for questions so far.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self.bytes_read = 0
        self._storage = storage
        self._name = f"{storage.root}/{path}"

    @property
    def root(self) -> str:
        """Where the index lies, which with `path` names the file."""
        return self._storage.root

    @property
    def space(self) -> str:
        """The row space."""
        return self.path.rpartition("/")[2].partition("-")[0]

    @property
    def columns(self) -> dict[str, str]:
        """Column id to key type.

        Raises:
            CorruptIndexError: the file is missing, truncated or altered.
        """
        return self._directory[0]

    @once
    def rows(self) -> int:
        """The extent of the row space that the file was written for."""
        found = (self._footer.metadata or {}).get(_ROWS.encode())
        if found is None:
            raise CorruptIndexError(file=self.path, reason="it does not say how many rows it is about")
        return int(found)

    def lookup(self, column: str, key: bytes | None) -> BitMap | None:
        """The posting of one key, None for NULL's; None where there is none. Cost: one row group, once."""
        places, highs = self._places(column)
        if key is None:
            return self._group(places[0].number).null if places else None
        at = bisect_left(highs, key)
        if at == len(places) or places[at].low is None or key < (places[at].low or b""):
            return None
        return self._group(places[at].number).find(key)

    def select(self, column: str, ranges: Sequence[KeyRange]) -> tuple[list[bytes], list[BitMap]]:
        """Keys in the ranges, ascending in each, and their postings. Cost: the row groups that overlap."""
        keys: list[bytes] = []
        bitmaps: list[BitMap] = []
        places, highs = self._places(column)
        for wanted in ranges:
            low, _, high, _ = wanted
            for at in range(0 if low is None else bisect_left(highs, low), len(places)):
                place = places[at]
                if place.low is None:
                    continue
                if high is not None and place.low > high:
                    break
                found_keys, found = self._group(place.number).select(wanted)
                keys += found_keys
                bitmaps += found
        return keys, bitmaps

    def keys(self, column: str) -> tuple[pa.BinaryArray, npt.NDArray[np.int64]]:
        """Keys of a column (null, for NULL, first) and their cardinalities; no bitmap is read."""
        keys: tuple[pa.BinaryArray, npt.NDArray[np.int64]] = POSTINGS.get(
            (self._name, column), lambda: self._read_keys(column)
        )
        return keys

    def postings(self, column: str) -> Iterator[tuple[pa.BinaryArray, list[BitMap]]]:
        """Keys of a column (null, for NULL, first) and their postings, a row group at a time, not cached."""
        for place in self._places(column)[0]:
            part = self._read([place.number], _STORED)
            rows = zip(part["bitmap"].to_pylist(), part["cardinality"].to_pylist(), strict=True)
            yield part["key"].combine_chunks(), [read_bitmap(d, n, self.rows, self.path) for d, n in rows]

    @once
    def _footer(self) -> pq.FileMetaData:
        with open_index_file(self._storage, self.path) as file:
            return file.metadata

    @once
    def _directory(self) -> tuple[dict[str, str], dict[str, tuple[list[_Place], list[bytes]]]]:
        """Per column its key type; its row groups in order of keys, and the highest key of each."""
        types: dict[str, str] = {}
        places: dict[str, tuple[list[_Place], list[bytes]]] = {}
        for number in range(self._footer.num_row_groups):
            group = self._footer.row_group(number)
            column = group.column(1).statistics.min
            types[column] = group.column(2).statistics.min
            keys = group.column(3).statistics
            low, high = (keys.min, keys.max) if keys is not None and keys.has_min_max else (None, None)
            of_column = places.setdefault(column, ([], []))
            of_column[0].append(_Place(number, low, high))
            of_column[1].append(high or b"")
        return types, places

    def _places(self, column: str) -> tuple[list[_Place], list[bytes]]:
        return self._directory[1].get(column, ([], []))

    def _group(self, number: int) -> RowGroup:
        group: RowGroup = POSTINGS.get((self._name, number), lambda: self._read_group(number))
        return group

    def _read_group(self, number: int) -> tuple[RowGroup, int]:
        group = RowGroup(self._read([number], _STORED), self.rows, self.path)
        return group, group.size

    def _read_keys(self, column: str) -> tuple[tuple[pa.BinaryArray, npt.NDArray[np.int64]], int]:
        table = self._read([p.number for p in self._places(column)[0]], _STORED[:2])
        found = table["key"].combine_chunks(), np.asarray(table["cardinality"], dtype=np.int64)
        return found, table.nbytes

    def _read(self, groups: list[int], columns: Sequence[str]) -> pa.Table:
        numbers = [SCHEMA.get_field_index(name) for name in columns]
        for group in groups:
            parts = self._footer.row_group(group)
            self.bytes_read += sum(parts.column(n).total_compressed_size for n in numbers)
        try:
            with reopen_index_file(self._storage, self.path, self._footer) as file:
                return file.read_row_groups(groups, columns=list(columns), use_threads=False)
        except (pa.ArrowException, OSError) as damage:
            raise CorruptIndexError(file=self.path, reason=str(damage)) from damage
