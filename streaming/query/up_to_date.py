"""A small Spark job that shows in the Spark UI how far the index of an idle query is.

Spark lists each job with a description that never changes later. Without the small job, the newest line of
the list would go on to show the lag with which the last batch began. So once a query is idle, and what that
line says is no longer so, the job is run under the right description.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from tailbit.base.dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
