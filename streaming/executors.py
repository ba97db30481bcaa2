"""Where the tasks of a run are run: on Spark's workers, or in threads of this process, without Java."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


class Sum(Protocol):
    """A sum that running tasks add to; anyone in this process may read its `value`."""

    value: Any

    def add(self, term: Any) -> None:
        """Add what a task has finished."""


class Executor(Protocol):
    """A place for tasks. `workers`: how many tasks run at a time; `master`: URL of Spark's master, or empty.

    `ended`: the errors of a task that mean that the place itself has ended, as when Spark stops.
    """

    workers: int
    master: str
    ended: tuple[type[Exception], ...]

    def run(self, function: Callable[[T], R], arguments: Sequence[T], at_work: str | None = None) -> list[R]:
        """Return what the function returns for each argument, each in a task of its own.

        `at_work`: a folder that shows the processes with a task; see `on_workers`.

        Raises:
            TailbitError: as the function raised it.
        """

    def sum_of_tasks(self, zero: Any) -> Sum:
        """Return a sum that tasks add to. `zero`: of a type whose values are added by `+`."""

    def describe(self, text: str) -> None:
        """Show what the tasks are for, where people can see it."""

    @property
    def query(self) -> str:
        """Return the id of the query in whose batch this thread is; empty if there is none."""


class SparkExecutor:
    """Tasks on the workers of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        self._spark = spark
        self.workers = spark.sparkContext.defaultParallelism
        self.master = str(spark.sparkContext.master)
        self.ended: tuple[type[Exception], ...] = (Py4JError, PySparkException, OSError)

    def run(self, function: Callable[[T], R], arguments: Sequence[T], at_work: str | None = None) -> list[R]:
        """Return what the function returns for each argument, each in a Spark task of its own."""
        from tailbit.streaming.workers import on_workers

        try:
            return on_workers(self._spark, function, arguments, at_work)
        except AttributeError as gone:
            # pyspark gives up its Java context while a session is stopped.
            if self._spark.sparkContext._jsc is not None:
                raise
            raise ConnectionError("Spark was stopped") from gone

    def sum_of_tasks(self, zero: Any) -> Sum:
        """Return a sum that moves each time that a Spark task has ended."""
        from tailbit.streaming.workers import sum_of_tasks

        total: Sum = sum_of_tasks(self._spark, zero)
        return total

    def describe(self, text: str) -> None:
        """Set the description of the jobs of this thread in Spark's UI."""
        self._spark.sparkContext.setJobDescription(text)

    @property
    def query(self) -> str:
        """Return the id of the query in whose batch this thread is; empty if there is none."""
        return self._spark.sparkContext.getLocalProperty("sql.streaming.queryId") or ""


class _SumOfThreads:
    def __init__(self, zero: Any) -> None:
        self.value, self._lock = zero, threading.Lock()

    def add(self, term: Any) -> None:
        with self._lock:
            self.value = self.value + term


class ThreadExecutor:
    """Tasks in threads of this process. `threads`: the native ids of those with a task."""

    master = query = ""
    ended: tuple[type[Exception], ...] = (OSError,)

    def __init__(self, workers: int = 2) -> None:
        self.workers = workers
        self.threads: set[int] = set()

    def run(self, function: Callable[[T], R], arguments: Sequence[T], at_work: str | None = None) -> list[R]:
        """Return what the function returns for each argument."""

        def task(argument: T) -> R:
            thread = threading.get_native_id()
            self.threads.add(thread)
            try:
                return function(argument)
            finally:
                self.threads.discard(thread)

        with ThreadPoolExecutor(self.workers, "tailbit-task") as pool:
            return list(pool.map(task, arguments))

    def sum_of_tasks(self, zero: Any) -> Sum:
        """Return a sum that moves each time that a task has ended."""
        return _SumOfThreads(zero)

    def describe(self, text: str) -> None:
        """Show nothing: what a run does is in its heartbeat and its lines."""
