"""The judge of the table-builder suites itself: it finds an answer that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

import tailbit
from support.judged import JudgedTable


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


def test_the_judge_agrees_on_a_plain_history(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["a", "b"])
    table.sql(
        "create table {t} (a int, b string) using delta",
        "insert into {t} values (1, 'x'), (2, null), (null, 'y')",
        "delete from {t} where a = 1",
        "alter table {t} add column c int",
    )
    table.judge("a = 1", "b is null", "a > 1 or b = 'y'", "c is null", "nothing_there = 1")


def test_the_judge_sees_a_wrong_answer(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["a"])
    table.sql("create table {t} (a int) using delta", "insert into {t} values (1)")
    expected, _ = table._judgement([1], ["a = 1"], "UTC", whole=False)
    expected[1, "a = 1"] = {}
    with pytest.raises(AssertionError, match="a = 1"):
        table._compare("followed", tailbit.open(table_path), expected)
