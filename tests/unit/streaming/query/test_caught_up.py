"""A run that ends by itself starts Spark only where it has something to do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import half_built, index_of
from tailbit.streaming.query.caught_up import caught_up
from tailbit.streaming.query.launch import prepare


def rows(first: int) -> pa.Table:
    return pa.table({"k": list(range(first, first + 10)), "v": [f"v{n % 3}" for n in range(10)]})


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Three versions, the last covered by an index of v."""
    path = str(tmp_path / "t")
    for first in (0, 10, 20):
        write_deltalake(path, rows(first), mode="append")
    index_of(path, ["v"])
    return path


def test_where_all_is_covered_there_is_nothing_to_do(table: str) -> None:
    found = caught_up(prepare(table, None, None, None, "200ms"))
    assert found is not None
    assert (found.covered, found.head, found.idle, found.lag_versions) == (2, 2, True, 0)


def test_a_new_commit_is_something_to_do(table: str) -> None:
    write_deltalake(table, rows(30), mode="append")
    assert caught_up(prepare(table, None, None, None, "200ms")) is None


def test_so_are_a_column_that_comes_and_one_that_goes(table: str) -> None:
    tailbit.open(table).alter(add=["k"])
    assert caught_up(prepare(table, None, None, None, "200ms")) is None
    index_of(table)
    assert caught_up(prepare(table, None, None, None, "200ms")) is not None
    tailbit.open(table).alter(drop=["k"])
    index_of(table)
    assert caught_up(prepare(table, None, None, None, "200ms")) is not None


def test_so_are_a_table_that_was_made_anew_and_an_index_that_is_half_built_or_not_built(table: str) -> None:
    shutil.rmtree(f"{table}/_delta_log")
    for first in (0, 10, 20):
        write_deltalake(table, rows(first), mode="append")
    assert caught_up(prepare(table, None, None, None, "200ms")) is None
    shutil.rmtree(f"{table}/_tailbit")
    assert caught_up(prepare(table, ["v"], None, None, "200ms")) is None
    shutil.rmtree(f"{table}/_tailbit")
    half_built(table, ["v"])
    assert caught_up(prepare(table, None, None, None, "200ms")) is None


def test_what_cannot_be_read_is_left_to_the_query_to_name(table: str) -> None:
    prepared = prepare(table, None, None, None, "200ms")
    newest = max(Path(table, "_delta_log").glob("*.json"))
    write_deltalake(table, rows(30), mode="append")
    torn = max(Path(table, "_delta_log").glob("*.json"))
    assert torn != newest
    torn.write_text("{")
    assert caught_up(prepared) is None


def test_the_command_ends_without_spark_and_tells_that_it_is_idle(table: str) -> None:
    run = (
        "import sys; from tailbit.cli.main import cli\n"
        f"cli.main(['run', {table!r}, '--once', '--json'], standalone_mode=False)\n"
        "sys.exit('pyspark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["idle"] is True
    assert not Path(table, "_tailbit", "_heartbeat").exists()
    assert DeltaTable(table).version() == 2
