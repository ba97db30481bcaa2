"""Where the tasks of a run are run: on Spark's workers, or in threads of this process, without Java."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from tailbit.base.errors import ClusterError, TailbitError
from tailbit.checkpoints.signs import process_exists
from tailbit.streaming.java.sources import collected
from tailbit.streaming.memory import FREED

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
        try:
            return on_workers(self._spark, function, arguments, at_work)
        except AttributeError as gone:
            # pyspark gives up its Java context while a session is stopped.
            if self._spark.sparkContext._jsc is not None:
                raise
            raise ConnectionError("Spark was stopped") from gone

    def sum_of_tasks(self, zero: Any) -> Sum:
        """Return a sum that moves each time that a Spark task has ended."""
        from pyspark.accumulators import AddingAccumulatorParam

        # pyspark's own type allows numbers alone, and its code any type with a sum.
        adding: Any = AddingAccumulatorParam
        total: Sum = self._spark.sparkContext.accumulator(zero, adding(zero))
        return total

    def describe(self, text: str) -> None:
        """Set the description of the jobs of this thread in Spark's UI."""
        self._spark.sparkContext.setJobDescription(text)

    @property
    def query(self) -> str:
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
        return _SumOfThreads(zero)

    def describe(self, text: str) -> None:
        """Show nothing: what a run does is in its heartbeat and its lines."""


_CANCELLED = "SPARK_JOB_CANCELLED"
"""Spark's error for a job that was ended."""


def on_workers(
    spark: SparkSession, run: Callable[[T], R], arguments: Sequence[T], at_work: str | None = None
) -> list[R]:
    """Return what `run` returns for each argument, each in a Spark task of its own.

    Spark may show the arguments, so options of the stores must be part of `run` instead. `at_work`: a folder
    of this machine that gets a file for each process with a task, named by the process id; `end_jobs` with
    the same folder ends the job.

    Raises:
        ClusterError: the job was cancelled, as by `end_jobs`.
        TailbitError: as `run` raised it.
    """
    pickled = pa.array(map(pickle.dumps, arguments), pa.binary())
    table = pa.table({"n": pa.array(range(len(arguments)), pa.int32()), "argument": pickled})
    frame = spark.createDataFrame(table).repartitionById(len(arguments), "n")
    with nullcontext() if at_work is None else _ended_by(spark, at_work):
        rows = collected(frame.mapInArrow(by_pickles(run, at_work), "result binary"))
    results = [pickle.loads(row.result) for row in rows]
    for result in results:
        if isinstance(result, TailbitError):
            raise result
    return results


@contextmanager
def _ended_by(spark: SparkSession, at_work: str) -> Iterator[None]:
    """Let `end_jobs` end the jobs that this thread starts in the block."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    context = spark.sparkContext
    context.addJobTag(_tag(at_work))
    context.setInterruptOnCancel(True)
    try:
        yield
    except (PySparkException, Py4JJavaError) as failed:
        if _CANCELLED not in str(failed):
            raise
        reason = "a job was cancelled, as one is whose workers give no sign of life"
        raise ClusterError(master=str(context.master), reason=reason) from None
    finally:
        context.removeJobTag(_tag(at_work))


def end_jobs(spark: SparkSession, at_work: str) -> None:
    """End the jobs of `on_workers` with this folder; workers that hang are killed, on any machine."""
    spark.sparkContext.cancelJobsWithTag(_tag(at_work))


def _tag(at_work: str) -> str:
    return f"tailbit {os.path.basename(at_work)}"


def by_pickles(
    run: Callable[[T], R], at_work: str | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that a worker runs on the arguments of a partition.

    A named error is returned as a value, so that its class and fields survive.
    """

    def run_pickled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for argument in batch.column("argument"):
                try:
                    with _told(at_work):
                        result: R | TailbitError = run(pickle.loads(argument.as_py()))
                except TailbitError as error:
                    result = error
                finally:
                    FREED.give_back()
                yield pa.record_batch({"result": pa.array([pickle.dumps(result)], pa.binary())})

    return run_pickled


@contextmanager
def _told(at_work: str | None) -> Iterator[None]:
    """Keep a file named by this process's id in `at_work` during the block, if the folder exists here."""
    if at_work is None:
        yield
        return
    sign = Path(at_work, str(os.getpid()))
    with suppress(OSError):
        sign.touch()
    try:
        yield
    finally:
        with suppress(OSError):
            sign.unlink()


def beside(at_work: str) -> str:
    """Return the folder for the work beside the batches of a table, given that for its batches."""
    return f"{at_work}~beside"


def processes_at_work(at_work: str) -> list[int]:
    """Return the ids of the living processes with a task, by the files in a folder.

    The file of a process that was killed is removed.
    """
    living: list[int] = []
    with suppress(OSError):
        for name in os.listdir(at_work):
            if process_exists(int(name)):
                living.append(int(name))
            else:
                os.unlink(os.path.join(at_work, name))
    return living
