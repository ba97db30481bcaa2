"""Spark and deltalake are asked about odd logs: they read what is read here, and refuse what is refused."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from support.odd_logs import EVERY_ROW, ODD_COMMITS, ODD_STATISTICS, WRONG_COUNTS, WRONG_STATISTICS, OddLog
from support.odd_metadata import CONTRADICTIONS
from support.profiles import variants

CASES = [*WRONG_COUNTS, *WRONG_STATISTICS, *ODD_STATISTICS, *ODD_COMMITS, *CONTRADICTIONS]
JUDGED = variants(CASES, 30)
# One is refused; in the other deltalake takes the statistics for the data, and gives NULL.
NOT_BY_DELTALAKE = ("statistics a list", "NULLs alone and bounds")
READ = [case for case in (*WRONG_COUNTS, *ODD_STATISTICS) if case.name not in NOT_BY_DELTALAKE]
ASKED = ("true", "id > 0", "p = 'x'", "s = 'b'", "s IS NULL", "f < 100", "d >= DATE '2020-01-03'")


def spark_says(spark: Any, table: str, rows: dict[str, list[int]]) -> dict[str, list[int]]:
    """The ids that Spark selects by each condition, in one job."""
    conditions = [condition for condition in ASKED if condition in rows]
    frames = [
        spark.read.format("delta").load(table).where(condition).selectExpr("id", f"{n} AS asked", "s", "p")
        for n, condition in enumerate(conditions)
    ]
    found = reduce(lambda a, b: a.union(b), frames).collect()
    return {c: sorted(row.id for row in found if row.asked == n) for n, c in enumerate(conditions)}


def deltalake_says(table: str) -> list[int]:
    """Every id that deltalake reads."""
    return sorted(DeltaTable(table).to_pyarrow_table(columns=["id"])["id"].to_pylist())


@pytest.mark.parametrize("case", JUDGED, ids=[case.name for case in JUDGED])
def test_spark_reads_odd_logs_as_they_are_read_here(spark: Any, case: OddLog, tmp_path: Path) -> None:
    table, rows = case.write(tmp_path / "t"), case.rows
    try:
        found: dict[str, list[int]] | None = spark_says(spark, table, rows or EVERY_ROW)
    except (PySparkException, Py4JJavaError):
        found = None
    here = None if rows is None else {condition: rows[condition] for condition in ASKED}
    assert (found is None) == (case.spark == "refuses")
    assert (found == here) == (case.spark != "differs"), case.why
    assert (case.spark == "differs") == bool(case.why)


@pytest.mark.parametrize("case", READ, ids=[case.name for case in READ])
def test_deltalake_reads_each_row_of_tables_with_odd_statistics(case: OddLog, tmp_path: Path) -> None:
    assert deltalake_says(case.write(tmp_path / "t")) == [1, 2, 3, 4]
