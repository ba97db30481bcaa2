"""A small Spark job that shows in the Spark UI that an index is up to date.

Spark lists each job with a description that never changes later. Without the small job, the newest line of
the list would go on to show the lag with which the last batch began. So once a query that has caught up is
idle, the job is run under the right description.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING

from tailbit.streaming.metrics import Progress, describe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tailbit.streaming.query.launch import Job

IDLE_S = 1.0
"""Seconds without a batch after which a query is idle, so that the small job delays no batch."""


class UpToDate:
    """The job that shows that a query has caught up: run once each time that the query becomes idle."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._shown: Progress | None = None
        self._seen: Progress | None = None
        self._since = 0.0
        self._thread: threading.Thread | None = None

    def look(self, now: float) -> None:
        """Run the job if it is due."""
        latest = self._job.batch.latest()
        if latest is not self._seen or self._job.batch.busy:
            self._seen, self._since = latest, now
        if latest is None or latest is self._shown or latest.building or latest.lag.versions:
            return
        running = self._thread is not None and self._thread.is_alive()
        if now - self._since < IDLE_S or running or self._job.control.draining:
            return
        self._shown = latest
        name = PurePath(self._job.prepared.table.root).name
        text = describe(name, None, latest.target, latest.lag, latest.names)
        self._thread = threading.Thread(
            target=_show, args=(self._job.spark, text), name="tailbit-up-to-date", daemon=True
        )
        self._thread.start()


def _show(spark: SparkSession, text: str) -> None:
    """Run a job of one number under this description; if Java is stopping, nothing is shown."""
    from py4j.protocol import Py4JError

    with suppress(OSError, Py4JError):
        context = spark.sparkContext
        context.setJobDescription(text)
        context._jsc.parallelize(context._jvm.java.util.Collections.singletonList(0), 1).count()
