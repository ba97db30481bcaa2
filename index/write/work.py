"""The work of a batch: the case of each file by its recorded and its required state, and the tasks.

A file's work is one of five cases. The recorded and the required state of the file decide which:

| recorded | required | case |
|---|---|---|
| nothing | live | `Enter` |
| live | not live | `Leave` |
| another file under this path | live | `Replace` |
| this file, some columns not posted | live | `Repost` |
| this file, all columns posted | live, but hidden rows, counts or lineage differ | `Rehide` |

No I/O. Cost follows change. Indexing a commit costs what the commit changed; a question costs what it
touches; neither grows with history.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from tailbit.base.dataclass import dataclass
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.keys import posting_type_of
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.kinds.settings import PLAIN_FORMS, PostingForms
from tailbit.index.model import ROWS_PER_SPACE, FileRecord, IndexFile
from tailbit.tables.model import Column, FileSlice, Version
from tailbit.tables.storage import NO_OPTIONS, StorageOptions


@dataclass(frozen=True, slots=True)
class TaskColumn:
    """A column as it is at the target version, and the key type of its postings."""

    column: Column
    key_type: str

    @classmethod
    def of(cls, column: Column) -> TaskColumn:
        """Return the column with the key type of its current type."""
        return cls(column, posting_type_of(column.type))


@dataclass(frozen=True, slots=True)
class TaskDefinition:
    """A definition without postings: its id, its kind, and its columns as they are at the target version."""

    id: str
    kind: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class _Live:
    """A file that is live."""

    target: FileSlice

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return self.target.path


@dataclass(frozen=True, slots=True)
class Enter(_Live):
    """A file without a record: the definitions `post` (ids) are built, and every visible row is counted."""

    post: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """A recorded file that left the table: its visible rows are subtracted, its postings stay."""

    record: FileRecord

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return self.record.path


@dataclass(frozen=True, slots=True)
class _Change(_Live):
    """A live file that has a record."""

    record: FileRecord


@dataclass(frozen=True, slots=True)
class Replace(_Change):
    """A file whose recorded postings cannot be used: its counts are subtracted, and it is indexed as new.

    `post`: ids of the definitions that are built.
    """

    post: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repost(_Change):
    """A recorded file that lacks the definitions `post` (ids); their postings are added in its range."""

    post: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rehide(_Change):
    """A recorded file with all postings: only rows that became hidden or visible are counted."""


FileWork = Enter | Leave | Replace | Repost | Rehide


def to_post(work: FileWork) -> tuple[str, ...]:
    """Return the ids of the columns whose postings a `Repost` adds; none for other work."""
    return work.post if isinstance(work, Repost) else ()


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Files to bring to the state of source version `version`.

    `root`, `log`: of the source table, arguments of `open_source`.
    `dropped`: ids of dropped columns, whose old postings may still lie in row spaces. `kinds`: the record
    kinds of the index. `options`: of the stores of both tables. `definitions`: those without postings.
    `uncounted`: ids of the definitions with postings whose values are not counted. `forms`: how segments are
    written.
    """

    root: str
    index_path: str
    columns: tuple[TaskColumn, ...]
    works: tuple[FileWork, ...]
    lineage: int
    version: Version
    dropped: frozenset[str] = frozenset()
    kinds: Kinds = KINDS
    options: StorageOptions = NO_OPTIONS
    definitions: tuple[TaskDefinition, ...] = ()
    uncounted: frozenset[str] = frozenset()
    log: str = ""
    forms: PostingForms = PLAIN_FORMS

    @property
    def read_columns(self) -> list[Column]:
        """Return the columns and expressions whose values are read."""
        posted = [column.column for column in self.columns]
        others = (column for definition in self.definitions for column in definition.columns)
        return posted + [column for column in others if isinstance(column, IndexedTerm)]

    @property
    def ids(self) -> frozenset[str]:
        """Return the ids of the definitions that a file can be built for."""
        return frozenset(
            [*(column.column.id for column in self.columns), *(other.id for other in self.definitions)]
        )


@dataclass(frozen=True, slots=True)
class TaskResult:
    """New records and the index files that belong to them, to be committed together.

    `rows`: number of rows indexed, or only counted again. `bytes_read`: sizes of the data files read.
    """

    records: tuple[FileRecord, ...]
    files: tuple[IndexFile, ...]
    rows: int
    bytes_read: int


_HIDDEN_ONLY_BYTES = 1 << 20
_BYTES_PER_ROW = 8


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Limits of tasks: most bytes and rows of each; `parallelism` tasks if each gets `worth_bytes`."""

    task_bytes: int = 128 << 20
    worth_bytes: int = 4 << 20
    parallelism: int = 2
    rows: int = ROWS_PER_SPACE


def plan_work(
    targets: Iterable[tuple[str, FileSlice | None]],
    record_of: Callable[[str], FileRecord | None],
    wanted_by: Callable[[Mapping[str, str | None]], tuple[str, ...]],
    lineage: int,
) -> list[FileWork]:
    """Return the work that turns the recorded state of some files into the wanted state.

    A slice that is already recorded needs no work.

    `targets`: path and slice, None for a file that is not live. `wanted_by`: returns the ids of the
    definitions that a file with some partition values is to have. Work is the difference of two states, so an
    overlap or a full snapshot gives the same work as the log would, and a replay gives none. Cost: one lookup
    per wanted path.
    """
    works = (_work(slice_, record_of(path), wanted_by, lineage) for path, slice_ in targets)
    return [work for work in works if work is not None]


def _work(
    target: FileSlice | None,
    record: FileRecord | None,
    wanted_by: Callable[[Mapping[str, str | None]], tuple[str, ...]],
    lineage: int,
) -> FileWork | None:
    if target is None:
        gone = record is None or record.left is not None
        return None if gone or record is None else Leave(record)
    ids = wanted_by(target.partition)
    if record is None:
        return Enter(target, ids)
    if record.space is None or not record.is_of(target):
        return Replace(target, record, ids)
    post = tuple(id_ for id_ in ids if id_ not in record.built)
    if post:
        return Repost(target, record, post)
    return None if _as_recorded(target, record, lineage) else Rehide(target, record)


def _as_recorded(target: FileSlice, record: FileRecord, lineage: int) -> bool:
    counted_so = record.left is None and record.counted and record.hidden == target.hidden_id
    return counted_so and record.lineage == lineage


def weight(work: FileWork) -> int:
    """Estimate the bytes of data file that a work reads; if only hidden rows changed, that is a few pages."""
    if isinstance(work, Leave):
        return work.record.size
    whole = max(1, work.target.size)
    counted = isinstance(work, Rehide) and work.record.counted and work.record.left is None
    return min(whole, _HIDDEN_ONLY_BYTES) if counted else whole


def pack(works: Sequence[FileWork], template: BuildTask, limits: TaskLimits) -> list[BuildTask]:
    """Pack work into tasks of about equal bytes, none with more rows than a row space holds.

    The largest work goes first, onto the lightest task. Files keep path order inside a task, so equal work
    always gives equal tasks.
    """
    if not works:
        return []
    total = sum(weight(work) for work in works)
    count = max(-(-total // limits.task_bytes), min(limits.parallelism, total // limits.worth_bytes), 1)
    bins = [_Bin(number) for number in range(min(count, len(works)))]
    for work in sorted(works, key=lambda w: (-weight(w), w.path)):
        _place(bins, work, limits.rows)
    by_path, by_number = attrgetter("path"), attrgetter("number")
    filled = (sorted(b.works, key=by_path) for b in sorted(bins, key=by_number) if b.works)
    return [replace(template, works=tuple(batch)) for batch in filled]


class _Bin:
    """A task being filled."""

    def __init__(self, number: int) -> None:
        self.number, self.bytes, self.rows = number, 0, 0
        self.works: list[FileWork] = []

    def __lt__(self, other: _Bin) -> bool:
        return (self.bytes, self.number) < (other.bytes, other.number)

    def add(self, work: FileWork) -> None:
        self.works.append(work)
        self.bytes += weight(work)
        self.rows += _rows(work)


def _place(bins: list[_Bin], work: FileWork, limit: int) -> None:
    """Put work onto the lightest task, or onto a new one if its rows would overflow the row space."""
    rows = _rows(work)
    if bins[0].works and bins[0].rows + rows > limit:
        fitting = [b for b in bins if b.rows + rows <= limit]
        target = min(fitting) if fitting else _Bin(len(bins))
        if not fitting:
            bins.append(target)
        target.add(work)
        heapq.heapify(bins)
        return
    bins[0].add(work)
    heapq.heapreplace(bins, bins[0])


def _rows(work: FileWork) -> int:
    """Return the rows that work adds to the row space, by the log or by a high estimate from bytes."""
    if isinstance(work, (Leave, Rehide)):
        return 0
    if work.target.rows is not None:
        return work.target.rows
    return work.target.size // _BYTES_PER_ROW


def uncounted_record(target: FileSlice, task: BuildTask, reason: str) -> FileRecord:
    """Return the record of an unreadable file that may stay unread: live, neither posted nor counted.

    Queries scan the file or fail with its name; counts are not served while it is live.
    """
    return FileRecord(
        path=target.path,
        size=target.size,
        mtime=target.mtime,
        rows=target.rows or 0,
        footer="",
        partition=target.partition,
        space=None,
        base=None,
        built=(),
        counted=False,
        hidden="",
        lineage=task.lineage,
        entered=task.version,
        left=None,
        error=reason,
        seq=0,
    )
