"""Writers that work at the same time on one table: one waits at a gate while the other commits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from made_table import MadeTable
from pyspark.sql import DataFrame
from timeline import pending

LOOK_SECONDS = 0.05


def two_writers(made: MadeTable) -> None:
    """Let writers commit at the same time; a write that failed is left for the cleaner."""
    made.set(
        write__concurrency__mode="optimistic_concurrency_control",
        write__lock__provider="org.apache.hudi.client.transaction.lock.InProcessLockProvider",
        clean__failed__writes__policy="LAZY",
    )


@contextmanager
def held(made: MadeTable, frame: DataFrame, operation: str = "upsert", **options: object) -> Iterator[None]:
    """Request a write, run the block, then let the write complete and record it."""
    with started(made, frame, operation, **options) as release:
        yield
        with made.recorded():
            release().result()


@contextmanager
def failed(made: MadeTable, frame: DataFrame, operation: str = "upsert", **options: object) -> Iterator[None]:
    """Request a write, run the block that conflicts with it, and see the write fail."""
    with started(made, frame, operation, **options) as release:
        yield
        error = release().exception()
        assert error is not None, f"{made.name}: a write that conflicts went through"
        assert "Conflict" in str(error), error


@contextmanager
def started(
    made: MadeTable, frame: DataFrame, operation: str, **options: object
) -> Iterator[Callable[[], Future[None]]]:
    """Run a write whose rows wait at a gate, from the moment that its instant is requested."""
    gate = made.truth / "gate"
    known = pending(made.table, made.version)
    with ThreadPoolExecutor(1) as pool:
        write = pool.submit(made.write_silently, behind(gate.as_posix(), frame), operation, **options)
        try:
            while not pending(made.table, made.version) - known:
                assert not write.done(), write.exception()
                time.sleep(LOOK_SECONDS)

            def release() -> Future[None]:
                gate.touch()
                return write

            yield release
        finally:
            gate.touch()
    gate.unlink()


def behind(gate: str, frame: DataFrame) -> DataFrame:
    """Return a frame whose rows come when a file is there."""

    # Spark's Python workers import nothing of this folder: a nested function is sent to them whole.
    def wait(rows: Iterable[object]) -> Iterable[object]:
        while not os.path.exists(gate):
            time.sleep(0.05)
        return rows

    return frame.sparkSession.createDataFrame(frame.rdd.mapPartitions(wait), frame.schema)
