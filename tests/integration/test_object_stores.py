"""The stream on real Spark with table and index in a real S3 server, which Spark itself cannot reach."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as DeltaRs
from deltalake import write_deltalake

pytest.importorskip("obstore", reason="obstore has no wheel for Python 3.10")

import tailbit
import tailbit.spark
from support.faulty_proxy import Fault, Proxy
from support.forked import command
from support.pages import OPERATIONS, commands, text_of
from support.s3_server import SECRET
from support.waiting import HANG_S
from tailbit.streaming import start
from tailbit.streaming.query import launch
from tailbit.streaming.settings import StreamSettings


def append(table: str, first: int, options: dict[str, str], count: int = 10) -> None:
    rows = pa.table(
        {"k": list(range(first, first + count)), "v": [f"v{n % 3}" for n in range(first, first + count)]}
    )
    write_deltalake(table, rows, mode="append", storage_options=options)


@pytest.fixture
def table(s3_root: str, s3_options: dict[str, str]) -> str:
    for first in (0, 10, 20):
        append(s3_root, first, s3_options)
    return s3_root


def checked(table: str, options: dict[str, str]) -> None:
    """The index covers the head, is sound, and answers from bitmaps alone as delta-rs reads the table."""
    opened = tailbit.open(table, storage_options=options)
    rows = pa.table(DeltaRs(table, storage_options=options).scan(["k", "v"])).to_pylist()
    answer = opened.where("k >= 5 AND v <> 'v0'")
    assert answer.count() == sum(row["k"] >= 5 and row["v"] != "v0" for row in rows)
    assert (answer.files_scanned, answer.covered_version) == (0, answer.version)
    assert opened.verify().sound


def shown_by(spark: Any) -> str:
    """All that Spark's UI shows of the queries, jobs and settings of a session."""
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    plans = [executions.apply(n).physicalPlanDescription() for n in range(executions.size())]
    plans += [executions.apply(n).modifiedConfigs().toString() for n in range(executions.size())]
    jobs = spark._jsparkSession.sparkContext().statusStore().jobsList(None)
    plans += [str(jobs.apply(n).description()) for n in range(jobs.size())]
    return "\n".join([*plans, spark.sparkContext._conf.toDebugString()])


def test_a_stream_over_a_store_that_is_busy_at_times_indexes_on_its_workers_and_shows_no_secret(
    spark: Any,
    table: str,
    s3: Proxy,
    s3_options: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    before = spark.conf.get("spark.sql.maxPlanStringLength")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # The tests' session keeps no plans as text; here they are what is looked at.
    spark.conf.set("spark.sql.maxPlanStringLength", "1000000")
    request.addfinalizer(lambda: spark.conf.set("spark.sql.maxPlanStringLength", before))
    monkeypatch.setattr(launch, "StreamSettings", lambda **given: StreamSettings(**given, inline_bytes=0))
    with s3.failing(Fault.BUSY, 5, lambda request: len(s3.seen) % 7 == 0) as met:
        started = start(spark, table, columns=["k", "v"], once=True, storage_options=s3_options)
        assert started.awaitTermination(HANG_S)
        assert started.exception() is None
    assert len(met) == 5
    append(table, 30, s3_options)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another cache"))
    again = start(spark, table, once=True, storage_options=s3_options)
    assert again.awaitTermination(HANG_S)
    checked(table, s3_options)
    tailbit.spark.register(spark, storage_options=s3_options)
    frame = spark.read.format("tailbit").option("where", "v = 'v1' AND k > 5").load(table)
    assert sorted(row.k for row in frame.collect()) == [k for k in range(6, 40) if k % 3 == 1]
    tailbit.spark.register(spark)
    shown = shown_by(spark)
    assert "MicroBatchScan" in shown
    assert "MapInArrow" in shown
    assert SECRET not in shown
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {file.parent.name for file in kept} >= {"offsets", "commits"}
    assert not [file for file in kept if SECRET.encode() in file.read_bytes()]


COMMANDS = [command for command in commands(text_of(OPERATIONS)) if "s3://lake/flights" in command]


def flights(table: str, options: dict[str, str]) -> None:
    rows = pa.table(
        {"carrier": ["UA", "AA", "UA"], "origin": ["JFK", "EWR", "JFK"], "dest": ["SFO", "LAX", "LAX"]}
    )
    write_deltalake(table, rows, storage_options=options)


def test_the_commands_of_the_operations_page_index_and_ask_a_table_in_a_store_and_tell_no_secret(
    s3_root: str, s3_options: dict[str, str], tmp_path: Path
) -> None:
    flights(s3_root, s3_options)
    secrets = {name: value for name, value in s3_options.items() if "KEY" in name}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = clean | secrets | {"XDG_CACHE_HOME": str(tmp_path), "AWS_ALLOW_HTTP": "true"}
    endpoint = s3_options["AWS_ENDPOINT_URL"]
    told = []
    for line in COMMANDS:
        arguments = shlex.split(line.replace("s3://lake/flights", s3_root))[1:]
        if "--storage-option" in arguments:
            arguments[-1] = f"AWS_ENDPOINT_URL={endpoint}"
        else:
            arguments += ["--storage-option", f"AWS_ENDPOINT_URL={endpoint}"]
        done = command(*arguments, env=environment)
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr
        told.append(done.stdout)
    assert told[1:3] == ["2\n", "2\n"]
    assert f"{s3_root}/_tailbit" in told[3]
