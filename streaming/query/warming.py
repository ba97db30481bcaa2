"""Spark is warmed up beside the start of a query, so that its first batches are as quick as later ones.

A Python worker takes a second to fork and import; a merge that runs on one worker must not make the next
batch wait for another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from tailbit.index.maintenance import merge
from tailbit.index.write import run
from tailbit.streaming.java.sources import collected
from tailbit.streaming.query import source
from tailbit.streaming.query.stream import WARM_UP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOADED = (merge, run, source)
"""Modules that a Python worker imports as soon as it runs anything of this module."""

_GROUP = "tailbit-warm-up"
_WORKERS = 2
_ENDS_S = 5.0
_ROUNDS = 6
_TOGETHER_S = 0.3


@contextmanager
def warming_up(spark: SparkSession) -> Iterator[None]:
    """Start the Python workers and compile a batch's path, in a thread beside the block.

    Warm-up work still running when the block ends is cancelled before Spark stops.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_warm, args=(spark, ended), name=WARM_UP, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.is_alive():
            _cut_off(spark)
            thread.join(_ENDS_S)


def _cut_off(spark: SparkSession) -> None:
    from py4j.protocol import Py4JError

    with suppress(OSError, Py4JError):
        spark.sparkContext.cancelJobGroup(_GROUP)


def _warm(spark: SparkSession, ended: threading.Event) -> None:
    """Warm up the workers; the first jobs occupy all workers at once, so that each is started."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        spark.sparkContext.setJobGroup(_GROUP, "warm-up")
        for number in range(_ROUNDS):
            if ended.is_set():
                return
            frame = spark.range(_WORKERS, numPartitions=_WORKERS)
            collected(frame.mapInArrow(_wait if number == 0 else _pass_on, "id bigint"))
    except (OSError, Py4JError, PySparkException, AttributeError):
        # AttributeError: a Spark that was stopped meanwhile has no Java any more.
        return


def _wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(_TOGETHER_S)
    yield from batches


def _pass_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
