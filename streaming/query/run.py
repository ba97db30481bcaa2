"""A run of one table from the command line, to its end: by a query of Spark, or in its own process.

A run that ends by itself starts no Spark where everything is indexed already, and indexes what is left in its
own process where that is little: Spark takes some ten seconds to start, in which this process indexes some
hundred million values.
"""

from __future__ import annotations

import threading
import time
from dataclasses import field, replace
from typing import TYPE_CHECKING

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError, NoIndexError, NotATableError, StorageError, TailbitError
from tailbit.base.wording import Tell, tell_nobody
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.liveness import IDLE, Liveness
from tailbit.checkpoints.offset import Offset
from tailbit.index.maintenance.rebuild import build_extent_of
from tailbit.index.model import LedgerState
from tailbit.streaming.batch import Batch, OnProgress
from tailbit.streaming.executors import ThreadExecutor
from tailbit.streaming.metrics import IdleWatch, Progress, names_of
from tailbit.streaming.opening import start_over_in_time
from tailbit.streaming.patience import WAIT_S, Patience
from tailbit.streaming.planner import Planner
from tailbit.streaming.query.failures import Restarts, spark_errors_named
from tailbit.streaming.query.launch import Job, Prepared, launch, refuse_vanished
from tailbit.streaming.query.sampler import Sampled, Sampler
from tailbit.streaming.settings import DEFAULT_MASTER
from tailbit.streaming.watch.watchdog import Supervision

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STARTING = "starting the query"

ONCE_WAIT_S = 60.0
"""With `once`, seconds of lasting failure after which the run ends."""


@dataclass(frozen=True, slots=True)
class Run:
    """A prepared job of the command line, its end conditions, and its callbacks.

    `once`: the run ends when everything is indexed. `stop`: the run ends when this event is set. `sampler`:
    observes the work of the query. `ui`: whether Spark shows its UI.
    """

    prepared: Prepared
    heartbeat: Claim
    once: bool
    stop: threading.Event
    on_progress: OnProgress | None = None
    tell: Tell = tell_nobody
    life: Liveness = field(default_factory=Liveness)
    sampler: Sampler | None = None
    supervision: Supervision = field(default_factory=Supervision)
    master: str = DEFAULT_MASTER
    ui: bool = True

    @property
    def patience_s(self) -> float:
        """Return the seconds of lasting failure after which the run ends."""
        return ONCE_WAIT_S if self.once else WAIT_S

    def restarts(self) -> Restarts:
        """Return the restarts of the run, which makes an index anew whose own log stays damaged."""

        def start_over(failed: TailbitError, patience: Patience) -> None:
            start_over_in_time(self.prepared.index, failed, patience, self.tell)

        return Restarts(
            self.prepared.checkpoint,
            self.stop,
            self.tell,
            self.life,
            Patience(self.patience_s),
            cause=lambda met: as_vanished(self.prepared, met),
            mend=start_over,
        )


def run_to_its_end(run: Run, spark: SparkSession) -> None:
    """Run a query until it ends; restart it after transient failures."""
    restarts = run.restarts()
    restarts.keep(lambda: _ended_well(run, spark, restarts))


def _ended_well(run: Run, spark: SparkSession, restarts: Restarts) -> bool:
    """Run the query once; return False if it must be restarted, after damage that was mended at the end."""
    job: Job | None = None
    try:
        run.life.sign(_STARTING)
        run.life.begun = True
        with spark_errors_named(run.prepared.checkpoint, run.master):
            job = launch(spark, run.prepared, run.heartbeat, run.once, run.on_progress, run.tell, run.life)
        run.supervision.on_up()
        if run.life.doing_now == _STARTING:
            # No batch has begun: there may be nothing to do.
            run.life.sign(IDLE)
        if run.sampler is not None:
            run.sampler.follow(job.stream.sampled(job.query, spark))
        return not attend(job, run.stop, run.on_progress)
    finally:
        restarts.worked = job is not None and job.batch.latest() is not None
        if run.sampler is not None:
            run.sampler.follow(None)


def as_vanished(prepared: Prepared, met: TailbitError) -> TailbitError:
    """Return NotATableError or NoIndexError if a vanished table or index caused an error, else that error.

    A reader of the index takes a missing file, or a store that does not answer, for damage. So the error of a
    store that still does not answer is returned in place of damage.
    """
    try:
        refuse_vanished(prepared)
    except (NotATableError, NoIndexError) as gone:
        return gone
    except StorageError as refused:
        return refused if isinstance(met, CorruptIndexError) else met
    return met


def attend(job: Job, stop: threading.Event, on_progress: OnProgress | None) -> bool:
    """Wait for the end of the query, draining it once `stop` is set. Return whether damage was mended."""
    source = job.prepared.table.storage
    watch = IdleWatch(source.root, job.batch, on_progress, source.options)

    def look() -> None:
        job.heartbeat.renew()
        watch.look(time.monotonic())

    try:
        job.started.attend(stop, look)
        mended = job.stream.at_work.stop(2.0 if stop.is_set() else 60.0)
        failure = job.failure()
    finally:
        job.end()
    if failure is not None:
        raise failure
    return mended


def caught_up(prepared: Prepared) -> Progress | None:
    """Return the progress of an index that covers its table; None if there is work or an error to report.

    Asks the planner what a query without a Spark checkpoint would ask: if there is nothing to read, a query
    with a checkpoint could only replay a batch, which records nothing. Cost: one idle poll, a few stats or
    one request.
    """
    planner = Planner(prepared.table, prepared.index, prepared.settings)
    try:
        planner.freeze()
        begin = planner.initial()
        if begin.in_snapshot or planner.next(begin) != begin:
            return None
        ledger = prepared.index.state.ledger
        if ledger is None or ledger.state is not LedgerState.COMPLETE:
            return None
        version, lag = ledger.version, planner.lag(begin)
    except TailbitError:
        # A query meets the same error, and reports it by name.
        return None
    names = names_of(prepared.table, version, lag.head)
    root = prepared.table.root
    return Progress(root, version, version, version, lag.head, 0, 0, lag, 0.0, idle=True, names=names)


LITTLE_BYTES = 1 << 30
"""Most bytes of data files that are indexed in the process of the run: some 30 to 80 s of CPU."""

_STEP_BYTES = 256 << 20
"""Bytes of a batch: the most that is done again after a kill, and that a signal waits for."""


def index_in_process(run: Run) -> bool:
    """Index all commits so far in this process; return False if more is left than `LITTLE_BYTES`.

    Ends early, with True, once the run is to stop. Transient failures are retried.
    """
    restarts, executor = run.restarts(), ThreadExecutor()
    while not run.stop.is_set():
        batch = _batch(run, executor)
        try:
            planner = _planner(run.prepared)
            start = planner.initial()
            if _bytes_left(run.prepared, planner, start, planner.next(start)) > LITTLE_BYTES:
                return False
            run.life.begun = True
            run.supervision.on_up()
            if _indexed(run, batch, planner, start):
                return True
        except TailbitError as met:
            restarts.worked = batch.latest() is not None
            restarts.pause_after(met)
        finally:
            if run.sampler is not None:
                run.sampler.follow(None)
    return True


def _planner(prepared: Prepared) -> Planner:
    """Return a planner that reads the log up to its present head, in small batches."""
    planner = Planner(prepared.table, prepared.index, replace(prepared.settings, bytes=_STEP_BYTES))
    planner.freeze()
    return planner


def _batch(run: Run, executor: ThreadExecutor) -> Batch:
    """Return what indexes the batches, watched by the sampler of the run."""
    prepared = run.prepared
    batch = Batch(
        prepared.table,
        prepared.index,
        prepared.settings,
        executor,
        run.heartbeat,
        run.on_progress,
        run.tell,
        run.life,
    )
    if run.sampler is not None:
        own = threading.get_native_id()
        run.sampler.follow(Sampled(threads=lambda: {own, *executor.threads}))
    return batch


def _bytes_left(prepared: Prepared, planner: Planner, start: Offset, end: Offset) -> int:
    """Return the bytes of the data files that are to be indexed. `start`, `end`: of the first batch."""
    snapshot = start if start.in_snapshot else end
    if snapshot.in_snapshot:
        return build_extent_of(prepared.index.state, prepared.table.snapshot(snapshot.version)).unbuilt.bytes
    return planner.lag(start).bytes


def _indexed(run: Run, batch: Batch, planner: Planner, start: Offset) -> bool:
    """Index batch by batch until nothing is left or the run is to stop; return False if damage was mended."""
    for number, (begin, end) in enumerate(planner.batches(start)):
        batch.index_range(begin, end, number)
        run.heartbeat.renew()
        if run.stop.is_set():
            break
    mended = batch.merger.finish(2.0 if run.stop.is_set() else 60.0)
    if batch.merger.failure is not None:
        raise batch.merger.failure
    return not mended
