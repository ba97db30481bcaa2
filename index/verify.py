"""Whether the index is what the data says: arithmetic of the postings, value counts, a sample of values.

Input: a covered snapshot. Output: a `Report` with every problem by name. Checks, per row space and column:
postings are disjoint, within the claims, and with NULL add up to the rows of each file; recorded value counts
equal the bits minus hidden rows; a sample of values read again from the data files is where the postings say.
Memory: the postings of one column of one row space.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.errors import CorruptIndexError, DataFileError
from tailbit.index.coverage import SpaceView, claims
from tailbit.index.metadata_table import IndexTable
from tailbit.index.model import FileRecord
from tailbit.index.rows import fetch
from tailbit.index.segment import Segment
from tailbit.index.values import encode_array
from tailbit.tables.delta.deletion_vectors import read_deletion_vector
from tailbit.tables.delta.snapshot import Snapshot
from tailbit.tables.model import Column
from tailbit.tables.storage import Storage

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it must be: where, and what was found."""

    where: str
    found: str


@dataclass
class Report:
    """What was checked and every problem found; sound when there is none."""

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
        """Note a problem."""
        self.problems.append(Problem(where, found))


def verify(
    index: IndexTable,
    spaces: list[SpaceView],
    snapshot: Snapshot,
    storage: Storage,
    *,
    samples: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Check the index against itself and against a sample of the data of a covered snapshot.

    `samples`: number of (file, column, row) values read again. `seed` makes the sample repeatable.
    Cost: reads every posting once, and at most `samples` row groups of data.
    """
    report = Report()
    columns = {c.id: c.key_type for c in index.settings.columns}
    expected: dict[str, Counter[bytes | None]] = {c: Counter() for c in columns}
    all_claims = _claims_by_space(index)
    steps = len(all_claims) * max(len(columns), 1)
    for step, (space, column) in enumerate((s, c) for s in sorted(all_claims) for c in columns):
        if progress is not None:
            progress(step, steps)
        try:
            _check_column(
                index, space, column, all_claims[space], expected[column], report, storage, snapshot
            )
        except CorruptIndexError as damage:
            report.wrong(f"row space {space}, column {column}", str(damage))
    report.spaces = len(all_claims)
    if index.ledger is not None and index.ledger.state == "complete" and not index.ledger.uncounted:
        for column in columns:
            _check_counts(index, column, expected[column], report)
    _check_sample(spaces, snapshot, storage, list(columns), samples, random.Random(seed), report)
    if progress is not None:
        progress(steps, steps)
    return report


def _claims_by_space(index: IndexTable) -> dict[str, list[FileRecord]]:
    out: dict[str, list[FileRecord]] = {}
    for record in index.live_records():
        if record.space is not None:
            out.setdefault(record.space, []).append(record)
    return out


def _check_column(
    index: IndexTable,
    space: str,
    column: str,
    records: list[FileRecord],
    expected: Counter[bytes | None],
    report: Report,
    storage: Storage,
    snapshot: Snapshot,
) -> None:
    posted = [r for r in records if column in r.columns]
    claimed = _claims(posted)
    visible = claimed - _hidden(index, [r for r in posted if r.counted], storage, snapshot)
    visible -= _claims([r for r in posted if not r.counted])
    union, total = BitMap(), 0
    for segment in index.segments_of(space):
        if column not in segment.columns:
            continue
        for key, bits in _every_posting(segment, column):
            inside = bits & claimed
            report.postings += 1
            total += len(inside)
            union |= inside
            if n := inside.intersection_cardinality(visible):
                expected[key] += n
    report.positions += total
    where = f"row space {space}, column {column}"
    if total != len(union):
        report.wrong(where, f"postings overlap: {total} positions, {len(union)} distinct")
    for record in posted:
        assert record.base is not None
        found = union.range_cardinality(record.base, record.base + record.rows)
        if found != record.rows:
            report.wrong(f"{where}, file {record.path}", f"{found} of {record.rows} rows are posted")


def _every_posting(segment: Segment, column: str) -> Iterator[tuple[bytes | None, BitMap]]:
    nulls = segment.lookup(column, None)
    if nulls is not None:
        yield None, nulls
    yield from zip(*segment.select(column, [(None, False, None, False)]), strict=True)


def _claims(records: list[FileRecord]) -> BitMap:
    return claims(
        np.array([r.base for r in records], dtype=np.int64),
        np.array([r.rows for r in records], dtype=np.int64),
    )


def _hidden(index: IndexTable, records: list[FileRecord], storage: Storage, snapshot: Snapshot) -> BitMap:
    """Hidden rows of counted records, in row space positions."""
    out = BitMap()
    for record in records:
        if record.hidden:
            bits = index.hidden_rows(record.hidden)
            if bits is None:
                piece = snapshot.files.get(record.path)
                if piece is None or piece.hidden is None or piece.hidden.id != record.hidden:
                    raise CorruptIndexError(file=record.path, reason=f"hidden rows {record.hidden} are lost")
                bits = read_deletion_vector(storage, piece.hidden)
            out |= bits.shift(record.base or 0)
    return out


def _check_counts(index: IndexTable, column: str, expected: Counter[bytes | None], report: Report) -> None:
    keys, counts = index.value_counts(column)
    recorded = {k: n for k, n in zip(keys.to_pylist(), counts.tolist(), strict=True) if n}
    report.counts += len(recorded)
    bad = [k for k in recorded.keys() | expected.keys() if recorded.get(k, 0) != expected.get(k, 0)]
    for key in sorted(bad, key=lambda k: k or b"")[:20]:
        shown = "NULL" if key is None else key.hex()
        found = f"{recorded.get(key, 0)} recorded, {expected.get(key, 0)} by bits"
        report.wrong(f"value counts of {column}, key {shown}", found)


def _check_sample(
    spaces: list[SpaceView],
    snapshot: Snapshot,
    storage: Storage,
    columns: list[str],
    samples: int,
    rng: random.Random,
    report: Report,
) -> None:
    by_id = {c.id: c for c in snapshot.schema.leaves()}
    choices = [(s, i) for s in spaces for i in range(len(s.files)) if s.rows[i]]
    for _ in range(min(samples, samples * len(choices))):
        space, order = rng.choice(choices)
        column = by_id.get(rng.choice(columns))
        if column is not None and column.id in space.column_sets[space.posted[order]]:
            _check_value(
                space, order, column, rng.randrange(int(space.rows[order])), snapshot, storage, report
            )


def _check_value(
    space: SpaceView,
    order: int,
    column: Column,
    position: int,
    snapshot: Snapshot,
    storage: Storage,
    report: Report,
) -> None:
    piece = snapshot.files[int(space.files[order])]
    where = f"file {piece.path}, column {column.id}, position {position}"
    try:
        tables = list(fetch(storage, piece, [column], np.array([position], dtype=np.uint64)))
    except DataFileError as gone:
        report.wrong(where, str(gone))
        return
    report.sampled += 1
    value = tables[0][column.id].combine_chunks()
    at = int(space.bases[order]) + position
    found = []
    for segment in space.segments_of(column.id):
        key = _key(value, segment.columns[column.id])
        found.append(segment.lookup(column.id, key))
    if not any(bits is not None and at in bits for bits in found):
        report.wrong(where, "the value in the data file is not the one posted")


def _key(value: pa.Array, key_type: str) -> bytes | None:
    key: bytes | None = encode_array(value, key_type)[0].as_py()
    return key
