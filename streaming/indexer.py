"""The index is brought from its recorded state to the state of the table at a target version. No Spark.

First build, tail, replay, overlap and resync are one path: the difference between recorded state and wanted
state is cut into tasks, and one commit holds both their results and the record of progress.

Once and only once. Whatever is killed, replayed, duplicated or started twice, the index equals one built
without the fault.

A file that cannot be read is left out, and the rest goes on: it is recorded as live, but without postings and
counts, and with the reason. Questions read the file themselves or fail with its name, and the upkeep of the
stream tries it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    CommitConflictError,
    CorruptIndexError,
    DataFileError,
    HiddenRowsError,
    IndexLogError,
    LiveTwiceError,
    StorageError,
)
from tailbit.base.faults import Fault, fault_point
from tailbit.base.wording import Tell
from tailbit.checkpoints.builds import Build
from tailbit.checkpoints.offset import Offset
from tailbit.checkpoints.recovery import (
    BatchPlan,
    LogState,
    Origin,
    Verdict,
    decide_batch,
    next_ledger,
    uncounted_after,
)
from tailbit.index.kinds.settings import PostingForms
from tailbit.index.maintenance.definitions import requirements_of
from tailbit.index.maintenance.rebuild import (
    BuildExtent,
    Extent,
    build_extent_of,
    extent_of_records,
    extent_of_works,
    promoted_since,
    rebuild,
    swap_rebuilt,
)
from tailbit.index.model import FileRecord
from tailbit.index.sql.terms import indexed_columns_of, kept_columns
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.posting import why_unreadable
from tailbit.index.write.work import (
    BuildTask,
    Enter,
    FileWork,
    Leave,
    TaskColumn,
    TaskDefinition,
    TaskLimits,
    TaskResult,
    pack,
    plan_work,
    uncounted_record,
)
from tailbit.streaming.opening import Mender
from tailbit.tables.model import Changes, FileSlice, Fingerprint, SliceChange, Version, after
from tailbit.tables.schema import Schema
from tailbit.tables.storage import decoded, one_look
from tailbit.tables.table import Table

RunTasks = Callable[[Sequence[BuildTask]], list[TaskResult]]

READ_ATTEMPTS = 3
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
                if attempts == READ_ATTEMPTS:
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


ATTEMPTS = 5
"""Most commits tried against concurrent writers; the loser of a conflict retries at once."""


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a batch. `rows`: number of rows indexed or counted anew."""

    verdict: Verdict
    first: Version | None
    target: Version
    files: int = 0
    rows: int = 0
    bytes_read: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class _KnownSchema:
    """The schema at a version; `stat`: changes as soon as the commit of that version is replaced."""

    version: Version
    stat: object
    schema: Schema


class Indexer:
    """The worker that applies ranges of the log to one index; the state of the index stays in memory.

    Cost of a batch: proportional to what changed. Only the last batch of a round's snapshot looks at every
    file.
    """

    def __init__(
        self,
        table: Table,
        index: MetadataTable,
        limits: TaskLimits,
        run: RunTasks,
        mender: Mender | None = None,
        build: Build | None = None,
    ) -> None:
        """Prepare the indexer. `build`: the record of its build, to which `run` adds what it finishes."""
        self._build = build or Build(table.root)
        self._table, self._index, self._limits, self._run = table, index, limits, run
        self._mender = mender or Mender(table, index)
        self._schema: _KnownSchema | None = None

    def apply(self, start: Offset, end: Offset, origin: Origin) -> BatchOutcome:
        """Index everything before offset `end`, unless the ledger has it or no longer leads to this batch.

        Damaged files of the index that are met on the way are removed from the index, and the batch is
        retried.

        Raises:
            NotATableError: the table has vanished, and its files with it.
            CommitConflictError: other writers won every time.
        """
        fault_point(Fault.OFFSET_LOGGED)
        for _ in range(ATTEMPTS - 1):
            try:
                return self._attempt(start, end, origin)
            except CommitConflictError:
                continue
            except IndexLogError:
                # Another writer may be in the middle of a commit; `opening` handles a damaged log.
                raise
            except CorruptIndexError as damage:
                self._mender.mend(damage)
        return self._attempt(start, end, origin)

    def _attempt(self, start: Offset, end: Offset, origin: Origin) -> BatchOutcome:
        with one_look():
            self._index.refresh()
            log = LogState.of(self._table, self._table.head())
            # Before the decision, and recorded at the end: the log may be replaced while the tasks run.
            planned = log.fingerprint(end.stands_at)
            plan = decide_batch(self._index.state.ledger, start, end, log)
            if plan.verdict is not Verdict.APPLY:
                return BatchOutcome(plan.verdict, plan.first, end.stands_at)
            changes = self._changes(plan, end.stands_at)
            schema = self._schema_at(changes, end.stands_at)
            for promoted in promoted_since(self._index.state.settings.definitions, schema):
                rebuild(self._index, promoted.name, schema)
            template = template_of(self._table, self._index, schema, plan.lineage, end.stands_at)
            required = requirements_of(self._index.state.settings.definitions, schema)
            recorded = self._recorded_of(changes)
            files = self._files(changes, recorded, start, end)
            works = plan_work(files, recorded, required.of, plan.lineage)
            self._begin_build(plan, end, works)
        fault_point(Fault.BATCH_PLANNED)
        building = Building(self._table, template, self._limits, self._run, self._mender.tell, self._build)
        with self._build.step():
            results, skipped = building.built(works)
            records = [record for result in results for record in result.records] + skipped
            if records or not self._recorded_as(end):
                is_gone = log.fingerprint(end.stands_at) is None
                self._commit(plan, end, None if is_gone else planned, origin, records, results)
        if not end.in_snapshot:
            self._build.end()
        if plan.first is None and not end.in_snapshot:
            swap_rebuilt(self._index, required)
        return BatchOutcome(
            plan.verdict,
            plan.first,
            end.stands_at,
            files=len(records),
            rows=sum(result.rows for result in results),
            bytes_read=sum(result.bytes_read for result in results),
            skipped=len(skipped),
        )

    def _begin_build(self, plan: BatchPlan, end: Offset, works: Sequence[FileWork]) -> None:
        """Begin the record of a build, or go on with it: of a round's snapshot, or of a range of the log."""
        if plan.first is not None:
            whole, rows_exact = extent_of_works(works)
            self._build.begin((end, plan.first), lambda: BuildExtent(whole, Extent(), rows_exact))
            return
        state, version = self._index.state, end.stands_at
        key = end.round, version, state.settings.version
        self._build.begin(key, lambda: build_extent_of(state, self._table.snapshot(version)))

    def _changes(self, plan: BatchPlan, target: Version) -> Changes | None:
        """Return the changes in the range that the batch reads; None if the batch reads a snapshot."""
        if plan.first is None:
            return None
        if plan.first > target:
            return Changes(plan.first, target, (), (), schema_changed=False)
        return self._table.changes(plan.first, target)

    def _recorded_of(self, changes: Changes | None) -> Callable[[str], FileRecord | None]:
        """Return a function from a path to its record; the records of changed paths are taken at once."""
        recorded = self._index.state.recorded
        if changes is None:
            return recorded.get
        named = {path for change in changes.slices for path in (change.path, decoded(change.path))}
        changed = recorded.get_all(named)
        return {record.path: record for record in changed}.get

    def _files(
        self,
        changes: Changes | None,
        recorded: Callable[[str], FileRecord | None],
        start: Offset,
        end: Offset,
    ) -> Iterator[tuple[str, FileSlice | None]]:
        """Yield paths that may differ, each with its slice at the target; None for a file not live there."""
        if changes is not None:
            named = {change.path for change in changes.slices}
            for change in changes.slices:
                yield change.path, self._new(change, recorded(change.path), end.stands_at)
                # A release that took all spellings of a path for one recorded the file under this path.
                former = decoded(change.path)
                if former not in named and recorded(former) is not None:
                    named.add(former)
                    yield former, self._table.snapshot(end.stands_at).files.get(former)
            return
        files = self._table.snapshot(end.stands_at).files
        if end.file is not None:
            first = (start.file or 0) if start.round == end.round and start.in_snapshot else 0
            yield from ((files[n].path, files[n]) for n in range(first, end.file))
            return
        yield from ((slice_.path, slice_) for slice_ in files)
        live = set(files.paths.to_pylist())
        records = self._index.state.recorded.live()
        yield from ((record.path, None) for record in records if record.path not in live)

    def _new(self, change: SliceChange, record: FileRecord | None, target: Version) -> FileSlice | None:
        """Return the slice of a changed path at the target; the commits tell it if they fit the record.

        A path that is live twice at the target has the slice of the head, by which a later commit may have
        settled it: the index is then ahead in this file.
        """
        fits = (
            record is None
            or record.left is not None
            or not record.counted
            or record.hidden in {s.hidden_id for s in (change.old, change.new) if s}
        )
        if change.settled and fits:
            return change.new
        try:
            files = self._table.snapshot(target).files
        except LiveTwiceError:
            files = self._table.snapshot().files
        return files.get(change.path)

    def _schema_at(self, changes: Changes | None, target: Version) -> Schema:
        """Return the schema at the target; reread only if a commit since the last known one changed it.

        The cached schema belongs to a commit, not to a version number: a recreated table may have the same
        number.
        """
        schema = self._schema
        if schema is None or self._table.fingerprint_stat(schema.version) != schema.stat:
            schema = None
        elif changes is not None and changes.first == after(schema.version) and not changes.schema_changed:
            schema = replace(schema, version=target)
        if schema is None or schema.version != target:
            schema = _KnownSchema(target, None, self._table.snapshot(target).schema)
        self._schema = replace(schema, stat=self._table.fingerprint_stat(target))
        return self._schema.schema

    def _recorded_as(self, end: Offset) -> bool:
        """Return whether the ledger already has the round and version of this part of a snapshot."""
        ledger = self._index.state.ledger
        return (
            ledger is not None
            and end.in_snapshot
            and (ledger.round, ledger.version) == (end.round, end.version)
        )

    def _settings_version(self, plan: BatchPlan, end: Offset) -> int:
        """Return the version of the settings under which every file is indexed once the round is complete.

        That is the current version if the batch opens a snapshot or looks at all its files; else the version
        that held before, so that the planner sees that other columns still need postings.
        """
        ledger = self._index.state.ledger
        opens = ledger is None or ledger.round < end.round or not end.in_snapshot
        if ledger is None or (plan.first is None and opens):
            return self._index.state.settings.version
        return ledger.settings_version

    def _commit(
        self,
        plan: BatchPlan,
        end: Offset,
        fingerprint: Fingerprint | None,
        origin: Origin,
        records: Sequence[FileRecord],
        results: Sequence[TaskResult],
    ) -> None:
        before, recorded = self._index.state.ledger, self._index.state.recorded
        ledger = next_ledger(
            before,
            end,
            fingerprint,
            plan.lineage,
            uncounted_after(0 if before is None else before.uncounted, records, recorded.get),
            self._settings_version(plan, end),
            origin,
            time.time_ns() // 1_000_000,
        )
        files = [file for result in results for file in result.files]
        self._index.commit(records, files, ledger)
