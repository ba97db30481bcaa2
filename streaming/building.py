"""The tasks of a batch are run; a file that cannot be read is left out and recorded, and the rest goes on.

A file that is left out is recorded as live, but without postings and counts, and with the reason: questions
read the file themselves or fail with its name. `upkeep.unreadable` tries the file again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError, HiddenRowsError, StorageError
from tailbit.checkpoints.builds import Build
from tailbit.index.kinds.settings import PostingForms
from tailbit.index.maintenance.build_extent import extent_of_records
from tailbit.index.model import FileRecord
from tailbit.index.sql.terms import indexed_columns_of, kept_columns
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.plan import TaskLimits, pack, uncounted_record
from tailbit.index.write.readable import why_unreadable
from tailbit.index.write.work import (
    BuildTask,
    Enter,
    FileWork,
    Leave,
    TaskColumn,
    TaskDefinition,
    TaskResult,
)
from tailbit.streaming.upkeep.mending import Tell
from tailbit.tables.model import FileSlice, Version
from tailbit.tables.schema import Schema
from tailbit.tables.table import Table

RunTasks = Callable[[Sequence[BuildTask]], list[TaskResult]]

ATTEMPTS = 3
"""Most runs of the same tasks if a file failed but could be read when it was checked again."""


def template_of(
    table: Table, index: MetadataTable, schema: Schema, lineage: int, version: Version
) -> BuildTask:
    """Return a task without files that brings files to a version with this schema.

    It has the fields that all tasks of a batch share.
    """
    settings = index.state.settings
    return BuildTask(
        root=table.root,
        log=table.words.log,
        index_path=index.path,
        columns=tuple(map(TaskColumn.of, indexed_columns_of(settings.definitions, schema))),
        works=(),
        lineage=lineage,
        version=version,
        dropped=frozenset(settings.dropped),
        kinds=index.kinds,
        options=table.storage.options,
        definitions=tuple(
            TaskDefinition(definition.id, definition.kind, kept_columns(definition, schema))
            for definition in settings.definitions
            if not definition.has_postings
        ),
        uncounted=frozenset(d.id for d in settings.definitions if d.has_postings and not d.has_counts),
        forms=PostingForms.of(settings),
    )


@dataclass(frozen=True, slots=True)
class Building:
    """The build tasks of one batch. `template`: a task without files, from which the tasks are copied.

    `build`: the record of the build; `run` adds to it what the tasks finish.
    """

    table: Table
    template: BuildTask
    limits: TaskLimits
    run: RunTasks
    tell: Tell
    build: Build

    def built(self, works: Sequence[FileWork]) -> tuple[list[TaskResult], list[FileRecord]]:
        """Run the tasks; return their results, and the records of the files that were left out.

        Raises:
            DataFileError, HiddenRowsError: the file named by the error is none of the batch's; or it
                keeps failing although it can be read.
            NotATableError: the table has vanished, and its files with it.
        """
        skipped: dict[str, FileRecord] = {}
        attempts = 0
        while True:
            doable = [work for work in works if work.path not in skipped]
            taken_back = [leave for work in works if work.path in skipped for leave in _taken_back(work)]
            try:
                tasks = pack([*doable, *taken_back], self.template, self.limits)
                with self.build.step():
                    results = self.run(tasks)
                if skipped:
                    self.build.add(extent_of_records(skipped.values()))
                return results, list(skipped.values())
            except (DataFileError, HiddenRowsError) as error:
                unreadable = self._unreadable(error, doable, again=bool(skipped))
                attempts += not unreadable
                if attempts == ATTEMPTS:
                    raise
                skipped |= {t.path: uncounted_record(t, self.template, why) for t, why in unreadable}

    def _unreadable(
        self, error: DataFileError | HiddenRowsError, works: Sequence[FileWork], *, again: bool
    ) -> list[tuple[FileSlice, str]]:
        """Return the file slice of an error and every other unreadable slice, with the reasons.

        The slices are opened once more: none is unreadable if a folder had vanished for a moment. If files
        were left out before (`again`), all columns are read, since each attempt builds the whole batch. A
        file that is missing because the head of the log no longer names it is left out without notice.
        """
        targets = [work.target for work in works if not isinstance(work, Leave)]
        failed = next((target for target in targets if self._is_about(error, target)), None)
        if failed is None:
            raise error
        live = self.table.snapshot(self.table.head()).files
        columns = [column.column for column in self.template.columns]
        unreadable = []
        for target in targets:
            looked_at = columns if again or target is failed else ()
            why = why_unreadable(self.table.storage, target, looked_at)
            if why is None:
                continue
            unreadable.append((target, why))
            now = live.get(target.path)
            if now is not None and _identity(now) == _identity(target):
                self.tell(f"not indexed: {why}; questions read it, and it is tried again")
        return unreadable

    def _is_about(self, error: DataFileError | HiddenRowsError, target: FileSlice) -> bool:
        named = str(error.fields.get("file", ""))
        if isinstance(error, HiddenRowsError):
            return target.hidden is not None and target.hidden.concerns(named, error.fields.get("offset"))
        with suppress(StorageError):
            return named in (target.path, self.table.storage.resolve(target.path))
        return named == target.path


def _taken_back(work: FileWork) -> Iterator[FileWork]:
    """Yield the work that subtracts a skipped file's rows from the value counts, if they were counted."""
    if not isinstance(work, Enter) and work.record.counted:
        yield Leave(work.record)


def _identity(slice_: FileSlice) -> tuple[int, int, str]:
    """Return the fields that tell two states of a file at one path apart."""
    return slice_.size, slice_.mtime, slice_.hidden_id
