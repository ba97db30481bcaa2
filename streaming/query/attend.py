"""A query started from the command line runs until it ends, and is restarted after transient failures."""

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
    StreamError,
    TailbitError,
)
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.liveness import IDLE, Liveness
from tailbit.streaming.life.watchdog import Supervision
from tailbit.streaming.metrics import IdleWatch
from tailbit.streaming.opening import start_over_in_time
from tailbit.streaming.query.launch import (
    Job,
    Prepared,
    java_is_gone,
    launch,
    refuse_vanished,
    spark_errors_named,
    spark_failed,
)
from tailbit.streaming.query.sampler import Sampled, Sampler
from tailbit.streaming.query.up_to_date import up_to_date
from tailbit.streaming.settings import DEFAULT_MASTER
from tailbit.streaming.upkeep import spark_checkpoint
from tailbit.streaming.upkeep.mending import Tell, tell_nobody
from tailbit.streaming.upkeep.patience import LONGEST_S, WAIT_S, Patience, worth_a_restart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailbit.streaming.batch import OnProgress

_STARTING = "starting the query"

_SIGNS = 10
"""A query that ran for longer than the longest pause with as many signs of life went well until it failed."""

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


def run_to_its_end(run: Run, spark: SparkSession) -> None:
    """Run a query until it ends; restart it after transient failures.

    Raises:
        TailbitError: the query ended for another reason than `stop`, `once` or a transient failure.
    """
    patience = Patience(run.patience_s)
    while not run.stop.is_set() and not _ended_well(run, spark, patience):
        pass


def _ended_well(run: Run, spark: SparkSession, patience: Patience) -> bool:
    """Run the query once; return False if it must be restarted.

    A restart is needed after a transient failure, and after damage of the index that was mended at the end.
    """
    job: Job | None = None
    began, moves = time.monotonic(), run.life.moves
    try:
        run.life.sign(_STARTING)
        run.life.begun = True
        job = _launched(run, spark)
        run.supervision.on_up()
        if run.life.doing_now == _STARTING:
            # No batch has begun: there may be nothing to do.
            run.life.sign(IDLE)
        if run.sampler is not None:
            run.sampler.follow(Sampled.of(job))
        return not attend(job, run.stop, run.on_progress)
    except TailbitError as met:
        went_well = time.monotonic() - began > LONGEST_S and run.life.moves - moves >= _SIGNS
        pause_after(run, met, patience, job is not None and (went_well or job.batch.latest() is not None))
        return False
    finally:
        if run.sampler is not None:
            run.sampler.follow(None)


def pause_after(run: Run, met: TailbitError, patience: Patience, worked: bool) -> None:
    """Wait after a failure, and make the index anew if its own log stays damaged; then it is tried again.

    `worked`: whether something was done since the last failure.

    Raises:
        TailbitError: waiting does not help, or has lasted too long.
    """
    if worked:
        patience.worked()
    failed, cached = _after_reset(run, as_vanished(run.prepared, met))
    pause = patience.pause(failed, cached)
    if pause is None:
        raise worth_a_restart(failed, patience.limit_s) from met
    if not cached:
        run.tell(f"{type(failed).__name__}: {failed}; tried again in {pause:.1f} s")
    run.life.pause(run.stop, pause, f"waiting after {type(failed).__name__}: {failed}")
    start_over_in_time(run.prepared.index, failed, patience, run.tell)


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


def _launched(run: Run, spark: SparkSession) -> Job:
    """Return a started query.

    Raises:
        StreamError: the Java process is gone, or the Python planner that Java called has died.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return launch(spark, run.prepared, run.heartbeat, run.once, run.on_progress, run.tell, run.life)
    except Py4JJavaError as failed:
        raise spark_failed(str(failed.java_exception), run.prepared, spark.sparkContext.master) from failed
    except PySparkException as refused:
        raise spark_failed(str(refused), run.prepared) from refused
    except (ConnectionError, Py4JError) as gone:
        raise java_is_gone(run.prepared.checkpoint, gone) from gone


def _after_reset(run: Run, failed: TailbitError) -> tuple[TailbitError, bool]:
    """Reset a Spark checkpoint that was deleted or damaged during the query and so ended it.

    Return the error that remains, and whether the checkpoint was reset.
    """
    if not isinstance(failed, StreamError):
        return failed, False
    checkpoint = run.prepared.checkpoint
    unusable = spark_checkpoint.why_unusable(checkpoint)
    if unusable is None and not spark_checkpoint.blames_checkpoint(str(failed)):
        return failed, False
    reason = unusable or str(failed.fields.get("reason"))
    try:
        return failed, spark_checkpoint.reset(checkpoint, reason, run.tell)
    except StorageError as refused:
        return refused, False


def attend(job: Job, stop: threading.Event, on_progress: OnProgress | None) -> bool:
    """Wait for the end of the query, draining it once `stop` is set. Return whether damage was mended.

    Only an idle query stops without errors in the log, so the planner first confirms that no batch runs.
    """
    source = job.prepared.table.storage
    watch = IdleWatch(source.root, job.batch, on_progress, source.options)
    shown = up_to_date(job)
    try:
        with spark_errors_named(job.prepared.checkpoint, job.batch.master):
            while job.query.isActive:
                job.heartbeat.renew()
                if stop.is_set():
                    job.control.ask_to_drain()
                if job.control.drained:
                    job.query.stop()
                    break
                stop.wait(0.2) if not stop.is_set() else time.sleep(0.05)
                watch.look(time.monotonic())
                shown.look(time.monotonic())
            job.filling.stop()
            mended = job.batch.merger.finish(2.0 if stop.is_set() else 60.0)
            failure = job.failure()
    finally:
        job.end()
    if failure is not None:
        raise failure
    return mended
