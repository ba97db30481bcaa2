"""The tables of an application: caught up when they are opened, and rid of a worker that hangs."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
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
from support.waiting import HANG_S, wait_until
from tailbit.checkpoints.claim import Claim
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.signs import NAME, Beat, read_heartbeat
from tailbit.errors import ClusterError
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.executors import beside, on_workers, processes_at_work
from tailbit.streaming.many.followed_table import FollowedTable, Shared
from tailbit.streaming.many.tables import Tables
from tailbit.streaming.query.stream import ranges_of
from tailbit.streaming.watch.thread_pool import ThreadPool
from tailbit.tables.storage import open_storage

pytestmark = pytest.mark.spark

Follow = Callable[..., Tables]

_BESIDE = {"tailbit-fill", "tailbit-upkeep"}
"""Names of the threads beside the batches of a table."""


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
    lease = Claim(place, life=life, of_application=True)
    lease.acquire()

    def started(*entries: TableEntry) -> Tables:
        shared = Shared(
            spark, lease, threading.Lock(), life, told.append, None, str, str(tmp_path / "at work"), place
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


def test_a_table_whose_index_cannot_be_claimed_has_the_lag_of_that_index(follow: Follow, table: str) -> None:
    beat = Beat("run", "another-host", "another machine", 1, limit=HANG_S)
    open_storage(f"{table}/_tailbit").put(NAME, orjson.dumps(asdict(beat)))
    tables = follow(TableEntry(path=table, id="orders", max_lag=1.0))
    wait_until(lambda: account(tables)["failures"] > 0)
    seen = account(tables)
    assert seen["state"] == "waiting"
    assert (seen["lag"]["versions"], seen["covered"], seen["head"]) == (1, 2, 3)
    wait_until(lambda: account(tables)["lag"]["seconds"] > 1.0)


def test_a_table_by_path_and_by_name_is_followed_once(follow: Follow, table: str, told: list[str]) -> None:
    by_name = TableEntry(name=table, id="again", columns=("v",))
    tables = follow(TableEntry(path=table, id="orders"), by_name)
    # The one that is opened second is refused.
    wait_until(lambda: {state["state"] for state in tables.states()} == {"following", "refused"})
    (second,) = [state for state in tables.states() if state["state"] == "refused"]
    assert re.search("where the table (orders|again) of the configuration is too", second["reason"])
    assert "Take one of the two out" in second["remedy"]


def test_a_table_whose_section_changes_is_opened_anew_once_it_is_closed_and_keeps_its_mark(
    follow: Follow, table: str
) -> None:
    tables = follow(TableEntry(path=table, id="orders"))
    index = open_storage(f"{table}/_tailbit")
    for max_lag in (10.0, 20.0, 30.0):
        wait_until(lambda: account(tables)["state"] == "following")
        tables.apply([TableEntry(path=table, id=f"orders-{max_lag:.0f}", max_lag=max_lag)])
    wait_until(lambda: account(tables)["state"] == "following")
    assert read_heartbeat(index) is not None


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Looks at open tables wait for this event; opening a table does not."""
    event = threading.Event()
    look = FollowedTable.look

    def waits(followed: FollowedTable, start: Any) -> Any:
        event.wait(HANG_S)
        return look(followed, start)

    monkeypatch.setattr(FollowedTable, "look", waits)
    yield event
    event.set()


def test_a_table_that_changes_while_its_old_look_hangs_is_opened_anew_and_the_old_one_is_closed_later(
    follow: Follow, table: str, hang: threading.Event, told: list[str]
) -> None:
    opened: list[TableEntry] = []
    start = FollowedTable._start

    def counted(followed: FollowedTable, entry: TableEntry, *rest: Any) -> None:
        opened.append(entry)
        start(followed, entry, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FollowedTable, "_start", counted)
        tables = follow(TableEntry(path=table, id="orders", stuck_after=1.0))
        wait_until(lambda: len(opened) == 1)
        tables.apply([TableEntry(path=table, id="orders", stuck_after=1.0, max_lag=7.0)])
        wait_until(lambda: len(opened) == 2)
    assert any("orders: stuck" in line for line in told)
    hang.set()
    wait_until(lambda: account(tables)["state"] == "following")
    wait_until(lambda: not tables._leaving)
    assert read_heartbeat(open_storage(f"{table}/_tailbit")) is not None


def test_a_table_that_was_removed_before_its_first_look_is_not_opened(
    follow: Follow, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()
    submit = ThreadPool.submit

    def late(pool: ThreadPool, act: Callable[[], Any]) -> Any:
        return submit(pool, lambda: (free.wait(HANG_S), act())[1])

    monkeypatch.setattr(ThreadPool, "submit", late)
    other = three_commits(str(tmp_path / "other"))
    tables = follow(TableEntry(path=other, id="other", columns=("k",)))
    wait_until(lambda: next(iter(tables._members.values())).at_work)
    tables.apply([TableEntry(path=other, id="other", columns=("v",))])
    free.set()
    wait_until(lambda: account(tables)["state"] != "waiting")
    assert account(tables)["state"] == "building"


def test_a_table_whose_part_lasts_for_longer_than_its_contract_is_told_as_behind(
    follow: Follow, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = follow(TableEntry(path=table, id="orders", max_lag=1.0))
    wait_until(lambda: account(tables)["state"] == "following")
    ended = threading.Event()
    work = FollowedTable.work
    monkeypatch.setattr(FollowedTable, "work", lambda *given: (ended.wait(HANG_S), work(*given))[1])
    offset = take_a_batch(tables, {"tables": {}})
    write_deltalake(table, rows(2000, 10), mode="append")

    def is_behind() -> bool:
        nonlocal offset
        offset = take_a_batch(tables, offset)
        return bool(account(tables)["state"] == "behind")

    wait_until(is_behind)
    ended.set()
    wait_until(lambda: account(tables)["state"] == "following")


def test_what_is_opened_after_the_end_is_closed_again(
    follow: Follow, table: str, hang: threading.Event
) -> None:
    tables = follow(TableEntry(path=table, id="orders", stuck_after=1.0))
    wait_until(lambda: account(tables)["state"] == "stuck")
    tables.close()
    hang.set()
    wait_until(lambda: not any(thread.name in _BESIDE for thread in threading.enumerate()))


def test_the_looks_go_on_where_no_thread_can_be_started_for_a_moment(
    follow: Follow, table: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, refused = ThreadPool.submit, list[str]()

    def refuses(pool: ThreadPool, act: Callable[[], Any]) -> Any:
        if not refused:
            refused.append("once")
            raise RuntimeError("can't start new thread")
        return submit(pool, act)

    monkeypatch.setattr(ThreadPool, "submit", refuses)
    tables = follow(TableEntry(path=table, id="orders"))
    wait_until(lambda: account(tables)["state"] == "following")
    assert any("can't start new thread" in line for line in told)


def append_much(table: str) -> None:
    """A commit of one file whose size goes to the workers, where it takes a second or so."""
    keys = np.random.default_rng(7).integers(0, 1 << 60, 2_500_000)
    much = pa.table({"k": keys, "v": pa.array(keys % 100_000).cast(pa.string())})
    write_deltalake(table, much, mode="append", schema_mode="merge")


def take_a_batch(tables: Tables, start: dict[str, Any]) -> dict[str, Any]:
    """Give the tables a batch that begins at an offset, as Spark does; where it ends."""
    end = tables.next(start)
    tables.take(ranges_of(tables.rows(start, end)), 0)
    return end


def test_work_beside_the_batches_that_hangs_is_ended_so_that_the_workers_are_free(
    follow: Follow, spark: Any, told: list[str], table: str, tmp_path: Path
) -> None:
    tables = follow(TableEntry(path=table, id="orders", stuck_after=2.0))
    wait_until(lambda: account(tables)["state"] == "following")

    def hang(seconds: int) -> None:
        time.sleep(seconds)

    with pytest.raises(ClusterError, match="was cancelled"):
        on_workers(spark, hang, [int(HANG_S)], beside(str(tmp_path / "at work" / "orders")))
    assert any("beside the batches gave no sign of life" in line for line in told)
    wait_until(lambda: account(tables)["state"] == "following")


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
    wait_until(lambda: any("orders: retrying: ClusterError: " in line for line in told))
    assert any(line.startswith("orders: stuck: ") and " on workers. " in line for line in told)
    while covered(table) != DeltaTable(table).version():
        offset = take_a_batch(tables, offset)
    wait_until(lambda: account(tables)["state"] == "following")
    wait_until(lambda: not any(map(psutil.pid_exists, stopped)))
