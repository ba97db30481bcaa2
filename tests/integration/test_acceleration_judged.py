"""Statements that write with the rule and without, and helpers that fail."""

from __future__ import annotations

import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.acceleration import PATIENT, helper_of, kill, patiently_accelerated, rows_of
from support.tables import index_of
from support.waiting import HANG_S
from tailbit.spark.acceleration import Acceleration

INDEXED = ["i", "k", "d", "p", "t", "s.a", "b", "f"]


@pytest.fixture(scope="module")
def accelerated(spark: Any) -> Iterator[Acceleration]:
    with patiently_accelerated(spark, ("files", "counts", "groups", "rows")) as acceleration:
        yield acceleration


@pytest.fixture
def path(spark: Any, tmp_path: Path) -> str:
    """Ten files with deletion vectors, in two partitions, and an index."""
    path = str(tmp_path / "table")
    frame = spark.range(500).selectExpr(
        "id",
        "cast(id AS int) i",
        "concat('k', id % 250) k",
        "date_add(DATE'2020-01-01', cast(id % 260 AS int)) d",
        "cast(id % 200 + 0.25 AS decimal(8,2)) p",
        "timestamp_seconds(1577836800 + id * 7) t",
        "named_struct('a', id % 240) s",
        "id % 50 = 7 b",
        "cast(id % 240 AS double) f",
        "concat('b ', id % 2) part",
    )
    writer = frame.repartition(5).write.format("delta").partitionBy("part")
    writer.option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 7")
    index_of(path, INDEXED)
    return path


def reasons(accelerated: Acceleration) -> list[str | None]:
    return [scan.reason for scan in accelerated.last()]


WRITES = (
    "DELETE FROM {t} WHERE i = 20",
    "UPDATE {t} SET k = 'x' WHERE k = 'k30'",
    "MERGE INTO {t} x USING (SELECT * FROM {t} WHERE i = 40) y ON x.k = y.k WHEN MATCHED THEN DELETE",
    "INSERT INTO {t} REPLACE WHERE i = 50 SELECT id, 50, k, d, p, t, s, b, f, part FROM {t} WHERE i = 51",
    "INSERT INTO {t} SELECT * FROM {t} WHERE i = 60",
    "OPTIMIZE {t}",
)


def test_statements_that_write_leave_the_table_that_they_leave_without_the_rule(
    accelerated: Acceleration, path: str
) -> None:
    spark, metrics = accelerated._spark, {}
    for enabled in (False, True):
        clone = f"{path} {enabled}"
        shutil.copytree(path, clone)
        spark.conf.set("spark.tailbit.enabled", str(enabled).lower())
        for statement in WRITES:
            spark.sql(statement.format(t=f"delta.`{clone}`"))
        history = spark.sql(f"DESCRIBE HISTORY delta.`{clone}`").collect()
        spark.conf.set("spark.tailbit.enabled", "true")
        counted = [
            {name: value for name, value in row.operationMetrics.items() if name.endswith(("Rows", "Files"))}
            for row in history
        ]
        metrics[enabled] = (rows_of(spark, f"SELECT * FROM delta.`{clone}`", enabled=False), counted)
    assert metrics[True] == metrics[False]


def test_a_table_made_anew_at_its_path_is_not_taken_for_the_one_of_the_index(
    accelerated: Acceleration, path: str
) -> None:
    spark, statement = accelerated._spark, f"SELECT * FROM delta.`{path}` WHERE i = 77"
    assert len(rows_of(spark, statement)) == 1
    for part in Path(path).iterdir():
        if part.is_dir() and part.name != "_tailbit":
            shutil.rmtree(part)
    frame = spark.range(77, 81).selectExpr("id", "77 i", "'k' k")
    frame.repartition(4).write.format("delta").mode("overwrite").save(path)
    assert len(rows_of(spark, statement)) == 4
    assert reasons(accelerated) == ["other-history"]


def until_served(accelerated: Acceleration, statement: str) -> None:
    end = time.monotonic() + HANG_S
    while time.monotonic() < end:
        rows_of(accelerated._spark, statement)
        if [scan.served for scan in accelerated.last()] == ["files"]:
            return
    pytest.fail(f"not served after {HANG_S} s: {accelerated.last()}")


def test_a_helper_that_is_killed_is_started_again_and_no_query_waits(
    accelerated: Acceleration, path: str
) -> None:
    statement = f"SELECT * FROM delta.`{path}` WHERE i = 77"
    spark, first = accelerated._spark, helper_of(accelerated)
    kill(first, signal.SIGKILL)
    assert len(rows_of(spark, statement)) == 1
    assert reasons(accelerated)[0] in ("helper-ended", "helper-paused", "helper-starting")
    until_served(accelerated, statement)
    assert helper_of(accelerated) != first


def test_a_helper_that_is_stopped_costs_one_budget_and_is_then_left_alone(
    accelerated: Acceleration, path: str
) -> None:
    statement = f"SELECT * FROM delta.`{path}` WHERE i = 77"
    spark = accelerated._spark
    until_served(accelerated, statement)
    stopped = helper_of(accelerated)
    spark.conf.set("spark.tailbit.budgetMs", "300")
    kill(stopped, signal.SIGSTOP)
    try:
        twice = f"{statement} UNION ALL SELECT * FROM delta.`{path}` WHERE i = 78"
        assert len(rows_of(spark, twice)) == 2
        assert reasons(accelerated) == ["helper-late", "helper-paused"]
    finally:
        kill(stopped, signal.SIGCONT)
        spark.conf.set("spark.tailbit.budgetMs", str(PATIENT))
    until_served(accelerated, statement)


LIES = {
    "rubbish": ("print('no reply', flush=True)", "Unrecognized token"),
    "another version": ("say(table=q['table'], version=99, keep=[], used=[0], total=10)", "at 99"),
    "other files": ("say(table=q['table'], version=q['version'], keep=[], used=[0], total=3)", "not about"),
    "an end": ("sys.exit(3)", "status 3"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_helper_that_lies_is_not_believed(
    accelerated: Acceleration, path: str, tmp_path: Path, lie: str
) -> None:
    code, detail = LIES[lie]
    script = tmp_path / "python"
    script.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        "def say(**fields): print(json.dumps({'id': q['id'], **fields}), flush=True)\n"
        "for line in sys.stdin:\n"
        "    q = json.loads(line)\n"
        "    if q['want'] == 'ready': say(ready=True)\n"
        "    elif q['want'] == 'known': say(table=q['table'], version=q['version'], columns=['i'])\n"
        f"    else: {code}\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    spark, statement = accelerated._spark, f"SELECT * FROM delta.`{path}` WHERE i = 77"
    spark.conf.set("spark.tailbit.python", str(script))
    try:
        kill(helper_of(accelerated), signal.SIGKILL)
        details, end = set[str](), time.monotonic() + HANG_S
        while not any(detail in told for told in details):
            assert len(rows_of(spark, statement)) == 1
            assert time.monotonic() < end, details
            (scan,) = accelerated.last()
            assert scan.served is None
            details.add(str(scan.detail))
    finally:
        spark.conf.set("spark.tailbit.python", sys.executable)
        kill(helper_of(accelerated), signal.SIGKILL)
    until_served(accelerated, statement)
