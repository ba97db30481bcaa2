"""Kind `files`: the record of one data file of the source; per path the row of highest `seq` counts.

The recorded state of every file lies in memory: columnar for queries, by path for the indexer. The base is
one Arrow table with the newest record per path. Later records lie over it, by path, until a caller needs the
whole table. So a commit costs what it records, and a query never builds one object per file.

Kinds of rows about row groups of data files: the row groups are numbered, and placed in row spaces.

Such a kind knows a data file by the hash of its footer, whatever its path. The row groups of all data files
that its rows are about are numbered footer by footer.

Example: a row space of two files, `a` of two row groups and `b` of one.

    position       0         100       200       300
    row group      a 0       a 1       b 0
    number         0         1         2
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field, fields
from itertools import pairwise
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Ints, Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.base.once import once
from tailbit.index.evaluation.row_space import SpaceView, claims
from tailbit.index.kinds.kind import FAN_IN, Kind, Merged, MergeGroup, View, due_at_once, due_by_size
from tailbit.index.model import FileRecord, IndexFile
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, in_one, no_rows, numpy_of
from tailbit.tables.model import FileSlice

SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("mtime", pa.int64()),
        ("rows", pa.int64()),
        ("footer", pa.string()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("space", pa.string()),
        ("base", pa.int64()),
        ("columns", pa.list_(pa.string())),
        ("counted", pa.bool_()),
        ("hidden", pa.string()),
        ("lineage", pa.int64()),
        ("entered", pa.int64()),
        ("left", pa.int64()),
        ("error", pa.string()),
        ("seq", pa.int64()),
    ]
)

QUERY_COLUMNS = (
    "path",
    "size",
    "mtime",
    "rows",
    "space",
    "base",
    "columns",
    "counted",
    "hidden",
    "lineage",
    "left",
)
"""The columns of a `files` record that a query reads."""

_FIELDS = tuple(field.name for field in fields(FileRecord))
_NAMES = tuple("columns" if name == "built" else name for name in _FIELDS)
"""The columns of the rows in the order of a record's fields; column `columns` holds the field `built`."""

_FIELD_NUMBERS = {name: place for place, name in enumerate(_FIELDS)}
_values_of = attrgetter(*_FIELDS)


def files_to_arrow(records: Sequence[FileRecord]) -> pa.Table:
    """Convert `files` records to rows."""
    columns = dict(zip(_NAMES, zip(*map(_values_of, records), strict=True), strict=True)) if records else {}
    columns["partition"] = tuple(list(r.partition.items()) for r in records)
    return pa.table([arrow_array(columns.get(f.name, ()), f.type) for f in SCHEMA], schema=SCHEMA)


def files_from_arrow(table: pa.Table) -> list[FileRecord]:
    """Convert rows to `files` records."""
    columns = {name: table[name].to_pylist() for name in _NAMES}
    columns["partition"] = [dict(pairs or ()) for pairs in columns["partition"]]
    columns["columns"] = [tuple(names or ()) for names in columns["columns"]]
    return [FileRecord(*row) for row in zip(*columns.values(), strict=True)]


def stamped(records: Iterable[FileRecord], seq: int) -> list[FileRecord]:
    """Return the records with the number of the change that makes them visible."""
    return [_changed(record, seq=seq) for record in records]


def stamped_rows(rows: pa.Table, seq: int) -> pa.Table:
    """Return rows of kind `files` with the number of the change that makes them visible.

    No object per row is built.
    """
    column = rows.column_names.index("seq")
    return rows.set_column(column, "seq", pa.repeat(arrow_scalar(seq, pa.int64()), len(rows)))


def without_columns(rows: pa.Table, gone: Iterable[str]) -> pa.Table:
    """Remove columns from rows of kind `files`; return only the changed rows. Cost: vectorised."""
    codes, posted = column_sets(rows["columns"])
    remaining = [[column for column in columns if column not in gone] for columns in posted]
    touched = arrow_array([len(a) != len(b) for a, b in zip(posted, remaining, strict=True)], pa.bool_())
    stripped = arrow_array(remaining, rows["columns"].type).take(codes)
    rows = rows.set_column(rows.column_names.index("columns"), "columns", stripped)
    return pc.filter(rows, pc.take(touched, codes))


def column_sets(lists: pa.ChunkedArray) -> tuple[pa.Array, list[list[str]]]:
    """Return per row the number of its list of column ids, and the distinct lists. Cost: vectorised."""
    codes = pc.dictionary_encode(in_one(pc.binary_join(lists, arrow_scalar(_JOINT))))
    column_lists = [text.split(_JOINT) if text else [] for text in codes.dictionary.to_pylist()]
    return codes.indices, column_lists


_JOINT = "\x1f"
"""Separator of the joined ids of posted columns."""


def reclaimed(record: FileRecord, space: str | None, base: int | None) -> FileRecord:
    """Return the record with another claim; without a claim, nothing of the file is posted."""
    return _changed(record, space=space, base=base, built=record.built if space is not None else ())


def _changed(record: FileRecord, **values: Any) -> FileRecord:
    """Return what `dataclasses.replace` returns, three times as fast.

    Merges move hundreds of thousands of records.
    """
    every = list(_values_of(record))
    for name, value in values.items():
        every[_FIELD_NUMBERS[name]] = value
    return FileRecord(*every)


def newest_per_path(table: pa.Table) -> pa.Table:
    """Return the row of highest `seq` per path, the last one among equals.

    Vectorised: one dictionary encoding of the paths and one take.
    """
    if not len(table):
        return table
    seq = numpy_of(table["seq"], dtype=np.int64)
    order = np.argsort(seq, kind="stable")
    codes = numpy_of(_codes(table["path"]), dtype=np.int64)
    last = np.empty(int(codes.max()) + 1, dtype=np.int64)
    # For repeated indices numpy keeps the last assignment.
    last[codes[order]] = order
    return table if len(last) == len(table) else pc.take(table, arrow_array(np.sort(last)))


def _codes(paths: pa.ChunkedArray) -> npt.NDArray[Any]:
    return numpy_of(pc.dictionary_encode(in_one(paths)).indices)


_PIECE = 1 << 14
"""Number of paths that are held as Python strings at a time."""


class FoundRows:
    """The rows of a table of kind `files` with one row per path, in one chunk; threads may share it."""

    def __init__(self, table: pa.Table) -> None:
        self._paths, self._spaces = in_one(table["path"]), in_one(table["space"])

    def get(self, path: str) -> int | None:
        """Return the row of a path, or None. Cost: a binary search; at first, one pass over all paths."""
        hashes, order = self._by_hash
        number = hash(path)
        for place in range(bisect_left(hashes, number), len(hashes)):
            if hashes[place] != number:
                break
            if self._paths[order[place]].as_py() == path:
                return order[place]
        return None

    def space_of(self, row: int) -> str | None:
        """Return the row space of which a row claims a range; None if it claims none."""
        space: str | None = self._spaces[row].as_py()
        return space

    def claiming(self, space: str) -> Longs:
        """Return the rows that claim a range of a row space, int64, ascending."""
        order, cuts = self._by_space
        begin, end = cuts.get(space, (0, 0))
        return order[begin:end].astype(np.int64)

    def claims(self) -> dict[str, int]:
        """Return the number of rows that claim a range of each row space."""
        return {space: end - begin for space, (begin, end) in self._by_space[1].items()}

    @once
    def _by_hash(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the hashes of the paths, ascending, and the row of each, as numbers of Python."""
        hashes = np.empty(len(self._paths), dtype=np.int64)
        for start in range(0, len(hashes), _PIECE):
            piece = self._paths.slice(start, _PIECE).to_pylist()
            hashes[start : start + len(piece)] = np.fromiter(map(hash, piece), np.int64, len(piece))
        order = np.argsort(hashes, kind="stable").astype(np.int32)
        return hashes[order].data, order.data

    @once
    def _by_space(self) -> tuple[Ints, dict[str, tuple[int, int]]]:
        """Return the rows with a claim by row space, and where each row space begins and ends among them."""
        spaces = pc.dictionary_encode(self._spaces)
        codes = numpy_of(filled(spaces.indices, -1), dtype=np.int32)
        order = np.argsort(codes, kind="stable").astype(np.int32)
        names = spaces.dictionary.to_pylist()
        cuts = np.searchsorted(codes[order], np.arange(len(names) + 1)).tolist()
        return order, dict(zip(names, pairwise(cuts), strict=True))


class NewerClaims:
    """The claims of records that replace rows of a table; a replaced row loses its claim.

    `counts`: the number of claims of each row space, claims of rows that are not replaced included.
    """

    def __init__(self, rows: FoundRows, records: Iterable[FileRecord]) -> None:
        self._rows, self.counts = rows, rows.claims()
        self._paths: dict[str, set[str]] = {}
        for record in records:
            self.note(record, None)

    def note(self, record: FileRecord, replaced: FileRecord | None) -> None:
        """Add the newest record of a path; `replaced`: the newer record that it replaces, else None."""
        path, space = record.path, record.space
        before = self._space_of_row(path) if replaced is None else replaced.space
        if before is not None:
            self._paths.get(before, set()).discard(path)
            self._count(before, -1)
        if space is not None:
            self._paths.setdefault(space, set()).add(path)
            self._count(space, 1)

    def of(self, space: str) -> set[str]:
        """Return the paths of newer records that claim a range of a row space."""
        return self._paths.get(space, set())

    def _space_of_row(self, path: str) -> str | None:
        row = self._rows.get(path)
        return None if row is None else self._rows.space_of(row)

    def _count(self, space: str, more: int) -> None:
        count = self.counts.get(space, 0) + more
        if count:
            self.counts[space] = count
        else:
            # Each small commit creates a row space and a merge empties it, so empty entries would pile up.
            del self.counts[space]
            self._paths.pop(space, None)


_MANY = 256
"""At least this many newer rows are folded into the base at once instead of becoming objects."""

_SHARE = 64
"""Newer rows are folded into the base when they exceed 1/64 of its rows: amortised, a constant per record.

A row takes a quarter of the memory of an object.
"""

Claimed = list[tuple[FileSlice, FileRecord]]
"""File slices, each with the record of its file."""


def sample(files: Claimed, count: int) -> Claimed:
    """Return some `count` of the files, spread over all of them."""
    return files[:: max(1, len(files) // count)]


class RecordedFiles:
    """The newest `files` record per path.

    Invariant: every method returns what `extend` or `extend_rows` last received about a path.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._base = newest_per_path(rows).combine_chunks()
        self._newer: dict[str, FileRecord] = {}
        self._claims: NewerClaims | None = None
        self._spent: tuple[int, set[str]] | None = None

    def __len__(self) -> int:
        return len(self._base) + sum(self._rows.get(path) is None for path in self._newer)

    def get(self, path: str) -> FileRecord | None:
        """Return the record of a path, or None if nothing was ever recorded. Cost: one lookup."""
        newer = self._newer.get(path)
        if newer is not None:
            return newer
        row = self._rows.get(path)
        return None if row is None else files_from_arrow(self._base.slice(row, 1))[0]

    def records(self) -> Iterator[FileRecord]:
        """Yield every record, in row order of the table."""
        table = self.table()
        for start in range(0, len(table), 1 << 14):
            yield from files_from_arrow(table.slice(start, 1 << 14))

    def live(self) -> Iterator[FileRecord]:
        """Yield the records of the files that are still in the source."""
        return (record for record in self.records() if record.left is None)

    def built(self, slices: Sequence[FileSlice], ids: Set[str]) -> Claimed:
        """Return the slices that have been indexed for one of some definitions, with their records."""
        records = {record.path: record for record in self.live() if not ids.isdisjoint(record.built)}
        named = ((slice_, records.get(slice_.path)) for slice_ in slices)
        return [(slice_, record) for slice_, record in named if record is not None and record.is_of(slice_)]

    def table(self) -> pa.Table:
        """Return one row per path, all columns of kind `files`, in one chunk.

        Cost: nothing if nothing was recorded since the last call, else one vectorised pass over all files.
        """
        if self._newer:
            self._fold(files_to_arrow(list(self._newer.values())))
        return self._base

    def extend(self, records: Iterable[FileRecord]) -> None:
        """Add newer records. Cost: proportional to their number, amortised."""
        for record in records:
            if self._claims is not None:
                self._claims.note(record, self._newer.get(record.path))
            self._newer[record.path] = record
        if len(self._newer) > max(_MANY, len(self._base) // _SHARE):
            self.table()

    def extend_rows(self, rows: pa.Table) -> None:
        """Add newer rows as read from files of the index; a row older than the known record is ignored."""
        if len(rows) >= _MANY:
            self.table()
            self._fold(rows)
        else:
            pairs = ((record, self.get(record.path)) for record in files_from_arrow(rows))
            self.extend([record for record, old in pairs if old is None or old.seq <= record.seq])

    def get_all(self, paths: Iterable[str]) -> list[FileRecord]:
        """Return the records of some paths, in no order, without paths never recorded. Cost: one take."""
        paths = list(paths)
        newer = [self._newer[path] for path in paths if path in self._newer]
        base_rows = (self._rows.get(path) for path in paths if path not in self._newer)
        rows = [row for row in base_rows if row is not None]
        return newer + files_from_arrow(self._base.take(np.array(rows, dtype=np.int64)))

    def claims(self, space: str) -> list[FileRecord]:
        """Return the records that claim a range of a row space, by base."""
        in_base = files_from_arrow(self._claiming(space))
        records = [record for record in in_base if record.path not in self._newer]
        records += [self._newer[path] for path in self._newer_claims().of(space)]
        return sorted(records, key=lambda record: record.base or 0)

    def claimed_rows(self, space: str) -> int:
        """Return the total rows of all claims of a row space."""
        in_base = self._claiming(space).select(["path", "rows"]).to_pylist()
        total = sum(row["rows"] for row in in_base if row["path"] not in self._newer)
        return int(total) + sum(self._newer[path].rows for path in self._newer_claims().of(space))

    def claim_counts(self) -> Mapping[str, int]:
        """Map row space to the number of claims, none of them 0; built on first use, then kept up to date."""
        return self._newer_claims().counts

    def _claiming(self, space: str) -> pa.Table:
        return pc.take(self._base, arrow_array(self._rows.claiming(space)))

    def _newer_claims(self) -> NewerClaims:
        if self._claims is None:
            self._claims = NewerClaims(self._rows, self._newer.values())
        return self._claims

    def identities(self) -> set[str]:
        """Return the identities of the hidden rows with which files are counted now.

        Cost: one pass over all files.
        """
        return set(pc.unique(self.table()["hidden"]).to_pylist()) - {"", None}

    def footers(self) -> pa.StringArray:
        """Return the distinct hashes of the footers of files with a claim. Cost: one pass over all files."""
        rows = self.table()
        return pc.unique(in_one(pc.filter(rows, pc.is_valid(rows["space"]))["footer"]))

    def unposted(self, columns: Iterable[str]) -> dict[str, int]:
        """Map column id to the number of live files without postings of it.

        Cost: one pass over all files.
        """
        live = pc.filter(self.table(), pc.is_null(self._base["left"]))
        claimed = pc.filter(live, pc.is_valid(live["space"]))
        bare = len(live) - len(claimed)
        codes, posted = column_sets(claimed["columns"])
        files = np.bincount(numpy_of(codes, dtype=np.int64), minlength=len(posted)).tolist()
        return {
            c: bare
            + sum(n for n, columns_of_set in zip(files, posted, strict=True) if c not in columns_of_set)
            for c in columns
        }

    def errors(self) -> dict[str, int]:
        """Count the live files that are not covered, per reason. Cost: one pass over all files."""
        live = pc.filter(self.table(), pc.is_null(self._base["left"]))
        counted = pc.value_counts(pc.drop_null(live["error"])).to_pylist()
        return {entry["values"]: entry["counts"] for entry in counted}

    def unread(self) -> list[str]:
        """Return the live files that could not be read when they were added.

        Cost: one pass over all files.
        """
        rows = self.table()
        leaving, claimed = (pc.is_valid(self._base[name]) for name in ("left", "space"))
        away = pc.or_(pc.or_(leaving, claimed), pc.or_(rows["counted"], pc.is_null(rows["error"])))
        return list(pc.filter(rows, pc.invert(away))["path"].to_pylist())

    def mostly_unreachable(self, earliest: int) -> set[str]:
        """Return the row spaces with half or more of their claimed rows in files removed by `earliest`.

        Cost: one pass over all files, once per `earliest`; later changes are ignored until `earliest`
        changes.
        """
        if self._spent is None or self._spent[0] != earliest:
            claimed = pc.filter(self.table(), pc.is_valid(self._base["space"]))
            spaces = pc.dictionary_encode(in_one(claimed["space"]))
            codes, rows = numpy_of(spaces.indices), numpy_of(claimed["rows"], dtype=np.float64)
            gone = numpy_of(filled(pc.less_equal(claimed["left"], arrow_scalar(earliest)), False), dtype=bool)
            lost = np.bincount(codes, rows * gone, minlength=len(spaces.dictionary))
            spent = np.flatnonzero(2 * lost >= np.bincount(codes, rows, minlength=len(spaces.dictionary)))
            self._spent = (earliest, set(pc.take(spaces.dictionary, arrow_array(spent)).to_pylist()))
        return self._spent[1]

    @once
    def _rows(self) -> FoundRows:
        return FoundRows(self._base)

    def _fold(self, rows: pa.Table) -> None:
        self._base = newest_per_path(pa.concat_tables([self._base, rows])).combine_chunks()
        self._newer, self._claims = {}, None
        self.__dict__.pop("_rows", None)


class FilesKind(Kind[RecordedFiles]):
    """Kind whose rows are each the state of one data file after one change."""

    name: ClassVar[str] = "files"
    schema: ClassVar[pa.Schema] = SCHEMA

    def reader(self, view: View) -> RecordedFiles:
        """Return the newest record of every file. Cost: reads all live files of this kind."""
        tables = self.read_all(view)
        return RecordedFiles(pa.concat_tables([no_rows(SCHEMA), *tables]))

    def renewed(
        self, reader: RecordedFiles, view: View, added: Sequence[IndexFile], removed: Sequence[str]
    ) -> RecordedFiles:
        """Return the same reader, extended by the added rows."""
        for rows in self.read_all(
            view, [file for file in added if file.path.startswith(f"kind={self.name}/")]
        ):
            reader.extend_rows(rows)
        return reader

    def merge(self, view: View, group: MergeGroup, earliest: int | None) -> Merged:
        """Keep the newest record per path.

        A record of a file that left the table and has no postings is dropped, unless an index file outside
        this merge may still hold an older record of the path.
        """
        inputs = [self.read(view.storage, path) for path in group.inputs]
        rows = newest_per_path(pa.concat_tables(inputs))
        others = [path for path in view.paths_of(self) if path not in group.inputs]
        oldest_outside = min((self._lowest_seq(view, path) for path in others), default=1 << 62)
        blank = pc.and_(pc.is_null(rows["space"]), pc.is_valid(rows["left"]))
        blank = pc.and_(blank, pc.and_(pc.invert(rows["counted"]), pc.is_null(rows["error"])))
        rows = rows.filter(pc.invert(pc.and_(blank, pc.less(rows["seq"], oldest_outside))))
        return Merged((self.write(view.storage, rows),) if len(rows) else ())

    def _lowest_seq(self, view: View, path: str) -> int:
        seqs = self.read(view.storage, path)["seq"]
        return int(pc.min(seqs).as_py() or 0)


FILES = FilesKind()


_LOST = -(1 << 40)
"""The row count of a row group that the index has no row about."""


@dataclass(frozen=True, eq=False)
class RowGroups:
    """The row groups that rows of an index are about.

    `footers`: the distinct hashes of footers. `starts`: the number of the first row group of each, and the
    number of all as the last item. `rows`: the row count of each row group. `numbers`: the row group of each
    row of the index.
    """

    footers: pa.StringArray
    starts: Longs
    rows: Longs
    numbers: Longs

    @classmethod
    def of(cls, footers: pa.StringArray, indexes: Longs, rows: Longs) -> RowGroups:
        """Return the row groups, numbered; `indexes`: that of each row's row group within its data file."""
        coded = pc.dictionary_encode(footers)
        codes = numpy_of(coded.indices, dtype=np.int64)
        counts = np.zeros(len(coded.dictionary), dtype=np.int64)
        np.maximum.at(counts, codes, indexes + 1)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        numbers = starts[codes] + indexes
        row_counts = np.full(int(starts[-1]), _LOST, dtype=np.int64)
        row_counts[numbers] = rows
        return cls(coded.dictionary, starts, row_counts, numbers)

    def by_footer(self) -> dict[str, slice]:
        """Map the hash of each footer to the numbers of its row groups."""
        ends = map(slice, self.starts[:-1].tolist(), self.starts[1:].tolist())
        return dict(zip(self.footers.to_pylist(), ends, strict=True))


class Placed(NamedTuple):
    """The row groups of a row space that rows are about, and the positions of all other rows (`unknown`).

    `numbers`: of the row groups. `files`: index of the file of each in the row space. `bases`, `rows`: its
    first position in the row space, and its row count.
    """

    numbers: Longs
    files: Longs
    bases: Longs
    rows: Longs
    unknown: BitMap


@dataclass(eq=False)
class RowGroupLayout:
    """The places of row groups in the row spaces of one state of an index. Threads may share it.

    `definition`: if given, all rows of files for which it is not built are unknown.
    """

    row_groups: RowGroups
    recorded_files: RecordedPlaces
    definition: str = ""
    _placed: dict[SpaceView, Placed] = field(default_factory=dict)

    def placed(self, space: SpaceView) -> Placed:
        """Return where the row groups of a row space's files lie. Cost: once per row space, vectorised."""
        placed = self._placed.get(space)
        if placed is None:
            placed = self._placed[space] = self._place(space)
        return placed

    def _place(self, space: SpaceView) -> Placed:
        groups, rows = self.row_groups, self.recorded_files.rows_at(space)
        files = np.where(rows >= 0, self._numbers[rows], -1) if len(self._numbers) else rows
        sums = np.concatenate([[0], np.cumsum(groups.rows)])[groups.starts]
        # The last item stands for files that no row is about.
        complete = np.append(np.diff(sums), _LOST)[files] == space.rows
        if self.definition:
            built = np.array([self.definition in ids for ids in space.column_sets], dtype=bool)
            complete &= built[space.posted]
        counts = np.where(complete, np.append(np.diff(groups.starts), 0)[files], 0)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        numbers = np.repeat(groups.starts[files], counts) + np.arange(len(first)) - first
        rows = groups.rows[numbers]
        before = np.cumsum(rows) - rows
        bases = np.repeat(space.bases, counts) + before - before[first]
        unknown = claims(space.bases[~complete], space.rows[~complete])
        return Placed(numbers, np.repeat(np.arange(len(files)), counts), bases, rows, unknown)

    @once
    def _numbers(self) -> Longs:
        """Return, per recorded file, the number of its footer, or -1."""
        footers = self.recorded_files.recorded["footer"]
        return numpy_of(filled(pc.index_in(footers, value_set=self.row_groups.footers), -1), np.int64)


@dataclass(eq=False)
class RecordedPlaces:
    """The places of the files of one state of an index. Threads may share it.

    `recorded`: the rows of kind `files` of that state.
    """

    recorded: pa.Table

    def rows_at(self, space: SpaceView) -> Longs:
        """Return, per file of a row space, its row in `recorded`, int64; -1 if it has no rows or no record.

        Cost: vectorised; the first time, one pass over all files.
        """
        claims = self._by_space.get(space.space)
        if claims is None:
            return np.full(len(space.bases), -1, dtype=np.int64)
        bases, rows = claims
        claim_numbers = np.minimum(np.searchsorted(bases, space.bases), len(bases) - 1)
        # A file without rows begins where the next one does.
        return np.where((bases[claim_numbers] == space.bases) & (space.rows > 0), rows[claim_numbers], -1)

    @once
    def _by_space(self) -> dict[str, tuple[Longs, Longs]]:
        """Map row space to the bases of its claims, ascending, and the row of `recorded` of each."""
        table = self.recorded
        claimed = pc.and_(pc.is_valid(table["space"]), pc.greater(table["rows"], arrow_scalar(0)))
        own = np.flatnonzero(numpy_of(filled(claimed, False)))
        if not len(own):
            return {}
        table = pc.take(table.select(["space", "base"]), arrow_array(own))
        spaces = pc.dictionary_encode(in_one(table["space"]))
        codes, bases = numpy_of(spaces.indices, dtype=np.int64), numpy_of(table["base"], dtype=np.int64)
        order = np.lexsort((bases, codes))
        cuts = np.flatnonzero(np.diff(codes[order])) + 1
        names = pc.take(spaces.dictionary, arrow_array(codes[order][np.r_[0, cuts]])).to_pylist()
        claims = zip(np.split(bases[order], cuts), np.split(own[order], cuts), strict=True)
        return dict(zip(names, claims, strict=True))


class _OfPaths(Protocol):
    """A reader of index files."""

    @property
    def paths(self) -> frozenset[str]:
        """The names of the files."""


R = TypeVar("R", bound=_OfPaths)


class FooterKind(Kind[R]):
    """A kind of rows about data files, which are known by the hash of their footer.

    `lowest`, `others`: numbers of files of the lowest size class and of any other that are merged.
    """

    lowest: ClassVar[int] = FAN_IN
    others: ClassVar[int] = FAN_IN

    def renewed(self, reader: R, view: View, added: Sequence[IndexFile], removed: Sequence[str]) -> R | None:
        """Return the reader if no file of the kind was added or removed; else None."""
        return reader if view.paths_of(self) == reader.paths else None

    def due(self, view: View, earliest: int | None) -> Iterator[MergeGroup]:
        """Yield the size classes that are full; all files, if there is no definition of this kind."""
        files = view.files_of(self)
        if not self.definitions(view):
            return due_at_once(self.name, files)
        return due_by_size(self.name, files, self.lowest, self.others)

    def in_use(self, view: View) -> Iterable[str]:
        """Return the hashes of the footers of files with a claim."""
        footers: list[str] = view.reader(FILES).footers().to_pylist()
        return footers

    def recorded_places(self, view: View) -> RecordedPlaces | None:
        """Return where data files lie in row spaces; None if the file records cannot be read."""
        try:
            return RecordedPlaces(view.reader(FILES).table())
        except CorruptIndexError:
            return None
