"""Random conditions in plain SQL with the rule and without, statements that write, helpers that fail."""

from __future__ import annotations

import random
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from support.acceleration import PATIENT, helper_of, kill, patiently_accelerated, rows_of
from support.profiles import PROOF, SEED
from support.tables import index_of
from tailbit.spark.acceleration import Acceleration

INDEXED = ["i", "k", "d", "p", "t", "s.a", "b", "f"]
TURNS, SCANS = (100, 8) if PROOF else (2, 6)


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


ATOMS = (
    "i = {n}",
    "i IN ({n}, {m}, 3)",
    "k = 'k{n}'",
    "k IS NULL",
    "i BETWEEN {n} AND {n} + 3",
    "id = {n}",
    "k LIKE 'k{n}%'",
    "k LIKE '%{n}'",
    "i % 9 = 1",
    "i <=> NULL",
    "d = DATE'2020-01-01' + {n}",
    "d < DATE'2020-01-03'",
    "year(d) = 2020 AND d > DATE'2020-08-{day:02}'",
    "p = {n}.25",
    "p > 198.5",
    "t = TIMESTAMP'2020-01-01 00:{day}:07'",
    "t < TIMESTAMP'2020-01-01 00:00:{day}'",
    "s.a = {n}",
    "s.a IS NULL",
    "b = TRUE",
    "part = 'b {day}'",
    "part <> 'b 1'",
    "upper(k) = 'K{n}'",
    "length(k) = 2",
    "coalesce(k, 'none') = 'none'",
    "f = {n}",
)
"""Conditions of which some are selective, some are indexed and some can be put into words."""

CHANGES = (
    "UPDATE {t} SET k = NULL, s = NULL, d = NULL WHERE id % 100 = 3",
    "INSERT INTO {t} SELECT id + 500, i + 500, k, d, p, t, s, b, f, part FROM {t} WHERE id < 40",
    "DELETE FROM {t} WHERE i = 30 OR k = 'k9'",
    "MERGE INTO {t} x USING (SELECT * FROM {t} WHERE i = 40) y ON x.k = y.k"
    " WHEN MATCHED THEN UPDATE SET x.k = 'k3' WHEN NOT MATCHED THEN INSERT *",
)
COLUMNS = ("k", "i", "d", "p", "t", "b", "part", "part, b", "s")


def condition(rng: random.Random, depth: int = 2) -> str:
    if depth == 0 or rng.random() < 0.4:
        numbers = {"n": rng.randint(0, 260), "m": rng.randint(0, 600), "day": rng.randint(1, 28)}
        return f"({rng.choice(ATOMS).format(**numbers)})"
    joined = f" {rng.choice(('AND', 'AND', 'OR'))} ".join(condition(rng, depth - 1) for _ in range(2))
    return f"({rng.choice(('', '', 'NOT '))}({joined}))"


def union(spark: Any, rng: random.Random, path: str, shape: str) -> str:
    """A statement of several scans, each with a condition of its own at a version of its own."""
    head = DeltaTable(path).version()
    for version in range(head + 1):
        frame = spark.read.format("delta").option("versionAsOf", version).load(path)
        frame.createOrReplaceTempView(f"version_{version}")
    parts = []
    for number in range(SCANS):
        version = rng.choice((head, head, rng.randint(0, head)))
        by = rng.choice(COLUMNS)
        selected, _, grouped = shape.format(by=by).partition(" | ")
        where = f"{condition(rng)} {grouped}"
        parts.append(f"SELECT concat_ws(' ', {number}, {selected}) FROM version_{version} WHERE {where}")
    return " UNION ALL ".join(parts)


SHAPES = {
    "files": "id, i, k, d, p, t, s.a, b, f, part",
    "counts": "count(*)",
    "groups": "to_json(struct({by})), count(*) | GROUP BY {by}",
    "rows": "id, i, k, d, p, t, b, f, part",
}
"""What is selected by the mode that may serve it."""


@pytest.mark.parametrize("mode", SHAPES)
def test_random_conditions_over_lag_and_deletion_vectors_have_the_same_answer(
    accelerated: Acceleration, path: str, mode: str
) -> None:
    spark, rng, before = accelerated._spark, random.Random(f"{SEED} {mode}"), accelerated.served(mode)
    spark.conf.set("spark.tailbit.serve", mode)
    for turn in range(TURNS):
        if turn % 2:
            spark.sql(rng.choice(CHANGES).format(t=f"delta.`{path}`"))
        statement = union(spark, rng, path, SHAPES[mode])
        assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False), statement
        if turn % 4 == 3:
            index_of(path, INDEXED)
    spark.conf.set("spark.tailbit.serve", "files,counts,groups")
    assert accelerated.served(mode) - before >= TURNS


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


def until_served(accelerated: Acceleration, statement: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rows_of(accelerated._spark, statement)
        if [scan.served for scan in accelerated.last()] == ["files"]:
            return
    pytest.fail(f"not served after {seconds} s: {accelerated.last()}")


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
        details, end = set[str](), time.monotonic() + 60
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
