"""Counts and rows in the place of scans, before Delta lists files: as Spark answers without them."""

from __future__ import annotations

from typing import Any

import pytest

from support.acceleration import rows_of
from support.tables import index_of
from tailbit.spark.acceleration import AcceleratedScan, Acceleration


@pytest.fixture(scope="module")
def table(spark: Any, accelerated: Acceleration, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eight files in two partitions, with deletion vectors, and an index that covers all of them."""
    path = str(tmp_path_factory.mktemp("early") / "table")
    frame = spark.range(800).selectExpr(
        "id",
        "cast(id AS int) i",
        "if(id % 9 = 0, NULL, concat('k', id % 200)) k",
        "date_add(DATE'2020-01-01', cast(id % 100 AS int)) d",
        "cast(id AS decimal(20,4)) p",
        "timestamp_seconds(1600000000 + id) t",
        "cast(id AS double) f",
        "cast(concat('x', id) AS binary) raw",
        "named_struct('a', id) st",
        "id % 2 part",
    )
    writer = frame.repartition(4).write.format("delta").partitionBy("part")
    writer.option("delta.enableDeletionVectors", "true").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 17")
    index_of(path, ["i", "k", "d", "p", "t"])
    return path


def both(accelerated: Acceleration, statement: str, path: str) -> list[AcceleratedScan]:
    """What became of the scans of a statement, whose rows are the same without the rules."""
    spark, statement = accelerated._spark, statement.format(t=f"delta.`{path}`")
    assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
    return accelerated.last()


SERVED = {
    "SELECT id, i, k, d, p, t, f, raw, part FROM {t} WHERE k = 'k19'": "rows",
    "SELECT k, i + 1 FROM {t} WHERE k = 'k20' AND id % 3 = 0 AND part = 0": "rows",
    "SELECT sum(i), max(f) FROM {t} WHERE k IN ('k21', 'k22')": "rows",
    "SELECT f FROM {t} VERSION AS OF 0 WHERE k = 'k17' ORDER BY f DESC LIMIT 2": "rows",
    "SELECT x.id, y.n FROM (SELECT * FROM {t} WHERE i = 25) x, (SELECT 1 n) y": "rows",
    "SELECT id FROM {t} WHERE k = 'none'": "rows",
    "SELECT count(*) FROM {t} WHERE k = 'k23' AND part = 1": "counts",
    "SELECT min(k), max(d), count(DISTINCT k), count(k), max(p), min(t) FROM {t} WHERE i < 50": "counts",
    "SELECT min(k), max(i), count(DISTINCT d) FROM {t} WHERE k = 'none'": "counts",
    "SELECT k, max(i) - min(i), count(*) FROM {t} WHERE d = DATE'2020-02-02' GROUP BY k": "groups",
    "SELECT count(DISTINCT k), count(DISTINCT d), min(i) FROM {t}": "counts",
    "SELECT k, count(*) FROM {t} GROUP BY k": "groups",
    "SELECT part, count(*), max(d) FROM {t} WHERE i < 300 GROUP BY part HAVING count(*) > 1": "groups",
}


@pytest.mark.parametrize("number", range(len(SERVED)))
def test_a_statement_with_one_scan_is_answered_without_it(
    accelerated: Acceleration, table: str, number: int
) -> None:
    statement, mode = [*SERVED.items()][number]
    # The second time it is known which columns have an index.
    for _ in range(2):
        (scan,) = both(accelerated, statement, table)
        assert (scan.served, scan.early) == (mode, True), scan


def test_scans_of_one_statement_share_the_time_for_rows(accelerated: Acceleration, table: str) -> None:
    statement = "SELECT id FROM {t} WHERE k = 'k19' UNION ALL SELECT id FROM {t} WHERE k = 'k20'"
    assert [scan.served for scan in both(accelerated, statement, table)] == ["rows", "rows"]


def test_what_delta_lists_of_another_table_takes_no_note_away(
    accelerated: Acceleration, spark: Any, table: str, tmp_path: Any
) -> None:
    """Delta lists files by queries of its own, which the same rules look at."""
    path = str(tmp_path / "other")
    spark.range(90).selectExpr("id", "id % 9 n").repartition(3).write.format("delta").save(path)
    statement = f"SELECT x.id, y.n FROM {{t}} x JOIN delta.`{path}` y ON x.id = y.id WHERE x.k = 'k33'"
    before = accelerated.served("rows")
    scans = both(accelerated, statement, table)
    assert [(scan.served, scan.reason, scan.early) for scan in scans] == [
        ("rows", None, True),
        (None, "no-index", False),
    ]
    assert accelerated.served("rows") == before + 1


LEFT = {
    "SELECT id FROM {t} WHERE k = 'k29' AND f > 3": "floating-point",
    "SELECT st FROM {t} WHERE k = 'k29'": "not-in-words",
    "SELECT id FROM {t} WHERE i < 300 AND k <> 'a'": "many-rows",
    "SELECT id FROM {t} WHERE i < 790 AND k <> 'a'": "many-rows",
    "SELECT id, _metadata.row_index FROM {t} WHERE k = 'k29'": "not-in-words",
    "SELECT id, input_file_name() <> '' FROM {t} WHERE k = 'k29'": None,
}


@pytest.mark.parametrize("number", range(len(LEFT)))
def test_rows_that_might_differ_or_are_too_many_are_read_by_spark(
    accelerated: Acceleration, table: str, number: int
) -> None:
    statement, reason = [*LEFT.items()][number]
    accelerated._spark.conf.set("spark.tailbit.mostRows", "100")
    (scan,) = both(accelerated, statement, table)
    accelerated._spark.conf.unset("spark.tailbit.mostRows")
    assert scan.served in ("files", None)
    assert scan.no_rows == reason


def test_two_scans_of_a_table_are_both_of_the_version_that_delta_pins(
    accelerated: Acceleration, table: str
) -> None:
    """Else one might be answered at a version before a commit, and the other one after it."""
    scans = both(accelerated, "SELECT x.id FROM {t} x JOIN {t} y ON x.i = y.i WHERE x.k = 'k31'", table)
    assert {(scan.version, scan.early) for scan in scans} == {(1, False)}
    plan = "SELECT (SELECT count(*) FROM {t} WHERE k = 'k32'), count(*) FROM {t} WHERE k = 'k32'"
    assert [scan.served for scan in both(accelerated, plan, table)] == ["counts", "counts"]


def test_what_writes_reads_as_without_the_early_rule(
    accelerated: Acceleration, spark: Any, table: str
) -> None:
    """A transaction must remember what it has read, for conflicts with others."""
    target = f"{table} target"
    spark.sql(
        f"CREATE TABLE delta.`{target}` USING delta AS SELECT id, k FROM delta.`{table}` WHERE k = 'k41'"
    )
    spark.sql(f"INSERT INTO delta.`{target}` SELECT id, k FROM delta.`{table}` WHERE k = 'k42'")
    spark.sql(f"INSERT INTO delta.`{target}` SELECT count(*), 'n' FROM delta.`{table}` WHERE k = 'k42'")
    spark.conf.set("spark.tailbit.enabled", "false")
    written = sorted(tuple(row) for row in spark.read.format("delta").load(target).collect())
    there = spark.sql(f"SELECT id, k FROM delta.`{table}` WHERE k IN ('k41', 'k42')").collect()
    number = sum(row.k == "k42" for row in there)
    spark.conf.set("spark.tailbit.enabled", "true")
    assert written == sorted([*(tuple(row) for row in there), (number, "n")])
