"""A question reads no more files than Delta's own scan, by the log and by column statistics."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import tailbit
from support.replay import answer, write
from support.scans import candidates

FILES, ROWS_OF_A_FILE = 8, 100
ROWS = """
    SELECT id AS k, CAST(id % 100 AS INT) AS i, CAST(id / 4 AS DECIMAL(12, 2)) AS price, id < 400 AS old,
      CAST(id AS DOUBLE) / 8 AS f, lpad(CAST(id AS STRING), 6, '0') AS s, IF(id < 300, NULL, id) AS n,
      DATE'2024-01-01' + CAST(id / 10 AS INT) AS day,
      TIMESTAMP'2024-01-01 00:00:00' + make_dt_interval(0, CAST(id AS INT)) AS ts,
      TIMESTAMP_NTZ'2024-01-01 00:00:00' + make_dt_interval(0, CAST(id AS INT)) AS wall,
      named_struct('x', id) AS st, CAST(id / 400 AS INT) AS p
    FROM range(0, {}, 1, {})"""
VALUES = {
    "k": "150",
    "price": "37.25",
    "f": "12.5",
    "s": "'000150'",
    "n": "350",
    "day": "DATE'2024-01-16'",
    "ts": "TIMESTAMP'2024-01-07 06:00:00'",
    "wall": "TIMESTAMP_NTZ'2024-01-07 06:00:00'",
    "st.x": "150",
}
COLUMNS = [*VALUES, "i", "old"]
OTHERS = [
    "s LIKE '0001%'",
    "k IN (1, 150, 151)",
    "NOT (k > 50 OR n IS NULL)",
    "k < 50 OR day = DATE'2024-03-01'",
    "i > 200",
    "old",
    "old IS NULL",
    "n IS NULL AND k > 350",
    "n IS NOT NULL",
    "n <=> NULL",
    "p = 1 AND k < 500",
    "CAST(ts AS DATE) = DATE'2024-01-07'",
    "startswith(s, '0007')",
    "false",
]
CONDITIONS = OTHERS + [
    f"{column} {sign} {value}" for (column, value), sign in product(VALUES.items(), ("=", "<=", ">"))
]
UNBOUNDED = ("f >", "f =")
"""NaN is the greatest value, and some writers leave it out of a maximum, so that of floats prunes nothing."""


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


@pytest.fixture
def table(spark: Any, table_path: str) -> str:
    """Eight files, each of a range of all columns."""
    made = ROWS.format(FILES * ROWS_OF_A_FILE, FILES)
    write(spark, made, lambda: spark.sql(made).write.format("delta").partitionBy("p").save(table_path))
    return table_path


@pytest.fixture
def of_delta(spark: Any, table: str) -> dict[str, int]:
    """Return by condition the number of files that Delta's scan reads."""

    def ask() -> dict[str, int]:
        rows = spark.read.format("delta").load(table)
        return {condition: len(rows.where(condition).inputFiles()) for condition in CONDITIONS}

    return answer(spark, ["files read", CONDITIONS], ask)


def test_no_condition_reads_more_files_than_deltas_own_scan(table: str, of_delta: dict[str, int]) -> None:
    assert min(of_delta.values()) == 0
    assert sum(files < FILES for files in of_delta.values()) > len(CONDITIONS) / 2
    by_log = files_read(table)
    tailbit.open(table).create_index("every", COLUMNS, kind="column_stats")
    assert tailbit.open(table).where().indexed_share == 1
    by_statistics = files_read(table)
    for condition, files in of_delta.items():
        if not condition.startswith(UNBOUNDED):
            assert by_log[condition] <= files, condition
            assert by_statistics[condition] <= files, condition


def files_read(table: str) -> dict[str, int]:
    """Return by condition the number of files that neither log nor index leaves out."""
    opened = tailbit.open(table)
    return {condition: len(candidates(opened.where(condition)._selection)) for condition in CONDITIONS}
