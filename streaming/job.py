"""The job: an always-on Spark Structured Streaming query that keeps the index of one table.

`start` is for people with a Spark session of their own. `run` is the command line's: it makes the session,
obeys signals and returns an exit status.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from tailbit.arguments.values import flag, wrong_type
from tailbit.checkpoints.heartbeat import Heartbeat
from tailbit.errors import EnvironmentError_, MalformedLogError, TailbitError
from tailbit.streaming.java.session import build_session, check_java
from tailbit.streaming.query.attend import Run, run_to_its_end
from tailbit.streaming.query.caught_up import caught_up
from tailbit.streaming.query.launch import Job, Path, Prepared, launch, prepare
from tailbit.streaming.query.running import Running
from tailbit.streaming.settings import DEFAULT_TRIGGER
from tailbit.streaming.upkeep.memory import take_from_the_system
from tailbit.streaming.upkeep.mending import Tell, tell_nobody
from tailbit.streaming.upkeep.own_log import in_time
from tailbit.streaming.upkeep.patience import worth_a_restart
from tailbit.streaming.upkeep.unreadable import retry_now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tailbit.streaming.batch import OnProgress

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
        retry_now(prepared.table, prepared.index, tell_nobody)
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

    SIGTERM, SIGINT and SIGHUP, also to the whole process group, let the batch in flight finish: status 0.
    `once` that finds nothing to do starts no Spark. What passes is waited for, `patience.WAIT_S` at most.

    Raises:
        TailbitError: by name, whatever ended the query.
    """
    make = partial(prepare, path, columns, index, checkpoint, trigger, storage_options)
    _ready()
    with _signals() as stop:
        prepared = _in_time(make, storage_options, stop, tell)
        if prepared is None:
            return 0
        heartbeat = Heartbeat(prepared.index.storage)
        heartbeat.claim(stop)
        try:
            if _nothing_to_do(prepared, once, on_progress, tell) or stop.is_set():
                return 0
            with (
                build_session(f"tailbit {prepared.name}", master, ui, short=once) as spark,
                nullcontext() if once or stop.is_set() else _warmed_up(spark),
            ):
                run_to_its_end(Run(spark, prepared, heartbeat, once, stop, on_progress, tell))
        finally:
            heartbeat.release()
    return 0


def _in_time(
    make: Callable[[bool], Prepared],
    storage_options: Mapping[str, str] | None,
    stop: threading.Event,
    tell: Tell,
) -> Prepared | None:
    """As `in_time`; where a log is torn, the error says that it may be whole again."""
    try:
        return in_time(make, storage_options, stop, tell)
    except MalformedLogError as torn:
        raise worth_a_restart(torn) from torn


def _ready() -> None:
    """This process is ready for an indexer: there is Java, and freed memory goes back to the system."""
    check_java()
    take_from_the_system()


def _nothing_to_do(prepared: Prepared, once: bool, on_progress: OnProgress | None, tell: Tell) -> bool:
    """Whether a run that ends by itself is at its end; files that could not be read are tried before."""
    retry_now(prepared.table, prepared.index, tell)
    found = caught_up(prepared) if once else None
    if found is not None and on_progress is not None:
        on_progress(found)
    return found is not None


def _warmed_up(spark: SparkSession) -> AbstractContextManager[None]:
    """While it lasts Spark's workers are started; what is needed for it imports pyspark."""
    from tailbit.streaming.query.warming import warming_up

    return warming_up(spark)


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that SIGTERM, SIGINT and SIGHUP set while the block lasts; the main thread alone catches them.

    A SIGHUP that is ignored, as under nohup, stays so.
    """
    asked = threading.Event()
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
