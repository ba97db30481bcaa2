"""The interface of every kind of record: its rows, and how files of them are read, written and merged.

Every kind is one partition of one Delta table whose schema is the union of the kinds' columns; a file of one
kind holds only the columns of that kind. Batches, commits, merges, verification and vacuum treat all kinds
through this class alone, so a new kind is one module, and its import and
name in `schemas`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from enum import Enum
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, CorruptIndexError, SourceError
from tailbit.index.index_files import (
    aligned,
    open_index_file,
    regrouped,
    sort,
    write_index_file,
    write_parquet,
)
from tailbit.index.keys import key_type_of
from tailbit.index.model import Definition, IndexFile, NewClaim, Settings
from tailbit.tables import compute as pc
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.storage import Storage, at_once

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from tailbit.base.arrays import Mask
    from tailbit.index.evaluation.row_space import Access
    from tailbit.index.expression.indexed_term import IndexedTerm
    from tailbit.tables.parquet.data_file import DataFile


def kind_of(path: str) -> str:
    """Return the name of the kind of an index file, by its folder `kind=<kind>`."""
    return path.partition("/")[0].removeprefix("kind=")


def stored_type(column: Column) -> str | None:
    """Return the key type of a column's values; None for partition columns and types without keys."""
    try:
        return None if column.partition else key_type_of(column.type)
    except ColumnTypeError:
        return None


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Convert pyarrow's errors about a damaged or missing index file into CorruptIndexError."""
    try:
        yield
    except FileNotFoundError as gone:
        raise CorruptIndexError(file=path, reason="it is missing") from gone
    except (pa.ArrowException, OSError) as damage:
        raise CorruptIndexError(file=path, reason=str(damage)) from damage


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns and types of their kind; columns that the file lacks are null."""
    if table.schema == schema:
        return table
    return pa.table([_column(table, field) for field in schema], schema=schema)


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name in table.column_names:
        stored = table[field.name]
        return stored if stored.type == field.type else pc.cast(stored, field.type)
    return pa.nulls(len(table), field.type)


def row_groups(metadata: pq.FileMetaData, column: str, value: str) -> list[int]:
    """Return the row groups of a sorted file that may hold `value` in a column.

    Statistics exclude the others; row groups without statistics are returned.
    """
    leaf = metadata.schema.names.index(column)
    groups = []
    for group in range(metadata.num_row_groups):
        stats = metadata.row_group(group).column(leaf).statistics
        if stats is None or not stats.has_min_max or stats.min <= value <= stats.max:
            groups.append(group)
    return groups


def read_groups(storage: Storage, path: str, column: str, value: str, columns: Sequence[str]) -> pa.Table:
    """Read the rows of one index file in the row groups that may hold `value`."""
    with reading(path), open_index_file(storage, path) as file:
        groups = row_groups(file.metadata, column, value)
        present = [name for name in columns if name in file.schema_arrow.names]
        return file.read_row_groups(groups, columns=present)


FAN_IN = 8
"""Least number of files of one size class that are merged."""

_SMALLEST = 4096
"""Files smaller than 8 x this many bytes are all of size class 0."""


@dataclass(frozen=True)
class MergeGroup:
    """Index files of one kind that are merged or dropped together.

    Segments come as all segments of some row spaces.
    """

    kind: str
    inputs: tuple[str, ...]
    spaces: tuple[str, ...] = ()
    size_class: int = 0


@dataclass(frozen=True)
class Merged:
    """The result of a merge: the files that replace its inputs, the moved claims, and what the merge dropped.

    `forgotten`: ids of which the merge dropped all rows: of column statistics and Bloom filters the hashes of
    data file footers, of hidden rows their ids.
    """

    files: tuple[IndexFile, ...]
    moved: tuple[NewClaim, ...] = ()
    forgotten: frozenset[str] = frozenset()


def size_class(size: int, members: int = 0) -> int:
    """Return the size class of a file by bytes, or of a row space by bytes or file count (the higher)."""
    return max((max(1, size // _SMALLEST).bit_length() - 1) // 3, (max(1, members).bit_length() - 1) // 3)


def due_at_once(kind: str, files: Iterable[IndexFile]) -> Iterator[MergeGroup]:
    """Yield all files, if there are any, as one group."""
    if paths := tuple(file.path for file in files):
        yield MergeGroup(kind, paths)


def due_by_size(
    kind: str, files: Iterable[IndexFile], lowest: int = FAN_IN, others: int = FAN_IN
) -> Iterator[MergeGroup]:
    """Yield the size classes that are full: the lowest with `lowest` files, each other with `others`."""
    classes: dict[int, list[str]] = {}
    for file in files:
        classes.setdefault(size_class(file.size), []).append(file.path)
    for number, paths in classes.items():
        if len(paths) >= (others if number else lowest):
            yield MergeGroup(kind, tuple(paths), size_class=number)


R = TypeVar("R")

_MANY_ROWS = 10_000
"""A file with fewer rows is read faster by one core."""

_IN_ONE_REQUEST = 8 << 20
"""Most bytes of a file that is read whole in one request."""


class Entering(NamedTuple):
    """A data file that a batch indexes for a kind for the first time.

    `rows`: physical rows. `footer`: the hash of its footer. `computed`: a function that yields the values of
    an expression in row order, and where it raises; None where it raises nowhere.
    """

    slice: FileSlice
    rows: int
    footer: str
    open: Callable[[], DataFile]
    computed: Callable[[IndexedTerm], Iterator[tuple[pa.ChunkedArray, Mask | None]]]


class Blame(str, Enum):
    """The part of an index that must be rebuilt to solve a problem, or the source's fault."""

    NOTHING = ""
    """The source is at fault, or a record kind that the other values do not name."""
    FILE = "file"
    SPACE = "row space"
    COUNTS = "value counts"
    HIDDEN = "hidden rows"
    RECORDS = "file records"


@dataclass(frozen=True)
class Problem:
    """One inconsistency: where it is, and what is wrong.

    `blame`: what must be rebuilt; `name`: of the index file or row space.
    """

    where: str
    found: str
    blame: Blame = field(default=Blame.NOTHING, compare=False)
    name: str = field(default="", compare=False)

    @classmethod
    def of(cls, damage: CorruptIndexError) -> Problem:
        """Return the problem of a damaged index file, whatever was checked when it was met."""
        file = str(damage.fields.get("file"))
        return cls(file, str(damage.fields.get("reason", damage)), Blame.FILE, file)

    @classmethod
    def of_source(cls, path: str, error: SourceError) -> Problem:
        """Return the problem of a data file that cannot be read, whatever of it was checked."""
        return cls(f"file {path}", str(error.fields.get("reason", error)))


class CheckedSource(NamedTuple):
    """The source at the version against which an index is checked.

    `slices`: its files. `hidden`: identity of hidden rows to a function that reads the rows.
    `at_head`: the version is the newest, so all its files must exist. `columns`: its columns and the fields
    of structs. `expressions`: those of definitions without postings.
    """

    storage: Storage
    slices: Sequence[FileSlice]
    hidden: Mapping[str, Callable[[], BitMap | None]]
    at_head: bool
    columns: Sequence[Column] = ()
    expressions: Sequence[IndexedTerm] = ()

    def is_gone(self, slice_: FileSlice) -> bool:
        """Return whether a file of an older version is deleted by now, or another one is in its place."""
        if self.at_head:
            return False
        stat = self.storage.locate(slice_.path)[1]
        return stat is None or stat.size != slice_.size


class View(Protocol):
    """One state of an index, as a kind sees it: live files, settings, and the readers of all kinds."""

    @property
    def storage(self) -> Storage:
        """Return the storage of the index."""

    @property
    def files(self) -> Mapping[str, IndexFile]:
        """Return the live files by path."""

    @property
    def settings(self) -> Settings:
        """Return the settings of the index."""

    def files_of(self, kind: Kind[Any]) -> list[IndexFile]:
        """Return the live files of one kind."""

    def paths_of(self, kind: Kind[Any]) -> frozenset[str]:
        """Return the paths of the live files of one kind."""

    def reader(self, kind: Kind[R]) -> R:
        """Return the reader of a kind over its live files; it is created on first use and cached."""


class Definable(NamedTuple):
    """What a statement may say of definitions that a kind serves under one name.

    `most_terms`: the greatest number of terms; None: any, or all columns as `*`. `options`: the options, with
    the values of each. `other_names`: names by which Hudi and Hive call it, in lower case. `columns_of`: what
    is of columns alone, such as "Bloom filters are", if other expressions are refused. `unfit`: returns why a
    column cannot be a term, called `{term}`, or None if it can; it may raise ColumnTypeError.
    """

    most_terms: int | None
    options: Mapping[str, tuple[str, ...]] = {}
    other_names: tuple[str, ...] = ()
    columns_of: str = ""
    unfit: Callable[[Column], str | None] | None = None


NAMED_FORMAT = 6
"""The number of the layout of an index with definitions that are no bitmap of one column."""


class Kind(ABC, Generic[R]):
    """A record kind; R is the reader of its rows in memory.

    Instances have no state and are sent to workers; instances of one class are equal.

    `definable`: what statements may say of the definitions that this kind serves, by the name of each in a
    statement. `defined`: rows exist only for definitions of this kind. `schema`: the columns of the kind; a
    column that another kind has too has the same type there. `sorted_by`: the sort order of the rows of a
    file, nulls first; empty for unsorted. `encodings`: those of Parquet by column, where not the usual ones.
    """

    name: ClassVar[str]
    definable: ClassVar[Mapping[str, Definable]] = {}
    defined: ClassVar[bool] = False
    schema: ClassVar[pa.Schema]
    sorted_by: ClassVar[tuple[str, ...]] = ()
    encodings: ClassVar[Mapping[str, str]] = {}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(self.name)

    def format_of(self, definition: Definition) -> int:
        """Return the lowest format of an index that can express a definition of this kind."""
        return NAMED_FORMAT

    @abstractmethod
    def reader(self, view: View) -> R:
        """Return a reader of the live files of this kind. Cost: nothing is read before it is needed."""

    def renewed(self, reader: R, view: View, added: Sequence[IndexFile], removed: Sequence[str]) -> R | None:
        """Return the reader after files of any kind were added and removed, or None to create it again."""
        return None

    def accesses(self, view: View, columns: Sequence[Column]) -> Sequence[Access]:
        """Return the accesses of the definitions of this kind, for conditions on columns not their own.

        `columns`: the indexed columns and terms that the table has values of, at the version asked for.
        """
        return ()

    def build(self, entering: Sequence[Entering], columns: Sequence[Column]) -> Iterator[pa.Table]:
        """Yield the rows of this kind about the data files of a task, in order `sorted_by`.

        `columns`: those that the definitions of this kind name, as they are now.

        This is for kinds whose rows each follow from one data file; by default there are no rows. Postings,
        counts and hidden rows come from one pass over the values, which the task makes itself. A file that
        was indexed before this kind existed has no rows of this kind.
        """
        return iter(())

    def due(self, view: View, earliest: int | None) -> Iterator[MergeGroup]:
        """Yield the groups of files to merge: by default the size classes that are full."""
        return due_by_size(self.name, view.files_of(self))

    def merge(self, view: View, group: MergeGroup, earliest: int | None) -> Merged:
        """Write the inputs of a group as one file, not yet committed; by default with all their rows.

        `earliest`: the earliest source version that a reader may still query; rows about files that were
        removed before it may be dropped. None keeps the rows of every file.
        """
        inputs = [self.batches(view.storage, path) for path in group.inputs]
        by = self.sorted_by
        rows = (sort(batch, by) for batch in aligned(inputs, by)) if by else chain.from_iterable(inputs)
        return Merged(tuple(self.write_stream(view.storage, rows)))

    def may_commit(self, view: View, group: MergeGroup, merged: Merged | None) -> bool:
        """Return whether a merge may be written (`merged` is None) or committed, as the index is now.

        Not if an input is no longer live, or if an id of which the merge dropped all rows is in use again.
        """
        forgotten = merged.forgotten if merged is not None else frozenset()
        live = all(path in view.files for path in group.inputs)
        return live and (not forgotten or forgotten.isdisjoint(self.in_use(view)))

    def in_use(self, view: View) -> Iterable[str]:
        """Return the ids in use, whose rows no merge may drop; see `Merged.forgotten`."""
        return ()

    def definitions(self, view: View) -> list[Definition]:
        """Return the definitions of this kind; only a kind that is `defined` has any."""
        return [definition for definition in view.settings.definitions if definition.kind == self.name]

    def check(self, view: View, source: CheckedSource) -> Iterator[Problem]:
        """Yield the rows that contradict the source. Damage ends the check with CorruptIndexError."""
        return iter(())

    def read_whole(self, storage: Storage, path: str) -> None:
        """Read every page of one file with its checksum, and decode what the pages hold.

        Raises:
            CorruptIndexError: the file is missing, truncated or altered, or a value does not decode.
        """
        for _ in self.batches(storage, path):
            pass

    def write(self, storage: Storage, table: pa.Table) -> IndexFile:
        """Write rows as one file of the index, not yet committed."""
        return self._write(storage, [table.cast(self.schema)])

    def write_stream(self, storage: Storage, tables: Iterable[pa.Table]) -> list[IndexFile]:
        """Write rows as they arrive as one file; no file without rows. Memory: one row group."""
        return self.write_groups(storage, self.grouped(tables))

    def grouped(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield rows as row groups, by default of a size that a lookup reads quickly."""
        return regrouped(table.cast(self.schema) for table in tables)

    def write_groups(self, storage: Storage, groups: Iterator[pa.Table]) -> list[IndexFile]:
        """Write row groups as one file; no file without any."""
        first = next(groups, None)
        return [] if first is None else [self._write(storage, chain([first], groups))]

    def _write(self, storage: Storage, groups: Iterable[pa.Table]) -> IndexFile:
        def write(to: pa.NativeFile) -> None:
            write_parquet(to, self.schema, groups, encodings=self.encodings)

        return write_index_file(storage, self.name, self.name, write)

    def read(self, storage: Storage, path: str) -> pa.Table:
        """Read all rows of one file; columns that the file lacks are null.

        Raises:
            CorruptIndexError: the file is missing, truncated, altered or not of this kind.
        """
        with reading(path), open_index_file(storage, path, end=_IN_ONE_REQUEST) as file:
            return conform(file.read(use_threads=file.metadata.num_rows > _MANY_ROWS), self.schema)

    def read_all(self, view: View, files: Sequence[IndexFile] | None = None) -> list[pa.Table]:
        """Return the rows of each live file of this kind, or of `files`; a store is asked for all at once.

        Raises:
            CorruptIndexError: a file is missing, truncated, altered or not of this kind.
        """
        live = view.files_of(self) if files is None else files
        reads = [partial(self.read, view.storage, file.path) for file in live]
        return list(at_once(view.storage, reads))

    def batches(self, storage: Storage, path: str) -> Iterator[pa.Table]:
        """Yield the row groups of one file.

        Raises:
            CorruptIndexError: the file is missing, truncated or altered.
        """
        with reading(path), open_index_file(storage, path) as file:
            for group in range(file.metadata.num_row_groups):
                with reading(path):
                    rows = file.read_row_group(group)
                yield conform(rows, self.schema)
