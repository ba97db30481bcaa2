"""Once a second every work counter of a run is read; a counter that has moved is a sign of life.

The counters: the planner's answers, the steps and files of the batch, finished Spark tasks, and the CPU time
of all Python processes, and of Java before the query starts. So a long batch that works gives signs all the
while; a process that is stopped, or waits for a store that does not answer, gives none.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.java.session import on_one_machine
from tailbit.streaming.life.cluster import executors, waiting_for_executors
from tailbit.streaming.life.processes import below_this, cpu_of_thread
from tailbit.streaming.life.rate import BUSY, EVERY_S, Rate

if TYPE_CHECKING:
    from tailbit.streaming.query.launch import Job

JAVA_BUSY = 0.2
"""Least part of a core that Java at work for a query takes; a Java that waits for Python takes less."""

REMOTE_TASK_S = 1800.0
"""Seconds that tasks on other machines, whose CPU time is not seen, may take without one of them ending."""


class Sampler:
    """The sampler of one run, in a thread of its own, so that only this thread hangs if Java hangs.

    `follow` sets the query to sample.
    """

    def __init__(self, life: Liveness) -> None:
        self._life = life
        self._job: Job | None = None
        self._polled: object = None
        self._spark: object = None
        self._unchanged_since = time.monotonic()
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

    def follow(self, job: Job | None) -> None:
        """Set the query to sample from now on; None for no query."""
        self._job = job

    def _keep(self) -> None:
        from py4j.protocol import Py4JError

        while not self._ended.wait(EVERY_S):
            # Java may be going; whoever waits for the query says so.
            with suppress(OSError, Py4JError):
                self.look()

    def look(self) -> None:
        """Give a sign of life if a counter has moved; Spark is asked only if no other counter has moved."""
        job, moves = self._job, self._life.moves
        if job is not None and job.control.polled() != self._polled:
            self._polled = job.control.polled()
            self._life.sign()
        if self._life.moves == moves and not self._worked(job) and job is not None:
            self._ask_spark(job)

    def _worked(self, job: Job | None) -> bool:
        """Return whether the processes consume CPU time; Java's counts only before there is a query."""
        processes = below_this()
        cpu = sum(p.cpu for p in processes if job is None or not p.is_java)
        if job is not None and job.batch.thread:
            cpu += cpu_of_thread(job.batch.thread)
        busy = self._cpu.is_busy(cpu)
        if busy:
            self._life.sign()
        return busy

    def _ask_spark(self, job: Job) -> None:
        """Give a sign of life if Spark finished a task, is working itself, or waits for its next trigger."""
        status = job.query.status
        java = self._java.is_busy(sum(p.cpu for p in below_this() if p.is_java))
        self._life.answered = time.monotonic()
        tracker = job.spark.sparkContext.statusTracker()
        stages = [s for s in map(tracker.getStageInfo, tracker.getActiveStageIds()) if s is not None]
        counters = (status["message"], [(s.stageId, s.numCompletedTasks, s.numFailedTasks) for s in stages])
        changed, self._spark = counters != self._spark, counters
        if changed or java or not status["isTriggerActive"]:
            self._unchanged_since = time.monotonic()
            self._life.sign()
        elif stages and not on_one_machine(job.spark.sparkContext.master):
            self._wait_for_cluster(job, any(s.numActiveTasks for s in stages))

    def _wait_for_cluster(self, job: Job, at_work: bool) -> None:
        """Record a wait if tasks wait for an executor, or run on machines whose work is not visible here."""
        if not executors(job.spark):
            self._life.wait_for(waiting_for_executors(job.spark, job.spark.sparkContext.master))
        elif at_work and time.monotonic() - self._unchanged_since < REMOTE_TASK_S:
            self._life.wait_for(self._life.doing_now)
