"""Work on Spark's Python workers: a function of ours in one Spark task for each of its arguments."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from tailbit.errors import TailbitError
from tailbit.streaming.java.collecting import collected
from tailbit.streaming.upkeep.memory import FREED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


def on_workers(spark: SparkSession, run: Callable[[T], R], arguments: Sequence[T]) -> list[R]:
    """Return what `run` returns for each argument, each in a Spark task of its own.

    Arguments are data of a plan that Spark may show: options of the stores go with the code of `run` instead.

    Raises:
        TailbitError: as `run` raised it.
    """
    pickled = pa.array(map(pickle.dumps, arguments), pa.binary())
    table = pa.table({"n": pa.array(range(len(arguments)), pa.int32()), "argument": pickled})
    frame = spark.createDataFrame(table).repartitionById(len(arguments), "n")
    rows = collected(frame.mapInArrow(by_pickles(run), "result binary"))
    results = [pickle.loads(row.result) for row in rows]
    for result in results:
        if isinstance(result, TailbitError):
            raise result
    return results


def by_pickles(
    run: Callable[[T], R],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that a worker runs on the arguments of a partition.

    A named error is returned as a value, so that its class and fields survive.
    """

    def run_pickled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for argument in batch.column("argument"):
                try:
                    result: R | TailbitError = run(pickle.loads(argument.as_py()))
                except TailbitError as error:
                    result = error
                finally:
                    FREED.give_back()
                yield pa.record_batch({"result": pa.array([pickle.dumps(result)], pa.binary())})

    return run_pickled
