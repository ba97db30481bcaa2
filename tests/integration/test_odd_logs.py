"""Spark and deltalake are asked about odd logs: they read what is read here, and refuse what is refused."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from support.odd_logs import EVERY_ROW, ODD_COMMITS, ODD_STATISTICS, WRONG_COUNTS, WRONG_STATISTICS, OddLog
from support.odd_metadata import CONTRADICTIONS

CASES = [*WRONG_COUNTS, *WRONG_STATISTICS, *ODD_STATISTICS, *ODD_COMMITS, *CONTRADICTIONS]
# One is refused; in the other deltalake takes the statistics for the data, and gives NULL.
NOT_BY_DELTALAKE = ("statistics a list", "NULLs alone and bounds")
READ = [case for case in (*WRONG_COUNTS, *ODD_STATISTICS) if case.name not in NOT_BY_DELTALAKE]
UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ASKED = ("true", "id > 0", "p = 'x'", "s = 'b'", "s IS NULL", "f < 100", "d >= DATE '2020-01-03'")


def spark_says(spark: Any, table: str, conditions: Sequence[str]) -> dict[str, list[int]] | None:
    """The ids that Spark selects by each condition, in one job; None where it refuses the table."""
    try:
        source = spark.read.format("delta").load(table)
        frames = [
            source.where(condition).selectExpr("id", f"{n} AS asked", "s", "p")
            for n, condition in enumerate(conditions)
        ]
        found = reduce(lambda a, b: a.union(b), frames).collect()
    except (PySparkException, Py4JJavaError):
        return None
    return {c: sorted(row.id for row in found if row.asked == n) for n, c in enumerate(conditions)}


def digest_of_files(folder: Path) -> str:
    """A digest of names and bytes of files, but for the table's own id."""
    hashed = hashlib.blake2b(digest_size=16)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        hashed.update(str(path.relative_to(folder)).encode())
        hashed.update(UUID.sub(b"id", path.read_bytes()))
    return hashed.hexdigest()


def deltalake_says(table: str) -> list[int]:
    """Every id that deltalake reads."""
    return sorted(DeltaTable(table).to_pyarrow_table(columns=["id"])["id"].to_pylist())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_spark_reads_odd_logs_as_they_are_read_here(
    verdicts: Any, request: pytest.FixtureRequest, case: OddLog, tmp_path: Path
) -> None:
    table, rows = case.write(tmp_path / "t"), case.rows
    conditions = [condition for condition in ASKED if condition in (rows or EVERY_ROW)]

    def ask(asked: Sequence[list[str]]) -> list[Any]:
        return [spark_says(request.getfixturevalue("spark"), table, texts) for texts in asked]

    [found] = verdicts.answers("odd log", [conditions], ask, digest_of_files(Path(table)))
    here = None if rows is None else {condition: rows[condition] for condition in ASKED}
    assert (found is None) == (case.spark == "refuses")
    assert (found == here) == (case.spark != "differs"), case.why
    assert (case.spark == "differs") == bool(case.why)


@pytest.mark.parametrize("case", READ, ids=[case.name for case in READ])
def test_deltalake_reads_each_row_of_tables_with_odd_statistics(case: OddLog, tmp_path: Path) -> None:
    assert deltalake_says(case.write(tmp_path / "t")) == [1, 2, 3, 4]
