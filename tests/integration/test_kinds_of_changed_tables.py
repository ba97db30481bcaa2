"""Rows are changed in tables and by sources of every kind; Delta's own statements on a copy judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions

import tailbit
import tailbit.spark
from support.row_changes.copy import REFUSALS
from support.tables import copied, index_of
from tailbit.errors import UsageError
from tailbit.spark.writing.target import Target

pytestmark = pytest.mark.spark

VECTORS = "'delta.enableDeletionVectors' = 'true'"
EVERYTHING = (
    f"{VECTORS}, 'delta.columnMapping.mode' = 'name', 'delta.checkpointPolicy' = 'v2',"
    " 'delta.checkpointInterval' = '2', 'delta.enableInCommitTimestamps' = 'true',"
    " 'delta.feature.allowColumnDefaults' = 'supported'"
)


def made(spark: Any, path: str, columns: str, rows: str, more: str = "", properties: str = VECTORS) -> str:
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta {more} TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO delta.`{path}` {rows}")
    return path


def rows_of(spark: Any, path: str) -> list[str]:
    return sorted(map(repr, spark.read.format("delta").load(path).collect()))


def merged(spark: Any, path: str, rows: Any, on: str, then: str) -> Any:
    return spark.sql(
        f"MERGE INTO delta.`{path}` t USING {{rows}} s ON t.{on} = s.{on} WHEN MATCHED THEN {then}", rows=rows
    ).first()


EVERY = "UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


@pytest.fixture
def numbers(spark: Any, tmp_path: Path) -> str:
    """Twelve rows of numbers; k and d are indexed."""
    path = made(
        spark,
        str(tmp_path / "numbers"),
        "k INT, d DECIMAL(9,2), x DOUBLE, v STRING",
        "SELECT id, id / 10, id / 10, 'old' FROM range(12)",
    )
    index_of(path, ["k", "d"])
    return path


@pytest.fixture
def named(spark: Any, numbers: str) -> Iterator[str]:
    """The numbers as a table of the catalog."""
    spark.sql(f"CREATE TABLE some_numbers USING delta LOCATION '{numbers}'")
    yield "some_numbers"
    spark.sql("DROP TABLE some_numbers")


def test_a_table_with_every_feature_is_changed_as_merge_and_delete_change_it(
    spark: Any, tmp_path: Path
) -> None:
    path = made(
        spark,
        str(tmp_path / "t"),
        "id BIGINT NOT NULL, name STRING DEFAULT 'none', n INT,"
        " half BIGINT GENERATED ALWAYS AS (id DIV 2), `a b` INT",
        "(id, n, `a b`) SELECT id, id % 5, id FROM range(30)",
        "CLUSTER BY (n)",
        EVERYTHING,
    )
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT few CHECK (n < 100)")
    index_of(path, ["id", "n"])
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN `a b` TO `c d`")
    twin = copied(path)
    for first in (20, 28):
        rows = spark.range(first, first + 10).selectExpr(
            "id", "'new' AS name", "CAST(id % 7 AS INT) AS n", "id DIV 2 AS half", "0 AS `c d`"
        )
        done, theirs = (
            tailbit.spark.upsert(path, rows, "id", spark=spark),
            merged(spark, twin, rows, "id", EVERY),
        )
        assert (done.by, done.updated, done.inserted) == (
            "index",
            theirs.num_updated_rows,
            theirs.num_inserted_rows,
        )
        which = f"n = 3 AND id < {first}"
        erased = tailbit.spark.delete(path, which, spark=spark)
        assert (erased.by, erased.rows) == (
            "index",
            spark.sql(f"DELETE FROM delta.`{twin}` WHERE {which}").first()[0],
        )
        assert rows_of(spark, path) == rows_of(spark, twin)
    lacking = spark.range(35, 37).selectExpr("id", "CAST(1 AS INT) AS n")
    done = tailbit.spark.upsert(path, lacking, "id", set=["n"], spark=spark)
    assert (done.by, done.inserted) == ("delta", 0)
    for wrong in ("CAST(NULL AS BIGINT)", "id"):
        rows = spark.range(50, 51).selectExpr(
            f"{wrong} AS id", "'new' AS name", "100 AS n", "id DIV 2 AS half", "0 AS `c d`"
        )
        with pytest.raises((*REFUSALS, UsageError)):
            tailbit.spark.upsert(path, rows, "id", spark=spark)
    index_of(path)
    assert (
        tailbit.open(path).where("n = 3").count()
        == spark.sql(f"SELECT * FROM delta.`{path}` WHERE n = 3").count()
    )


@pytest.mark.parametrize(
    ("on", "keys"),
    [
        ("d", pa.array([0.104, 0.5, 0.7])),
        ("d", pa.array(np.array([0.1, 0.25, 0.5], np.float32))),
        ("d", pa.array([0, 1])),
        ("k", pa.array([1.5, 2.0, 1e300])),
        ("k", pa.array([1 << 40, 3])),
        ("x", pa.array([0.3]).cast(pa.decimal128(3, 1))),
        ("x", pa.array([0, 1, (1 << 53) + 1])),
    ],
    ids=["double", "float", "whole", "fraction", "wide", "decimal", "beyond double"],
)
def test_keys_that_are_other_numbers_are_those_that_merge_finds(
    spark: Any, numbers: str, on: str, keys: pa.Array
) -> None:
    given, twin = pa.table({on: keys}), copied(numbers)
    done = tailbit.spark.delete(numbers, given, spark=spark)
    theirs = merged(spark, twin, spark.createDataFrame(given), on, "DELETE")
    assert done.rows == theirs.num_deleted_rows
    assert rows_of(spark, numbers) == rows_of(spark, twin)


def test_the_version_that_deltas_statement_commits_is_told_whatever_the_session_committed_before(
    spark: Any, tmp_path: Path
) -> None:
    plain = "'delta.enableDeletionVectors' = 'false'"
    one, other = (made(spark, str(tmp_path / name), "k INT", "SELECT 1", "", plain) for name in "ab")
    assert tailbit.spark.delete(one, "k = 1", spark=spark).version == 2
    assert tailbit.spark.delete(other, "k = 1", spark=spark).version == 2
    assert tailbit.spark.delete(other, "k = 1", spark=spark).version is None
    assert spark.conf.get("spark.databricks.delta.lastCommitVersionInSession") == "2"


def test_a_table_is_found_by_a_name_with_its_catalog(spark: Any, named: str) -> None:
    for name in (f"spark_catalog.default.{named}", f"SPARK_CATALOG.`default`.`{named}`"):
        assert tailbit.spark.delete(name, [3], on="k", spark=spark, dry_run=True).rows == 1
    assert tailbit.spark.delete(f"spark_catalog.default.{named}", "k = 3", spark=spark).rows == 1
    for name in ("spark_catalog.default.nowhere", "nowhere.default.t", "a.b.c.d"):
        with pytest.raises(REFUSALS):
            tailbit.spark.delete(name, "k = 3", spark=spark)


def test_a_view_is_no_target(spark: Any, named: str, numbers: str) -> None:
    """A temporary view hides the table of its name, in which nothing may be deleted then."""
    before = rows_of(spark, numbers)
    spark.sql(f"CREATE TEMPORARY VIEW {named} AS SELECT * FROM delta.`{numbers}` WHERE k > 5")
    spark.sql(f"CREATE VIEW kept_view AS SELECT * FROM delta.`{numbers}`")
    try:
        for view in (named, "kept_view", "default.kept_view", "spark_catalog.default.kept_view"):
            with pytest.raises(UsageError, match="is a view"):
                tailbit.spark.delete(view, "k = 7", spark=spark)
            with pytest.raises(UsageError, match="is a view"):
                tailbit.spark.upsert(view, [{"k": 1, "d": 0, "x": 0.0, "v": ""}], "k", spark=spark)
    finally:
        spark.catalog.dropTempView(named)
        spark.sql("DROP VIEW kept_view")
    assert rows_of(spark, numbers) == before


def test_a_column_named_as_the_database_hides_no_other_column(spark: Any, tmp_path: Path) -> None:
    """To Spark `default.pair.id` is column `id` of a table, before it is a field of column `default`."""
    columns = "id INT, `default` STRUCT<pair: STRUCT<id: INT>>"
    rows = "SELECT 1, named_struct('pair', named_struct('id', 2))"
    path = made(spark, str(tmp_path / "pair"), columns, rows)
    index_of(path, ["id"])
    spark.sql(f"CREATE TABLE pair USING delta LOCATION '{path}'")
    try:
        done = tailbit.spark.delete("pair", "default.pair.id = 2", spark=spark)
    finally:
        spark.sql("DROP TABLE pair")
    assert (done.by, done.rows) == ("delta", 0)
    assert "named as the table or its database" in str(done.reason)


def test_a_key_column_named_twice_is_refused(spark: Any, numbers: str) -> None:
    rows = [{"k": 1, "d": 0, "x": 0.0, "v": ""}]
    for on in (["k", "k"], ["k", "K"]):
        with pytest.raises(UsageError, match="named twice"):
            tailbit.spark.upsert(numbers, rows, on, spark=spark)
    for call in (
        lambda: tailbit.spark.delete(numbers, [(1, 1)], ["k", "k"], spark=spark),
        lambda: tailbit.open(numbers).locate([(1, 1)], ["k", "k"]),
    ):
        with pytest.raises(UsageError, match="named twice"):
            call()


def test_a_source_that_is_another_at_each_reading_is_read_once(spark: Any, numbers: str) -> None:
    """Keys are located and rows written from one reading: no key stands twice, whatever is drawn."""
    drawn = "CAST(id * 2 + round(rand()) AS INT) AS k"
    rows = spark.range(8).selectExpr(
        drawn, "0 AS d", "rand() AS x", "CAST(current_timestamp() AS STRING) AS v"
    )
    done = tailbit.spark.upsert(
        numbers, rows.selectExpr("k", "CAST(d AS DECIMAL(9,2)) AS d", "x", "v"), "k", spark=spark
    )
    assert (done.by, (done.updated or 0) + (done.inserted or 0)) == ("index", 8)
    after = spark.read.format("delta").load(numbers)
    assert after.count() == after.select("k").distinct().count() == 12 + (done.inserted or 0)
    assert after.where("v <> 'old'").count() == 8
    assert after.where("v <> 'old'").select("v").distinct().count() == 1


def test_a_source_that_reads_the_table_is_read_before_it_changes(spark: Any, numbers: str) -> None:
    twin = copied(numbers)
    for _ in range(2):
        sources = [
            spark.read.format("delta").load(path).where("k < 6").withColumn("k", functions.expr("k + 1"))
            for path in (numbers, twin)
        ]
        done = tailbit.spark.upsert(numbers, sources[0], "k", spark=spark)
        theirs = merged(spark, twin, sources[1], "k", EVERY)
        assert (done.updated, done.inserted) == (theirs.num_updated_rows, theirs.num_inserted_rows)
        assert rows_of(spark, numbers) == rows_of(spark, twin)


@pytest.mark.parametrize("condition", ["n BETWEEN 3 AND 3", "nvl(n, 0) = 3"])
def test_a_predicate_that_stands_for_another_is_read_by_the_detection_of_conflicts(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    path = made(spark, str(tmp_path / "t"), "k INT, n INT", "VALUES (1, 3), (2, 4)", "PARTITIONED BY (n)")
    begin = Target.begin

    def overtaken(self: Target) -> Any:
        changes = begin(self)
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (3, 4)")
        return changes

    monkeypatch.setattr(Target, "begin", overtaken)
    assert tailbit.spark.delete(path, condition, spark=spark).rows == 1
    assert rows_of(spark, path) == ["Row(k=2, n=4)", "Row(k=3, n=4)"]


class _Killed(BaseException):
    """The end of a process."""


class _Dying:
    """The changes of a transaction that end before or after a step."""

    def __init__(self, changes: Any, step: str, *, after: bool) -> None:
        self._changes, self._step, self._after = changes, step, after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._changes, name)
        if name != self._step:
            return method

        def dying(*arguments: Any) -> None:
            if self._after:
                method(*arguments)
            raise _Killed

        return dying


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", ["delete", "append", "commitUpsert", "commitDelete"])
def test_a_change_that_ends_anywhere_is_made_once_by_its_replay(
    spark: Any, numbers: str, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    before, begin = rows_of(spark, numbers), Target.begin
    rows = [{"k": k, "d": 1, "x": 1.0, "v": "new"} for k in (3, 99)]

    def change() -> Any:
        if step == "commitDelete":
            return tailbit.spark.delete(numbers, "k = 3", spark=spark, application=("once", 1))
        return tailbit.spark.upsert(numbers, rows, "k", spark=spark, application=("once", 1))

    with monkeypatch.context() as patched:
        patched.setattr(Target, "begin", lambda self: _Dying(begin(self), step, after=after))
        with pytest.raises(_Killed):
            change()
    is_made = after and step.startswith("commit")
    assert (rows_of(spark, numbers) == before) != is_made
    assert (change().version is None) == is_made
    assert change().version is None
    kept = [k for k in range(12) if k != 3]
    found = sorted(row.k for row in spark.read.format("delta").load(numbers).select("k").collect())
    assert found == (kept if step == "commitDelete" else sorted([*kept, 3, 99]))
