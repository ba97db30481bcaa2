"""A damaged Spark checkpoint ends the query by name, and deleting it costs time alone."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

import tailbit
from tailbit.errors import StreamError
from tailbit.streaming import start
from tailbit.streaming.job import failure_of


def append(table: str, value: str) -> None:
    deltalake.write_deltalake(table, pa.table({"v": [value] * 5}), mode="append")


def test_a_damaged_checkpoint_is_named_and_may_be_deleted(spark: Any, table_path: str) -> None:
    append(table_path, "a")
    assert start(spark, table_path, columns=["v"], once=True).awaitTermination(60)
    checkpoint = Path(table_path, "_tailbit", "_checkpoint")
    for offset in (checkpoint / "offsets").glob("[0-9]*"):
        offset.write_text("")
    append(table_path, "b")

    query = start(spark, table_path, once=True)
    deadline = time.monotonic() + 60
    while query.isActive and time.monotonic() < deadline:
        time.sleep(0.1)
    failure = failure_of(query)
    assert isinstance(failure, StreamError)
    assert str(checkpoint) in failure.hint

    shutil.rmtree(checkpoint)
    assert start(spark, table_path, once=True).awaitTermination(60)
    answer = tailbit.open(table_path).where("v = 'b'")
    assert (answer.count(), answer.covered_version) == (5, 1)
