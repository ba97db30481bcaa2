"""One task of a batch: from the recorded states of some files to their wanted states.

Input: a `BuildTask`. Output: index files, written and not yet visible, and the new record of every file.
Runs on a Spark worker or in the driver alike. New files are laid end to end into one row space; bits are
posted for every physical row, hidden ones included, since they are a function of an immutable file; the
pairs (old, new) of what became visible or hidden are folded into value counts.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from pyroaring import BitMap

from tailbit.index.keys import key_type_of
from tailbit.index.kinds.bitmap_index.segment import write_segment
from tailbit.index.kinds.value_counts import Tally, write_value_counts
from tailbit.index.model import FileRecord, IndexFile
from tailbit.index.write.counting import Counting
from tailbit.index.write.hidden import HiddenRowsReader, write_hidden_rows
from tailbit.index.write.posting import Claim, DataFiles, post
from tailbit.tables.model import Column, FileSlice, Version
from tailbit.tables.parquet.data_file import footer_hash
from tailbit.tables.storage import Storage


@dataclass(frozen=True, slots=True)
class TaskColumn:
    """A column as it is at the target version, and the type of its keys."""

    column: Column
    key_type: str

    @classmethod
    def of(cls, column: Column) -> TaskColumn:
        """The column with the key type of its current type."""
        return cls(column, key_type_of(column.type))


@dataclass(frozen=True, slots=True)
class FileWork:
    """One file: what is recorded of it, what is wanted (None: not live), and the columns still to post."""

    target: FileSlice | None
    record: FileRecord | None
    post: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Files to bring to the state of source version `version`.

    `dropped`: ids of columns whose old bits may lie in row spaces though no file has them posted.
    """

    root: str
    index_path: str
    columns: tuple[TaskColumn, ...]
    works: tuple[FileWork, ...]
    lineage: int
    version: Version
    dropped: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TaskResult:
    """New records and the files they rest on, to be committed together.

    `rows`: posted, and counted anew without being posted. `bytes_read`: of data files, by their size.
    """

    records: tuple[FileRecord, ...]
    files: tuple[IndexFile, ...]
    rows: int
    bytes_read: int


def run_task(task: BuildTask) -> TaskResult:
    """Post what is not posted, count what has changed, and say what is now recorded.

    State to state: only the difference between record and target has an effect, so that the same work done
    twice is done once. Memory: one column of the task's files as codes, and one row group decoded.

    Raises:
        DataFileError: a data file whose values are needed is missing or is not Parquet.
        StorageError: the index cannot be written; nothing of it is visible.
        CorruptIndexError: postings or hidden rows that are needed are lost.
        CommitConflictError: another writer has moved them meanwhile; reload the recorded state.
    """
    return _Run(task).result()


class _Run:
    """The state of one task while it runs."""

    def __init__(self, task: BuildTask) -> None:
        self._task = task
        self._source, self._index = Storage(task.root), Storage(task.index_path)
        self._hidden = HiddenRowsReader(task.index_path)
        self._tally = Tally()
        self._data = DataFiles(self._source, [c.column for c in task.columns])
        self._counting = Counting(self._source, self._hidden, self._tally)
        self._kept = [self._claim_holds(work) for work in task.works]

    def result(self) -> TaskResult:
        claims = self._claims()
        files = [
            self._post(space, [c for c in claims.values() if c.space == space])
            for space in dict.fromkeys(c.space for c in claims.values())
        ]
        for work, kept in zip(self._task.works, self._kept, strict=True):
            self._count(work, kept)
        files.append(write_value_counts(self._index, self._tally))
        files.append(write_hidden_rows(self._index, self._newly_hidden()))
        records = tuple(self._record(number, claims.get(number)) for number in range(len(self._kept)))
        rows = sum(c.rows for c in claims.values()) + self._counting.rows
        read = sum(c.slice.size for c in claims.values())
        return TaskResult(records, tuple(f for f in files if f is not None), rows, read)

    def _claim_holds(self, work: FileWork) -> bool:
        """Whether the file is the one that is posted; in another lineage by its footer too.

        A footer alone proves nothing: files of the same values in another order may have the same. A column
        that comes back is posted under a new claim, where none of its old bits are.
        """
        record, target = work.record, work.target
        if record is None or record.space is None or not self._task.dropped.isdisjoint(work.post):
            return False
        if target is None:
            return True
        if not record.is_of(target):
            return False
        same_lineage = record.lineage == self._task.lineage
        return same_lineage or footer_hash(self._source, target.path) == record.footer

    def _claims(self) -> dict[int, Claim]:
        """Number of a work to what it posts: in the place it has, else in a new row space, end to end."""
        fresh, base = uuid.uuid4().hex, 0
        every = frozenset(c.column.id for c in self._task.columns)
        out = {}
        for number, (work, kept) in enumerate(zip(self._task.works, self._kept, strict=True)):
            target, record = work.target, work.record
            if target is None or (kept and not work.post):
                continue
            rows = int(self._data.open(target).metadata.num_rows)
            if kept and record is not None and record.space is not None:
                at, columns = record.base or 0, frozenset(work.post)
                out[number] = Claim(target, record.space, at, rows, columns)
            else:
                out[number] = Claim(target, fresh, base, rows, every)
                base += rows
        return out

    def _post(self, space: str, claims: list[Claim]) -> IndexFile | None:
        """Write the postings of some files of one row space, and count their visible rows."""
        columns = [c for c in self._task.columns if any(c.column.id in claim.columns for claim in claims)]
        extent = max(claim.base + claim.rows for claim in claims)
        if not columns or not extent:
            return None
        hidden = self._hidden_among(claims)
        ordered = sorted(columns, key=lambda c: c.column.id)
        postings = (
            part
            for indexed in ordered
            for part in post(self._data, indexed.column, indexed.key_type, claims, hidden, self._tally)
        )
        return write_segment(self._index, space, extent, postings)

    def _hidden_among(self, claims: list[Claim]) -> dict[str, BitMap]:
        """Path to hidden rows of the files that have any."""
        found = ((c.slice.path, self._hidden.of_slice(self._source, c.slice)) for c in claims)
        return {path: bits for path, bits in found if bits}

    def _count(self, work: FileWork, kept: bool) -> None:
        """Count the rows whose visibility changed in the columns that are not posted by this task."""
        record, target = work.record, work.target
        if record is None:
            return
        columns = {c.column.id: (c.column, c.key_type) for c in self._task.columns}
        if target is None or not kept:
            if record.counted:
                hidden = self._hidden.of_record(record)
                other = target is not None and not record.is_as_written(target)
                self._counting.add(record, record.columns, columns, None, hidden, -1, overwritten=other)
            return
        stay = tuple(c for c in record.columns if c not in work.post)
        now = self._hidden.of_slice(self._source, target)
        if not record.counted:
            self._counting.add(record, stay, columns, None, now, +1)
        elif record.hidden != target.hidden_id:
            then = self._hidden.of_record(record)
            self._counting.add(record, stay, columns, now - then, BitMap(), -1)
            self._counting.add(record, stay, columns, then - now, BitMap(), +1)

    def _newly_hidden(self) -> dict[str, BitMap]:
        """Identity to rows of the deletion vectors that files are counted under from now on."""
        targets = [
            w.target
            for w in self._task.works
            if w.target is not None
            and w.target.hidden is not None
            and (w.record is None or w.record.hidden != w.target.hidden_id)
        ]
        return {t.hidden_id: self._hidden.of_slice(self._source, t) for t in targets}

    def _record(self, number: int, claim: Claim | None) -> FileRecord:
        work, task = self._task.works[number], self._task
        target, record = work.target, work.record
        if target is None:
            assert record is not None
            return replace(record, counted=False, hidden="", left=task.version)
        if record is not None and self._kept[number]:
            return replace(
                record,
                mtime=target.mtime,
                partition=dict(target.partition),
                columns=tuple(sorted({*record.columns, *work.post})),
                counted=True,
                hidden=target.hidden_id,
                lineage=task.lineage,
                entered=record.entered if record.left is None else task.version,
                left=None,
                error=None,
            )
        assert claim is not None
        return FileRecord(
            path=target.path,
            size=target.size,
            mtime=target.mtime,
            rows=claim.rows,
            footer=footer_hash(self._source, target.path),
            partition=dict(target.partition),
            space=claim.space,
            base=claim.base,
            columns=tuple(sorted(claim.columns)),
            counted=True,
            hidden=target.hidden_id,
            lineage=task.lineage,
            entered=task.version,
            left=None,
        )
