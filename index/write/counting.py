"""Changes of value counts for rows of indexed files: (ABSENT, v) once visible, (v, ABSENT) once hidden.

Value changes (position, old, new) of one column of a file slice, kept as arrays. Law: for every value v, the
rows that show v after a change are those that showed it before, less the positions with old = v, plus the
positions with new = v; so counting the pairs equals counting positions in bitmaps.

Worked example on eight rows with the keys NULL, A, B, when the rows 1, 3 and 5 are hidden too:

    row         0  1  2  3     4  5  6     7
    value       A  A  B  NULL  A  B  NULL  B
    code        1  1  2  0     1  2  0     2

    positions      1     3        5            a changed row each
    old            1     0        2            what the row showed
    new           -1    -1       -1            ABSENT: the row shows nothing any more
    counts      NULL -1, A -1, B -1            what the value counts change by

Values are read from the row groups of the data file that hold the rows, if the file is still the recorded
one. A partition value is known from the record. Otherwise the postings of the file's claim (its range in a
row space) are read, which is expensive. They are also read where a column is a partition column now and was
an ordinary one when the file was indexed, or the reverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitConflictError, CorruptIndexError, DataFileError
from tailbit.base.once import once
from tailbit.index.expression.indexed_term import sources_of, with_terms
from tailbit.index.index_files import regrouped
from tailbit.index.keys import element_type, encode_array
from tailbit.index.kinds.value_counts import Tally
from tailbit.index.model import RAISED_KEY, RAISED_TYPE, FileRecord, raised_id
from tailbit.index.postings.segment import Segment
from tailbit.index.roaring.elements import coding_of
from tailbit.index.store.state import IndexState
from tailbit.index.store.table import MetadataTable
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.cache import HANDLES_BYTES, Cache, share
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import footer_hash, is_read_by_unit
from tailbit.tables.parquet.rows import fetch, visible_positions
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import BitPositions, most_bytes, positions_in
from tailbit.tables.storage import NO_OPTIONS, Storage, StorageOptions

ABSENT = -1
"""The code of "no row here"; NULL is something else: a key like any other."""

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ValueChanges:
    """Value changes of one file and column: position, code of the old value, code of the new one.

    Code i means `keys[i]`; ABSENT means that no row is visible. Shapes: `positions` uint32, `old` and `new`
    int32, all of one length.
    """

    positions: BitPositions
    old: Codes
    new: Codes
    keys: pa.BinaryArray

    def counts(self) -> npt.NDArray[np.int64]:
        """Count per key, int64, how many more rows show it than before."""
        n = len(self.keys)
        return _tally(self.new, n) - _tally(self.old, n)


def entering(keys: pa.BinaryArray, codes: npt.NDArray[Any], positions: BitPositions) -> ValueChanges:
    """Return (ABSENT, v) for rows that appear at `positions`; one code per position."""
    return ValueChanges(positions, _absent(len(positions)), codes.astype(np.int32), keys)


def leaving(keys: pa.BinaryArray, codes: npt.NDArray[Any], positions: BitPositions) -> ValueChanges:
    """Return (v, ABSENT) for rows that disappear from `positions`; one code per position."""
    return ValueChanges(positions, codes.astype(np.int32), _absent(len(positions)), keys)


def _absent(n: int) -> Codes:
    return np.full(n, ABSENT, dtype=np.int32)


def _tally(codes: Codes, n: int) -> npt.NDArray[np.int64]:
    return np.bincount(codes[codes != ABSENT], minlength=n).astype(np.int64)


_OPENED: Cache[tuple[str, StorageOptions], MetadataTable] = Cache(HANDLES_BYTES)
"""Indexes that stay open between the tasks of a process, by path; bounded in bytes, not in tables."""

_LATEST: Cache[tuple[str, str], BitMap] = Cache(share(1 / 64))
"""Rows that tasks of this process have found hidden, by index and identity: the next change asks for them."""


def _opened(path: str, options: StorageOptions) -> MetadataTable:
    def load() -> tuple[MetadataTable, int]:
        index = MetadataTable.open(path, options=options)
        return index, index.bytes_held

    return _OPENED.get((path, options), load)


class HiddenRowsReader:
    """Reader of hidden rows by identity, each once per task. The index is opened only if it is needed."""

    def __init__(self, index_path: str, options: StorageOptions = NO_OPTIONS) -> None:
        self._path, self._options = index_path, options
        self._bitmaps: dict[str, BitMap] = {}

    @once
    def index(self) -> MetadataTable:
        """Return the index, refreshed; it stays open between the tasks of a process."""
        opened = _opened(self._path, self._options)
        opened.refresh()
        return opened

    @property
    def state(self) -> IndexState:
        """Return the present state of the index."""
        return self.index.state

    def of_slice(self, source: Storage, slice_: FileSlice) -> BitMap:
        """Return the rows hidden from a file slice; each identity is read once."""
        if slice_.hidden is None:
            return BitMap()
        if slice_.hidden.id not in self._bitmaps:
            self._bitmaps[slice_.hidden.id] = slice_.hidden.read(source)
        return self._bitmaps[slice_.hidden.id]

    def of_record(self, record: FileRecord) -> BitMap:
        """Return the hidden rows with which a recorded file is counted.

        Raises:
            CorruptIndexError: the index has lost the hidden rows.
        """
        if not record.hidden:
            return BitMap()
        if record.hidden not in self._bitmaps:
            hidden = _LATEST.cached((self._path, record.hidden))
            if hidden is None:
                hidden = self.state.hidden_rows(record.hidden)
            if hidden is None:
                raise CorruptIndexError(file=record.path, reason=f"hidden rows {record.hidden} are lost")
            self._bitmaps[record.hidden] = hidden
        return self._bitmaps[record.hidden]

    def keep(self, identity: str, rows: BitMap) -> None:
        """Keep hidden rows, which never change, for later tasks, under the identity that will be recorded."""
        _LATEST.hold((self._path, identity), rows, most_bytes(rows))


Columns = Mapping[str, tuple[Column, str]]
"""Column id to the present column and its key type."""

_RAISED_KEYS = pa.array([RAISED_KEY], pa.binary())
_SMALL = 1 << 20
"""Bytes of the largest file that is counted together with others: counts are kept until all are read."""

_KEYS_A_FILE = 100
"""Keys of postings that are read in the time in which a small data file is."""

_Counts = tuple[str, str, pa.BinaryArray, npt.NDArray[np.int64]]
"""Column id, key type, keys, and the change of the count of each."""


class Leaving(NamedTuple):
    """A recorded file that leaves, and the rows that are hidden in it."""

    record: FileRecord
    hidden: BitMap


class Counting:
    """Adder of the changed rows of recorded files to a tally of counts; `rows`: number of these rows."""

    def __init__(self, source: Storage, hidden: HiddenRowsReader, tally: Tally) -> None:
        self._source, self._hidden, self._tally = source, hidden, tally
        self.rows = 0

    def add(
        self,
        record: FileRecord,
        names: Sequence[str],
        columns: Columns,
        among: BitMap | None,
        hidden: BitMap,
        sign: int,
        overwritten: bool = False,
        leaves: bool = False,
    ) -> None:
        """Count the rows `among` (None: all) of a file minus the `hidden` rows, in the wanted columns.

        `sign`: +1 for rows that become visible, -1 for rows that are no longer visible. Values come from
        the data file. They come from the postings instead if the table no longer has the column, if it
        became a partition column or is none any more, if array elements may have been read otherwise, or if
        the file was `overwritten` (even by a file with an equal footer). With `leaves`, nothing is cached.
        """
        bits = (BitMap(range(record.rows)) if among is None else among) - hidden
        if not bits or not names:
            return
        self.rows += len(bits)
        stored, uncounted = [], []
        for name in names:
            if name not in columns:
                uncounted.append(name)
            elif columns[name][0].partition:
                if not self._add_partition(record, *columns[name], sign * len(bits)):
                    uncounted.append(name)
            elif _is_as_posted(columns[name][0], record):
                stored.append(columns[name])
            else:
                uncounted.append(name)
        if stored and (overwritten or not self._add_from_data(record, stored, bits, sign, not leaves)):
            uncounted += [c.id for c, _ in stored]
        if uncounted:
            self._add_from_postings(record, uncounted, bits, sign)

    def _add_partition(self, record: FileRecord, column: Column, key_type: str, change: int) -> bool:
        """Count by the partition value of the file.

        Count nothing and return False if the column was no partition column, or had another type, when the
        file was indexed.
        """
        if not _is_where_it_was(column, record):
            return False
        segments = self._hidden.state.segments_of(record.space or "")
        if any(s.columns.get(column.id, key_type) != key_type for s in segments):
            return False
        value = partition_array(column, record.partition[column.physical[0]], 1)
        self._tally.add(
            column.id, key_type, encode_array(value, key_type), np.array([change], dtype=np.int64)
        )
        return True

    def _add_from_data(
        self,
        record: FileRecord,
        columns: Sequence[tuple[Column, str]],
        bits: BitMap,
        sign: int,
        cached: bool,
    ) -> bool:
        """Count by the values in the data file; return False if the file is gone or is another one."""
        positions, stored = positions_in(bits), sources_of(c for c, _ in columns)
        read = fetch(self._source, _slice_of(record), stored, positions.astype(np.uint64), cached=cached)
        return self._add_read([record], _with_rows(read, positions), columns, sign)

    def _add_read(
        self,
        records: Sequence[FileRecord],
        read: Iterable[tuple[pa.Table, BitPositions]],
        columns: Sequence[tuple[Column, str]],
        sign: int,
    ) -> bool:
        """Count the rows of tables that were read from data files.

        `read`: tables, each with ascending numbers of its rows. All or nothing: return False if a file is
        gone, is another one, or may have been read by other units of its times when it was counted.
        """
        counted: list[_Counts] = []
        try:
            if any(footer_hash(self._source, record.path) != record.footer for record in records):
                return False
            stored = sources_of(column for column, _ in columns)
            if any(is_read_by_unit(self._source, record.path, stored) for record in records):
                return False
            for table, rows in read:
                counted += _counts_of(table, columns, rows, sign)
        except DataFileError:
            return False
        for counts in counted:
            self._tally.add(*counts)
        return True

    def leave(self, files: Sequence[Leaving], names: Sequence[str], columns: Columns) -> None:
        """Count the rows of files that leave, in the wanted columns; see `add`.

        Values of files of one row space come from its postings where these have few keys: where a compaction
        replaces 200 small files, that takes half of the time or less. Values of other small files that all
        come from data files are read and counted together, which takes 0.6 of the time.
        """
        files = self._without_counted_by_postings(files, names, columns)
        stored = [columns[name] for name in names if name in columns and not columns[name][0].partition]
        if stored and len(stored) == len(names):
            alike = [_may_be_together(file.record, stored) for file in files]
            if sum(alike) > 1 and self._leave_together([*compress(files, alike)], stored):
                files = [file for file, is_counted in zip(files, alike, strict=True) if not is_counted]
        for record, hidden in files:
            self.add(record, names, columns, None, hidden, -1, leaves=True)

    def _without_counted_by_postings(
        self, files: Sequence[Leaving], names: Sequence[str], columns: Columns
    ) -> list[Leaving]:
        """Count the files of each row space whose postings have few keys; return the other files."""
        if not names:
            return list(files)
        uncounted: list[Leaving] = []
        by_space: dict[str, list[Leaving]] = {}
        is_told = all(name in columns and not columns[name][0].partition for name in names)
        for file in files:
            space = file.record.space
            (uncounted if space is None or not is_told else by_space.setdefault(space, [])).append(file)
        for space, files_of_space in by_space.items():
            counted = self._counts_in_space(space, files_of_space, names)
            if counted is None:
                uncounted += files_of_space
                continue
            for counts in counted:
                self._tally.add(*counts)
            self.rows += sum(record.rows - len(hidden) for record, hidden in files_of_space)
        return uncounted

    def _counts_in_space(
        self, space: str, files: Sequence[Leaving], names: Sequence[str]
    ) -> list[_Counts] | None:
        """Return the changes of counts by the postings of a row space, all files of which leave at once.

        None if the data files are cheaper to read, or the postings do not hold each row once.
        """
        segments = self._hidden.state.segments_of(space)
        most, counted = _KEYS_A_FILE * len(files), list[_Counts]()
        try:
            of_columns = {name: [s for s in segments if name in s.columns] for name in names}
            pairs = [(name, segment) for name, some in of_columns.items() for segment in some]
            if any(element_type(segment.columns[name]) is not None for name, segment in pairs):
                return None
            if sum(segment.weight(name)[0] for name, segment in pairs) > most:
                return None
            bits = _positions_of(files)
            for name, some in of_columns.items():
                changes, is_whole = _by_cardinality(name, some, bits)
                if not is_whole:
                    changes, is_whole = _by_postings(name, some, bits, -1)
                if not is_whole:
                    return None
                counted += (*changes, *_raised(name, segments, bits, -1))
        except CorruptIndexError:
            return None
        return counted

    def _leave_together(self, files: Sequence[Leaving], columns: Sequence[tuple[Column, str]]) -> bool:
        """Count by the values in the data files; return False if one is gone or is another one."""
        tables = self._visible(files, sources_of(c for c, _ in columns))
        read = ((table, np.arange(len(table), dtype=np.uint32)) for table in regrouped(tables))
        if not self._add_read([file.record for file in files], read, columns, -1):
            return False
        self.rows += sum(record.rows - len(hidden) for record, hidden in files)
        return True

    def _visible(self, files: Iterable[Leaving], columns: Sequence[Column]) -> Iterator[pa.Table]:
        """Yield the visible rows of files, one file after the other."""
        for record, hidden in files:
            positions = visible_positions(record.rows, hidden) if hidden else None
            yield from fetch(self._source, _slice_of(record), columns, positions, cached=False)

    def _add_from_postings(self, record: FileRecord, columns: Sequence[str], bits: BitMap, sign: int) -> None:
        """Count the rows `bits` by the postings at the file's claim. Cost: all postings there of the columns.

        Each row must occur in exactly one posting; in an array column, in at least one.
        """
        in_space = bits.shift(record.base or 0)
        segments = self._hidden.state.segments_of(record.space or "")
        for column in columns:
            own = [segment for segment in segments if column in segment.columns]
            changes, is_whole = _by_postings(column, own, in_space, sign)
            for counts in (*_raised(column, segments, in_space, sign), *changes):
                self._tally.add(*counts)
            if not is_whole:
                self._not_found(record, column)

    def _not_found(self, record: FileRecord, column: str) -> None:
        """Raise the error that explains why postings are missing."""
        index = self._hidden.index
        now = index.state.recorded.get(record.path)
        if now is None or (now.space, now.base) != (record.space, record.base):
            raise CommitConflictError(version=index.version, path=index.path)
        reason = f"its data file is gone, and postings of column {column} do not hold all its rows"
        raise CorruptIndexError(file=record.path, reason=reason)


def _positions_of(files: Iterable[Leaving]) -> BitMap:
    """Return the positions in their row space of the visible rows of files."""
    bits = BitMap()
    for record, hidden in files:
        base = record.base or 0
        bits.add_range(base, base + record.rows)
        if hidden:
            bits -= hidden.shift(base)
    return bits


def _by_cardinality(column: str, segments: Sequence[Segment], bits: BitMap) -> tuple[list[_Counts], bool]:
    """Return the changes of counts where the postings of segments hold the rows `bits`, and whether they do.

    Each of these rows is in one posting, so that the postings hold no others if they have as many rows.
    """
    stored = [(segment.columns[column], *segment.keys_once(column)) for segment in segments]
    changes = [(column, key_type, keys, -cardinalities) for key_type, keys, cardinalities in stored]
    return changes, sum(int(cardinalities.sum()) for _, _, cardinalities in stored) == len(bits)


def _by_postings(
    column: str, segments: Sequence[Segment], bits: BitMap, sign: int
) -> tuple[list[_Counts], bool]:
    """Return the changes of counts by postings, and whether these hold each of the rows `bits` once.

    The elements of an array column have rows in common: there, whether each row is in at least one posting.
    """
    changes, total, several = list[_Counts](), 0, False
    rows = BitMap()
    for segment in segments:
        several = several or element_type(segment.columns[column]) is not None
        for keys, postings in segment.postings(column):
            counts = np.array([bits.intersection_cardinality(b) for b in postings], dtype=np.int64)
            some = np.flatnonzero(counts)
            if len(some):
                keys_of_rows = pc.take(keys, arrow_array(some))
                changes.append((column, segment.columns[column], keys_of_rows, sign * counts[some]))
            total += int(counts.sum())
            if several:
                rows |= bits & BitMap.union(BitMap(), *compress(postings, counts))
    return changes, (len(rows) if several else total) == len(bits)


def _raised(column: str, segments: Iterable[Segment], bits: BitMap, sign: int) -> Iterator[_Counts]:
    """Yield the changes of counts of rows at which the expression of a column raises an error."""
    raised = raised_id(column)
    for segment in segments:
        if raised in segment.columns:
            for keys, (posting,) in segment.postings(raised):
                count = np.array([sign * bits.intersection_cardinality(posting)], dtype=np.int64)
                yield raised, RAISED_TYPE, keys, count


def _may_be_together(record: FileRecord, columns: Sequence[tuple[Column, str]]) -> bool:
    return record.size <= _SMALL and all(_is_as_posted(column, record) for column, _ in columns)


def _slice_of(record: FileRecord) -> FileSlice:
    return FileSlice(record.path, record.size, record.mtime, record.rows, record.partition)


def _with_rows(
    tables: Iterable[pa.Table], positions: BitPositions
) -> Iterator[tuple[pa.Table, BitPositions]]:
    """Yield tables that are read of one file, each with the positions of its rows."""
    start = 0
    for table in tables:
        yield table, positions[start : start + len(table)]
        start += len(table)


def _counts_of(
    table: pa.Table, columns: Sequence[tuple[Column, str]], rows: BitPositions, sign: int
) -> Iterator[_Counts]:
    """Yield the changes of counts by the rows of `table`; `rows`: ascending numbers of these rows."""
    values, raising = with_terms(table, [column for column, _ in columns])
    for column, key_type in columns:
        coding = coding_of(column, key_type)
        coding.add(0, values[column.id])
        coded = coding.finish()
        codes, row_numbers = coded.codes_at(np.arange(len(rows)))
        pairs = entering if sign > 0 else leaving
        yield column.id, key_type, coded.keys, pairs(coded.keys, codes, rows[row_numbers]).counts()
        if column.id in raising:
            raised = np.array([sign * np.count_nonzero(raising[column.id])])
            yield raised_id(column.id), RAISED_TYPE, _RAISED_KEYS, raised


def _is_as_posted(column: Column, record: FileRecord) -> bool:
    """Return whether a data file still gives the values that were posted of a column."""
    in_place = all(_is_where_it_was(source, record) for source in sources_of([column]))
    return in_place and not _may_be_promoted(column)


def _may_be_promoted(column: Column) -> bool:
    """Return whether a column holds arrays of doubles that may have been floats when they were posted.

    Floats and doubles have keys of one type, and Hudi reads a float that has become a double by its text.
    """
    if column.type.name != "array":
        return False
    element = column.type.fields[0].type
    return element.promoted and element.name == "double"


def _is_where_it_was(column: Column, record: FileRecord) -> bool:
    """Return whether a column is a partition column now and when the file was indexed, or neither time."""
    return column.partition == (column.physical[0] in record.partition)
