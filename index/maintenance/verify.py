"""Whether the index is what the data says: records, postings, value counts, a sample of values.

Input: an index and a snapshot divided by it. Output: a `Report` with every problem by name. Checks: claims of
a row space are disjoint; the files recorded are those of the covered version; hidden rows are those of the
source; per column and row space, postings are disjoint and with NULL add up to the rows of each file that the
index still holds; recorded value counts equal the bits minus hidden rows; a sample of values read again from
the data files is where the postings say. Memory: the records, the distinct keys of one column, and a row
group of postings.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tailbit.errors import ColumnTypeError, CorruptIndexError, SourceError
from tailbit.index.keys import encode_array, key_type_of, widen_keys
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.model import FileRecord
from tailbit.index.query.coverage import Coverage, HiddenRowsOf
from tailbit.index.query.damages import Damages
from tailbit.index.query.row_space import SpaceView, claims, widens
from tailbit.index.store.table import IndexTable
from tailbit.tables.model import Column, HiddenRows
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.storage import Storage

Progress = Callable[[int, int], None]
Expected = Counter[bytes | None]

_SHOWN = 20
"""Problems shown of one list of keys or files."""


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it must be: where, and what was found."""

    where: str
    found: str


@dataclass
class Report:
    """What was checked and every problem found; sound when there is none.

    `version`: the source version that the index was compared with. `state`: of the index, as `status` says.
    """

    version: int | None = None
    state: str = "complete"
    files: int = 0
    spaces: int = 0
    postings: int = 0
    positions: int = 0
    counts: int = 0
    sampled: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def wrong(self, where: str, found: str) -> None:
        """Note a problem, once."""
        problem = Problem(where, found)
        if problem not in self.problems:
            self.problems.append(problem)


def verify(
    index: IndexTable,
    coverage: Coverage,
    storage: Storage,
    *,
    state: str = "complete",
    at_head: bool = True,
    samples: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Check the index against itself and against the snapshot that `coverage` divides.

    `state`: of the index; the files recorded are compared with the snapshot where it is `complete` and the
    snapshot is of the covered version. `at_head`: the snapshot is the newest, so its files must be there.
    `samples`: number of (file, column, row) values read again; `seed`
    makes the sample repeatable. Cost: reads every posting once, and at most `samples` row groups of data.
    """
    report = Report(version=coverage.snapshot.version, state=state)
    for damage in coverage.damages:
        report.wrong(str(damage.fields.get("file")), str(damage))
    try:
        _Check(index, coverage, storage, report, at_head).run(samples, random.Random(seed), progress)
    except CorruptIndexError as damage:
        report.wrong(str(damage.fields.get("file")), str(damage))
    return report


class _Check:
    """One verification while it runs."""

    def __init__(
        self, index: IndexTable, coverage: Coverage, storage: Storage, report: Report, at_head: bool
    ) -> None:
        self._at_head = at_head
        self._index, self._coverage, self._storage, self._report = index, coverage, storage, report
        self._snapshot = coverage.snapshot
        self._columns = {c.id: c for c in self._snapshot.schema.leaves()}
        self._vectors: dict[str, HiddenRows] = {}

    def run(self, samples: int, rng: random.Random, progress: Progress | None) -> None:
        """Every check; the records first, since the others rest on them."""
        ids = [c.id for c in self._index.settings.columns]
        self._hidden_rows()
        self._recorded()
        spaces = self._claims()
        self._report.spaces = len(spaces)
        steps = len(spaces) * len(ids)
        for number, column in enumerate(ids):
            expected: Expected | None = Counter()
            for step, space in enumerate(sorted(spaces)):
                if progress is not None:
                    progress(number * len(spaces) + step, steps)
                expected = self._column(space, column, spaces[space], expected)
            if expected is not None:
                self._counts(column, expected)
        self._sample(ids, samples, rng)
        if progress is not None:
            progress(steps, steps)

    def _hidden_rows(self) -> None:
        """Hidden rows that the index keeps are those of the source's deletion vectors."""
        source = HiddenRowsOf(self._snapshot, self._storage, None, Damages())
        for number in self._snapshot.files.with_hidden.tolist():
            vector = self._snapshot.files.hidden(number)
            assert vector is not None
            self._vectors[vector.id] = vector
            try:
                kept = self._index.hidden_rows(vector.id)
                if kept is not None and kept != source(number):
                    found = "the rows in the index are not those of the source's deletion vector"
                    self._report.wrong(f"hidden rows {vector.id}", found)
            except (CorruptIndexError, SourceError) as damage:
                self._report.wrong(f"hidden rows {vector.id}", str(damage))

    def _recorded(self) -> None:
        """At the covered version, the files recorded as live are the files of the snapshot."""
        ledger, files = self._index.ledger, self._snapshot.files
        if ledger is None or self._report.state != "complete" or ledger.covered != self._snapshot.version:
            return
        for number in self._coverage.uncovered.tolist():
            record = self._index.record(files[number].path)
            if record is None or record.left is not None or record.counted:
                self._report.wrong(f"file {files[number].path}", "it is live and not recorded as it is")
        live = files.paths.to_pylist()
        gone = {r.path for r in self._index.live_records()}.difference(live)
        for path in sorted(gone)[:_SHOWN]:
            self._report.wrong(f"file {path}", "it is recorded as live and is not in the table")

    def _claims(self) -> dict[str, list[FileRecord]]:
        """Row space to the records that claim a range of it, by base; overlaps are a problem."""
        out: dict[str, list[FileRecord]] = {}
        for record in self._index.recorded.records():
            self._report.files += 1
            if record.space is not None:
                out.setdefault(record.space, []).append(record)
        for space, records in out.items():
            records.sort(key=lambda r: (r.base or 0, r.rows))
            for one, other in pairwise(records):
                if (one.base or 0) + one.rows > (other.base or 0):
                    self._report.wrong(f"row space {space}", f"claims of {one.path} and {other.path} overlap")
        return out

    def _column(
        self, space: str, column: str, records: Sequence[FileRecord], expected: Expected | None
    ) -> Expected | None:
        """Check the postings of a column in a row space, and add its visible rows to `expected`.

        Returns: None where the counts cannot be told: damage, or keys of types that cannot be compared.
        """
        where = f"row space {space}, column {column}"
        posted = [r for r in records if column in r.columns]
        claimed = _claimed(posted)
        total, union = 0, BitMap()
        try:
            visible = _claimed([r for r in posted if r.counted]) - self._hidden_of(posted)
            for segment in self._index.segments_of(space):
                if column in segment.columns:
                    for keys, postings in self._postings(segment, column, where):
                        inside = [bits & claimed for bits in postings]
                        total += sum(map(len, inside))
                        union |= BitMap.union(*inside)
                        expected = self._expect(expected, segment, column, keys, inside, visible)
        except CorruptIndexError as damage:
            self._report.wrong(where, str(damage))
            return None
        self._report.positions += total
        if total != len(union):
            self._report.wrong(where, f"postings overlap: {total} positions, {len(union)} distinct")
        for record in posted:
            base = record.base or 0
            found = union.range_cardinality(base, base + record.rows)
            if found != record.rows:
                self._report.wrong(
                    f"{where}, file {record.path}", f"{found} of {record.rows} rows are posted"
                )
        return expected

    def _postings(
        self, segment: Segment, column: str, where: str
    ) -> Iterator[tuple[pa.BinaryArray, list[BitMap]]]:
        """The postings of a segment, a row group at a time, whose keys must rise: look-ups bisect them.

        Raises:
            CorruptIndexError: a bitmap that does not check.
        """
        last: bytes | None = None
        for keys, postings in segment.postings(column):
            self._report.postings += len(postings)
            whole = keys if last is None else pa.concat_arrays([pa.array([last], keys.type), keys])
            if not _rising(whole):
                self._report.wrong(where, f"keys do not rise in {segment.path}")
            last = keys[-1].as_py() if len(keys) else last
            yield keys, postings

    def _expect(
        self,
        expected: Expected | None,
        segment: Segment,
        column: str,
        keys: pa.BinaryArray,
        bits: Sequence[BitMap],
        visible: BitMap,
    ) -> Expected | None:
        """Add the visible rows per key, in the key type of the counts."""
        found = [b.intersection_cardinality(visible) for b in bits]
        if expected is None or not any(found):
            return expected
        try:
            widened = widen_keys(keys, segment.columns[column], self._key_type(column))
        except ColumnTypeError:
            return None
        for key, n in zip(widened.to_pylist(), found, strict=True):
            if n:
                expected[key] += n
        return expected

    def _key_type(self, column: str) -> str:
        """The key type that counts are compared in: that of the column today, else of the settings."""
        stored = next(c.key_type for c in self._index.settings.columns if c.id == column)
        now = self._columns.get(column)
        return key_type_of(now.type) if now is not None and widens(stored, now.type) else stored

    def _hidden_of(self, records: Sequence[FileRecord]) -> BitMap:
        """The hidden rows that counted records are counted under, in row space positions."""
        out = BitMap()
        for record in records:
            if record.counted and record.hidden:
                out |= self._hidden(record).shift(record.base or 0)
        return out

    def _hidden(self, record: FileRecord) -> BitMap:
        found = self._index.hidden_rows(record.hidden)
        if found is None:
            raise CorruptIndexError(file=record.path, reason=f"hidden rows {record.hidden} are lost")
        return found

    def _counts(self, column: str, expected: Expected) -> None:
        """Recorded value counts are the bits of counted files less their hidden rows."""
        where = f"value counts of {column}"
        try:
            keys, counts = self._index.value_counts(column, self._key_type(column))
        except CorruptIndexError as damage:
            self._report.wrong(where, str(damage))
            return
        except ColumnTypeError:
            return
        recorded = {k: n for k, n in zip(keys.to_pylist(), counts.tolist(), strict=True) if n}
        self._report.counts += len(recorded)
        bad = [k for k in recorded.keys() | expected.keys() if recorded.get(k, 0) != expected.get(k, 0)]
        for key in sorted(bad, key=lambda k: k or b"")[:_SHOWN]:
            shown = "NULL" if key is None else key.hex()
            found = f"{recorded.get(key, 0)} recorded, {expected.get(key, 0)} by bits"
            self._report.wrong(f"{where}, key {shown}", found)

    def _sample(self, ids: Sequence[str], samples: int, rng: random.Random) -> None:
        """Values read again from the data files are posted where they stand."""
        choices = [s for s in self._coverage.spaces if s.extent]
        weights = [s.extent for s in choices]
        for _ in range(samples if choices else 0):
            (space,) = rng.choices(choices, weights)
            order = int(rng.choice(np.flatnonzero(space.rows).tolist()))
            position = rng.randrange(int(space.rows[order]))
            column = self._columns.get(rng.choice(list(ids)))
            if column is not None and column.id in space.column_sets[space.posted[order]]:
                self._value(space, order, column, position)

    def _value(self, space: SpaceView, order: int, column: Column, position: int) -> None:
        """Check one value; a file that is gone from behind the head, as after VACUUM, tells nothing."""
        piece = self._snapshot.files[int(space.files[order])]
        if not self._at_head and self._storage.stat(self._storage.resolve(piece.path)) is None:
            return
        where = f"file {piece.path}, column {column.id}, position {position}"
        try:
            at = np.array([position], dtype=np.uint64)
            tables = list(fetch(self._storage, piece, [column], at))
            if not tables:
                self._report.wrong(where, "the data file has fewer rows than recorded")
                return
            value = tables[0][column.id].combine_chunks()
            segments = space.serving(column)
            found = [_posting(segment, column, value) for segment in segments]
        except (CorruptIndexError, SourceError) as damage:
            self._report.wrong(where, str(damage))
            return
        self._report.sampled += 1
        here = int(space.bases[order]) + position
        if segments and not any(bits is not None and here in bits for bits in found):
            self._report.wrong(where, "the value in the data file is not the one posted")


def _posting(segment: Segment, column: Column, value: pa.Array) -> BitMap | None:
    """The posting of a value of the column's current type, in a segment whose keys may be narrower."""
    stored, current = segment.columns[column.id], key_type_of(column.type)
    key: bytes | None = encode_array(value, current)[0].as_py()
    if key is not None and stored != current:
        keys = segment.keys(column.id)[0]
        at = pc.index(widen_keys(keys, stored, current), pa.scalar(key, pa.binary())).as_py()
        if at < 0:
            return None
        key = keys[at].as_py()
    return segment.lookup(column.id, key)


def _claimed(records: Sequence[FileRecord]) -> BitMap:
    return claims(
        np.array([r.base for r in records], dtype=np.int64),
        np.array([r.rows for r in records], dtype=np.int64),
    )


def _rising(keys: pa.BinaryArray) -> bool:
    """Whether keys strictly rise, null first."""
    plain = keys.drop_null()
    ordered = pc.all(pc.less(plain[:-1], plain[1:])).as_py() if len(plain) > 1 else True
    return bool(ordered) and keys.null_count <= 1 and (not keys.null_count or not keys[0].is_valid)
