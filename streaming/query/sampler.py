"""Once a second every work counter of a query is read; a counter that has moved is a sign of life.

The counters: the planner's answers, the steps and files of the batch, finished Spark tasks, and the CPU time
of the Python processes, and of Java before the query starts. So a long batch that works gives signs all the
while; a process that is stopped, or waits for a store that does not answer, gives none.

Only what the query does counts. In an application of many tables, Spark also works for single tables beside
the query's batches: that work has limits of its own, and goes on where the query hangs.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tailbit.base.dataclass import dataclass
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.java.session import on_one_machine
from tailbit.streaming.watch.cluster import executors, waiting_for_executors
from tailbit.streaming.watch.processes import BUSY, EVERY_S, Rate, below_this, cpu_of_thread

if TYPE_CHECKING:
    from pyspark import SparkStageInfo
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

JAVA_BUSY = 0.2
"""Least part of a core that Java at work for a query takes; a Java that waits for Python takes less."""

REMOTE_TASK_S = 1800.0
"""Seconds that tasks on other machines, whose CPU time is not seen, may take without one of them ending."""

EXECUTOR_START_S = 300.0
"""Seconds that an executor that has registered may take before its first task, as to fetch files."""


@dataclass(frozen=True)
class Sampled:
    """A query, and where its work is seen. `query`, `spark`: None for work of this process without Spark.

    `threads`: returns the native ids of the threads of this process in which a batch runs.
    `others`: returns the ids of the processes that work for something else than the query's own batches, and
    are ended by others if they hang; None if there are none of these. `is_well`: returns whether the parts of
    this process are at work without which the query does nothing; while False there is no sign of life.
    """

    query: StreamingQuery | None = None
    spark: SparkSession | None = None
    threads: Callable[[], Collection[int]] = tuple
    others: Callable[[], Collection[int]] | None = None
    is_well: Callable[[], bool] = lambda: True


class Sampler:
    """The sampler of one run, in a thread of its own, so that only this thread hangs if Java hangs.

    `follow` sets the query to sample.
    """

    def __init__(self, life: Liveness) -> None:
        self._life = life
        self._query: Sampled | None = None
        self._moves = -1
        self._spark: object = None
        self._unchanged_since = time.monotonic()
        self._cpu_of: dict[int, float] = {}
        self._cpu_s = 0.0
        self._cpu = Rate(BUSY)
        self._java = Rate(JAVA_BUSY)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="tailbit-signs", daemon=True)

    def __enter__(self) -> Sampler:
        """Start the sampling thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the sampling thread; a thread that hangs is left behind."""
        self._ended.set()

    def follow(self, query: Sampled | None) -> None:
        """Set the query to sample from now on; None for no query."""
        self._query = query

    def _keep(self) -> None:
        while not self._ended.wait(EVERY_S):
            with suppress(OSError):
                self.look()

    def look(self) -> None:
        """Give a sign of life if a counter has moved; Spark is asked only if no other counter has moved."""
        query = self._query
        if query is not None and not query.is_well():
            return
        if self._life.moves == self._moves and not self._worked(query):
            self._ask(query)
        self._moves = self._life.moves

    def _worked(self, query: Sampled | None) -> bool:
        """Return whether the processes consume CPU time; Java's counts only before there is a query."""
        others = () if query is None or query.others is None else query.others()
        counted = [p for p in below_this() if p.pid not in others and (query is None or not p.is_java)]
        cpu_of = {process.pid: process.cpu for process in counted}
        if query is not None:
            cpu_of |= {-thread: cpu_of_thread(thread) for thread in query.threads()}
        # A process may work for others in between, and what it did for them says nothing.
        self._cpu_s += sum(max(0.0, cpu - self._cpu_of.get(pid, cpu)) for pid, cpu in cpu_of.items())
        self._cpu_of = cpu_of
        busy = self._cpu.is_busy(self._cpu_s)
        if busy:
            self._life.sign()
        return busy

    def _ask(self, sampled: Sampled | None) -> None:
        """Ask Spark for signs of life, if there is a query."""
        if sampled is None or sampled.query is None or sampled.spark is None:
            return
        from py4j.protocol import Py4JError

        # Java may be going; whoever waits for the query says so.
        with suppress(Py4JError):
            self._ask_spark(sampled, sampled.query, sampled.spark)

    def _ask_spark(self, sampled: Sampled, query: StreamingQuery, spark: SparkSession) -> None:
        """Give a sign of life if Spark finished a task, is working itself, or waits for its next trigger."""
        status = query.status
        java = self._java.is_busy(sum(p.cpu for p in below_this() if p.is_java))
        self._life.answered = time.monotonic()
        own, others = _stages(spark, str(query.runId))
        counters = (status["message"], [(s.stageId, s.numCompletedTasks, s.numFailedTasks) for s in own])
        changed, self._spark = counters != self._spark, counters
        if changed or (java and not others) or not status["isTriggerActive"]:
            self._unchanged_since = time.monotonic()
            self._life.sign()
        elif sampled.others is not None and own and not _at_work(own) and _at_work(others):
            self._life.wait_for("waiting for Spark's workers, which work beside the batches has")
        elif own and not on_one_machine(spark.sparkContext.master):
            self._wait_for_cluster(spark, _at_work(own))

    def _wait_for_cluster(self, spark: SparkSession, at_work: bool) -> None:
        """Record a wait if tasks wait for an executor, or run on machines whose work is not visible here."""
        if not executors(spark):
            self._life.wait_for(waiting_for_executors(spark, spark.sparkContext.master))
            self._unchanged_since = time.monotonic()
            return
        unchanged_s = time.monotonic() - self._unchanged_since
        if at_work and unchanged_s < REMOTE_TASK_S:
            self._life.wait_for(self._life.doing_now)
        elif not at_work and unchanged_s < EXECUTOR_START_S:
            self._life.wait_for("waiting for an executor that has registered to take a task")


def _stages(spark: SparkSession, run_id: str) -> tuple[list[SparkStageInfo], list[SparkStageInfo]]:
    """Return the active stages of a query's own batches, and all others."""
    context = spark.sparkContext
    tracker = context.statusTracker()
    active = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage is not None]
    if not active:
        return [], []
    jobs = tracker._jtracker.getJobIdsForGroup(run_id)
    # As one text: each element of an array of Java costs a call.
    of_query = set(map(int, re.findall(r"\d+", context._jvm.java.util.Arrays.toString(jobs))))
    infos = [tracker.getJobInfo(job) for job in tracker.getActiveJobsIds() if job in of_query]
    ids = {stage for info in infos if info is not None for stage in info.stageIds}
    return [s for s in active if s.stageId in ids], [s for s in active if s.stageId not in ids]


def _at_work(stages: Sequence[SparkStageInfo]) -> bool:
    return any(stage.numActiveTasks for stage in stages)
