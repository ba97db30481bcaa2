"""Comparison of an index with the data: records, postings, value counts, a sample of values.

Traces of a commit to the index that its log no longer has, such as a newest commit that was deleted. What is
left of the index is whole, and of an earlier version of its table: no answer is wrong, and the indexer does
the work again. Only the files that the lost commit wrote tell of it, until they are swept.

Input: an index and a snapshot with its coverage. Output: a `Report` with every problem by name. First
every file of the index is read. Each kind checks its own rows against the source. Then follow
the checks that compare kinds with each other: `check_claims`, `check_postings`, `check_counts`, and
`check_sample` and `check_derived`, which read data files again. Memory: the records, the distinct keys of one
column, and a row group of postings.

Checks that the recorded files are those of the covered version, and that claims do not overlap. The claim of
a data file is its range of positions in a row space.

Check of the postings of a column in a row space: disjoint, and with NULL all rows of each file. Postings of
the elements of arrays may share rows; those of NULL and of empty arrays share none with others.

Their visible rows are summed per key (`Expected`) and compared with the recorded value counts.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, CorruptIndexError, SourceError
from tailbit.index.evaluation.row_space import SpaceView, claims
from tailbit.index.expression.indexed_term import sources_of, with_terms
from tailbit.index.index_files import open_index_file
from tailbit.index.keys import NO_ELEMENT, NO_KEYS, element_type, posting_type_of, widen_keys, widens
from tailbit.index.kinds.kind import Blame, CheckedSource, Problem, reading
from tailbit.index.kinds.ledger import LEDGER, ledger_from_arrow
from tailbit.index.model import FileRecord, Standing
from tailbit.index.postings.segment import Segment
from tailbit.index.query.coverage import Coverage, Damages, HiddenRowsOf
from tailbit.index.roaring.elements import coding_of
from tailbit.index.sql.terms import indexed_columns_of, kept_expressions
from tailbit.index.store.state import IndexState
from tailbit.tables import compute as pc
from tailbit.tables.model import Column, FileSlice, VersionName
from tailbit.tables.parquet.rows import Positions, fetch
from tailbit.tables.positions import positions_in
from tailbit.tables.storage import Storage


@dataclass
class Report:
    """The result of a verification: what was checked, and every problem; sound if there is none.

    `version`: the source version with which the index was compared. `state`: of the index, as in `status`.
    `sampled`: values read again from the data. `derived`: columns of files derived again as a whole.
    `files_read`: index files read again with all their checksums. `notes`: what a person should know of an
    index that is sound.
    """

    version: VersionName | None = None
    state: str = "complete"
    files: int = 0
    spaces: int = 0
    postings: int = 0
    positions: int = 0
    counts: int = 0
    sampled: int = 0
    derived: int = 0
    files_read: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.problems

    def note(self, problem: Problem) -> None:
        """Record a problem, once; of an index file that cannot be used the first one says all."""
        of_file = problem.blame is Blame.FILE
        if any(
            known_problem == problem or (of_file and _is_of_file(known_problem, problem.name))
            for known_problem in self.problems
        ):
            return
        self.problems.append(problem)


def _is_of_file(problem: Problem, name: str) -> bool:
    return problem.blame is Blame.FILE and problem.name == name


class DamagedPart(NamedTuple):
    """A damaged part of the index, such as a file or a row space: its first problem, and how many follow."""

    problem: Problem
    others: int


def damaged_parts(problems: Sequence[Problem]) -> list[DamagedPart]:
    """Return what is damaged, each part once; a problem that is not the index's is a part of its own."""
    groups: dict[object, list[Problem]] = {}
    for problem in problems:
        of_source = problem.blame is Blame.NOTHING
        groups.setdefault(problem if of_source else (problem.blame, problem.name), []).append(problem)
    return [DamagedPart(group[0], len(group) - 1) for group in groups.values()]


SHOWN = 20
"""Problems reported per list of keys or files."""

Claims = Mapping[str, Sequence[FileRecord]]
"""Row space to the records that claim a range of it, by base."""


def check_recorded(index: IndexState, coverage: Coverage, standing: Standing) -> Iterator[Problem]:
    """Check that at the covered version, the files recorded as live are the files of the snapshot.

    Nothing is checked if the index is not `COMPLETE` or the snapshot is of another version.
    """
    ledger, files = index.ledger, coverage.snapshot.files
    if ledger is None or standing is not Standing.COMPLETE or ledger.covered != coverage.snapshot.version:
        return
    for number in coverage.uncovered.tolist():
        record = index.recorded.get(files[number].path)
        if record is None or record.left is not None or (record.counted and record.error is None):
            yield Problem(f"file {files[number].path}", "it is live and not recorded as it is", Blame.RECORDS)
    live = files.paths.to_pylist()
    gone = {r.path for r in index.recorded.live()}.difference(live)
    for path in sorted(gone)[:SHOWN]:
        yield Problem(f"file {path}", "it is recorded as live and is not in the table", Blame.RECORDS)


def claims_of(index: IndexState) -> Claims:
    """Return, per row space, the records of the files with a claim there, by start of the claim.

    Cost: one Python object per recorded data file.
    """
    out: dict[str, list[FileRecord]] = {}
    for record in index.recorded.records():
        if record.space is not None:
            out.setdefault(record.space, []).append(record)
    for records in out.values():
        records.sort(key=lambda r: (r.base or 0, r.rows))
    return out


def check_claims(claims: Claims) -> Iterator[Problem]:
    """Check that the claims of one row space do not overlap."""
    for space, records in claims.items():
        for first, other in pairwise(records):
            if (first.base or 0) + first.rows > (other.base or 0):
                overlap = f"claims of {first.path} and {other.path} overlap"
                yield Problem(f"row space {space}", overlap, Blame.SPACE, space)


@dataclass
class Expected:
    """Visible rows per key of a column, by its postings, in one key type.

    `complete` is False if damage, or keys of types that cannot be compared, make the rows unknown; or if the
    index does not count the column.
    """

    key_type: str
    rows: Counter[bytes | None] = field(default_factory=Counter)
    complete: bool = True

    def add(self, segment: Segment, column: str, keys: pa.BinaryArray, visible: Sequence[int]) -> None:
        """Add visible rows, one number per key of a segment."""
        if not self.complete or not any(visible):
            return
        try:
            widened = widen_keys(keys, segment.columns[column], self.key_type)
        except ColumnTypeError:
            self.complete = False
            return
        for key, rows in zip(widened.to_pylist(), visible, strict=True):
            if rows:
                self.rows[key] += rows


@dataclass
class _PostedRows:
    """The rows that occur in the postings of a column.

    `lone`: rows of keys that exclude other keys in a row; `shared`: rows of keys that allow others.
    """

    positions: int = 0
    lone: int = 0
    shared: BitMap = field(default_factory=BitMap)
    union: BitMap = field(default_factory=BitMap)

    @property
    def apart(self) -> int:
        """Return the number of distinct rows if no exclusive posting shares a row; else a larger number."""
        return self.lone + len(self.shared)

    def add(self, bitmaps: Sequence[BitMap], lone: int) -> None:
        """Add postings; a row of one of the first `lone` postings must not be in any other posting."""
        sizes = list(map(len, bitmaps))
        self.positions += sum(sizes)
        self.lone += sum(sizes[:lone])
        self.shared |= BitMap.union(BitMap(), *bitmaps[lone:])
        self.union |= BitMap.union(*bitmaps)


def check_postings(
    index: IndexState,
    space: str,
    column: str,
    records: Sequence[FileRecord],
    expected: Expected,
    report: Report,
) -> Iterator[Problem]:
    """Check the postings of a column in a row space, and add its visible rows to `expected`.

    `records`: the records that claim a range of the row space. `report` counts what is read. Cost: reads
    every posting of the column there.
    """
    where = f"row space {space}, column {column}"
    posted = [record for record in records if column in record.built]
    claimed = _claimed(posted)
    rows = _PostedRows()
    try:
        visible = _claimed([r for r in posted if r.counted]) - _hidden(index, posted)
        for segment in index.segments_of(space):
            rising = True
            for keys, bitmaps, rises in _groups(segment, column):
                report.postings += len(bitmaps)
                rising = rising and rises
                inside = [bits & claimed for bits in bitmaps]
                rows.add(inside, _lone_keys(keys, segment.columns[column]))
                expected.add(segment, column, keys, [b.intersection_cardinality(visible) for b in inside])
            if not rising:
                yield Problem(where, f"keys do not rise in {segment.path}", Blame.SPACE, space)
    except CorruptIndexError as damage:
        expected.complete = False
        yield Problem.of(damage)
        return
    report.positions += rows.positions
    if rows.apart != len(rows.union):
        overlap = f"postings overlap: {rows.apart} positions, {len(rows.union)} distinct"
        yield Problem(where, overlap, Blame.SPACE, space)
    yield from _unposted(where, space, posted, rows.union)


def check_counts(index: IndexState, column: str, expected: Expected, report: Report) -> Iterator[Problem]:
    """Yield the recorded counts of a column that differ from those `expected` by its postings."""
    where = f"value counts of {column}"
    if not expected.complete:
        return
    try:
        keys, counts = index.value_counts(column, expected.key_type)
    except CorruptIndexError as damage:
        yield Problem.of(damage)
        return
    except ColumnTypeError:
        return
    recorded = {k: n for k, n in zip(keys.to_pylist(), counts.tolist(), strict=True) if n}
    report.counts += len(recorded)
    by_bits = expected.rows
    bad = [k for k in recorded.keys() | by_bits.keys() if recorded.get(k, 0) != by_bits.get(k, 0)]
    for key in sorted(bad, key=lambda k: k or b"")[:SHOWN]:
        shown = "NULL" if key is None else key.hex()
        difference = f"{recorded.get(key, 0)} recorded, {by_bits.get(key, 0)} by bits"
        yield Problem(f"{where}, key {shown}", difference, Blame.COUNTS)


def _lone_keys(keys: pa.BinaryArray, key_type: str) -> int:
    """Return the number of leading keys that exclude other keys in a row.

    Keys of plain values all do; of array keys, only those of NULL and of empty arrays.
    """
    if element_type(key_type) is None:
        return len(keys)
    return sum(key is None or key == NO_ELEMENT for key in keys[:2].to_pylist())


def _groups(segment: Segment, column: str) -> Iterator[tuple[pa.BinaryArray, list[BitMap], bool]]:
    """Yield the postings of a segment by row group, and whether their keys ascend, as lookups require."""
    last: bytes | None = None
    for keys, bitmaps in segment.postings(column) if column in segment.columns else ():
        yield keys, bitmaps, _rising(keys if last is None else _behind(last, keys))
        last = keys[-1].as_py() if len(keys) else last


def _behind(last: bytes, keys: pa.BinaryArray) -> pa.BinaryArray:
    return pa.concat_arrays([pa.array([last], keys.type), keys])


def _unposted(where: str, space: str, posted: Sequence[FileRecord], union: BitMap) -> Iterator[Problem]:
    """Yield the files with a row that occurs in no posting."""
    for record in posted:
        base = record.base or 0
        posted_rows = union.range_cardinality(base, base + record.rows)
        if posted_rows != record.rows:
            short = f"{posted_rows} of {record.rows} rows are posted"
            yield Problem(f"{where}, file {record.path}", short, Blame.SPACE, space)


def _hidden(index: IndexState, records: Sequence[FileRecord]) -> BitMap:
    """Return the hidden rows with which counted records are counted, in row space positions."""
    out = BitMap()
    for record in records:
        if record.counted and record.hidden:
            hidden = index.hidden_rows(record.hidden)
            if hidden is None:
                raise CorruptIndexError(file=record.path, reason=f"hidden rows {record.hidden} are lost")
            out |= hidden.shift(record.base or 0)
    return out


def _claimed(records: Sequence[FileRecord]) -> BitMap:
    return claims(
        np.array([r.base for r in records], dtype=np.int64),
        np.array([r.rows for r in records], dtype=np.int64),
    )


def _rising(keys: pa.BinaryArray) -> bool:
    """Return whether keys strictly ascend, null first."""
    plain = keys.drop_null()
    ordered = pc.all(pc.less(plain[:-1], plain[1:])).as_py() if len(plain) > 1 else True
    return bool(ordered) and keys.null_count <= 1 and (not keys.null_count or not keys[0].is_valid)


def check_derived(
    spaces: Sequence[SpaceView],
    columns: Sequence[Column],
    source: CheckedSource,
    chosen_by: Callable[[str, str], bool] | None,
    derive: int,
    rng: random.Random,
    report: Report,
) -> Iterator[Problem]:
    """Derive the postings of (file, column) pairs from the data again, and yield the differences.

    The pairs are those whose path and column id satisfy `chosen_by`; without it, `derive` random ones.
    Cost: each pair reads one column of a file and its postings. Memory: one column of one file.
    """
    pairs = [
        (space, order, column)
        for space in spaces
        for order in range(len(space.files))
        for column in columns
        if column.id in space.column_sets[space.posted[order]]
    ]
    if chosen_by is None:
        chosen = rng.sample(pairs, min(derive, len(pairs)))
    else:
        chosen = [p for p in pairs if chosen_by(source.slices[int(p[0].files[p[1]])].path, p[2].id)]
    for space, order, column in chosen:
        yield from _check_pair(space, order, column, source, report)


def _check_pair(
    space: SpaceView, order: int, column: Column, source: CheckedSource, report: Report
) -> Iterator[Problem]:
    slice_ = source.slices[int(space.files[order])]
    if source.is_gone(slice_):
        return
    where = f"file {slice_.path}, column {column.id}"
    base, rows = int(space.bases[order]), int(space.rows[order])
    try:
        data = _keys_of_rows(source, slice_, column)
        posted = _posted(space, column, base, rows)
    except CorruptIndexError as damage:
        yield Problem.of(damage)
        return
    except SourceError as unreadable:
        yield Problem.of_source(slice_.path, unreadable)
        return
    report.derived += 1
    if data.rows != rows:
        yield Problem(
            where, f"the data file has {data.rows} rows, {rows} are recorded", Blame.SPACE, space.space
        )
        return
    wrong = len(data.differing(posted))
    if wrong:
        yield Problem(where, f"{wrong} of {rows} values are posted otherwise", Blame.SPACE, space.space)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of a row of a file and a key: row `numbers[i]` has `keys[codes[i]]`; `rows`: rows of the file."""

    keys: pa.BinaryArray
    codes: Longs
    numbers: Longs
    rows: int

    def differing(self, other: _Pairs) -> Longs:
        """Return the rows whose keys differ from those in `other`, or that have a key twice in `other`."""
        coded = pa.concat_arrays([self.keys, other.keys]).dictionary_encode(null_encoding="encode")
        place = np.asarray(coded.indices, dtype=np.int64)
        own, theirs = self._packed(place[: len(self.keys)]), other._packed(place[len(self.keys) :])
        wrong = np.setxor1d(own, theirs) & _ROW
        twice = theirs[1:][theirs[1:] == theirs[:-1]] & _ROW
        return np.union1d(wrong, twice)

    def _packed(self, place: Longs) -> Longs:
        return np.sort(place[self.codes] << _ROW_BITS | self.numbers)


_ROW_BITS = 32
_ROW = (1 << _ROW_BITS) - 1


def _keys_of_rows(
    source: CheckedSource, slice_: FileSlice, column: Column, rows: Positions | None = None
) -> _Pairs:
    """Return the keys of some physical rows of a file, numbered as they are given; None: of every row."""
    coding, start = coding_of(column, posting_type_of(column.type)), 0
    for table in fetch(source.storage, slice_, sources_of([column]), rows):
        coding.add(start, with_terms(table, [column])[0][column.id])
        start += table.num_rows
    coded = coding.finish()
    codes, numbers = coded.codes_at(np.arange(start))
    return _Pairs(coded.keys, codes.astype(np.int64), numbers, start)


def _posted(space: SpaceView, column: Column, base: int, rows: int) -> _Pairs:
    """Return the keys in whose postings each row of a file occurs; its rows begin at position `base`."""
    current, claim = posting_type_of(column.type), BitMap(range(base, base + rows))
    keys, codes, row_arrays, count = [NO_KEYS], [_NONE], [_NONE], 0
    for segment in space.serving(column):
        for stored_keys, bitmaps in segment.postings(column.id):
            keys.append(widen_keys(stored_keys, segment.columns[column.id], current).cast(pa.binary()))
            for bits in bitmaps:
                posted_rows = positions_in(bits & claim).astype(np.int64) - base
                codes.append(np.full(len(posted_rows), count, dtype=np.int64))
                row_arrays.append(posted_rows)
                count += 1
    return _Pairs(pa.concat_arrays(keys), np.concatenate(codes), np.concatenate(row_arrays), rows)


_NONE = np.zeros(0, dtype=np.int64)


def check_sample(
    spaces: Sequence[SpaceView],
    ids: Sequence[str],
    columns: Mapping[str, Column],
    source: CheckedSource,
    samples: int,
    rng: random.Random,
    report: Report,
) -> Iterator[Problem]:
    """Yield the differences of `samples` (file, column, row) values, chosen by `rng`, from their postings.

    `ids`: of the indexed columns; `columns`: those that the source has, by id. Cost: each column of a file is
    read once, and only the row groups of its chosen rows.
    """
    choices = [space for space in spaces if space.extent]
    weights = [space.extent for space in choices]
    drawn: dict[tuple[int, int, str], list[int]] = {}
    for _ in range(samples if choices and ids else 0):
        (which,) = rng.choices(range(len(choices)), weights)
        space = choices[which]
        order = int(rng.choice(np.flatnonzero(space.rows).tolist()))
        position, id_ = rng.randrange(int(space.rows[order])), rng.choice(list(ids))
        if id_ in columns and id_ in space.column_sets[space.posted[order]]:
            drawn.setdefault((which, order, id_), []).append(position)
    for (which, order, id_), positions in sorted(drawn.items()):
        yield from _check_values(choices[which], order, columns[id_], sorted(positions), source, report)


def _check_values(
    space: SpaceView, order: int, column: Column, positions: list[int], source: CheckedSource, report: Report
) -> Iterator[Problem]:
    """Check values of one column of a file; a file that is gone from an older version is skipped."""
    slice_ = source.slices[int(space.files[order])]
    if source.is_gone(slice_):
        return
    where = f"file {slice_.path}, column {column.id}, position "
    rows, current = np.unique(np.array(positions, dtype=np.uint64)), posting_type_of(column.type)
    try:
        data, segments = _keys_of_rows(source, slice_, column, rows), space.serving(column)
        pairs = list(zip(data.codes.tolist(), rows[data.numbers].tolist(), strict=True))
        posted = {
            code: [_posting(segment, column.id, current, data.keys[code].as_py()) for segment in segments]
            for code in {code for code, _ in pairs}
        }
    except CorruptIndexError as damage:
        yield Problem.of(damage)
        return
    except SourceError as unreadable:
        yield Problem.of_source(slice_.path, unreadable)
        return
    if data.rows < len(rows):
        yield Problem(f"file {slice_.path}", "the data file has fewer rows than recorded")
    report.sampled += int(np.isin(positions, rows[: data.rows]).sum())
    base = int(space.bases[order])
    for code, position in pairs:
        if segments and not any(base + position in bits for bits in posted[code] if bits is not None):
            reason = "the value in the data file is not the one posted"
            yield Problem(f"{where}{position}", reason, Blame.SPACE, space.space)


def _posting(segment: Segment, column: str, current: str, key: bytes | None) -> BitMap | None:
    """Return the posting of a key of the column's current type, in a segment whose keys may be narrower."""
    stored = segment.columns[column]
    if key is not None and stored != current:
        keys = segment.keys(column)[0]
        index = pc.index(widen_keys(keys, stored, current), pa.scalar(key, pa.binary())).as_py()
        if index < 0:
            return None
        key = keys[index].as_py()
    return segment.lookup(column, key)


def ledgers_without_a_commit(index: IndexState) -> set[str]:
    """Return the ledger files on disk that are later than the index's own, and that no commit names.

    A writer in the middle of a commit has one for a moment; one that was interrupted leaves it behind. Cost:
    one listing, and a read of each unnamed file that is not older than the ledger.
    """
    folder = f"kind={LEDGER.name}"
    entries = {f"{folder}/{entry.name}": entry.mtime_ms for entry in index.storage.list(folder)}
    newest = 0 if index.ledger is None else index.ledger.seq
    since = max((entries[path] for path in entries.keys() & index.files.keys()), default=0)
    later = (path for path, mtime in entries.items() if mtime >= since and path not in index.files)
    return {path for path in later if _seq(index, path) > newest}


def _seq(index: IndexState, path: str) -> int:
    """Return the number of the commit that a ledger file was written for; -1 if it cannot be read."""
    try:
        ledger = ledger_from_arrow(LEDGER.read(index.storage, path))
    except CorruptIndexError:
        return -1
    return -1 if ledger is None else ledger.seq


def lost_commits(index: IndexState, before: set[str]) -> Iterator[str]:
    """Yield a note if some ledger files of `ledgers_without_a_commit` still have no commit.

    `index`: as its log says now.
    """
    if before & ledgers_without_a_commit(index):
        yield (
            "the files of a later commit are there, and the log of the index has no such commit: it was "
            "deleted, or its writer was interrupted. What is left is of an earlier version, and the indexer "
            "does the rest again; changes of columns and of indexes by name since then are lost"
        )


__all__ = ["Problem", "Progress", "Report", "verify"]

Progress = Callable[[int, int], None]


def verify(
    index: IndexState,
    coverage: Coverage,
    storage: Storage,
    *,
    standing: Standing = Standing.COMPLETE,
    at_head: bool = True,
    samples: int = 200,
    seed: int = 0,
    derive: int = 0,
    chosen_by: Callable[[str, str], bool] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Check the index against itself and against the snapshot in `coverage`.

    `standing`: of the index; recorded files are compared with the snapshot if it is `COMPLETE` and the
    snapshot is of the covered version. `at_head`: the snapshot is the newest, so its files must exist.
    `samples`: number of (file, column, row) values read again; `derive`: number of (file, column) pairs whose
    postings are derived again as a whole; with `chosen_by`, all whose path and column id satisfy it. `seed`
    makes both choices repeatable. Cost: reads every index file twice, once for its checksums
    and once for its postings, and at most `samples` row groups and `derive` columns of data.
    """
    report = Report(version=coverage.snapshot.version, state=standing.value)
    for damage in coverage.damages:
        report.note(Problem.of(damage))
    source = _source(coverage, storage, at_head)
    try:
        for problem in _check_checksums(index, report):
            report.note(problem)
        rng = random.Random(seed)
        for problem in _check(index, coverage, source, standing, report, samples, rng, progress):
            report.note(problem)
        columns = indexed_columns_of(index.settings.definitions, coverage.snapshot.schema)
        for problem in check_derived(coverage.spaces, columns, source, chosen_by, derive, rng, report):
            report.note(problem)
    except CorruptIndexError as damage:
        report.note(Problem.of(damage))
    return report


def _check_checksums(index: IndexState, report: Report) -> Iterator[Problem]:
    """Read every live file of the index, and yield the damaged ones. Memory: one row group."""
    for path in sorted(index.files):
        try:
            with reading(path), open_index_file(index.storage, path) as file:
                for group in range(file.metadata.num_row_groups):
                    file.read_row_group(group)
        except CorruptIndexError as damage:
            yield Problem.of(damage)
        report.files_read += 1


def _ids(index: IndexState) -> list[str]:
    return [definition.id for definition in index.settings.definitions if definition.has_postings]


def _source(coverage: Coverage, storage: Storage, at_head: bool) -> CheckedSource:
    """Return the source for the checks of the kinds: its files, and readers of their hidden rows.

    Hidden rows are read from the source, not the index.
    """
    snapshot = coverage.snapshot
    hidden_of = HiddenRowsOf(snapshot, storage, None, Damages())
    hidden = {}
    for number in snapshot.files.with_hidden.tolist():
        vector = snapshot.files.hidden(number)
        assert vector is not None
        hidden[vector.id] = partial(hidden_of, number)
    schema = snapshot.schema
    expressions = [
        term for definition in coverage.definitions for term in kept_expressions(definition, schema)
    ]
    return CheckedSource(storage, snapshot.files, hidden, at_head, schema.leaves(), expressions)


def _check(
    index: IndexState,
    coverage: Coverage,
    source: CheckedSource,
    standing: Standing,
    report: Report,
    samples: int,
    rng: random.Random,
    progress: Progress | None,
) -> Iterator[Problem]:
    """Run every check; the records come first, because the other checks rest on them."""
    definitions = index.settings.definitions
    columns = {c.id: c for c in indexed_columns_of(definitions, coverage.snapshot.schema)}
    ids = _ids(index)
    for kind in index.kinds:
        yield from kind.check(index, source)
    yield from check_recorded(index, coverage, standing)
    claims = claims_of(index)
    report.files, report.spaces = len(index.recorded), len(claims)
    yield from check_claims(claims)
    waiting = any(record.counted and record.space is None for record in index.recorded.live())
    steps = len(claims) * len(ids)
    for number, column in enumerate(ids):
        counted = index.settings.definition(column).has_counts
        expected = Expected(_key_type(index, column, columns.get(column)), complete=counted)
        for step, space in enumerate(sorted(claims)):
            if progress is not None:
                progress(number * len(claims) + step, steps)
            yield from check_postings(index, space, column, claims[space], expected, report)
        # Files that wait to be posted again are still counted, but in no posting.
        if not waiting:
            yield from check_counts(index, column, expected, report)
    yield from check_sample(coverage.spaces, ids, columns, source, samples, rng, report)
    if progress is not None:
        progress(steps, steps)


def _key_type(index: IndexState, column: str, now: Column | None) -> str:
    """Return the key type in which counts are compared: that of the present column, else of the settings."""
    stored = index.settings.definition(column).key_type
    return posting_type_of(now.type) if now is not None and widens(stored, now.type) else stored
