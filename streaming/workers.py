"""Work on Spark's Python workers: a function of ours in one Spark task for each of its arguments."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from tailbit.errors import TailbitError
from tailbit.streaming.java.collecting import collected
from tailbit.streaming.upkeep.memory import FREED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


def on_workers(
    spark: SparkSession, run: Callable[[T], R], arguments: Sequence[T], at_work: str | None = None
) -> list[R]:
    """Return what `run` returns for each argument, each in a Spark task of its own.

    Arguments are data of a plan that Spark may show: options of the stores go with the code of `run` instead.
    `at_work`: a folder of this machine, in which a file stands for each process with a task, named by its id.

    Raises:
        TailbitError: as `run` raised it.
    """
    pickled = pa.array(map(pickle.dumps, arguments), pa.binary())
    table = pa.table({"n": pa.array(range(len(arguments)), pa.int32()), "argument": pickled})
    frame = spark.createDataFrame(table).repartitionById(len(arguments), "n")
    rows = collected(frame.mapInArrow(by_pickles(run, at_work), "result binary"))
    results = [pickle.loads(row.result) for row in rows]
    for result in results:
        if isinstance(result, TailbitError):
            raise result
    return results


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
    """Let a file stand for this process while the block lasts; on another machine there is no such folder."""
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


def processes_at_work(at_work: str) -> list[int]:
    """Return the ids of the processes with a task, by the files in a folder."""
    with suppress(OSError):
        return [int(name) for name in os.listdir(at_work)]
    return []
