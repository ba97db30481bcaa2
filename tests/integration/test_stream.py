"""The stream on real Spark, over tables that delta-spark writes."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import break_bitmaps, index_of
from support.waiting import HANG_S, wait_until
from tailbit.checkpoints.claim import Claim
from tailbit.errors import (
    IndexerRunningError,
    SettingsError,
    UnsupportedFeatureError,
    UsageError,
)
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.job import _RUNNING as running_queries
from tailbit.streaming.job import failure_of
from tailbit.streaming.query.launch import launch, prepare
from tailbit.streaming.query.run import attend
from tailbit.streaming.settings import DEFAULT_TRIGGER
from tailbit.tables.storage import LocalStorage
from tailbit.upkeep.status import status_of


def covered(index: str) -> int | None:
    ledger = MetadataTable.open(index).state.ledger
    return None if ledger is None else ledger.covered


def finished(query: Any) -> None:
    """A query that stops by itself has done so."""
    assert query.awaitTermination(HANG_S)


def source_of(query: Any) -> dict[str, Any]:
    """What the last progress event says of the source."""
    found: dict[str, Any] = json.loads(query.lastProgress.json)["sources"][0]
    return found


def checked(spark: Any, table: str, index: str | None = None) -> None:
    """The index is sound and answers as Spark does, from bitmaps alone."""
    opened = tailbit.open(table, index=index)
    assert opened.verify().sound
    predicates = ("v = 'v1'", "k >= 10 AND v <> 'v0'", "v IS NULL")
    counts = [f"count_if({predicate})" for predicate in predicates]
    (expected,) = spark.read.format("delta").load(table).selectExpr(*counts).collect()
    for predicate, count in zip(predicates, expected, strict=True):
        answer = opened.where(predicate)
        assert (answer.count(), answer.files_scanned) == (count, 0)


def scanned(table: str, predicate: str) -> int:
    """How many files have to be read for a count."""
    answer = tailbit.open(table).where(predicate)
    answer.count()
    return answer.files_scanned


def append(table: str, first: int) -> None:
    rows = {"k": range(first, first + 10), "v": [f"v{k % 3}" for k in range(first, first + 10)]}
    write_deltalake(table, pa.table(rows), mode="append")


@pytest.fixture(scope="module")
def written(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two commits of delta-spark; nobody changes it."""
    path = tmp_path_factory.mktemp("written") / "table"
    for first in (0, 10):
        rows = spark.range(first, first + 10, 1, 1).selectExpr("id AS k", "concat('v', id % 3) AS v")
        appending = rows.write.format("delta").mode("append").option("delta.enableDeletionVectors", "true")
        appending.save(str(path))
    return path


@pytest.fixture
def table(written: Path, table_path: str) -> str:
    shutil.copytree(written, table_path)
    return table_path


def test_once_indexes_what_is_there_and_stops(spark: Any, table: str, started: Any) -> None:
    query = started(table, ["k", "v"], once=True)
    finished(query)
    assert query.exception() is None
    assert covered(f"{table}/_tailbit") == 1
    checked(spark, table)


def test_the_stream_follows_every_kind_of_commit(spark: Any, table: str, started: Any) -> None:
    started(table, ["k", "v"])
    path = f"delta.`{table}`"
    append(table, 20)
    spark.sql(f"DELETE FROM {path} WHERE k IN (3, 14)")
    spark.sql(f"UPDATE {path} SET v = 'v1' WHERE k = 5")
    spark.sql(
        f"MERGE INTO {path} t USING (SELECT explode(sequence(18, 32)) AS k) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = NULL WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 'v2')"
    )
    spark.sql(f"OPTIMIZE {path}")
    spark.sql(f"RESTORE TABLE {path} TO VERSION AS OF 2")
    wait_until(lambda: covered(f"{table}/_tailbit") == 7)
    checked(spark, table)


def test_the_stream_goes_on_where_the_index_is_when_the_spark_checkpoint_is_lost(
    spark: Any, table: str, tmp_path: Path, started: Any
) -> None:
    index = str(tmp_path / "index")
    finished(started(table, ["k", "v"], index=index, checkpoint=str(tmp_path / "one"), once=True))
    append(table, 20)
    before = MetadataTable.open(index).version
    finished(started(table, index=index, checkpoint=str(tmp_path / "two"), once=True))
    assert covered(index) == 2
    assert MetadataTable.open(index).version == before + 1
    checked(spark, table, index)


def test_larger_work_runs_on_the_workers_and_commits_once(
    spark: Any, table: str, started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tailbit.streaming.query import launch
    from tailbit.streaming.settings import StreamSettings

    monkeypatch.setattr(launch, "StreamSettings", lambda **given: StreamSettings(**given, inline_bytes=0))
    finished(started(table, ["k", "v"], once=True))
    assert covered(f"{table}/_tailbit") == 1
    checked(spark, table)


def test_lag_is_in_every_progress_event(spark: Any, table: str, started: Any) -> None:
    query = started(table, ["v"])
    wait_until(lambda: query.lastProgress and source_of(query)["endOffset"]["version"] == 2)
    assert source_of(query)["latestOffset"]["behind"].keys() == {"versions", "files", "bytes", "seconds"}


def test_the_input_rows_in_spark_are_the_commits_that_its_batches_read(
    spark: Any, table: str, started: Any
) -> None:
    finished(started(table, ["v"], once=True))
    for first in (20, 30, 40):
        append(table, first)
    query = started(table, once=True)
    finished(query)
    assert covered(f"{table}/_tailbit") == 4
    assert sum(json.loads(event.json)["numInputRows"] for event in query.recentProgress) == 3


def test_a_live_file_that_is_missing_is_left_out_and_the_query_goes_on(
    spark: Any, table: str, started: Any
) -> None:
    file = next(Path(table).glob("part-*.parquet"))
    kept = file.rename(file.with_suffix(".away"))
    query = started(table, ["k", "v"])
    wait_until(lambda: covered(f"{table}/_tailbit") == DeltaTable(table).version() or not query.isActive)
    assert query.isActive
    [reason] = status_of(table)["not_covered"]
    assert file.name in reason
    kept.rename(file)
    query.stop()
    again = started(table, ["k", "v"])
    wait_until(lambda: not status_of(table)["not_covered"] or not again.isActive)
    checked(spark, table)


def test_a_second_indexer_is_refused_while_the_first_runs(table: str, started: Any) -> None:
    query = started(table, ["v"])
    with pytest.raises(IndexerRunningError):
        started(table)
    query.stop()
    finished(started(table, once=True))


def test_wrong_use_is_told_before_a_query_starts(spark: Any, table: str, started: Any) -> None:
    with pytest.raises(UsageError, match="no columns"):
        started(table)
    finished(started(table, ["v"], once=True))
    with pytest.raises(SettingsError):
        started(table, ["k"])
    assert not spark.streams.active


@pytest.mark.supports("Changes", "tailbit alter --add and --drop while an indexer runs", "exact")
def test_a_column_added_while_the_stream_runs_is_indexed_without_a_restart(
    spark: Any, table: str, started: Any
) -> None:
    query = started(table, ["v"])
    wait_until(lambda: covered(f"{table}/_tailbit") == 1)
    tailbit.open(table).alter(add=["k"])
    wait_until(lambda: scanned(table, "k = 3") == 0)
    append(table, 20)
    wait_until(lambda: covered(f"{table}/_tailbit") == 2)
    checked(spark, table)
    tailbit.open(table).alter(drop=["v"])
    append(table, 30)
    wait_until(lambda: covered(f"{table}/_tailbit") == 3)
    assert query.isActive
    assert tailbit.open(table).verify().sound
    assert scanned(table, "v = 'v1'") == 4
    assert scanned(table, "k = 31") == 0


@pytest.mark.supports("Changes", "CREATE INDEX and DROP INDEX while an indexer runs", "exact")
def test_an_index_created_by_a_statement_is_taken_up_by_the_running_stream(
    spark: Any, table: str, started: Any
) -> None:
    query = started(table, ["v"])
    wait_until(lambda: covered(f"{table}/_tailbit") == 1)
    (created,) = tailbit.sql(f"CREATE INDEX i ON '{table}' USING bitmap (k % 4)")
    assert created["indexer"] is not None

    def scanned_of_term() -> int:
        return tailbit.open(table).where("k % 4 = 3").files_scanned

    wait_until(lambda: scanned_of_term() == 0)
    append(table, 20)
    wait_until(lambda: covered(f"{table}/_tailbit") == 2)
    answer = tailbit.open(table).where("k % 4 = 3")
    assert answer.count() == spark.read.format("delta").load(table).where("k % 4 = 3").count()
    assert answer.files_scanned == 0
    tailbit.sql(f"DROP INDEX i ON '{table}'")
    append(table, 30)
    wait_until(lambda: covered(f"{table}/_tailbit") == 3)
    assert query.isActive
    assert scanned_of_term() > 0
    assert tailbit.open(table).verify().sound


@pytest.mark.supports("Changes", "tailbit alter while the indexer is down", "exact")
def test_columns_altered_while_the_stream_is_down_are_indexed_when_it_comes_back(
    spark: Any, table: str, started: Any
) -> None:
    finished(started(table, ["v"], once=True))
    tailbit.open(table).alter(add=["k"])
    finished(started(table, once=True))
    checked(spark, table)


@pytest.mark.supports("Changes", "a protocol upgrade to something unknown while an indexer runs", "refused")
def test_a_table_that_becomes_unreadable_ends_the_query_by_name_and_the_index_stays(
    spark: Any, table: str, started: Any
) -> None:
    query = started(table, ["k", "v"])
    wait_until(lambda: covered(f"{table}/_tailbit") == 1)
    features = ["deletionVectors", "fromTheFuture"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    Path(table, "_delta_log", f"{2:020}.json").write_text(json.dumps({"protocol": protocol}))
    wait_until(lambda: not query.isActive)
    failure = failure_of(query)
    assert isinstance(failure, UnsupportedFeatureError)
    assert "fromTheFuture" in str(failure)
    assert covered(f"{table}/_tailbit") == 1
    assert tailbit.open(table).where("k < 5", version=1).count() == 5


def test_a_query_whose_index_another_indexer_has_taken_over_ends_by_that_name(
    table: str, started: Any
) -> None:
    query = started(table, ["v"])
    wait_until(lambda: covered(f"{table}/_tailbit") == 1)
    job = dict(running_queries.jobs())[str(query.runId)]
    job.heartbeat.lost = IndexerRunningError(owner="another", path=table, age=0.0, limit=30.0)
    finished(query)
    wait_until(lambda: isinstance(failure_of(query), IndexerRunningError))


def test_what_a_merge_on_a_worker_found_damaged_is_posted_again_by_the_next_query(
    spark: Any, table_path: str
) -> None:
    numbers = np.random.default_rng(3)
    for _ in range(8):
        write_deltalake(table_path, pa.table({"k": numbers.integers(0, 1 << 60, 25_000)}), mode="append")
        index_of(table_path, ["k"])
    break_bitmaps(table_path)
    write_deltalake(table_path, pa.table({"k": [1]}), mode="append")
    prepared = prepare(table_path, None, None, None, DEFAULT_TRIGGER)
    heartbeat = Claim(LocalStorage(prepared.index.path))
    heartbeat.acquire()
    try:
        job = launch(spark, prepared, heartbeat, once=True)
        assert attend(job, threading.Event(), None)
        (why,) = prepared.index.state.recorded.errors()
        assert "a bitmap is damaged" in why
        job = launch(spark, prepared, heartbeat, once=True)
        attend(job, threading.Event(), None)
    finally:
        heartbeat.release()
    assert covered(prepared.index.path) == 8
    assert job.query.exception() is None
    assert why not in prepared.index.state.recorded.errors()
