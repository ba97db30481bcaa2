"""One task of a batch: from the recorded states of some files to their required states.

Postings of all columns at once, for few rows: one pass over numpy arrays instead of one pass per column. A
column of a thousand rows takes longer to set up than to lay out. So the keys of all columns are numbered one
column after the other, and their rows are laid out as those of one column of many keys.

Worked example, rows 0 to 3 of two columns:

    column    rows         keys      codes        numbered
    a         y x y NULL   NULL x y  2 1 2 0      2 1 2 0
    b         7 8 8 8      7 8       0 1 1 1      3 4 4 4

Input: a `BuildTask`. Output: index files, written but not yet visible, and the new record of every file. A
task runs on a Spark worker or in the driver alike. New files are laid end to end into one row space. Every
physical row is posted, hidden rows included, because postings are a function of an immutable file; the pairs
(old, new) of rows that became visible or hidden are added to the value counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.kinds.hidden_rows import write_hidden_rows
from tailbit.index.kinds.kind import Entering, Kind
from tailbit.index.kinds.value_counts import Tally, write_value_counts
from tailbit.index.model import RAISED_TYPE, ROWS_PER_SPACE, FileRecord, IndexFile
from tailbit.index.postings.postings import (
    AnyPostings,
    JointPostings,
    Owner,
    write_paged_segment,
    write_segment,
)
from tailbit.index.roaring.bitmaps import Bitmaps, bitmaps
from tailbit.index.roaring.coding import CodedColumn
from tailbit.index.roaring.collected import Codes
from tailbit.index.roaring.containers import pays
from tailbit.index.roaring.spilled import SpilledKeys
from tailbit.index.write.counting import Counting, HiddenRowsReader, Leaving
from tailbit.index.write.posting import (
    Claim,
    DataFiles,
    code,
    counted_raised,
    hidden_counts,
    post,
    posted,
    stored,
)
from tailbit.index.write.work import (
    BuildTask,
    Enter,
    FileWork,
    Leave,
    Rehide,
    Replace,
    Repost,
    TaskColumn,
    TaskResult,
    to_post,
)
from tailbit.tables.model import Column
from tailbit.tables.open import open_source
from tailbit.tables.parquet.data_file import footer_hash
from tailbit.tables.positions import BitPositions, positions_in
from tailbit.tables.storage import open_storage

FEW_ROWS = 1 << 13
"""Up to this many rows are laid out together for all columns."""


@dataclass(frozen=True, eq=False)
class _Column:
    """A column of a few rows: its keys, and per row its code among them and its position, ascending."""

    id: str
    key_type: str
    keys: pa.BinaryArray
    codes: Codes
    positions: BitPositions


def post_all(
    data: DataFiles,
    columns: Sequence[TaskColumn],
    claims: Sequence[Claim],
    hidden: Mapping[str, BitMap],
    tally_of: Callable[[Column], Tally],
) -> Iterator[AnyPostings]:
    """Yield the postings of columns, which come in ascending order, and add visible rows to their tallies.

    Memory: that of `post`, or the codes and keys of all columns of `FEW_ROWS` rows.
    """
    # Files that are filled later come in any order.
    claims = sorted(claims, key=lambda claim: claim.base)
    few = len(columns) > 1 and sum(claim.rows for claim in claims) <= FEW_ROWS
    waiting: list[_Column] = []
    for indexed in columns:
        column, tally = indexed.column, tally_of(indexed.column)
        if not few:
            yield from post(data, column, indexed.key_type, claims, hidden, tally)
            continue
        own_claims, raised = [claim for claim in claims if column.id in claim.columns], BitMap()
        coded = code(data, column, indexed.key_type, own_claims, raised)
        if not isinstance(coded, CodedColumn) or isinstance(coded.keys, SpilledKeys):
            yield from _laid_out(waiting)
            waiting = []
            yield from posted(coded, raised, column, indexed.key_type, own_claims, hidden, tally)
            continue
        own = _listed(column.id, indexed.key_type, coded, own_claims)
        counts = np.bincount(own.codes, minlength=len(own.keys)) - hidden_counts(coded, own_claims, hidden)
        tally.add(column.id, indexed.key_type, own.keys, counts)
        waiting.append(own)
        if raised:
            waiting.append(_raised(column, raised, own_claims, hidden, tally))
    yield from _laid_out(waiting)


def _listed(id_: str, key_type: str, coded: CodedColumn, claims: Sequence[Claim]) -> _Column:
    codes, positions = [], []
    for claim in claims:
        codes.append(coded.codes(claim.base, claim.base + claim.rows))
        positions.append(np.arange(claim.base, claim.base + claim.rows, dtype=np.uint32))
    keys = coded.keys
    assert isinstance(keys, pa.Array)
    return _Column(id_, key_type, keys, np.concatenate(codes), np.concatenate(positions))


def _raised(
    column: Column, raised: BitMap, claims: Sequence[Claim], hidden: Mapping[str, BitMap], tally: Tally
) -> _Column:
    """Return the rows where a term raises an error as a column of one key, and count the visible ones."""
    id_, keys = counted_raised(column, raised, claims, hidden, tally)
    positions = positions_in(raised)
    return _Column(id_, RAISED_TYPE, keys, np.zeros(len(positions), dtype=np.uint8), positions)


def _laid_out(columns: Sequence[_Column]) -> Iterator[JointPostings]:
    """Yield the postings of columns, numbered one after the other."""
    if not columns:
        return
    ends = np.cumsum([len(column.keys) for column in columns])
    keys = pa.concat_arrays([column.keys for column in columns])
    firsts = ends - [len(column.keys) for column in columns]
    codes = np.concatenate(
        [
            column.codes.astype(np.uint32) + np.uint32(first)
            for column, first in zip(columns, firsts, strict=True)
        ]
    )
    positions = np.concatenate([column.positions for column in columns])
    for slab in bitmaps(codes, 0, len(keys), pays, positions=positions):
        yield _joint(columns, ends, keys.slice(slab.first, len(slab.cardinality)), slab)


def _joint(columns: Sequence[_Column], ends: Longs, keys: pa.BinaryArray, slab: Bitmaps) -> JointPostings:
    key_numbers = np.flatnonzero(slab.cardinality > 0) + slab.first
    own = np.diff(np.searchsorted(key_numbers, ends), prepend=0).tolist()
    owners = (Owner(c.id, c.key_type, many) for c, many in zip(columns, own, strict=True) if many)
    return JointPostings(tuple(owners), *stored(keys, slab))


def run_task(task: BuildTask) -> TaskResult:
    """Write missing postings, count changed rows, and return the new records of the files.

    Only the difference between record and target has an effect, so work that is done twice counts once.
    Memory: one column of the task's files as codes and keys, and one row group decoded; under 1 GB for 16 M
    distinct integers or texts of 46 bytes in one file (`benchmarks/workloads/memory.py`).
    """
    return _Run(task).result()


class _Run:
    """The state of one task while it runs."""

    def __init__(self, task: BuildTask) -> None:
        self._task = task
        self._source = open_source(task.root, task.log, task.options)
        self._index = open_storage(task.index_path, task.options)
        self._hidden = HiddenRowsReader(task.index_path, task.options)
        self._tally = Tally()
        self._columns = {c.column.id: (c.column, c.key_type) for c in task.columns}
        self._data = DataFiles(self._source, task.read_columns)
        self._counting = Counting(self._source, self._hidden, self._tally)
        self._works = [self._settled(work) for work in task.works]
        self._footers: dict[str, str] = {}
        self._uncounted = task.uncounted.union(definition.id for definition in task.definitions)

    def result(self) -> TaskResult:
        claims = self._claims()
        files: list[IndexFile | None] = []
        for space in dict.fromkeys(c.space for c in claims.values()):
            files += self._post(space, [c for c in claims.values() if c.space == space])
        self._count_leaving()
        for work in self._works:
            self._count(work)
        files.append(write_value_counts(self._index, self._tally))
        files.append(write_hidden_rows(self._index, self._newly_hidden()))
        for kind in self._task.kinds:
            files += kind.write_stream(self._index, self._built(kind, claims))
        records = tuple(self._record(work, claims.get(work.path)) for work in self._works)
        rows = sum(c.rows for c in claims.values()) + self._counting.rows
        read = sum(c.slice.size for c in claims.values())
        return TaskResult(records, tuple(f for f in files if f is not None), rows, read)

    def _built(self, kind: Kind[Any], claims: Mapping[str, Claim]) -> Iterator[pa.Table]:
        """Return the rows of a kind about the files for which this task builds it."""
        own = [definition for definition in self._task.definitions if definition.kind == kind.name]
        if kind.defined and not own:
            return iter(())
        ids = {definition.id for definition in own}
        entering = [
            Entering(
                claim.slice,
                claim.rows,
                self._footer(work),
                partial(self._data.open, claim.slice),
                partial(self._data.computed, claim.slice, claim.rows),
            )
            for work in self._works
            if (claim := claims.get(work.path)) is not None
            and (not ids.isdisjoint(claim.columns) if ids else isinstance(work, (Enter, Replace)))
        ]
        columns = {column.id: column for definition in own for column in definition.columns}
        return kind.build(entering, list(columns.values()))

    def _footer(self, work: FileWork) -> str:
        """Return the hash of a file's footer: the recorded one for a `Repost`, else read once per file."""
        if isinstance(work, Repost):
            return work.record.footer
        if work.path not in self._footers:
            self._footers[work.path] = footer_hash(self._source, work.path)
        return self._footers[work.path]

    def _settled(self, work: FileWork) -> FileWork:
        """Return the work, or a `Replace` if the recorded postings of the file cannot be used any more."""
        if isinstance(work, (Repost, Rehide)) and not self._postings_hold(work):
            return Replace(work.target, work.record, (*work.record.built, *to_post(work)))
        return work

    def _postings_hold(self, work: Repost | Rehide) -> bool:
        """Return whether the recorded postings of a file can be kept.

        Not if a column to add was dropped once: its old postings may still lie in the file's row space. If
        the source log is another history than the recorded one, size and time of a file prove nothing: the
        footer must be equal too. Nor is an equal footer enough by itself: files of the same values in another
        order may have the same footer.
        """
        record, target = work.record, work.target
        if not self._task.dropped.isdisjoint(to_post(work)):
            return False
        same_lineage = record.lineage == self._task.lineage
        return same_lineage or footer_hash(self._source, target.path) == record.footer

    def _claims(self) -> dict[str, Claim]:
        """Return each file's claim (range in a row space) by path: the recorded or a new one.

        A task is planned with the row counts of the log. If the footers have more rows than a row space
        holds, another row space begins.
        """
        fresh, base = uuid.uuid4().hex, 0
        ids = self._task.ids
        out = {}
        for work in self._works:
            if isinstance(work, (Leave, Rehide)):
                continue
            rows = int(self._data.open(work.target).metadata.num_rows)
            if isinstance(work, Repost):
                space, recorded_base = work.record.space, work.record.base
                assert space is not None
                assert recorded_base is not None
                out[work.path] = Claim(work.target, space, recorded_base, rows, frozenset(work.post))
            else:
                if base and base + rows > ROWS_PER_SPACE:
                    fresh, base = uuid.uuid4().hex, 0
                out[work.path] = Claim(work.target, fresh, base, rows, ids.intersection(work.post))
                base += rows
        return out

    def _post(self, space: str, claims: list[Claim]) -> Iterator[IndexFile]:
        """Write the postings of some files of one row space, count visible rows, and yield the segments."""
        columns = [c for c in self._task.columns if any(c.column.id in claim.columns for claim in claims)]
        extent = max(claim.base + claim.rows for claim in claims)
        if not columns or not extent:
            return
        hidden = self._hidden_among(claims)
        ordered, forms = sorted(columns, key=lambda c: c.column.id), self._task.forms
        if others := [c for c in ordered if c.column.id not in forms.paged]:
            postings = post_all(self._data, others, claims, hidden, self._tally_of)
            yield write_segment(self._index, space, extent, postings, forms.share)
        if keys := [c for c in ordered if c.column.id in forms.paged]:
            in_pages = (post_all(self._data, [key], claims, hidden, self._tally_of) for key in keys)
            yield write_paged_segment(self._index, space, extent, chain.from_iterable(in_pages), forms.packs)

    def _tally_of(self, column: Column) -> Tally:
        """Return the tally of the task, or one to throw away if the values of the column are not counted."""
        return Tally() if column.id in self._uncounted else self._tally

    def _hidden_among(self, claims: list[Claim]) -> dict[str, BitMap]:
        """Map path to hidden rows of the files that have any."""
        hidden = ((c.slice.path, self._hidden.of_slice(self._source, c.slice)) for c in claims)
        return {path: bits for path, bits in hidden if bits}

    def _count_leaving(self) -> None:
        """Count the rows of the files that leave, those with the same columns together."""
        alike: dict[tuple[str, ...], list[Leaving]] = {}
        for work in self._works:
            if isinstance(work, Leave) and work.record.counted:
                leaving = Leaving(work.record, self._hidden.of_record(work.record))
                alike.setdefault(tuple(self._counted(work.record)), []).append(leaving)
        for names, files in alike.items():
            self._counting.leave(files, names, self._columns)

    def _count(self, work: FileWork) -> None:
        """Count the changed rows of a recorded file that stays or is replaced, except in columns posted now.

        Of a replaced file, all rows that were counted are subtracted.
        """
        if isinstance(work, (Enter, Leave)):
            return
        record, columns = work.record, self._columns
        if isinstance(work, Replace):
            if record.counted:
                hidden, counted = self._hidden.of_record(record), self._counted(record)
                other = not record.is_as_written(work.target)
                self._counting.add(record, counted, columns, None, hidden, -1, overwritten=other, leaves=True)
            return
        stay = tuple(c for c in self._counted(record) if c not in to_post(work))
        now = self._hidden.of_slice(self._source, work.target)
        if not record.counted:
            self._counting.add(record, stay, columns, None, now, +1)
        elif record.hidden != work.target.hidden_id:
            then = self._hidden.of_record(record)
            if then != now:
                self._counting.add(record, stay, columns, now - then, BitMap(), -1)
                self._counting.add(record, stay, columns, then - now, BitMap(), +1)

    def _counted(self, record: FileRecord) -> list[str]:
        """Return the ids of the definitions of a file that have postings and counts."""
        return [id_ for id_ in record.built if id_ not in self._uncounted]

    def _newly_hidden(self) -> dict[str, BitMap]:
        """Map identity to rows, for the hidden rows with which files are counted from now on."""
        targets = [
            work.target
            for work in self._works
            if not isinstance(work, Leave)
            and work.target.hidden is not None
            and (isinstance(work, Enter) or work.record.hidden != work.target.hidden_id)
        ]
        rows = {t.hidden_id: self._hidden.of_slice(self._source, t) for t in targets}
        for identity, bits in rows.items():
            self._hidden.keep(identity, bits)
        return rows

    def _record(self, work: FileWork, claim: Claim | None) -> FileRecord:
        if isinstance(work, Leave):
            return replace(work.record, counted=False, hidden="", left=self._task.version, error=None)
        if isinstance(work, (Repost, Rehide)):
            return self._unmoved_record(work)
        assert claim is not None
        return self._entered(claim, self._footer(work))

    def _unmoved_record(self, work: Repost | Rehide) -> FileRecord:
        """Return the record of a file that keeps its range in its row space."""
        record, target, task = work.record, work.target, self._task
        return replace(
            record,
            mtime=target.mtime,
            partition=dict(target.partition),
            built=tuple(sorted({*record.built, *to_post(work)})),
            counted=True,
            hidden=target.hidden_id,
            lineage=task.lineage,
            entered=record.entered if record.left is None else task.version,
            left=None,
            error=None,
        )

    def _entered(self, claim: Claim, footer: str) -> FileRecord:
        """Return the record of a file with a new claim."""
        target = claim.slice
        return FileRecord(
            path=target.path,
            size=target.size,
            mtime=target.mtime,
            rows=claim.rows,
            footer=footer,
            partition=dict(target.partition),
            space=claim.space,
            base=claim.base,
            built=tuple(sorted(claim.columns)),
            counted=True,
            hidden=target.hidden_id,
            lineage=self._task.lineage,
            entered=self._task.version,
            left=None,
        )
