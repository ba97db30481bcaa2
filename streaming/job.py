"""The job: an always-on Spark Structured Streaming query that keeps the index of one table.

`start` is for people with a Spark session of their own. `run` is the command line's: it makes the session,
obeys signals and returns an exit status.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from tailbit.arguments.values import flag, wrong_type
from tailbit.checkpoints.heartbeat import Heartbeat
from tailbit.errors import EnvironmentError_, StreamError, TailbitError
from tailbit.streaming.java.session import build_session, check_java
from tailbit.streaming.metrics import IdleWatch
from tailbit.streaming.query import Job, Path, Prepared, launch, prepare
from tailbit.streaming.running import Running
from tailbit.streaming.settings import DEFAULT_TRIGGER
from tailbit.streaming.upkeep import spark_checkpoint
from tailbit.streaming.upkeep.mending import Tell, tell_nobody
from tailbit.streaming.upkeep.patience import WAIT_S, Patience
from tailbit.streaming.warming import warm_up

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tailbit.streaming.batch import OnProgress

ONCE_WAIT_S = 60.0
"""With `once` a trouble that lasts longer than this many seconds ends the run."""

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_RUNNING: Running[Job] = Running()
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

    `columns`: those to index, None for those remembered in the index. `once`: index what is there and stop.
    `trigger`: how often to look for commits; up to one second, a commit is picked up as soon as it is seen.
    `storage_options`: of the stores of table and index, named as in delta-rs; Spark never shows them.

    Raises:
        UsageError: as `prepare`; or `spark` is no classic Spark session.
        IndexerRunningError: another indexer has a fresh heartbeat on the index.
    """
    _check_session(spark)
    once = flag("once", once)
    prepared = prepare(path, columns, index, checkpoint, trigger, storage_options)
    _clear_ended()
    heartbeat = Heartbeat(prepared.index.storage)
    heartbeat.claim()
    try:
        job = launch(spark, prepared, heartbeat, once)
    except BaseException:
        heartbeat.release()
        raise
    run_id = str(job.query.runId)
    _RUNNING.add(run_id, job)
    threading.Thread(target=_close_when_ended, args=(run_id, job), daemon=True).start()
    return job.query


def _check_session(spark: SparkSession) -> None:
    """Pass if this is a Spark session with a JVM of its own, which a batch needs.

    Raises:
        UsageError: it is another object, such as a session of Spark Connect.
        EnvironmentError_: pyspark is missing.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise EnvironmentError_(
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
    master: str = "local[2]",
    on_progress: OnProgress | None = None,
    ui: bool = True,
    storage_options: Mapping[str, str] | None = None,
    tell: Tell = tell_nobody,
) -> int:
    """Keep the index of the table at `path` until a signal, or until all is indexed with `once`.

    SIGTERM, SIGINT and SIGHUP, also to the whole process group, let the batch in flight finish; then, as
    after `once`, the exit status is 0.

    A trouble that passes is told and waited for, `patience.WAIT_S` at most.

    Raises:
        TailbitError: by name, whatever ended the query.
    """
    check_java()
    with _signals() as stop:
        prepared = prepare(path, columns, index, checkpoint, trigger, storage_options)
        heartbeat = Heartbeat(prepared.index.storage)
        heartbeat.claim()
        try:
            # pyspark puts a SIGINT handler of its own in place of ours, so ours are put up again.
            with build_session(f"tailbit {prepared.name}", master, ui) as spark, _signals(stop):
                if not once:
                    warm_up(spark)
                patience = Patience(ONCE_WAIT_S if once else WAIT_S)
                while not stop.is_set() and not _ended_well(
                    spark, prepared, heartbeat, once, stop, on_progress, tell, patience
                ):
                    pass
        finally:
            heartbeat.release()
    return 0


def _ended_well(
    spark: SparkSession,
    prepared: Prepared,
    heartbeat: Heartbeat,
    once: bool,
    stop: threading.Event,
    on_progress: OnProgress | None,
    tell: Tell,
    patience: Patience,
) -> bool:
    """Run the query to its end; False where it is to be started again.

    It met a trouble that passes, or the last thing that was seen of the index was damage, now mended.
    """
    job: Job | None = None
    try:
        job = _launched(spark, prepared, heartbeat, once, on_progress, tell)
        return not _attend(job, prepared, stop, on_progress)
    except TailbitError as failed:
        if job is not None and job.batch.latest() is not None:
            patience.worked()
        cached = isinstance(failed, StreamError) and _reset_checkpoint(prepared.checkpoint, failed, tell)
        pause = patience.pause(failed, cached)
        if pause is None:
            raise
        if not cached:
            tell(f"{type(failed).__name__}: {failed}; tried again in {pause:.1f} s")
        stop.wait(pause)
        return False


def _launched(
    spark: SparkSession,
    prepared: Prepared,
    heartbeat: Heartbeat,
    once: bool,
    on_progress: OnProgress | None,
    tell: Tell,
) -> Job:
    """A query that was started.

    Raises:
        StreamError: the Java process is gone, or lost the Python process that it asked.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    try:
        return launch(spark, prepared, heartbeat, once, on_progress, tell)
    except Py4JJavaError as failed:
        reason = str(failed.java_exception).partition("\n")[0]
        raise StreamError(reason=reason, checkpoint=prepared.checkpoint) from failed
    except (ConnectionError, Py4JError) as gone:
        raise _java_is_gone(prepared, gone) from gone


def _java_is_gone(prepared: Prepared, gone: Exception) -> StreamError:
    reason = f"Spark's Java process is gone ({type(gone).__name__})"
    return StreamError(reason=reason, checkpoint=prepared.checkpoint)


def _reset_checkpoint(checkpoint: str, failed: StreamError, tell: Tell) -> bool:
    """Reset a Spark checkpoint that ended a query, as one that was deleted or damaged while it ran does."""
    unusable = spark_checkpoint.why_unusable(checkpoint)
    if unusable is None and not spark_checkpoint.blames_checkpoint(str(failed)):
        return False
    return spark_checkpoint.reset(checkpoint, unusable or str(failed.fields.get("reason")), tell)


def _attend(job: Job, prepared: Prepared, stop: threading.Event, on_progress: OnProgress | None) -> bool:
    """Wait for the end of the query; drain it when asked to. True where damage was mended at its end.

    An idle query is the only one that stops without noise: so the planner first says that no batch runs.
    """
    from py4j.protocol import Py4JError

    source = prepared.table.storage
    watch = IdleWatch(source.root, job.batch, on_progress, source.options)
    try:
        while job.query.isActive:
            if stop.is_set():
                job.control.ask_to_drain()
            if job.control.drained:
                job.query.stop()
                break
            stop.wait(0.2) if not stop.is_set() else time.sleep(0.05)
            watch.look(time.monotonic())
        mended = job.batch.merger.finish(2.0 if stop.is_set() else 60.0)
        failure = job.failure()
    except (OSError, Py4JError) as gone:
        raise _java_is_gone(prepared, gone) from gone
    finally:
        job.end()
    if failure is not None:
        raise failure
    return mended


@contextmanager
def _signals(stop: threading.Event | None = None) -> Iterator[threading.Event]:
    """An event that SIGTERM, SIGINT and SIGHUP set while the block lasts; the main thread alone catches them.

    A SIGHUP that is ignored, as under nohup, stays so.
    """
    asked = stop or threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()

    ignored = [number for number in _STOPPING if signal.getsignal(number) is signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in _STOPPING if number not in ignored}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _clear_ended() -> None:
    """Close the jobs of this process whose query has ended, so that their heartbeat is in nobody's way."""
    for run_id, job in _RUNNING.jobs():
        if not job.query.isActive:
            _RUNNING.end(run_id)


def _close_when_ended(run_id: str, job: Job) -> None:
    """Close a job soon after its query has ended, or its Spark with it."""
    from py4j.protocol import Py4JError

    try:
        while job.query.isActive:
            time.sleep(1.0)
        job.batch.merger.finish(60.0)
        _RUNNING.end(run_id)
    except (OSError, Py4JError):
        _RUNNING.give_up(run_id)


def failure_of(query: StreamingQuery) -> TailbitError | None:
    """Why a query of `start` ended, by name; None while it runs or where it ended well.

    Of a query that ended with a failure there is no moment at which it is not known.
    """
    return _RUNNING.failure_of(str(query.runId))
