"""Index statements in a Spark session: its catalogs find the tables, its time zone is that of terms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

import tailbit
import tailbit.spark
from tailbit.errors import NoIndexError, StatementError


@pytest.fixture
def trips(spark: Any, tmp_path: Path) -> Iterator[str]:
    """A table of the session's catalog, at a path of its own."""
    path = str(tmp_path / "data of trips")
    spark.sql(f"CREATE TABLE trips (rider STRING, at TIMESTAMP) USING delta LOCATION '{path}'")
    spark.sql("INSERT INTO trips VALUES ('Ann', TIMESTAMP'2024-01-01 20:00:00'), ('BO', NULL), ('bo', NULL)")
    yield path
    spark.sql("DROP TABLE trips")


def test_a_statement_names_its_table_as_the_catalog_does(spark: Any, trips: str) -> None:
    created = tailbit.spark.sql(
        spark, "CREATE INDEX i ON default.trips USING bitmap (lower(rider))"
    ).collect()
    assert [(row.name, row.terms, row.state) for row in created] == [("i", ["lower(rider)"], "complete")]
    answer = tailbit.open(trips).where("lower(rider) = 'bo'")
    assert answer.count() == spark.table("trips").where("lower(rider) = 'bo'").count() == 2
    assert answer.files_scanned == 0
    shown = tailbit.spark.sql(spark, "SHOW INDEXES FROM trips")
    assert [row.name for row in shown.collect()] == ["i"]
    assert shown.columns[:4] == ["name", "kind", "terms", "state"]
    assert tailbit.spark.sql(spark, "DESCRIBE INDEX i ON trips").first().bytes > 0
    with pytest.raises(AnalysisException, match="default"):
        tailbit.spark.sql(spark, "SHOW INDEXES FROM default.nothing")
    with pytest.raises(NoIndexError):
        tailbit.spark.sql(spark, "SHOW INDEXES FROM trips", index=f"{trips}/apart")


def test_the_time_zone_of_the_session_is_that_of_a_term(spark: Any, trips: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        (row,) = tailbit.spark.sql(spark, f"CREATE INDEX i ON delta.`{trips}` (hour(at))").collect()
        assert row.zone == "Asia/Kathmandu"
        hour = spark.sql("SELECT hour(at) FROM trips WHERE rider = 'Ann'").first()[0]
        answer = tailbit.open(trips).where(f"hour(at) = {hour}", zone="Asia/Kathmandu")
        assert (answer.count(), answer.files_scanned) == (1, 0)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_what_is_no_index_statement_is_sparks_own(spark: Any, trips: str) -> None:
    assert tailbit.spark.sql(spark, "SELECT count(*) FROM trips").first()[0] == 3
    assert tailbit.spark.sql(spark, "SHOW TABLES").where("tableName = 'trips'").count() == 1
    with pytest.raises(StatementError, match="at character 12"):
        tailbit.spark.sql(spark, "SHOW INDEX OF trips")


def test_an_index_dropped_by_a_statement_leaves_a_frame_without_rows(spark: Any, trips: str) -> None:
    for column in ("rider", "at"):
        tailbit.spark.sql(spark, f"CREATE INDEX by_{column} ON trips ({column})")
    assert tailbit.spark.sql(spark, "DROP INDEX by_at ON trips").count() == 0
    assert [index.name for index in tailbit.open(trips).indexes()] == ["by_rider"]
