"""What workers finish is seen by the record of a build before their job has ended."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.waiting import HANG_S, wait_until
from tailbit.checkpoints.builds import Build, Builds
from tailbit.checkpoints.claim import Claim
from tailbit.index.maintenance.rebuild import Extent
from tailbit.streaming.executors import SparkExecutor, on_workers
from tailbit.streaming.query.launch import launch, prepare
from tailbit.streaming.settings import DEFAULT_TRIGGER


def test_a_sum_of_tasks_moves_before_the_last_of_them_has_ended(spark: Any, tmp_path: Path) -> None:
    ended, total = tmp_path / "may end", SparkExecutor(spark).sum_of_tasks(Extent())

    def run(number: int) -> int:
        deadline = time.monotonic() + HANG_S
        # The first task waits until the second was seen.
        while not number and not ended.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        total.add(Extent(1, 10 + number, 100))
        return number

    results: list[int] = []
    thread = threading.Thread(target=lambda: results.extend(on_workers(spark, run, [0, 1])))
    thread.start()
    wait_until(lambda: total.value == Extent(1, 11, 100))
    assert not results
    ended.touch()
    thread.join(HANG_S)
    assert (results, total.value) == ([0, 1], Extent(2, 21, 200))


def test_a_first_build_on_workers_tells_its_files_and_rows(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tailbit.streaming.query import launch as launching
    from tailbit.streaming.settings import StreamSettings

    path = str(tmp_path / "t")
    for number in range(4):
        write_deltalake(path, pa.table({"k": range(10 * number, 10 * number + 10)}), mode="append")
    monkeypatch.setattr(
        launching, "StreamSettings", lambda **given: StreamSettings(**given, files=2, inline_bytes=0)
    )
    prepared = prepare(path, ["k"], None, None, DEFAULT_TRIGGER)
    seen: list[tuple[int, int, int]] = []

    def note(build: Build) -> None:
        progress = build.progress()
        assert progress is not None
        built = progress.extent.built
        seen.append((built.files, built.rows, progress.extent.whole.rows))

    heartbeat = Claim(prepared.index.storage, builds=Builds(note))
    heartbeat.acquire()
    job = launch(spark, prepared, heartbeat, once=True)
    try:
        assert job.query.awaitTermination(HANG_S)
        assert job.failure() is None
    finally:
        job.close()
    assert seen == [(0, 0, 40), (2, 20, 40), (4, 40, 40)]
