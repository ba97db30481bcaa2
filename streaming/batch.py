"""A batch: one range of the source log becomes one commit of the index.

The range is two offsets; the work follows from the recorded state. A table that a stream keeps indexed is its
planner, its batches, and the threads beside them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import PurePath

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.base.faults import Fault, fault_point
from tailbit.base.wording import Tell, tell_nobody
from tailbit.checkpoints.builds import Build, build_text, lag_of_build
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.lag import Backlog, Lag
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.offset import Offset
from tailbit.checkpoints.recovery import Origin
from tailbit.index.maintenance.rebuild import Extent, extent_of_records
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.run import run_task
from tailbit.index.write.work import BuildTask, TaskLimits, TaskResult, weight
from tailbit.streaming.executors import Executor, Sum, beside
from tailbit.streaming.filler import Filler, FillThread, SpacesAtWork
from tailbit.streaming.indexer import BatchOutcome, Indexer
from tailbit.streaming.memory import FREED
from tailbit.streaming.merging import Merger
from tailbit.streaming.metrics import Progress, describe, names_of
from tailbit.streaming.opening import Mender
from tailbit.streaming.planner import Planner
from tailbit.streaming.settings import StreamSettings
from tailbit.streaming.sweeping import Upkeep
from tailbit.tables.model import Version
from tailbit.tables.storage import NO_OPTIONS, one_look
from tailbit.tables.table import Table

OnProgress = Callable[[Progress], None]

FILL_BYTES = 64 << 20
"""Most bytes of data files that a worker fills in one step beside the batches, but at least one file."""

_SIGN_S = 1.0

FILL_INLINE_FILES, FILL_INLINE_BYTES = 8, 1 << 20
"""A step with at most these files and bytes runs in the driver process, which it shares with the batches."""


class Batch:
    """The batches of a table, in the driver's Python process.

    Keeps the state of the index in memory between batches; one batch runs at a time. `busy`: whether one
    runs. `master`: URL of Spark's master.
    """

    def __init__(
        self,
        table: Table,
        index: MetadataTable,
        settings: StreamSettings,
        executor: Executor,
        heartbeat: Claim,
        on_progress: OnProgress | None = None,
        tell: Tell = tell_nobody,
        life: Liveness | None = None,
        workers: threading.Lock | None = None,
        processes: str | None = None,
        id_: str = "",
    ) -> None:
        """Prepare the batches. `workers`: lock that several indexes share; they leave one worker free.

        `processes`: a folder that shows which processes have a task of this table; see `on_workers`.
        `id_`: name of the table in a configuration, else empty.
        """
        self._life = life or Liveness()
        self._table, self._index, self._settings, self._executor = table, index, settings, executor
        self._heartbeat, self._on_progress = heartbeat, on_progress
        self.master = executor.master
        self._id, self._name = id_, id_ or PurePath(table.root).name
        self._backlog, self._cores = Backlog(table), executor.workers
        self._is_alone, self._processes = workers is None, processes
        self._beside = None if processes is None else beside(processes)
        limits = TaskLimits(parallelism=self._cores if workers is None else max(1, self._cores - 1))
        self.mender = Mender(table, index, tell)
        self.turn, self._workers = threading.Lock(), workers or threading.Lock()
        self._build, self._fill_build = (
            heartbeat.builds.build(index.state.index_id, builder, self._name)
            for builder in ("batches", "filling")
        )
        self._finished: dict[Build, Sum] = {}
        self._indexer = Indexer(table, index, limits, self._run, self.mender, self._build)
        of_fills, at_work = replace(limits, parallelism=max(1, self._cores - 1)), SpacesAtWork()
        size, describe_fill = FILL_BYTES * of_fills.parallelism, self._describe_fill
        self._filler = Filler(
            table,
            index,
            of_fills,
            self._fill,
            self.turn,
            settings.files,
            size,
            tell,
            describe_fill,
            at_work,
            self._fill_build,
        )
        self.merger = Merger(table, index, executor, self.mender, self._workers, at_work, self._beside)
        self.busy = False
        self._last: Progress | None = None

    def latest(self) -> Progress | None:
        """Return the progress of the last batch."""
        return self._last

    def begin(self, batch_id: int) -> str:
        """Note that a batch begins, whose range is not known yet; return how far the index is, for people."""
        self.busy = True
        covered, head = self._begun(batch_id)
        return self._description(None, covered, self._backlog.lag(covered, head))

    def index_range(self, start: Offset, end: Offset, batch_id: int) -> int:
        """Index a range of the log; return the number of bytes read.

        A range that is recorded already changes nothing.
        """
        began = time.perf_counter()
        with self.turn:
            self.busy = True
            try:
                before, _ = self._begun(batch_id)
                outcome = self._index_range(start, end, batch_id, before, began)
            finally:
                self.busy = False
                FREED.give_back()
        fault_point(Fault.BEFORE_SPARK_COMMIT)
        return outcome.bytes_read

    def _begun(self, batch_id: int) -> tuple[Version, Version]:
        """Note that a batch begins; return the version that is covered, -1 for none, and the head."""
        self._life.batch = batch_id
        self._heartbeat.note(batch_id)
        before = -1 if self._index.state.ledger is None else self._index.state.ledger.version
        return before, self._table.head()

    def _index_range(
        self, start: Offset, end: Offset, batch_id: int, before: Version, began: float
    ) -> BatchOutcome:
        """Index a range of the log, and merge what is due. `began`: by `time.perf_counter`."""
        with one_look():
            lag = self._backlog.lag(end.read_through, self._table.head())
            self._executor.describe(self._description(before, end.stands_at, lag))
            target = self._table.name_of(end.stands_at)
        self._life.sign(f"batch {batch_id}: planning the work up to version {target}")
        outcome = self._indexer.apply(start, end, Origin(self._executor.query, batch_id))
        self._tell(outcome, before, end, batch_id, time.perf_counter() - began)
        self.merger.after_batch()
        return outcome

    def _description(self, first: Version | None, target: Version, lag: Lag) -> str:
        """Return the description that Spark's UI shows for the jobs of this batch."""
        names = names_of(self._table, first, target, lag.head)
        text, progress = describe(self._name, first, target, lag, names), self._build.progress()
        built = "" if progress is None else f" · built {build_text(progress.account())}"
        return f"{text}{built}"

    def _tell(
        self, outcome: BatchOutcome, before: Version, end: Offset, batch_id: int, seconds: float
    ) -> None:
        """Report the progress of the batch; within a snapshot, the lag is the rest of the snapshot."""
        ledger = self._index.state.ledger
        lag = self._backlog.lag(end.read_through, self._table.head())
        if end.in_snapshot:
            lag = lag_of_build(lag, self._build.progress())
        self._last = Progress(
            table=self._table.root,
            covered=None if ledger is None else ledger.covered,
            first=before,
            target=outcome.target,
            head=lag.head,
            files=outcome.files,
            rows=outcome.rows,
            lag=lag,
            batch_ms=seconds * 1000,
            building=end.in_snapshot,
            batch_id=batch_id,
            id=self._id,
            names=names_of(self._table, None if ledger is None else ledger.covered, lag.head),
        )
        if self._on_progress is not None:
            self._on_progress(self._last)

    def _run(self, tasks: Sequence[BuildTask]) -> list[TaskResult]:
        """Run small tasks in this process and larger ones on the workers.

        A Spark job costs more than reading a few small files.
        """
        batch, files = f"batch {self._life.batch}", sum(len(task.works) for task in tasks)
        inline = sum(weight(work) for task in tasks for work in task.works) <= self._settings.inline_bytes
        # With several tables, one worker is left to the query itself.
        inline |= not self._is_alone and self._cores < 2
        self._life.sign(f"{batch}: indexing {files} files {'in this process' if inline else 'on workers'}")
        with nullcontext() if inline or self._is_alone else self._workers_free():
            results = (
                [self._alone(task) for task in tasks]
                if inline
                else self._on_workers(tasks, self._build, self._processes)
            )
        self._life.sign(f"{batch}: committing to the index")
        return results

    @contextmanager
    def _workers_free(self) -> Iterator[None]:
        """Hold the lock on the workers; while another table holds the lock, the wait is a sign of life."""
        while not self._workers.acquire(timeout=_SIGN_S):
            self._life.wait_for("waiting for Spark's workers, which another table has")
        try:
            yield
        finally:
            self._workers.release()

    def _fill(self, tasks: Sequence[BuildTask]) -> list[TaskResult]:
        """Run the tasks of a step beside the batches: a few small files in this process, others on workers.

        One worker is left to the batches, so the step waits for a merge that runs on a worker. If there is
        only one worker, all tasks run in this process.
        """
        works = [work for task in tasks for work in task.works]
        few = len(works) <= FILL_INLINE_FILES and sum(map(weight, works)) <= FILL_INLINE_BYTES
        if few or self._cores < 2:
            return [_added(self._fill_build, run_task(task)) for task in tasks]
        with self._workers:
            return self._on_workers(tasks, self._fill_build, self._beside)

    def _describe_fill(self, doing: str) -> None:
        """Show what is filled beside the batches: in Spark's UI, and in the signs of life."""
        self._life.begin_beside(doing)
        self._executor.describe(f"{self._name}: {doing}")

    def fill_thread(self, look_s: float) -> FillThread:
        """Return the thread, not started, that fills files beside the batches."""
        return FillThread(
            self._filler, self._caught_up, self._mend_beside, self._life, self.mender.tell, look_s
        )

    def _caught_up(self) -> bool:
        """Return whether no batch runs, and the last one left nothing of the log."""
        return not self.busy and (self._last is None or not self._last.lag.versions)

    def _mend_beside(self, damage: CorruptIndexError) -> None:
        with self.turn:
            self.mender.mend(damage)

    def _on_workers(
        self, tasks: Sequence[BuildTask], build: Build, at_work: str | None = None
    ) -> list[TaskResult]:
        """Run each task by the executor; `build` shows at once which of them have finished."""
        options = self._table.storage.options
        if build not in self._finished:
            self._finished[build] = self._executor.sum_of_tasks(Extent())
        finished = self._finished[build]
        before = finished.value

        def run(task: BuildTask) -> TaskResult:
            result = run_task(replace(task, options=options))
            finished.add(extent_of_records(result.records))
            return result

        with build.watching(lambda: finished.value - before):
            given = [replace(task, options=NO_OPTIONS) for task in tasks]
            results = self._executor.run(run, given, at_work)
        build.add(extent_of_records(record for result in results for record in result.records))
        return results

    def _alone(self, task: BuildTask) -> TaskResult:
        self._life.sign()
        return _added(self._build, run_task(task))


def _added(build: Build, result: TaskResult) -> TaskResult:
    """Return the result of a task, and add its files to the record of a build."""
    build.add(extent_of_records(result.records))
    return result


@dataclass(frozen=True)
class TableAtWork:
    """A table with its index, which this process has claimed. Used by one thread at a time, besides its own.

    Whoever holds the claim renews it. `filling`, `upkeep`: the threads beside the batches, not started.
    """

    planner: Planner
    batch: Batch
    filling: FillThread
    upkeep: Upkeep

    def look(self, start: Offset | None) -> Offset:
        """Return the end of the next batch after `start`; the first offset of the table if that is None."""
        with self.batch.turn:
            return self.planner.initial() if start is None else self.planner.next(start)

    def work(self, start: Offset, end: Offset, batch_id: int) -> int:
        """Index a range of the log; return the number of bytes read."""
        return self.batch.index_range(start, end, batch_id)

    def stop(self, merge_s: float) -> bool:
        """Stop the threads beside the batches; safe to call twice.

        A merge at work is waited for, `merge_s` seconds at most; return whether it mended damage.
        """
        self.filling.stop()
        self.upkeep.stop()
        return self.batch.merger.finish(merge_s)
