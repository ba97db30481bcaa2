"""A run that ends by itself starts Spark only where it has something to do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import half_built, index_of, rows, three_commits
from tailbit.errors import UnusableStorageError
from tailbit.streaming.query.failures import query_failed
from tailbit.streaming.query.launch import Prepared, prepare
from tailbit.streaming.query.run import caught_up


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Three versions, the last covered by an index of v."""
    path = str(tmp_path / "t")
    index_of(three_commits(path), ["v"])
    return path


def prepared(table: str, columns: Sequence[str] | None = None) -> Prepared:
    return prepare(table, columns, None, None, "200ms")


def test_where_all_is_covered_there_is_nothing_to_do(table: str) -> None:
    found = caught_up(prepared(table))
    assert found is not None
    assert (found.covered, found.head, found.idle, found.lag.versions) == (2, 2, True, 0)


def test_a_new_commit_is_something_to_do(table: str) -> None:
    write_deltalake(table, rows(30), mode="append")
    assert caught_up(prepared(table)) is None


def test_so_are_a_column_that_comes_and_one_that_goes(table: str) -> None:
    tailbit.open(table).alter(add=["k"])
    assert caught_up(prepared(table)) is None
    index_of(table)
    assert caught_up(prepared(table)) is not None
    tailbit.open(table).alter(drop=["k"])
    index_of(table)
    assert caught_up(prepared(table)) is not None


def test_so_are_a_table_that_was_made_anew_and_an_index_that_is_half_built_or_not_built(table: str) -> None:
    shutil.rmtree(f"{table}/_delta_log")
    three_commits(table)
    assert caught_up(prepared(table)) is None
    shutil.rmtree(f"{table}/_tailbit")
    assert caught_up(prepared(table, ["v"])) is None
    shutil.rmtree(f"{table}/_tailbit")
    half_built(table, ["v"])
    assert caught_up(prepared(table)) is None


def test_what_cannot_be_read_is_left_to_the_query_to_name(table: str) -> None:
    before = prepared(table)
    newest = max(Path(table, "_delta_log").glob("*.json"))
    write_deltalake(table, rows(30), mode="append")
    torn = max(Path(table, "_delta_log").glob("*.json"))
    assert torn != newest
    torn.write_text("{")
    assert caught_up(before) is None


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


@pytest.mark.parametrize("kind", ["below a file", "a file", "where nobody may make one"])
def test_a_checkpoint_that_cannot_be_made_is_refused_before_spark_starts(tmp_path: Path, kind: str) -> None:
    table, file = three_commits(str(tmp_path / "orders")), tmp_path / "file"
    file.touch()
    checkpoint = {"below a file": file / "c", "a file": file}.get(kind, Path("/proc/1/c"))
    with pytest.raises(UnusableStorageError, match="checkpoint cannot be made") as refused:
        prepare(table, ["k"], None, checkpoint, "1s")
    assert not refused.value.retryable
    assert "--checkpoint" in refused.value.hint


def test_a_checkpoint_that_is_named_is_made(tmp_path: Path) -> None:
    checkpoint = tmp_path / "a" / "b"
    assert prepare(three_commits(str(tmp_path / "orders")), ["k"], None, checkpoint, "1s").checkpoint
    assert checkpoint.is_dir()


_OF_A_TASK = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call \
last):
  File "/x/pyspark.zip/pyspark/sql/utils.py", line 155, in call
    raise e
py4j.protocol.Py4JJavaError: An error occurred while calling o260.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times, \
most recent failure: Lost task 0.0 in stage 7.0 (TID 13) (127.0.0.1 executor driver): \
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider a setting.
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.applyOrElse(PythonRunner.scala:704)
Caused by: java.io.IOException: Broken pipe
"""


def test_a_task_that_ended_a_query_is_told_by_what_happened_in_it() -> None:
    told = str(query_failed(_OF_A_TASK, "c", ""))
    assert told == (
        "the Spark query ended: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."
        " Consider a setting. (a Python process was lost)"
    )
    raised = "Query failed\nTraceback (most recent call last):\n  File x\nValueError: no such thing\n"
    assert str(query_failed(raised, "c", "")).endswith("Query failed (ValueError: no such thing)")
