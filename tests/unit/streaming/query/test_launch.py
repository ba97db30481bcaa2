"""What a run is refused for before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tables import three_commits
from tailbit.errors import UnusableStorageError
from tailbit.streaming.query.failures import query_failed
from tailbit.streaming.query.launch import prepare


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
