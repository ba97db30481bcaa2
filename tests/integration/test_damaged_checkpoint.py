"""A damaged Spark checkpoint is a cache: it is reset, and costs time alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

import tailbit
from support.waiting import HANG_S
from tailbit.streaming import start
from tailbit.streaming.job import failure_of


def append(table: str, value: str) -> None:
    deltalake.write_deltalake(table, pa.table({"v": [value] * 5}), mode="append")


def test_a_damaged_checkpoint_is_reset_and_the_index_says_where_to_go_on(spark: Any, table_path: str) -> None:
    append(table_path, "a")
    assert start(spark, table_path, columns=["v"], once=True).awaitTermination(60)
    checkpoint = Path(table_path, "_tailbit", "_checkpoint")
    for offset in (checkpoint / "offsets").glob("[0-9]*"):
        offset.write_text("")
    append(table_path, "b")

    query = start(spark, table_path, once=True)
    assert query.awaitTermination(HANG_S)
    assert failure_of(query) is None
    answer = tailbit.open(table_path).where("v = 'b'")
    assert (answer.count(), answer.covered_version) == (5, 1)
