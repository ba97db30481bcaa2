"""Kind `value_counts`: changes of the number of visible rows per column and key, to be summed.

Each task of a batch writes its changes (`Tally`); readers and merges sum the changes of all files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.index.index_files import GROUP_ROWS, aligned, sort, starts
from tailbit.index.keys import widen_keys
from tailbit.index.kinds.kind import Kind, Merged, MergeGroup, View, conform, read_groups
from tailbit.index.model import IndexFile
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, no_rows, numpy_of
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.index.roaring import spilled
    from tailbit.index.roaring.spilled import Keys, SpilledKeys
else:
    spilled = lazy("tailbit.index.roaring.spilled")

Counts = tuple[pa.BinaryArray, npt.NDArray[np.int64]]
"""Keys in order (null, for NULL, first) and the number of rows of each."""

Deltas = npt.NDArray[np.int64] | npt.NDArray[np.int32]
"""Deltas keep their width: with many keys, int32 halves the bytes."""


class ValueCountsKind(Kind["ValueCounts"]):
    """Kind whose rows are changes of counts: rows of equal column, key type and key are summed."""

    name: ClassVar[str] = "value_counts"
    schema: ClassVar[pa.Schema] = pa.schema(
        [("column", pa.string()), ("key_type", pa.string()), ("key", pa.binary()), ("delta", pa.int64())]
    )
    sorted_by: ClassVar[tuple[str, ...]] = ("column", "key_type", "key")

    def reader(self, view: View) -> ValueCounts:
        """Return the reader of sums per column; the reader caches sums until a file is removed."""
        return ValueCounts(view)

    def renewed(
        self, reader: ValueCounts, view: View, added: Sequence[IndexFile], removed: Sequence[str]
    ) -> ValueCounts:
        """Return the same reader: each sum records the files over which it was taken."""
        return reader

    def merge(self, view: View, group: MergeGroup, earliest: int | None) -> Merged:
        """Sum the rows of each key; a key whose sum is zero has no row."""
        inputs = [self.batches(view.storage, path) for path in group.inputs]
        sums = (add_up(rows).select(self.schema.names) for rows in aligned(inputs, self.sorted_by))
        return Merged(tuple(self.write_stream(view.storage, sums)))


VALUE_COUNTS = ValueCountsKind()

SHARED_ROWS = 1 << 13
"""Rows of a row group of several columns, at most: a fraction of a millisecond to decode."""

_SUMS = pa.schema([("key", pa.binary()), ("delta", pa.int64())])


@dataclass
class Tally:
    """Changes of the number of visible rows per column, key type and key, summed on demand."""

    _changes: dict[tuple[str, str], list[pa.Table]] = field(default_factory=dict)
    _spilled: dict[tuple[str, str], list[tuple[SpilledKeys, Deltas]]] = field(default_factory=dict)

    def add(self, column: str, key_type: str, keys: Keys, deltas: Deltas) -> None:
        """Add one change of a row count per key; `keys` are distinct and ascending, null first."""
        if isinstance(keys, spilled.SpilledKeys):
            if deltas.any():
                self._spilled.setdefault((column, key_type), []).append((keys, deltas))
            return
        some = np.flatnonzero(deltas)
        if not len(some):
            return
        if len(some) < len(deltas):
            keys, deltas = keys.take(arrow_array(some)), deltas[some]
        change = pa.table({"key": keys, "delta": arrow_array(deltas)})
        self._changes.setdefault((column, key_type), []).append(change)

    def sums(self, column: str, key_type: str) -> Iterator[pa.Table]:
        """Yield the keys, ascending (null first), and their summed changes without zeros, in row groups."""
        changes = self._changes.get((column, key_type), [])
        in_scratch = self._spilled.get((column, key_type), [])
        if len(changes) > 1:
            changes = [add_up(pa.concat_tables([change.cast(_SUMS) for change in changes]))]
        if not in_scratch:
            return _cut(changes)
        inputs = [
            *(_cut([change.cast(_SUMS)]) for change in changes),
            *(_unspilled(*change) for change in in_scratch),
        ]
        return _cut(map(add_up, aligned(inputs, ["key"])))

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Return the pairs (column, key type), ascending."""
        return sorted({*self._changes, *self._spilled})


def write_value_counts(storage: Storage, tally: Tally) -> IndexFile | None:
    """Write the changes as one file sorted by (column, key); return None if all are zero.

    Columns of few changes share row groups of `SHARED_ROWS` rows, because each row group has its own cost.
    """
    files = VALUE_COUNTS.write_groups(storage, _shared(_groups(tally)))
    return files[0] if files else None


def _groups(tally: Tally) -> Iterator[pa.Table]:
    for column, key_type in tally.columns:
        for sums in tally.sums(column, key_type):
            constant = [pa.repeat(text, len(sums)) for text in (column, key_type)]
            wide = sums["delta"].cast(pa.int64())
            yield pa.table([*constant, sums["key"], wide], schema=VALUE_COUNTS.schema)


def _shared(groups: Iterable[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for group in groups:
        if waiting and sum(map(len, waiting)) + len(group) > SHARED_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
        waiting.append(group)
    if waiting:
        yield pa.concat_tables(waiting)


def _cut(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in tables of GROUP_ROWS rows; the last one may have fewer."""
    pending: pa.Table | None = None
    for table in tables:
        pending = table if pending is None else pa.concat_tables([pending, table])
        while len(pending) >= GROUP_ROWS:
            yield pending.slice(0, GROUP_ROWS)
            pending = pending.slice(GROUP_ROWS)
    if pending is not None and len(pending):
        yield pending


def _unspilled(keys: SpilledKeys, deltas: Deltas) -> Iterator[pa.Table]:
    """Yield keys of a scratch file and their deltas that are not zero, a row group at a time."""
    for start in range(0, len(keys), GROUP_ROWS):
        own = deltas[start : start + GROUP_ROWS].astype(np.int64)
        changes = pa.table({"key": keys.slice(start, GROUP_ROWS), "delta": arrow_array(own)}, schema=_SUMS)
        yield changes.filter(arrow_array(own != 0))


class ValueCounts:
    """Visible rows per key of a column: the sum of the changes in all live files of the kind."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._sums: dict[tuple[str, str], tuple[frozenset[str], pa.Table]] = {}

    def of(self, column: str, key_type: str) -> Counts:
        """Return the keys in order (null, for NULL, first) and their visible rows, none zero.

        Cost: reads only the files added since the last call, as long as no file was removed.
        """
        paths, storage = self._view.paths_of(VALUE_COUNTS), self._view.storage
        seen, sums = self._sums.get((column, key_type), (frozenset(), None))
        if sums is None or not seen <= paths:
            seen, sums = frozenset(), _NO_COUNTS
        changes = [sums, *(_deltas(storage, p, column, key_type) for p in sorted(paths - seen))]
        if len(changes) > 1:
            sums = add_up(pa.concat_tables(changes))
            self._sums[column, key_type] = (paths, sums)
        return sums["key"].combine_chunks(), numpy_of(sums["delta"], np.int64)


_NO_COUNTS = no_rows(_SUMS)


def stored_counts(storage: Storage, paths: Iterable[str], column: str) -> Iterator[tuple[str, Counts]]:
    """Yield per key type of a column its keys as stored (null first) and their visible rows, none zero.

    Cost: every row of the column in the files.
    """
    changes = [_changes(storage, path, column) for path in paths]
    rows = add_up(pa.concat_tables([no_rows(VALUE_COUNTS.schema), *changes]))
    for key_type, of_type in _by_key_type(rows):
        yield key_type, (of_type["key"].combine_chunks(), numpy_of(of_type["delta"], dtype=np.int64))


def _changes(storage: Storage, path: str, column: str) -> pa.Table:
    rows = read_groups(storage, path, "column", column, VALUE_COUNTS.schema.names)
    return conform(rows.filter(pc.equal(rows["column"], arrow_scalar(column))), VALUE_COUNTS.schema)


def _by_key_type(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    for key_type in pc.unique(rows["key_type"]).to_pylist():
        yield key_type, rows.filter(pc.equal(rows["key_type"], arrow_scalar(key_type)))


def _deltas(storage: Storage, path: str, column: str, key_type: str) -> pa.Table:
    tables = [_NO_COUNTS]
    for stored, of_type in _by_key_type(_changes(storage, path, column)):
        keys = of_type["key"].combine_chunks()
        keys = keys if stored == key_type else widen_keys(keys, stored, key_type)
        tables.append(pa.table({"key": keys, "delta": of_type["delta"]}))
    return pa.concat_tables(tables)


def add_up(deltas: pa.Table) -> pa.Table:
    """Sum `delta` over rows that are equal in all other columns; drop zero sums; sort with null keys first.

    The sum is taken by a sort, because pyarrow's group_by imports its dataset module, which costs a query a
    second.
    """
    if not len(deltas):
        return deltas
    names = [name for name in deltas.column_names if name != "delta"]
    ordered = sort(deltas, names)
    first = starts(ordered, names)
    sums = np.add.reduceat(numpy_of(ordered["delta"], np.int64), first)
    some = sums != 0
    column = deltas.column_names.index("delta")
    return ordered.take(arrow_array(first[some])).set_column(column, "delta", arrow_array(sums[some]))
