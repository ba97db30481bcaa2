"""What a real query of Spark does is a sign of its life; work for something else beside it is none."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.waiting import HANG_S, wait_until
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.executors import on_workers, processes_at_work
from tailbit.streaming.query.sampler import Sampled, Sampler
from tailbit.streaming.watch.processes import sees_cpu_time

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not sees_cpu_time(), reason="no /proc: the CPU time of processes is not seen"),
]

LOOKS = 4
"""Looks in a row, a second each, without a sign: work that counts gives one at each look.

More would ask too much of a session that many tests share, where an idle Python worker of an earlier test may
end meanwhile, which costs CPU time.
"""


class Batches:
    """A query whose batches do what a test sets."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.act, self.begun, self.ended = spark, "wait", threading.Event(), threading.Event()
        self.flag = folder / "ended"
        self.query = (
            spark.readStream.format("rate")
            .load()
            .writeStream.foreachBatch(self.batch)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )

    def batch(self, rows: Any, number: int) -> None:
        self.begun.set()
        if self.act == "wait":
            self.ended.wait(HANG_S)
            return
        on_workers(self.spark, task(COMPUTES if self.act == "compute" else RESTS), [str(self.flag)])

    def end(self) -> None:
        self.ended.set()
        self.flag.touch()
        self.query.stop()


def task(seconds_of_rest: float) -> Callable[[str], None]:
    """What a task does until a file is there: it computes, but for so long a rest each time.

    Made here, so that workers need not import this module.
    """

    def act(flag: str) -> None:
        until = time.monotonic() + HANG_S
        while not os.path.exists(flag) and time.monotonic() < until:
            time.sleep(seconds_of_rest) if seconds_of_rest else sum(range(10_000))

    return act


COMPUTES, RESTS = 0.0, 0.05


@pytest.fixture
def batches(spark: Any, tmp_path: Path) -> Iterator[Batches]:
    """The query, started; no batch ends before the test does."""
    made = Batches(spark, tmp_path)
    yield made
    made.end()


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    """The threads of tables, which work beside the batches."""
    with ThreadPoolExecutor(1) as threads:
        yield threads


def end_of(work: Future[Any]) -> str | None:
    """Why work that a test waits for has ended too early; None while it goes on."""
    return str(work.exception()) if work.done() else None


def quiet(sampler: Sampler, life: Liveness) -> Callable[[], bool]:
    """Return a look that tells whether the last `LOOKS` looks, a second apart, saw no sign of life."""
    lives: list[int] = []

    def look() -> bool:
        sampler.look()
        lives.append(life.lives)
        time.sleep(1.0)
        return len(lives) > LOOKS and lives[-1] == lives[-1 - LOOKS]

    return look


def test_workers_at_work_for_a_table_are_no_sign_of_life_of_a_query_that_hangs(
    spark: Any, batches: Batches, beside: ThreadPoolExecutor, tmp_path: Path
) -> None:
    at_work = tmp_path / "orders"
    at_work.mkdir()
    batches.begun.wait(HANG_S)
    of_table: Future[Any] = beside.submit(
        on_workers, spark, task(COMPUTES), [str(batches.flag)], str(at_work)
    )
    wait_until(lambda: processes_at_work(str(at_work)), lambda: end_of(of_table))
    life = Liveness()
    sampler = Sampler(life)
    sampler.follow(Sampled(batches.query, spark, others=lambda: processes_at_work(str(at_work))))
    wait_until(quiet(sampler, life), lambda: end_of(of_table))
    assert processes_at_work(str(at_work))
    batches.end()
    of_table.result()


def test_a_task_of_the_query_that_computes_is_a_sign_of_life_beside_the_work_for_a_table(
    spark: Any, batches: Batches, tmp_path: Path
) -> None:
    batches.act = "compute"
    batches.ended.set()
    life = Liveness()
    sampler = Sampler(life)
    sampler.follow(Sampled(batches.query, spark, others=lambda: processes_at_work(str(tmp_path / "none"))))

    def computes() -> bool:
        stages = spark.sparkContext.statusTracker().getActiveStageIds()
        return len(stages) > 0

    wait_until(computes)
    sampler.look()
    before = life.lives

    def signs() -> bool:
        sampler.look()
        return life.lives > before + 2

    wait_until(signs)


def test_a_batch_that_waits_for_workers_that_a_table_has_waits_and_does_not_hang(
    spark: Any, batches: Batches, beside: ThreadPoolExecutor, tmp_path: Path
) -> None:
    at_work = tmp_path / "orders"
    at_work.mkdir()
    batches.begun.wait(HANG_S)
    slots = spark.sparkContext.defaultParallelism
    of_table: Future[Any] = beside.submit(
        on_workers, spark, task(RESTS), [str(batches.flag)] * slots, str(at_work)
    )
    wait_until(lambda: len(processes_at_work(str(at_work))) == slots, lambda: end_of(of_table))
    batches.act = "nothing"
    batches.ended.set()
    life = Liveness()
    sampler = Sampler(life)
    sampler.follow(Sampled(batches.query, spark, others=lambda: processes_at_work(str(at_work))))

    def waits() -> bool:
        sampler.look()
        return life.waits

    wait_until(waits)
    assert life.doing == "waiting for Spark's workers, which work beside the batches has"
    batches.end()
    of_table.result()
