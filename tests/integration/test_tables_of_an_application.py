"""The tables of an application: caught up when they are opened, and rid of a worker that hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from support.drive import Drive
from support.shipped import covered
from support.tables import rows, three_commits
from support.waiting import wait_until
from tailbit.checkpoints.lease import Lease
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.followed import Shared
from tailbit.streaming.many.source import TableRanges, ranges_of
from tailbit.streaming.many.tables import Tables
from tailbit.streaming.workers import processes_at_work
from tailbit.tables.storage import open_storage

pytestmark = pytest.mark.spark

Follow = Callable[..., Tables]


@pytest.fixture
def told() -> list[str]:
    """What the application says."""
    return []


@pytest.fixture
def follow(spark: Any, tmp_path: Path, told: list[str]) -> Iterator[Follow]:
    """Gives the tables of an application that has no query of Spark."""
    followed: list[Tables] = []
    life = Liveness()
    place = open_storage(str(tmp_path / "lease"))
    place.make_root()
    lease = Lease(place, life)
    lease.claim()

    def started(*entries: TableEntry) -> Tables:
        shared = Shared(
            spark, lease, threading.Lock(), life, told.append, None, str, str(tmp_path / "at work")
        )
        followed.append(Tables(entries, shared, 2))
        return followed[-1]

    yield started
    for tables in followed:
        tables.close()
    lease.release()


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table whose index is one commit behind."""
    path = three_commits(str(tmp_path / "orders"))
    Drive(path, f"{path}/_tailbit", ["v"]).drain()
    write_deltalake(path, rows(1000, 10), mode="append")
    return path


def account(tables: Tables) -> dict[str, Any]:
    return tables.states()[0]


def test_what_a_table_gained_while_nobody_was_at_work_is_indexed_before_there_is_a_query(
    follow: Follow, table: str
) -> None:
    tables = follow(TableEntry(path=table, id="orders"))
    wait_until(lambda: covered(table) == DeltaTable(table).version())
    wait_until(lambda: account(tables)["state"] == "following")


def append_much(table: str) -> None:
    """A commit of one file whose size goes to the workers, where it takes a second or so."""
    keys = np.random.default_rng(7).integers(0, 1 << 60, 2_500_000)
    much = pa.table({"k": keys, "v": pa.array(keys % 100_000).cast(pa.string())})
    write_deltalake(table, much, mode="append", schema_mode="merge")


def take_a_batch(tables: Tables, start: dict[str, Any]) -> dict[str, Any]:
    """Give the tables a batch that begins at an offset, as Spark does; where it ends."""
    end = tables.next(start)
    parts = {
        id_: {"start": start["tables"][id_], "end": to}
        for id_, to in end["tables"].items()
        if start["tables"].get(id_, to) != to
    }
    rows_of = [_Row(id_, orjson.dumps(ends).decode()) for id_, ends in TableRanges(parts).parts.items()]
    tables.take(ranges_of(rows_of), 0)
    return end


class _Row:
    def __init__(self, table: str, range_: str) -> None:
        self.table, self.range = table, range_


def test_a_worker_that_hangs_is_ended_after_the_limit_of_its_table_and_its_work_is_done_again(
    follow: Follow, told: list[str], table: str, tmp_path: Path
) -> None:
    append_much(table)
    tables = follow(TableEntry(path=table, id="orders", stuck_after=3.0))
    offset: dict[str, Any] = {"tables": {}}
    stopped: list[int] = []

    def worker_stops() -> bool:
        stopped.extend(processes_at_work(str(tmp_path / "at work" / "orders")))
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        return bool(stopped)

    offset = take_a_batch(tables, offset)
    with ThreadPoolExecutor(1) as beside:
        waits = beside.submit(wait_until, worker_stops)
        while not waits.done():
            offset = take_a_batch(tables, offset)
    began = time.monotonic()
    wait_until(lambda: any("orders: retrying: ClusterError: " in line for line in told))
    assert time.monotonic() - began < 120.0
    assert any(line.startswith("orders: stuck: ") and " on workers. " in line for line in told)
    while covered(table) != DeltaTable(table).version():
        offset = take_a_batch(tables, offset)
    wait_until(lambda: account(tables)["state"] == "following")
    wait_until(lambda: not any(map(psutil.pid_exists, stopped)))
