"""Calls of a function on Spark's Python workers, in one Spark task for each argument."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from tailbit.base.errors import ClusterError, TailbitError
from tailbit.checkpoints.signs import process_exists
from tailbit.streaming.java.collecting import collected
from tailbit.streaming.upkeep.memory import FREED

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import SparkSession

_CANCELLED = "SPARK_JOB_CANCELLED"
"""Spark's error for a job that was ended."""

T = TypeVar("T")
R = TypeVar("R")


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


def sum_of_tasks(spark: SparkSession, zero: T) -> Accumulator[T]:
    """Return a sum that tasks on workers add to, and which moves each time that one of them has ended.

    `zero`: of a type whose values are added by `+`.
    """
    from pyspark.accumulators import AddingAccumulatorParam

    # pyspark's own type allows numbers alone, and its code any type with a sum.
    adding: Any = AddingAccumulatorParam
    total: Accumulator[T] = spark.sparkContext.accumulator(zero, adding(zero))
    return total


@contextmanager
def _ended_by(spark: SparkSession, at_work: str) -> Iterator[None]:
    """Let `end_jobs` end the jobs that this thread starts in the block.

    Raises:
        ClusterError: a job was cancelled.
    """
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
    run: Callable[[T], R],
    at_work: str | None = None,
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
