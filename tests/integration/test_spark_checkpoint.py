"""A Spark checkpoint is of one query alone: the ledger of the index says where the next one goes on."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

import tailbit
from support.waiting import HANG_S, wait_until
from tailbit.checkpoints.heartbeat import Heartbeat
from tailbit.index.store.table import MetadataTable
from tailbit.streaming import start
from tailbit.streaming.job import failure_of
from tailbit.streaming.query.attend import Run, run_to_its_end
from tailbit.streaming.query.launch import prepare
from tailbit.streaming.settings import DEFAULT_TRIGGER


def append(table: str, value: str) -> None:
    deltalake.write_deltalake(table, pa.table({"v": [value] * 5}), mode="append")


def test_a_query_leaves_nothing_of_its_checkpoint_and_the_next_goes_on_where_the_index_is(
    spark: Any, table_path: str, tmp_path: Path
) -> None:
    place = tmp_path / "checkpoints"
    for number, value in enumerate("ab"):
        append(table_path, value)
        columns = ["v"] if number == 0 else None
        query = start(spark, table_path, columns=columns, checkpoint=place, once=True)
        assert query.awaitTermination(HANG_S)
        assert failure_of(query) is None
        wait_until(lambda: not list(place.iterdir()))
        index = MetadataTable.open(f"{table_path}/_tailbit")
        assert (index.state.ledger.round, index.state.ledger.covered) == (1, number)
    assert not Path(table_path, "_tailbit", "_checkpoint").exists()
    answer = tailbit.open(table_path).where("v = 'b'")
    assert (answer.count(), answer.files_scanned) == (5, 0)


def test_a_checkpoint_that_is_deleted_at_work_is_made_anew_and_the_index_says_where_to_go_on(
    spark: Any, table_path: str, tmp_path: Path
) -> None:
    append(table_path, "a")
    place, stop, told = tmp_path / "checkpoints", threading.Event(), list[str]()
    prepared = prepare(table_path, ["v"], None, place, DEFAULT_TRIGGER)
    heartbeat = Heartbeat(prepared.index.storage)
    heartbeat.claim()
    run = Run(spark, prepared, heartbeat, False, stop, None, told.append)
    thread = threading.Thread(target=run_to_its_end, args=(run,))
    thread.start()

    def covered() -> int | None:
        ledger = MetadataTable.open(prepared.index.path).state.ledger
        return None if ledger is None else ledger.covered

    try:
        wait_until(lambda: covered() == 0)
        for checkpoint in place.glob("*/checkpoint"):
            shutil.rmtree(checkpoint)
        append(table_path, "b")
        wait_until(lambda: covered() == 1)
        append(table_path, "c")
        wait_until(lambda: covered() == 2)
    finally:
        stop.set()
        thread.join(HANG_S)
        heartbeat.release()
    assert not thread.is_alive()
    assert list(place.iterdir()) == []
    assert tailbit.open(table_path).verify().problems == []
