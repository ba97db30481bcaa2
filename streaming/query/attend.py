"""A run of one table from the command line: its query runs, again after failures that pass, until it ends."""

from __future__ import annotations

import threading
import time
from dataclasses import field
from typing import TYPE_CHECKING

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    CorruptIndexError,
    NoIndexError,
    NotATableError,
    StorageError,
    TailbitError,
)
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.liveness import IDLE, Liveness
from tailbit.streaming.life.watchdog import Supervision
from tailbit.streaming.metrics import IdleWatch
from tailbit.streaming.opening import start_over_in_time
from tailbit.streaming.query.failures import spark_errors_named
from tailbit.streaming.query.launch import Job, Prepared, launch, refuse_vanished
from tailbit.streaming.query.restarts import Restarts
from tailbit.streaming.query.sampler import Sampler
from tailbit.streaming.settings import DEFAULT_MASTER
from tailbit.streaming.upkeep.mending import Tell, tell_nobody
from tailbit.streaming.upkeep.patience import WAIT_S, Patience

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailbit.streaming.batch import OnProgress

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
    """Run a query until it ends; restart it after transient failures.

    Raises:
        TailbitError: the query ended for another reason than `stop`, `once` or a transient failure.
    """
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
