"""On a cluster of processes, executors that die cost Spark a retry, and the index nothing."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.profiles import PROOF
from support.shipped import Shipped

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not PROOF, reason="make proof: three Java processes of a gigabyte, some minutes"),
]

ROWS = 3_000_000
"""Rows of one file. All files together have more than 16 MiB, so executors index them, not the driver."""

KILLS = 3


def test_executors_that_die_while_they_build_cost_a_retry_and_the_index_nothing(tmp_path: Path) -> None:
    table, numbers = str(tmp_path / "table"), np.random.default_rng(1)
    for _ in range(4):
        write_deltalake(table, pa.table({"k": numbers.integers(0, 50_000, ROWS)}), mode="append")
    shipped = Shipped(table, tmp_path / "output")
    shipped.start("--columns", "k", "--master", "local-cluster[2,1,1024]")
    killed: set[int] = set()
    try:
        while len(killed) < KILLS:
            executor = shipped.wait(lambda: _at_work(shipped, killed))[0]
            killed.add(executor.pid)
            shipped.kill([executor])
        assert shipped.covered() == -1
        shipped.wait_covered(3)
        assert shipped.terminate() == 0
        shipped.wait_gone()
    finally:
        shipped.kill_group()
    indexed = tailbit.open(table)
    assert indexed.verify(derive=4).problems == []
    assert (indexed.where("k >= 0").count(), indexed.where("k >= 0").files_scanned) == (4 * ROWS, 0)


def _at_work(shipped: Shipped, killed: set[int]) -> list[psutil.Process]:
    """Executors that have started a Python worker, and so have been given a task; but for those killed."""
    found = []
    for process in shipped.descendants("java"):
        with suppress(psutil.Error):
            mine = any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
            if mine and process.pid not in killed and process.children(recursive=True):
                found.append(process)
    return found
