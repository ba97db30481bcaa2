"""The two ways to run an indexer: `start` in a Spark session of the caller, `run` for the command line.

`run` creates the session, obeys signals and returns an exit status.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from tailbit.arguments.values import flag, wrong_type
from tailbit.base.errors import IndexerRunningError, RequirementError, TailbitError
from tailbit.base.system import check_system
from tailbit.base.wording import Tell, tell_nobody
from tailbit.checkpoints.builds import Builds
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.batch import OnProgress
from tailbit.streaming.java.session import (
    Session,
    build_session,
    check_requirements,
    is_submitted,
    on_one_machine,
)
from tailbit.streaming.query.launch import Job, Path, launch, prepare
from tailbit.streaming.query.query import started_spark, supervised
from tailbit.streaming.query.run import Run, caught_up, index_in_process, run_to_its_end
from tailbit.streaming.query.sampler import Sampler
from tailbit.streaming.query.stream import UpToDate
from tailbit.streaming.settings import DEFAULT_MASTER, DEFAULT_TRIGGER
from tailbit.streaming.sweeping import retry_now
from tailbit.streaming.watch.cluster import addresses, await_master, check_master
from tailbit.streaming.watch.watchdog import Supervision, Watchdog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


class Running:
    """The jobs by the run id of their query, and why those that ended did; safe to share between threads.

    Invariant: at every moment either the job of a query is registered or its failure is known. The run id is
    the key, since a query that is restarted from a Spark checkpoint keeps its query id.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closing = threading.RLock()
        self._closed: set[str] = set()
        self._jobs: dict[str, Job] = {}
        self._failures: dict[str, TailbitError] = {}

    def add(self, run: str, job: Job) -> None:
        """Register a started job."""
        with self._lock:
            self._jobs[run] = job

    def jobs(self) -> list[tuple[str, Job]]:
        """Return the jobs that are not closed yet, with their run ids."""
        with self._lock:
            return list(self._jobs.items())

    def end(self, run: str, is_lost: bool = False) -> None:
        """Close a job that has ended, or wait until another caller has closed it.

        The reason of its end is kept, unless Spark is gone, `is_lost`: then nobody can know it any more.
        """
        with self._lock:
            job = self._jobs.get(run)
        if job is not None:
            self._close(run, job, None if is_lost else job.failure())

    def _close(self, run: str, job: Job, failure: TailbitError | None) -> None:
        with self._lock:
            if failure is not None:
                self._failures.setdefault(run, failure)
        with self._closing:
            with self._lock:
                is_closed = run in self._closed
                self._closed.add(run)
            if is_closed:
                return
            try:
                job.close()
            finally:
                with self._lock:
                    self._jobs.pop(run, None)

    def failure_of(self, run: str) -> TailbitError | None:
        """Return the named error that ended a query; None while the query runs or if it ended well."""
        with self._lock:
            job = None if run in self._closed else self._jobs.get(run)
        failure = None if job is None else job.failure()
        with self._lock:
            # If another thread closed the job meanwhile, it recorded the failure before.
            return self._failures.get(run, failure)


_RUNNING = Running()
"""Queries started by this process by `start`."""


def start(
    spark: SparkSession,
    path: Path,
    columns: Iterable[str] | None = None,
    index: Path | None = None,
    checkpoint: Path | None = None,
    once: bool = False,
    trigger: str = DEFAULT_TRIGGER,
    storage_options: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Start the query that keeps the index of the table at `path`, in a Spark session of your own.

    `columns`: names of the columns to index, None for those in the settings of the index. `once`: index all
    commits so far and stop. `trigger`: interval of looking for commits; up to one second, a commit is picked
    up as soon as it is seen. `storage_options`: of the stores of table and index, named as in delta-rs; Spark
    never shows them.

    Raises:
        UsageError: the table, a column, the index or the trigger is not valid; or `spark` is no classic
            Spark session.
        IndexerRunningError: another indexer has a fresh heartbeat on the index.
    """
    _check_session(spark)
    once = flag("once", once)
    prepared = prepare(path, columns, index, checkpoint, trigger, storage_options)
    assert prepared is not None
    _clear_ended()
    life = Liveness("starting the query")
    heartbeat = Claim(prepared.index.storage, life=life)
    heartbeat.acquire()
    try:
        retry_now(prepared.table, prepared.index, tell_nobody)
        job = launch(spark, prepared, heartbeat, once, life=life)
    except BaseException:
        heartbeat.release()
        raise
    run_id = str(job.query.runId)
    _RUNNING.add(run_id, job)
    threading.Thread(target=_close_when_ended, args=(run_id, job, life), daemon=True).start()
    return job.query


def _check_session(spark: SparkSession) -> None:
    """Check that a Spark session has a JVM beside this process, which a batch needs."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise RequirementError(
            reason="pyspark is not installed", remedy="Install it: pip install 'tailbit[spark]'."
        ) from None
    if not isinstance(spark, SparkSession):
        raise wrong_type("spark", spark, "a SparkSession; Spark Connect has none that will do")


def run(
    path: str,
    columns: Sequence[str] | None = None,
    index: str | None = None,
    checkpoint: str | None = None,
    once: bool = False,
    trigger: str = DEFAULT_TRIGGER,
    master: str | None = None,
    on_progress: OnProgress | None = None,
    ui: bool = True,
    storage_options: Mapping[str, str] | None = None,
    tell: Tell = tell_nobody,
    supervision: Supervision | None = None,
    builds: Builds | None = None,
) -> int:
    """Keep the index of the table at `path` up to date until a signal; with `once`, until all is indexed.

    SIGTERM, SIGINT and SIGHUP, also to the whole process group, let the batch in flight finish: status 0. A
    run that has not ended 30 seconds later is cut off. `master`: URL of the Spark master; None for the
    default, and then `once` that finds little to do does it in this process and starts no Spark.
    Transient failures are retried for `patience.WAIT_S` seconds at most. `builds`: gets the records of what
    the run builds.
    """
    life, supervision = Liveness("reading the table and the index"), supervision or Supervision()
    in_process = once and master is None and not is_submitted()
    master = DEFAULT_MASTER if master is None else master
    check_system()
    if not in_process:
        # A run whose work may be little needs Spark and Java only where it is not.
        check_requirements()
    if not is_submitted():
        check_master(master)
    with supervised(path, life, tell, supervision) as (stop, watchdog), Sampler(life) as sampler:
        prepared = prepare(path, columns, index, checkpoint, trigger, storage_options, stop, tell)
        if prepared is not None:
            heartbeat = Claim(prepared.index.storage, life=life, builds=builds)
            watched = (life, sampler, supervision)
            run = Run(prepared, heartbeat, once, stop, on_progress, tell, *watched, master, ui)
            _index(run, watchdog, in_process)
    return 0


def _index(run: Run, watchdog: Watchdog, in_process: bool) -> None:
    """Claim the index, wait for the master, and keep the query running.

    `in_process`: whether the work may be done in this process, if it is little.
    """
    prepared, stop, life = run.prepared, run.stop, run.life
    try:
        run.heartbeat.acquire(stop, run.tell)
    except IndexerRunningError:
        if stop.is_set():
            return
        raise
    watchdog.last_acts.append(run.heartbeat.release)
    try:
        if not is_submitted():
            await_master(run.master, stop, life, run.tell, run.patience_s)
        retry_now(prepared.table, prepared.index, run.tell)
        if run.once and _nothing_to_do(run):
            run.supervision.on_up()
            return
        if in_process and index_in_process(run):
            return
        if stop.is_set():
            return
        check_requirements()
        with _spark(run) as spark, nullcontext() if run.once or stop.is_set() else _warmed_up(spark):
            run_to_its_end(run, spark)
    finally:
        run.heartbeat.release()


def _spark(run: Run) -> AbstractContextManager[SparkSession]:
    prepared = run.prepared

    def build() -> Session:
        return build_session(f"tailbit {prepared.name}", run.master, run.ui, short=run.once)

    announce = run.supervision.announce
    return started_spark(build, prepared.table.root, prepared.checkpoint, run.master, run.life, announce)


def _nothing_to_do(run: Run) -> bool:
    """Return whether a run that ends by itself has nothing to index.

    False where only Spark can tell whether its master answers, as for `yarn`: then Spark is started all the
    same.
    """
    if is_submitted() or not (on_one_machine(run.master) or addresses(run.master)):
        return False
    progress = caught_up(run.prepared)
    if progress is not None and run.on_progress is not None:
        run.on_progress(progress)
    return progress is not None


def _warmed_up(spark: SparkSession) -> AbstractContextManager[None]:
    """Start Spark's workers while the block runs; imported late, because it needs pyspark."""
    from tailbit.streaming.query.warming import warming_up

    return warming_up(spark)


def _clear_ended() -> None:
    """Close the jobs of this process whose query has ended, so that their heartbeats block nobody."""
    for run_id, job in _RUNNING.jobs():
        if not job.query.isActive:
            _RUNNING.end(run_id)


def _close_when_ended(run_id: str, job: Job, life: Liveness) -> None:
    """Sample the work of a query until it ends, then close its job; give the job up if Spark is gone."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    shown = UpToDate(job.started.spark, job.stream.standing)
    try:
        with Sampler(life) as sampler:
            sampler.follow(job.stream.sampled(job.query, job.started.spark))
            while job.query.isActive:
                if job.heartbeat.lost is not None:
                    job.stream.error = job.heartbeat.lost
                    job.query.stop()
                    break
                time.sleep(1.0)
                shown.look(time.monotonic())
        job.stream.at_work.stop(60.0)
        _RUNNING.end(run_id)
    except (OSError, Py4JError, PySparkException):
        _RUNNING.end(run_id, is_lost=True)


def failure_of(query: StreamingQuery) -> TailbitError | None:
    """Return the named error that ended a query of `start`; None while it runs or if it ended well.

    For a failed query the error is known at every moment after its end.
    """
    return _RUNNING.failure_of(str(query.runId))
