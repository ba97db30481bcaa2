"""What a record kind is: a name, a schema, and how its rows are written, read, merged and checked.

Every kind is one partition of one Delta table whose schema is the union of the kinds' columns; a file of one
kind holds only the columns of that kind. Batches, commits, merges, verification and vacuum treat all kinds by
this class alone: a kind that comes is one module and one line in `schemas`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa
from pyroaring import BitMap

from tailbit.index.kinds.merging import Merged, MergeGroup, due_by_size
from tailbit.index.kinds.rows import conform, reading, row_groups
from tailbit.index.model import IndexFile, Settings
from tailbit.index.parquet.index_file import open_index_file, write_index_file, write_parquet
from tailbit.index.parquet.sorted_rows import aligned, regrouped, sort
from tailbit.tables.model import FileSlice
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    from tailbit.tables.parquet.data_file import DataFile

R = TypeVar("R")

_MANY_ROWS = 10_000
"""A file of fewer rows is read sooner by one core."""


@dataclass(frozen=True)
class Entering:
    """A data file that a batch indexes anew: its slice, its physical rows, and what opens it."""

    slice: FileSlice
    rows: int
    open: Callable[[], DataFile]


class Blame(str, Enum):
    """What of an index must be built again for a problem to go."""

    NOTHING = ""
    """The source is at fault, or a kind that knows more than this."""
    FILE = "file"
    SPACE = "row space"
    COUNTS = "value counts"
    HIDDEN = "hidden rows"
    RECORDS = "file records"


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it must be: where, and what was found.

    `blame`: what must be built again; `name`: which index file, or which row space.
    """

    where: str
    found: str
    blame: Blame = field(default=Blame.NOTHING, compare=False)
    name: str = field(default="", compare=False)


@dataclass(frozen=True)
class CheckedSource:
    """The source at the version that an index is checked against.

    `slices`: its files. `hidden`: deletion vector identity to what reads the rows hidden under it. `at_head`:
    it is the newest version, so all its files must be there.
    """

    storage: Storage
    slices: Sequence[FileSlice]
    hidden: Mapping[str, Callable[[], BitMap | None]]
    at_head: bool


class View(Protocol):
    """One state of an index, as a kind sees it: live files, settings, and what any kind reads of its own."""

    @property
    def storage(self) -> Storage:
        """Where the index is."""

    @property
    def files(self) -> Mapping[str, IndexFile]:
        """The live files by path."""

    @property
    def settings(self) -> Settings:
        """What the index was told to be."""

    def files_of(self, kind: Kind[Any]) -> list[IndexFile]:
        """The live files of one kind."""

    def paths_of(self, kind: Kind[Any]) -> frozenset[str]:
        """The paths of the live files of one kind."""

    def reader(self, kind: Kind[R]) -> R:
        """What a kind reads of its live files, made when first asked and kept."""


@dataclass(frozen=True)
class Kind(ABC, Generic[R]):
    """A record kind; R is what reads its rows in memory. Instances have no state, and go to workers.

    `schema`: its columns; those that other kinds have too are of the same type. `sorted_by`: how rows of a
    file are sorted, nulls first; empty for not at all.
    """

    name: ClassVar[str]
    schema: ClassVar[pa.Schema]
    sorted_by: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def reader(self, view: View) -> R:
        """What reads the live files of this kind. Cost: nothing is read here that nobody has asked for."""

    def renewed(self, reader: R, view: View, added: Sequence[IndexFile], removed: Sequence[str]) -> R | None:
        """The reader once some files of any kind came and went; None: it is made anew when next asked."""
        return None

    def build(self, entering: Sequence[Entering]) -> Iterator[pa.Table]:
        """The rows about the data files of a task, by `sorted_by`, if each follows from one file alone.

        None by default: postings, counts and hidden rows come from one pass over the values, which the task
        makes itself. A file that was indexed before its kind came has no rows of it.
        """
        return iter(())

    def due(self, view: View, earliest: int | None) -> Iterator[MergeGroup]:
        """What is to be merged: by default the size classes that are full."""
        return due_by_size(self.name, view.files_of(self))

    def merge(self, view: View, group: MergeGroup, earliest: int | None) -> Merged:
        """Write the inputs of a group as one file, not yet committed; by default with all their rows.

        `earliest`: the earliest source version that a reader may still ask for; rows about files that left
        before may be dropped. None keeps every file's rows.
        """
        inputs = [self.batches(view.storage, path) for path in group.inputs]
        by = self.sorted_by
        rows = (sort(part, by) for part in aligned(inputs, by)) if by else chain.from_iterable(inputs)
        return Merged(tuple(self.write_stream(view.storage, rows)))

    def may_commit(self, view: View, group: MergeGroup, merged: Merged | None) -> bool:
        """Whether a merge may be written (`merged` is None) or committed, as the index is now."""
        return all(path in view.files for path in group.inputs)

    def check(self, view: View, source: CheckedSource) -> Iterator[Problem]:
        """What of the rows is not as the source says. Damage ends the check with CorruptIndexError."""
        return iter(())

    def read_whole(self, storage: Storage, path: str) -> None:
        """Read every page of one file with its checksum, and decode what the pages hold.

        Raises:
            CorruptIndexError: it is missing, truncated or altered, or something does not decode.
        """
        for _ in self.batches(storage, path):
            pass

    def write(self, storage: Storage, table: pa.Table) -> IndexFile:
        """Write rows as one file of the index, not yet committed."""
        return self._write(storage, [table.cast(self.schema)])

    def write_stream(self, storage: Storage, tables: Iterable[pa.Table]) -> list[IndexFile]:
        """Write rows as they come, in row groups of a size that a look-up reads quickly.

        Returns: the file, or nothing where there are no rows. Memory: one row group.
        """
        groups = regrouped(table.cast(self.schema) for table in tables)
        first = next(groups, None)
        return [] if first is None else [self._write(storage, chain([first], groups))]

    def _write(self, storage: Storage, groups: Iterable[pa.Table]) -> IndexFile:
        return write_index_file(
            storage, self.name, self.name, lambda to: write_parquet(to, self.schema, groups)
        )

    def read(self, storage: Storage, path: str) -> pa.Table:
        """All rows of one file; columns that the file lacks are null.

        Raises:
            CorruptIndexError: it is missing, truncated, altered or not of this kind.
        """
        with reading(path), open_index_file(storage, path) as file:
            return conform(file.read(use_threads=file.metadata.num_rows > _MANY_ROWS), self.schema)

    def batches(self, storage: Storage, path: str, column: str | None = None) -> Iterator[pa.Table]:
        """The row groups of one file, of those that hold `column` where one is given.

        Raises:
            CorruptIndexError: it is missing, truncated or altered.
        """
        with reading(path), open_index_file(storage, path) as file:
            groups: Iterable[int] = range(file.metadata.num_row_groups)
            if column is not None:
                groups = row_groups(file.metadata, "column", column)
            for group in groups:
                with reading(path):
                    rows = file.read_row_group(group)
                yield conform(rows, self.schema)
