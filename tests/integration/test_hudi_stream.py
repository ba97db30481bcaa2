"""The stream on real Spark, and tables in an object store, over real Hudi tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tailbit
from support.drive import Drive
from support.hudi import HudiInstant, HudiTable, unpack
from support.hudi_states import changes, replayed
from support.iceberg import counted
from support.stored import put_into
from support.waiting import HANG_S, wait_until
from tailbit.streaming.query import launch
from tailbit.streaming.settings import StreamSettings
from tailbit.tables.storage import StorageOptions
from tailbit.upkeep.status import status_of

COLUMNS = ["city", "qty"]


def check(opened: tailbit.IndexedTable, table: HudiTable, instant: HudiInstant) -> None:
    """Compare what the index answers at an instant with the rows that Hudi's Spark read."""
    truth = table.rows(instant)
    answer = opened.where("city = 'Lima'", version=instant.requested)
    assert answer.files_scanned == 0
    assert answer.count() == truth["city"].to_pylist().count("Lima")
    assert counted(opened.where(version=instant.requested).read()) == counted(truth)


@pytest.mark.supports_hudi("Ways to ask", "`tailbit run`, which follows each instant", "exact")
@pytest.mark.parametrize("name", ["cow_v9_late", "mor_v9_late_compaction"])
def test_the_stream_follows_a_hudi_table_on_the_workers_and_is_told_in_instants(
    name: str, spark: Any, tmp_path: Path, started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "StreamSettings", lambda **given: StreamSettings(**given, inline_bytes=0))
    table = unpack(name, tmp_path)
    states = replayed(table)
    newest = next(states)
    started(table.path, COLUMNS)
    for instant in states:
        newest = instant
        wait_until(lambda wanted=instant.requested: status_of(table.path)["covered_version"] == wanted)
        check(tailbit.open(table.path), table, instant)
    account = status_of(table.path)
    assert (account["head"], account["covered_version"]) == (newest.requested, newest.requested)
    assert tailbit.open(table.path).verify().sound


def test_once_indexes_a_hudi_table_and_stops(spark: Any, tmp_path: Path, started: Any) -> None:
    table = unpack("cow_v6_parts", tmp_path)
    query = started(table.path, COLUMNS, once=True)
    assert query.awaitTermination(HANG_S)
    assert query.exception() is None
    check(tailbit.open(table.path), table, changes(table)[-1])


@pytest.mark.supports_hudi("Ways to ask", "tables in object stores", "exact")
@pytest.mark.parametrize("name", ["cow_v9_clustered", "mor_v9_sql", "mor_v9_replaced"])
def test_a_hudi_table_in_an_object_store_is_indexed_and_answered_there(
    name: str, tmp_path: Path, s3_root: str, s3_options: dict[str, str]
) -> None:
    table = unpack(name, tmp_path)
    options = StorageOptions.of(s3_options)
    put_into(s3_root, options, table.path)
    Drive(s3_root, f"{s3_root}/_tailbit", COLUMNS, options=options).drain()
    opened = tailbit.open(s3_root, storage_options=s3_options)
    assert opened.verify().sound
    for instant in changes(table):
        assert counted(opened.where(version=instant.requested).read()) == counted(table.rows(instant))
    check(opened, table, changes(table)[-1])
    assert opened.where().version_name == changes(table)[-1].requested
