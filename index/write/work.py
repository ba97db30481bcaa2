"""The work of a batch as values: the case of each file, the tasks, and the result of a task.

A file's work is one of five cases. The recorded and the wanted state of the file decide which:

| recorded | wanted | case |
|---|---|---|
| nothing | live | `Enter` |
| live | not live | `Leave` |
| another file under this path | live | `Replace` |
| this file, some columns not posted | live | `Repost` |
| this file, all columns posted | live, but hidden rows, counts or lineage differ | `Rehide` |
"""

from __future__ import annotations

from tailbit.base.dataclass import dataclass
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.keys import posting_type_of
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.kinds.settings import PLAIN_FORMS, PostingForms
from tailbit.index.model import FileRecord, IndexFile
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
class Enter:
    """A file without a record: the definitions `post` (ids) are built, and every visible row is counted."""

    target: FileSlice
    post: tuple[str, ...]

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return self.target.path


@dataclass(frozen=True, slots=True)
class Leave:
    """A recorded file that left the table: its visible rows are subtracted, its postings stay."""

    record: FileRecord

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return self.record.path


@dataclass(frozen=True, slots=True)
class _Change:
    """A live file that has a record."""

    target: FileSlice
    record: FileRecord

    @property
    def path(self) -> str:
        """Return the path of the file."""
        return self.target.path


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
