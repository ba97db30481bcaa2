"""What a query of Spark streams: the offsets of its batches, their ranges of logs, and the work of each.

A run of one table and an application of many are streams; source, launch and restarts are the same for both.
The offsets of a stream are JSON objects, which Spark keeps in its checkpoint and nobody but the stream reads.

How far an idle query is, a small job shows in the Spark UI. Spark lists each job with a description that
never changes later. Without the small job, the newest line of the list would go on to show the lag with which
the last batch began.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.checkpoints.offset import Offset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tailbit.streaming.query.sampler import Sampled

ANSWER_S = 1.0
"""Most seconds until the planner process is answered, so that it is seen to be alive."""

Range = tuple[Offset, Offset]
"""The start and the end of a table's part of a batch."""

Ranges = dict[str, Range]
"""The range of each table of a batch, by the id of the table."""

Row = Sequence[str]
"""A row of the source: the id of a table, and its range as JSON."""


class Stream(Protocol):
    """What a query streams. The planner's questions come from another thread than the batches."""

    def initial(self) -> dict[str, Any]:
        """Return the first offset of a query without a checkpoint."""

    def freeze(self) -> None:
        """Fix the heads of the logs: later commits are not read, and the query ends there."""

    def next(self, start: dict[str, Any]) -> dict[str, Any]:
        """Return the end of the next batch; `start` if there is nothing to do, or the stream is drained."""

    def report(self) -> dict[str, Any] | None:
        """Return the heads as an offset, with the lag behind them, for progress events."""

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Row]:
        """Return the rows of a batch: of each table one or more, which Spark counts."""

    def begin_batch(self, batch_id: int) -> str:
        """Note that a batch begins; return the description of its jobs."""

    def take(self, ranges: Ranges, batch_id: int) -> None:
        """Do the work of a batch."""

    def drain(self) -> None:
        """Begin no more batches."""

    @property
    def is_idle(self) -> bool:
        """Return whether a stream that was drained is not at work any more."""

    def standing(self) -> Standing | None:
        """Return how far the stream is; None while it is at work, or has nothing to show yet."""

    def sampled(self, query: StreamingQuery, spark: SparkSession) -> Sampled:
        """Return a query of this stream, and where its work is seen."""


def row_of(id_: str, start: dict[str, Any], end: dict[str, Any]) -> Row:
    """Return the row of a table's range. `start`, `end`: offsets as JSON."""
    return id_, orjson.dumps({"start": start, "end": end}).decode()


def ranges_of(rows: Iterable[Any]) -> Ranges:
    """Return the ranges of a batch from its rows, of which all of one table have the same range."""
    ranges: Ranges = {}
    for id_, text in dict(rows).items():
        ends = orjson.loads(text)
        ranges[id_] = Offset.from_json(ends["start"]), Offset.from_json(ends["end"])
    return ranges


WARM_UP = "tailbit-warm-up"
"""The name of the thread that warms Spark up, whose jobs would be listed as newer than the small job."""

IDLE_S = 1.0
"""Seconds without a batch after which a query is idle, so that the small job delays no batch."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a query is. `key`: equal while the newest line of the list is right; `text`: the line."""

    key: object
    text: str


class UpToDate:
    """The job that shows how far an idle query is: run once each time that the query becomes idle.

    `standing`: returns how far the query is; None while it is at work, or has nothing to show yet.
    """

    def __init__(self, spark: SparkSession, standing: Callable[[], Standing | None]) -> None:
        self._spark, self._standing = spark, standing
        self._shown: object = None
        self._seen: object = None
        self._since = 0.0
        self._thread: threading.Thread | None = None

    def look(self, now: float) -> None:
        """Run the job if it is due."""
        standing = self._standing()
        key = None if standing is None else standing.key
        if key != self._seen or standing is None:
            self._seen, self._since = key, now
        if standing is None or key == self._shown or now - self._since < IDLE_S:
            return
        if self._thread is not None and self._thread.is_alive():
            return
        if any(thread.name == WARM_UP for thread in threading.enumerate()):
            return
        self._shown = key
        self._thread = threading.Thread(
            target=_show, args=(self._spark, standing.text), name="tailbit-up-to-date", daemon=True
        )
        self._thread.start()


def _show(spark: SparkSession, text: str) -> None:
    """Run a job of one number under this description; if Java is stopping, nothing is shown."""
    from py4j.protocol import Py4JError

    with suppress(OSError, Py4JError):
        context = spark.sparkContext
        context.setJobDescription(text)
        context._jsc.parallelize(context._jvm.java.util.Collections.singletonList(0), 1).count()
