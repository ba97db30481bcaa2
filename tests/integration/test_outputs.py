"""Answers in Spark: Delta view, DataFrame, data source; Spark's own read is the judge."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import lit

import tailbit
import tailbit.spark
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.every_feature import CASES
from support.hudi import unpack
from support.hudi_states import changes
from support.rows import canonical
from support.spark_session import session_settings
from support.tables import index_of
from tailbit.answer import Answer
from tailbit.errors import UnknownColumnError, UsageError


def spelled(rows: Any) -> list[str]:
    """Rows of Spark in one order."""
    return sorted(str(canonical(list(row))) for row in rows)


def asked(feature_table: str, case: str) -> Answer:
    return tailbit.open(feature_table).where(CASES[case][0], version=CASES[case][1])


def judged(spark: Any, feature_table: str, case: str) -> Any:
    """What Spark itself reads of the table."""
    predicate, version = CASES[case]
    reader = spark.read.format("delta")
    frame = (reader if version is None else reader.option("versionAsOf", version)).load(feature_table)
    return frame if predicate is None else frame.where(predicate)


Rows = dict[str, list[str]]


def collected(frames: dict[str, Any]) -> Rows:
    """The rows of a frame for each case, in one job."""
    cases = [frame.withColumn("case_", lit(case)) for case, frame in frames.items()]
    found: Rows = {case: [] for case in frames}
    for row in reduce(lambda above, below: above.union(below), cases).collect():
        *values, case = row
        found[case].append(str(canonical(values)))
    return {case: sorted(rows) for case, rows in found.items()}


@pytest.fixture(scope="module")
def expected(spark: Any, feature_table: str) -> tuple[Any, Rows]:
    """The schema of the table, and the rows of each case, as Spark reads them."""
    return judged(spark, feature_table, "all").schema, collected(
        {case: judged(spark, feature_table, case) for case in CASES}
    )


def same(frames: dict[str, Any], expected: tuple[Any, Rows]) -> None:
    """Rows, types and nullability are what Spark reads."""
    schema, rows = expected
    assert all(frame.schema == schema for frame in frames.values())
    assert collected(frames) == rows


def test_a_dataframe_has_the_rows_schema_and_nullability_that_spark_reads(
    spark: Any, feature_table: str, expected: tuple[Any, Rows]
) -> None:
    same({case: asked(feature_table, case).dataframe(spark) for case in CASES}, expected)


def test_a_dataframe_holds_to_the_time_zone_of_its_answer_in_any_session(
    spark: Any, feature_table: str, expected: tuple[Any, Rows]
) -> None:
    with session_settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        same({case: asked(feature_table, case).dataframe(spark) for case in CASES}, expected)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("session.timeZone", "Europe/Paris"), ("ansi.enabled", "false"), ("caseSensitive", "true")],
)
def test_rules_of_a_session_change_no_row_of_a_dataframe(
    spark: Any, tmp_path: Path, setting: str, value: str
) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"id": range(40)}))
    with session_settings(spark, {f"spark.sql.{setting}": value}):
        frame = tailbit.open(path).where("ID > 35").dataframe(spark)
        assert spelled(frame.collect()) == ["[36]", "[37]", "[38]", "[39]"]
        assert frame.schema == spark.read.format("delta").load(path).schema


def test_a_table_that_tracks_rows_is_shown_where_vectors_hide_some(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    tracked = "'delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true'"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES ({tracked})")
    for first in (0, 40, 80):
        spark.range(first, first + 40, 1, 1).write.format("delta").mode("append").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 7 = 2")
    index_of(path, ["id"])
    theirs = spark.read.format("delta").load(path).where("id < 30")
    ours = tailbit.open(path).where("id < 30").dataframe(spark)
    assert spelled(ours.collect()) == spelled(theirs.collect())


def test_a_dataframe_stays_at_its_version_and_has_the_columns_that_are_named(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    for first in (0, 10, 20):
        rows = pa.table({"k": range(first, first + 10), "a, b": [f"v{first}"] * 10, "s.d": [1] * 10})
        deltalake.write_deltalake(path, rows, mode="append")
    Drive(path, tmp_path / "elsewhere", ["k"]).drain()
    opened = tailbit.open(path, index=tmp_path / "elsewhere")
    few, most = opened.where("`a, b` = 'v10'"), opened.where("k >= ?", [5])
    tailbit.spark.register(spark)
    loaded = [load(spark, path), load(spark, path, version=1)]
    frames = [few.dataframe(spark, ["`s.d`", "`a, b`"]), most.dataframe(spark, ["K"])]
    assert [frame.columns for frame in frames] == [["s.d", "a, b"], ["k"]]
    deltalake.write_deltalake(path, pa.table({"k": [99], "a, b": ["v10"], "s.d": [1]}), mode="append")
    assert [frame.count() for frame in (*frames, *loaded)] == [10, 25, 31, 20]
    assert opened.where("`a, b` = 'v10'").dataframe(spark).count() == 11
    with pytest.raises(UnknownColumnError, match="no column k2"):
        few.dataframe(spark, ["k2"])
    with pytest.raises(UsageError, match="columns is 'k'"):
        few.dataframe(spark, "k")


def test_a_dataframe_has_the_rows_of_a_hudi_table_by_the_instant_of_its_answer(
    spark: Any, tmp_path: Path
) -> None:
    table = unpack("cow_v9_groups", tmp_path)
    for instant in changes(table):
        answer = tailbit.open(table.path).where(version=instant.requested)
        assert answer.dataframe(spark).count() == answer.count()


def test_answers_of_one_session_hold_to_their_own_options_of_stores(spark: Any, tmp_path: Path) -> None:
    """A table whose data files lie in another one is opened with an option that other tables lack."""
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"k": range(9)}))
    view = tailbit.open(path).where("k > 5").to_delta(tmp_path / "view")
    plain = tailbit.open(path).where("k > 4")
    outside = tailbit.open(view, storage_options={"allow_outside": "true"}).where("k > 6")
    tailbit.spark.register(spark)
    assert [answer.dataframe(spark).count() for answer in (plain, outside, plain, outside)] == [4, 2, 4, 2]
    with pytest.raises(PySparkException, match="outside"):
        load(spark, view).count()


def test_a_query_of_a_dataframe_of_a_vacuumed_version_names_the_one_that_would_work(
    spark: Any, table_path: str
) -> None:
    for first in (0, 10, 20):
        rows = pa.table({"k": range(first, first + 10), "v": [f"v{first}"] * 10})
        deltalake.write_deltalake(table_path, rows, mode="append")
    index_of(table_path, ["v"])
    table = deltalake.DeltaTable(table_path)
    table.delete("v = 'v10'")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    opened = tailbit.open(table_path)
    for lost in (None, "v = 'v10'", "k >= 5"):
        told = r"VacuumedFileError: .*of version 2 is gone: from version 3 on"
        with pytest.raises(PySparkException, match=told):
            opened.where(lost, version=2).dataframe(spark).collect()
    readable = opened.where("v IN ('v0', 'v20')", version=2).dataframe(spark)
    assert readable.count() == 20


def test_a_partition_time_without_a_zone_is_the_instant_that_the_answer_says(
    spark: Any, tmp_path: Path
) -> None:
    schema = pa.schema([("k", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    builder = DeltaBuilder(str(tmp_path / "t")).create(schema, ["at"])
    rows = pa.table({"k": pa.array([1], pa.int64())})
    builder.commit([builder.data_file(rows, partition={"at": "2013-07-01 12:00:00"})])
    answer = tailbit.open(builder.path).where("k = 1", partition_zone="America/New_York")
    (row,) = answer.dataframe(spark).selectExpr("string(at)").collect()
    (shown,) = (
        spark.read.format("delta").load(answer.to_delta(tmp_path / "v")).selectExpr("string(at)").collect()
    )
    assert row == shown == ("2013-07-01 16:00:00",)


def test_spark_reads_of_a_view_the_rows_schema_and_nullability_of_the_answer(
    spark: Any, feature_table: str, tmp_path: Path, expected: tuple[Any, Rows]
) -> None:
    views = {case: asked(feature_table, case).to_delta(tmp_path / case) for case in CASES}
    same({case: spark.read.format("delta").load(view) for case, view in views.items()}, expected)


def test_a_view_counts_and_bounds_its_own_rows_alone(spark: Any, tmp_path: Path) -> None:
    """Spark answers count, min and max by the log where statistics are tight."""
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"k": range(100)}))
    view = tailbit.open(path).where("k BETWEEN 10 AND 19").to_delta(tmp_path / "view")
    spark.read.format("delta").load(view).createOrReplaceTempView("ten")
    (row,) = spark.sql("SELECT count(*), min(k), max(k) FROM ten").collect()
    assert tuple(row) == (10, 10, 19)


def load(spark: Any, path: str, **options: Any) -> Any:
    return spark.read.format("tailbit").options(**options).load(path)


def test_format_tailbit_has_the_rows_schema_and_nullability_that_spark_reads(
    registered: Any, feature_table: str, expected: tuple[Any, Rows]
) -> None:
    frames = {}
    for case, (predicate, version) in CASES.items():
        options = {"where": predicate, "version": version}
        given = {name: value for name, value in options.items() if value is not None}
        frames[case] = load(registered, feature_table, **given)
    same(frames, expected)


def test_two_reads_of_one_session_keep_their_own_predicates(registered: Any, feature_table: str) -> None:
    """A data source that takes filters from Spark 4.2.0 loses rows here."""
    one, two = (load(registered, feature_table, where=f"id = {n}").select("id") for n in (6, 7))
    every = load(registered, feature_table).select("id")
    united = one.union(two).union(every.where("id = 6")).union(every.where("id > 9"))
    assert spelled(united.collect()) == ["[10]", "[11]", "[6]", "[6]", "[7]"]


def test_only_the_columns_that_are_asked_for_are_read(registered: Any, feature_table: str) -> None:
    frame = load(registered, feature_table, where="id = 6", columns="place.city, id")
    assert [tuple(row) for row in frame.collect()] == [("Oslo", 6)]
    assert frame.columns == ["place.city", "id"]


@pytest.mark.parametrize(
    ("options", "said"),
    [({"where": "idd = 1"}, "no column idd"), ({"wher": "id = 1"}, "no option wher")],
)
def test_a_wrong_option_is_named_when_the_table_is_loaded(
    registered: Any, feature_table: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        load(registered, feature_table, **options)


@pytest.mark.parametrize(
    "schema", ["id BIGINT", "id STRING", "v BIGINT, id BIGINT", "id BIGINT NOT NULL, v BIGINT"]
)
def test_a_schema_of_the_callers_own_is_refused(registered: Any, tmp_path: Path, schema: str) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"id": [1], "v": [2]}))
    with pytest.raises(Exception, match=r"the rows are struct<id:bigint,v:bigint>, not struct<"):
        registered.read.format("tailbit").schema(schema).load(path).collect()


def test_a_time_means_what_it_means_in_the_session(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    at = pa.array([0, 3_600_000_000 * 6], pa.timestamp("us", "UTC"))
    deltalake.write_deltalake(path, pa.table({"at": at}))
    where = "at < '1970-01-01 05:00:00'"
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        tailbit.spark.register(spark)
        theirs = spark.read.format("delta").load(path).where(where).count()
        assert load(spark, path, where=where).count() == theirs == 0
        assert load(spark, path, where=where, timeZone="UTC").count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        tailbit.spark.register(spark)


@pytest.mark.parametrize(
    ("statement", "instead"),
    [
        ("SELECT tailbit_count('{path}', 'id < 6', 2)", "tailbit_count is gone\\s+Ask SELECT count"),
        ("SELECT 1 + tailbit_count('{path}')", "tailbit_count is gone\\s+Ask SELECT count"),
        ("SELECT * FROM tailbit_rows('{path}')", "tailbit_rows is gone\\s+Read spark.read.format"),
        ("SELECT * FROM tailbit_rows('{path}', version => 1)", "tailbit_rows is gone\\s+Read spark.read"),
        ("SELECT * FROM tailbit_facets('{path}', 'name', 'id > 1')", "GROUP BY of the Delta table"),
        ("SELECT * FROM (SELECT 'n' c) s, LATERAL tailbit_facets('{path}', s.c)", "tailbit_facets is gone"),
    ],
)
def test_a_function_that_is_gone_says_what_to_use_instead(
    registered: Any, feature_table: str, statement: str, instead: str
) -> None:
    with pytest.raises(PySparkException, match=rf"(?s)UsageError: .*{instead}"):
        registered.sql(statement.format(path=feature_table)).collect()
