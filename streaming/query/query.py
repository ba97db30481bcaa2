"""A query of Spark over a stream: started, attended until it ends, and drained.

What the commands that run a query share: they are watched, obey signals, and start Spark.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import NotDrainedError, TailbitError
from tailbit.base.wording import Tell
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming import spark_checkpoint
from tailbit.streaming.java.session import Session, master_told, releases_found
from tailbit.streaming.java.sources import collected, register
from tailbit.streaming.memory import take_from_the_system
from tailbit.streaming.query.failures import query_failed, spark_errors_named
from tailbit.streaming.query.planner_socket import PlannerSocket
from tailbit.streaming.query.stream import Stream, UpToDate, ranges_of
from tailbit.streaming.watch.processes import end_stopped
from tailbit.streaming.watch.watchdog import Supervision, Watchdog, signals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

LOOK_S, DRAIN_LOOK_S = 0.2, 0.05
"""Seconds between two looks at a running query, and at one that is drained."""

_QUESTIONS = frozenset(("initial", "freeze", "next", "report", "rows"))


@dataclass(frozen=True, slots=True)
class Query:
    """A running query, and what is released when it ends."""

    spark: SparkSession
    running: StreamingQuery
    stream: Stream
    socket: PlannerSocket
    checkpoint: str

    @property
    def master(self) -> str:
        """Return the URL of Spark's master."""
        return str(self.spark.sparkContext.master)

    def attend(
        self, stop: threading.Event, look: Callable[[], None], is_lost: Callable[[], bool] = lambda: False
    ) -> None:
        """Return once the query has ended by itself, or is drained since `stop` is set or `is_lost` is true.

        `look`: called again and again, for whoever looks after the query.
        """
        newest = UpToDate(self.spark, self.stream.standing)
        with spark_errors_named(self.checkpoint, self.master):
            while self.running.isActive and not (stop.is_set() or is_lost()):
                stop.wait(LOOK_S)
                look()
                newest.look(time.monotonic())
            if self.running.isActive:
                self._drain(look)

    def _drain(self, look: Callable[[], None]) -> None:
        """Let the batch in flight finish, then stop the query, which is idle by then.

        Only an idle query stops without errors in the log.
        """
        self.stream.drain()
        while self.running.isActive and not (self.stream.is_idle and not self._has_work()):
            time.sleep(DRAIN_LOOK_S)
            look()
        self.running.stop()

    def _has_work(self) -> bool:
        status = self.running.status
        return bool(status["isTriggerActive"] and status["isDataAvailable"])

    def failure(self) -> TailbitError | None:
        """Return the named error for what Spark says of the end; None while it runs or if it ended well."""
        with spark_errors_named(self.checkpoint, self.master):
            ended = self.running.exception()
        return None if ended is None else query_failed(str(ended), self.checkpoint, self.master)


def start_query(
    spark: SparkSession, stream: Stream, name: str, checkpoint: str, once: bool, tell: Tell
) -> Query:
    """Start the query of a stream; first reset a Spark checkpoint that cannot be continued from.

    `once`: it ends where the logs end now.
    """
    unusable = spark_checkpoint.why_unusable(checkpoint)
    if unusable is not None:
        spark_checkpoint.reset(checkpoint, unusable, tell)
    socket = PlannerSocket(_answers(stream))
    try:
        return Query(
            spark, _started(spark, stream, socket, name, checkpoint, once), stream, socket, checkpoint
        )
    except BaseException:
        socket.close()
        raise


def _answers(stream: Stream) -> Callable[[str, list[Any]], Any]:
    """Return the function that answers the questions of the planner process."""

    def answer(name: str, arguments: list[Any]) -> Any:
        assert name in _QUESTIONS
        return getattr(stream, name)(*arguments)

    return answer


def _started(
    spark: SparkSession, stream: Stream, socket: PlannerSocket, name: str, checkpoint: str, once: bool
) -> StreamingQuery:
    from tailbit.streaming.query.source import FORMAT, LogsSource

    register(spark, LogsSource)

    def index(rows: DataFrame, batch_id: int) -> None:
        spark.sparkContext.setJobDescription(stream.begin_batch(batch_id))
        stream.take(ranges_of(collected(rows)), batch_id)

    writer = (
        spark.readStream.format(FORMAT)
        .option("control", str(socket.folder))
        .load()
        .writeStream.foreachBatch(index)
        .option("checkpointLocation", checkpoint)
        .queryName(name)
    )
    # The stream itself waits for the next commit.
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")).start()


@contextmanager
def supervised(
    name: str, life: Liveness, tell: Tell, supervision: Supervision, reload: threading.Event | None = None
) -> Iterator[tuple[threading.Event, Watchdog]]:
    """Yield the event that signals set, and the watchdog, which ends the block where it hangs.

    `name`: of what is run, for people. `reload`: an event that SIGHUP sets instead. A run that is killed
    before its query began ends the block without an error, as no batch was in flight.

    Raises:
        HungError: the run gave no sign of life for the limit in `supervision`.
        NotDrainedError: the run was killed because it did not end in time.
    """
    take_from_the_system()
    take_short_turns()
    try:
        with signals(reload) as stop, Watchdog(name, life, stop, tell, supervision) as watchdog:
            yield stop, watchdog
    except NotDrainedError:
        if life.begun:
            raise


@contextmanager
def started_spark(
    build: Callable[[], Session], purpose: str, checkpoint: str, master: str, life: Liveness, announce: Tell
) -> Iterator[SparkSession]:
    """Yield a Spark session that `build` makes; the session ends with the block.

    `purpose`: what it is started for. `checkpoint`: of the query, for errors.
    """
    announce(f"starting Spark for {purpose} …")
    announce(releases_found())
    life.sign(f"starting Spark with {master_told(master)}")
    try:
        with spark_errors_named(checkpoint, master):
            session = build()
        with session as spark:
            url = spark.sparkContext.uiWebUrl
            if url:
                announce(f"Spark UI: {url}")
            yield spark
            life.sign("stopping Spark")
    finally:
        end_stopped()


TURN_S = 0.0005
"""Longest turn of a thread that computes while others wait, in seconds."""


def take_short_turns() -> None:
    """Let the threads of this process take turns of `TURN_S`, unless they are shorter already."""
    sys.setswitchinterval(min(sys.getswitchinterval(), TURN_S))
