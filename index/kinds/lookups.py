"""Hidden rows by identity and value counts by column, read from the index only when asked for, and cached.

Both kinds are sorted files whose row-group statistics say where to look; only those row groups are read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap

from tailbit.errors import CorruptIndexError
from tailbit.index.keys import widen_keys
from tailbit.index.kinds.records import SCHEMAS, VALUE_COUNTS, no_rows, reading
from tailbit.index.parquet.index_file import open_index_file
from tailbit.index.parquet.sorted_rows import sort, starts
from tailbit.tables.storage import Storage

CACHE_BYTES = 64 << 20
"""Serialized bitmaps of hidden rows kept in memory by one index."""

Counts = tuple[pa.BinaryArray, npt.NDArray[np.int64]]


def row_groups(metadata: pq.FileMetaData, column: str, value: str) -> list[int]:
    """Row groups of a sorted file that may hold `value`, by statistics; those without statistics are kept."""
    at = metadata.schema.names.index(column)
    found = []
    for group in range(metadata.num_row_groups):
        stats = metadata.row_group(group).column(at).statistics
        if stats is None or not stats.has_min_max or stats.min <= value <= stats.max:
            found.append(group)
    return found


def read_groups(storage: Storage, path: str, column: str, value: str, columns: Sequence[str]) -> pa.Table:
    """The rows of one index file in the row groups that may hold `value`.

    Raises:
        CorruptIndexError: the file is missing, truncated or altered.
    """
    with reading(path), open_index_file(storage, path) as file:
        groups = row_groups(file.metadata, column, value)
        known = [name for name in columns if name in file.schema_arrow.names]
        return file.read_row_groups(groups, columns=known)


class HiddenRows:
    """The rows hidden under each deletion vector identity that the index knows.

    Not locked: `IndexTable` lets one thread at a time ask.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._footers: dict[str, pq.FileMetaData] = {}
        self._groups: OrderedDict[tuple[str, int], dict[str, bytes]] = OrderedDict()
        self._bytes = 0

    def get(self, paths: Iterable[str], identity: str) -> BitMap | None:
        """A fresh bitmap of hidden positions; None where no file holds the identity.

        Cost: a row group per file whose statistics admit the identity, the first time.

        Raises:
            CorruptIndexError: a file is missing, truncated or altered, or a bitmap does not decode.
        """
        for path in paths:
            for group in row_groups(self._footer(path), "id", identity):
                found = self._group(path, group).get(identity)
                if found is not None:
                    return _read(found, path)
        return None

    def forget(self, paths: Iterable[str]) -> None:
        """Free what is cached of files that are no longer live."""
        gone = set(paths) & set(self._footers)
        for path in gone:
            del self._footers[path]
        for key in [key for key in self._groups if key[0] in gone]:
            self._bytes -= _size(self._groups.pop(key))

    def _footer(self, path: str) -> pq.FileMetaData:
        if path not in self._footers:
            with reading(path), open_index_file(self._storage, path) as file:
                self._footers[path] = file.metadata
        return self._footers[path]

    def _group(self, path: str, group: int) -> dict[str, bytes]:
        key = (path, group)
        if key in self._groups:
            self._groups.move_to_end(key)
            return self._groups[key]
        with reading(path), open_index_file(self._storage, path) as file:
            rows = file.read_row_group(group, columns=["id", "bitmap"])
        found = dict(zip(rows["id"].to_pylist(), rows["bitmap"].to_pylist(), strict=True))
        self._groups[key] = found
        self._bytes += _size(found)
        while self._bytes > CACHE_BYTES and len(self._groups) > 1:
            self._bytes -= _size(self._groups.popitem(last=False)[1])
        return found


def _read(data: bytes, path: str) -> BitMap:
    try:
        return BitMap.deserialize(data)
    except (ValueError, IndexError, MemoryError) as damage:
        raise CorruptIndexError(file=path, reason=f"a bitmap is damaged: {damage}") from damage


def _size(group: dict[str, bytes]) -> int:
    return sum(map(len, group.values()))


class ValueCounts:
    """Visible rows per key of a column: the sum of all recorded deltas."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._sums: dict[tuple[str, str], tuple[frozenset[str], pa.Table]] = {}

    def of(self, paths: frozenset[str], column: str, key_type: str) -> Counts:
        """Keys in order (null, for NULL, first) and how many visible rows have each; none is zero.

        Cost: only files that have come since the last call, as long as none has gone.
        """
        seen, sums = self._sums.get((column, key_type), (frozenset(), None))
        if sums is None or not seen <= paths:
            seen, sums = frozenset(), _NO_COUNTS
        parts = [sums, *(_deltas(self._storage, p, column, key_type) for p in sorted(paths - seen))]
        if len(parts) > 1:
            sums = add_up(pa.concat_tables(parts))
            self._sums[column, key_type] = (paths, sums)
        return sums["key"].combine_chunks(), np.asarray(sums["delta"], dtype=np.int64)


_NO_COUNTS = no_rows(pa.schema([("key", pa.binary()), ("delta", pa.int64())]))


_STORED = SCHEMAS[VALUE_COUNTS]


def stored_counts(storage: Storage, paths: Iterable[str], column: str) -> Iterator[tuple[str, Counts]]:
    """Per key type of a column, its keys (null first) and their summed deltas, none zero; nothing widened.

    Cost: every row of the column in the files.
    """
    parts = [read_groups(storage, path, "column", column, _STORED.names) for path in paths]
    parts = [part.filter(pc.equal(part["column"], column)) for part in parts]
    rows = add_up(pa.concat_tables([no_rows(_STORED), *parts]))
    for key_type in pc.unique(rows["key_type"]).to_pylist():
        mine = rows.filter(pc.equal(rows["key_type"], key_type))
        yield key_type, (mine["key"].combine_chunks(), np.asarray(mine["delta"], dtype=np.int64))


def _deltas(storage: Storage, path: str, column: str, key_type: str) -> pa.Table:
    rows = read_groups(storage, path, "column", column, ["column", "key_type", "key", "delta"])
    rows = rows.filter(pc.equal(rows["column"], column))
    parts = [_NO_COUNTS]
    for stored in pc.unique(rows["key_type"]).to_pylist():
        mine = rows.filter(pc.equal(rows["key_type"], stored))
        keys = mine["key"].combine_chunks()
        keys = keys if stored == key_type else widen_keys(keys, stored, key_type)
        parts.append(pa.table({"key": keys, "delta": mine["delta"].cast(pa.int64())}))
    return pa.concat_tables(parts)


def add_up(deltas: pa.Table) -> pa.Table:
    """Deltas summed per all other columns, zero sums dropped, sorted with null keys first.

    By sorting, since what pyarrow has for it imports its dataset module: a second that a query cannot afford.
    """
    if not len(deltas):
        return deltas
    names = [name for name in deltas.column_names if name != "delta"]
    ordered = sort(deltas, names)
    first = starts(ordered, names)
    sums = np.add.reduceat(np.asarray(ordered["delta"], dtype=np.int64), first)
    some = sums != 0
    at = deltas.column_names.index("delta")
    return ordered.take(pa.array(first[some])).set_column(at, "delta", pa.array(sums[some]))
