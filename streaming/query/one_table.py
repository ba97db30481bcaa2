"""The stream of a run of one table: its offsets are the table's, and a failure of the table ends the query.

The log is looked at in the thread that answers the planner, and a batch is indexed in the thread of the
batch: nothing goes on beside the query but what fills and looks after the index.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from tailbit.base.errors import TailbitError
from tailbit.checkpoints.liveness import IDLE, Liveness
from tailbit.checkpoints.offset import Offset
from tailbit.streaming.batch import TableAtWork
from tailbit.streaming.metrics import describe
from tailbit.streaming.planner import versions_between
from tailbit.streaming.query.sampler import Sampled
from tailbit.streaming.query.stream import ANSWER_S, Ranges, Row, Standing, row_of
from tailbit.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

FRESH_S, FRESH_LOOK_S = 10.0, 0.01
"""For so long after a commit the next one is looked for so often: writers that commit often are followed."""


class OneTable:
    """The stream of one table. `error`: the named error that ended its query, None before.

    `look_s`: seconds between two looks for a commit. `pace_s`: least seconds between the looks that precede
    two batches, 0 if the next batch may follow at once.
    """

    def __init__(
        self, table: Table, at_work: TableAtWork, life: Liveness, look_s: float, pace_s: float = 0.0
    ) -> None:
        self._table, self.at_work, self._life = table, at_work, life
        self._name = PurePath(table.root).name
        self._look_s, self._pace_s = look_s, pace_s
        self._moved, self._due = time.monotonic(), 0.0
        self._frozen = self._drained = False
        self._draining = threading.Event()
        self._threads: set[int] = set()
        self.error: TailbitError | None = None

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Note that this thread works for the query, and the error that it meets."""
        thread = threading.get_native_id()
        self._threads.add(thread)
        try:
            yield
        except TailbitError as error:
            self.error = self.error or error
            raise
        finally:
            self._threads.discard(thread)
            self._life.sign()

    def initial(self) -> dict[str, Any]:
        with self._working():
            return self.at_work.look(None).to_json()

    def freeze(self) -> None:
        with self._working():
            self.at_work.planner.freeze()
            self._frozen = True

    def next(self, start: dict[str, Any]) -> dict[str, Any]:
        """Return the end of the next batch; `start` if there is nothing to do, or the stream is drained.

        Waits for a commit, but not for longer than `ANSWER_S`.
        """
        offset, until = Offset.from_json(start), time.monotonic() + ANSWER_S
        while not self._draining.is_set():
            now = time.monotonic()
            if self._frozen or now >= self._due:
                with self._working():
                    end = self.at_work.look(offset)
                if end != offset:
                    self._moved, self._due = now, now + self._pace_s
                    return end.to_json()
                self._due = now + self._pause_s(now)
            if self._frozen or now >= until:
                return start
            self._draining.wait(min(self._due, until) - now)
        self._drained = True
        self._life.sign()
        return start

    def _pause_s(self, now: float) -> float:
        if self._pace_s or now - self._moved > FRESH_S:
            return max(self._look_s, self._pace_s)
        return min(self._look_s, FRESH_LOOK_S)

    def report(self) -> dict[str, Any] | None:
        with self._working():
            return self.at_work.planner.report()

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Row]:
        """Return a row for each version that the batch reads, so that Spark's input rows count commits."""
        with self._working():
            versions = versions_between(self._table, Offset.from_json(start), Offset.from_json(end))
        return [row_of(self._name, start, end)] * len(versions)

    def begin_batch(self, batch_id: int) -> str:
        """Note that a batch begins; return the lag behind the log as the batch finds it."""
        with self._working():
            self._life.sign(f"batch {batch_id}: reading which versions it takes")
            return self.at_work.batch.begin(batch_id)

    def take(self, ranges: Ranges, batch_id: int) -> None:
        """Index the range of the table."""
        try:
            with self._working():
                for start, end in ranges.values():
                    self.at_work.work(start, end, batch_id)
        finally:
            self.at_work.batch.busy = False
            self._life.sign(IDLE)

    def drain(self) -> None:
        self._draining.set()

    @property
    def is_idle(self) -> bool:
        """Return whether the planner knows that the stream is drained: no batch runs, and none will."""
        return self._drained

    def standing(self) -> Standing | None:
        """Return that the query has caught up; None as long as it has not, or has done nothing yet."""
        batch = self.at_work.batch
        latest = batch.latest()
        if latest is None or batch.busy or self._draining.is_set() or latest.building or latest.lag.versions:
            return None
        return Standing(id(latest), describe(self._name, None, latest.target, latest.lag, latest.names))

    def sampled(self, query: StreamingQuery, spark: SparkSession) -> Sampled:
        """Return a query of this stream, whose work is that of the threads in its calls."""
        return Sampled(query, spark, threads=lambda: set(self._threads))
