"""The job: an always-on Spark Structured Streaming query that keeps the index of one table.

`start` is for people with a Spark session of their own. `run` is the command line's: it makes the session,
obeys signals and returns an exit status.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from types import FrameType
from typing import TYPE_CHECKING

from tailbit.checkpoints.heartbeat import Heartbeat
from tailbit.errors import StreamError, TailbitError
from tailbit.index.metadata_table import IndexTable
from tailbit.streaming.control import Control
from tailbit.streaming.metrics import IdleWatch
from tailbit.streaming.session import build_session, check_java
from tailbit.streaming.settings import StreamSettings, milliseconds, prepare_index
from tailbit.tables import open_table
from tailbit.tables.storage import Storage
from tailbit.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tailbit.streaming.batch import Batch, OnProgress

INDEX_FOLDER = "_tailbit"
CHECKPOINT_FOLDER = "_checkpoint"
CONTINUOUS_MS = 1000
"""Up to this trigger the planner waits for the next commit itself, so that it is picked up at once."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A table and its index, checked before Spark is asked for anything."""

    table: Table
    index: IndexTable
    checkpoint: str
    settings: StreamSettings
    trigger_ms: int

    @property
    def name(self) -> str:
        """The query's name: the table's folder, and enough of the index id to tell two of one name apart."""
        folder = re.sub(r"\W", "_", PurePath(self.table.root).name)
        return f"{folder}_{self.index.index_id[:6]}"


@dataclass(frozen=True, slots=True)
class Job:
    """A query that runs, and what must go when it ends."""

    query: StreamingQuery
    batch: Batch
    control: Control
    heartbeat: Heartbeat
    checkpoint: str

    def close(self) -> None:
        """Release the heartbeat and take the control folder away; why the query ended stays known."""
        failure = self.failure()
        if failure is not None:
            _failures[str(self.query.id)] = failure
        self.heartbeat.release()
        self.control.remove()

    def failure(self) -> TailbitError | None:
        """Why the query ended, by name; None where it ended well."""
        named = self.batch.error or self.control.reported()
        ended = self.query.exception()
        if named is not None or ended is None:
            return named
        return StreamError(reason=_in_short(str(ended)), checkpoint=self.checkpoint)


_jobs: dict[str, Job] = {}
"""Queries started by this process, by the root of their index; for `start` to clear away those that ended."""

_failures: dict[str, TailbitError] = {}
"""Why queries of this process ended, by query id."""


def prepare(
    path: str, columns: Sequence[str] | None, index: str | None, checkpoint: str | None, trigger: str
) -> Prepared:
    """The table and its index, the index made where it is not there yet.

    Raises:
        UsageError: the table, a column, the index or the trigger is not what it must be.
    """
    trigger_ms = milliseconds(trigger)
    table = open_table(path)
    index_path = index or os.path.join(table.root, INDEX_FOLDER)
    found = prepare_index(table, index_path, columns)
    settings = StreamSettings(wait_ms=trigger_ms if trigger_ms <= CONTINUOUS_MS else 0)
    return Prepared(
        table, found, checkpoint or os.path.join(found.path, CHECKPOINT_FOLDER), settings, trigger_ms
    )


def start(
    spark: SparkSession,
    path: str,
    columns: Sequence[str] | None = None,
    index: str | None = None,
    checkpoint: str | None = None,
    once: bool = False,
    trigger: str = "500ms",
) -> StreamingQuery:
    """Start the query that keeps the index of the table at `path`, in a Spark session of your own.

    `columns`: those to index, None for those remembered in the index. `once`: index what is there and stop.
    `trigger`: how often to look for commits; up to one second, a commit is picked up as soon as it is seen.

    Raises:
        UsageError: as `prepare`.
        IndexerRunningError: another indexer has a fresh heartbeat on the index.
    """
    prepared = prepare(path, columns, index, checkpoint, trigger)
    _clear_ended()
    heartbeat = Heartbeat(Storage(prepared.index.path))
    heartbeat.claim()
    try:
        job = launch(spark, prepared, heartbeat, once)
    except BaseException:
        heartbeat.release()
        raise
    _jobs[prepared.index.path] = job
    threading.Thread(target=_close_when_ended, args=(prepared.index.path, job), daemon=True).start()
    return job.query


def launch(
    spark: SparkSession,
    prepared: Prepared,
    heartbeat: Heartbeat,
    once: bool,
    on_progress: OnProgress | None = None,
) -> Job:
    """Start the query of a prepared job."""
    from tailbit.streaming.batch import Batch
    from tailbit.streaming.source import FORMAT, LogSource

    control = Control.make()
    batch = Batch(prepared.table, prepared.index, prepared.settings, spark, heartbeat, on_progress)
    spark.dataSource.register(LogSource)
    options = prepared.settings.options() | {
        "path": prepared.table.root,
        "index": prepared.index.path,
        "control": str(control.path),
    }
    writer = (
        spark.readStream.format(FORMAT)
        .options(**options)
        .load()
        .writeStream.foreachBatch(batch)
        .option("checkpointLocation", prepared.checkpoint)
        .queryName(prepared.name)
    )
    wait = 0 if prepared.trigger_ms <= CONTINUOUS_MS else prepared.trigger_ms
    writer = (
        writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{wait} milliseconds")
    )
    return Job(writer.start(), batch, control, heartbeat, prepared.checkpoint)


def run(
    path: str,
    columns: Sequence[str] | None = None,
    index: str | None = None,
    checkpoint: str | None = None,
    once: bool = False,
    trigger: str = "500ms",
    master: str = "local[2]",
    on_progress: OnProgress | None = None,
    ui: bool = True,
) -> int:
    """Keep the index of the table at `path` until a signal, or until all is indexed with `once`.

    SIGTERM and SIGINT let the batch in flight finish; then, as after `once`, the exit status is 0.

    Raises:
        TailbitError: by name, whatever ended the query.
    """
    check_java()
    with _signals() as stop:
        prepared = prepare(path, columns, index, checkpoint, trigger)
        heartbeat = Heartbeat(Storage(prepared.index.path))
        heartbeat.claim()
        spark = None
        try:
            spark = build_session(f"tailbit {prepared.name}", master, ui)
            # pyspark puts a SIGINT handler of its own in place of ours.
            with _signals(stop):
                if not stop.is_set():
                    _attend(
                        launch(spark, prepared, heartbeat, once, on_progress), prepared, stop, on_progress
                    )
                spark.stop()
        finally:
            heartbeat.release()
    return 0


def _attend(job: Job, prepared: Prepared, stop: threading.Event, on_progress: OnProgress | None) -> None:
    """Wait for the end of the query; drain it when asked to.

    An idle query is the only one that stops without noise: so the planner first says that no batch runs.
    """
    from py4j.protocol import Py4JError

    watch = IdleWatch(prepared.table.root, job.batch.latest, on_progress)
    try:
        while job.query.isActive:
            if stop.is_set():
                job.control.ask_to_drain()
            if job.control.drained:
                job.query.stop()
                break
            stop.wait(0.2) if not stop.is_set() else time.sleep(0.05)
            watch.look(time.monotonic())
        failure = job.failure()
        job.batch.merger.wait(2.0 if stop.is_set() else 60.0)
    except (OSError, Py4JError) as gone:
        reason = f"Spark's Java process is gone ({type(gone).__name__})"
        raise StreamError(reason=reason, checkpoint=prepared.checkpoint) from gone
    finally:
        job.control.remove()
    if failure is not None:
        raise failure


@contextmanager
def _signals(stop: threading.Event | None = None) -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set while the block lasts; only the main thread can catch them."""
    asked = stop or threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _clear_ended() -> None:
    """Close the jobs of this process whose query has ended, so that their heartbeat is in nobody's way."""
    for path, job in list(_jobs.items()):
        if not job.query.isActive and _jobs.pop(path, None) is not None:
            job.close()


def _close_when_ended(path: str, job: Job) -> None:
    while path in _jobs and _jobs[path] is job:
        time.sleep(1.0)
        if not job.query.isActive and _jobs.pop(path, None) is not None:
            job.close()


def failure_of(query: StreamingQuery) -> TailbitError | None:
    """Why a query of `start` ended, by name; None while it runs or where it ended well."""
    jobs = [job for job in _jobs.values() if job.query.id == query.id]
    return jobs[0].failure() if jobs else _failures.get(str(query.id))


def _in_short(text: str) -> str:
    """The first line, and of a Python traceback in it the line that says what was raised."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no reason given"]
    raised = [line for line in lines[1:] if re.match(r"[\w.]+(Error|Exception): ", line)]
    return lines[0] if not raised else f"{lines[0]} ({raised[0]})"
