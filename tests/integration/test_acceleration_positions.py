"""Files are read at the positions of the index alone, and answer as Spark does without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.acceleration import patiently_accelerated, rows_of
from support.tables import index_of
from tailbit.spark.acceleration import Acceleration

ROWS, GROUP = 1200, 100
SMALL = {
    "parquet.page.row.count.limit": "10",
    "parquet.block.row.count.limit": str(GROUP),
}
"""Several pages a row group, several row groups a file."""

SPLIT = {"spark.sql.files.maxPartitionBytes": "4000", "spark.sql.files.openCostInBytes": "100"}
"""Several splits a file."""


@pytest.fixture(scope="module")
def accelerated(spark: Any) -> Iterator[Acceleration]:
    with patiently_accelerated(spark, ("positions",)) as acceleration:
        yield acceleration


@contextmanager
def settings(spark: Any, given: dict[str, str]) -> Iterator[None]:
    """Set settings of a session until the end of the block."""
    before = {name: spark.conf.get(name, None) for name in given}
    for name, value in given.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture(scope="module")
def table(spark: Any, accelerated: Acceleration, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three files of renamed columns with deletion vectors, indexed, and a commit that is not covered."""
    path = str(tmp_path_factory.mktemp("positions") / "t %41")
    with settings(spark, SMALL):
        frame = spark.range(ROWS).selectExpr(
            "id",
            "concat('k', id * 7 % 200) was",
            "CASE id % 50 WHEN 0 THEN 'NaN' WHEN 1 THEN -0.0 ELSE id % 10 END * 1.0D f",
            "named_struct('a', id % 300, 'l', array(id)) s",
            "concat('p ', id % 2) part",
        )
        properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
        frame.repartitionByRange(3, "id").write.format("delta").options(**properties).save(path)
        spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN was TO k")
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (1, 3, 600)")
        index_of(path, ["k", "s.a", "f"])
        more = f"SELECT id + 5000, k, f, s, part FROM delta.`{path}` WHERE id < 300"
        spark.sql(f"INSERT INTO delta.`{path}` {more}")
        yield f"delta.`{path}`"


def scanned(accelerated: Acceleration, statement: str, rows: int | None = None) -> int:
    """The number of rows out of the only scan of a statement, which Spark answers so without the rule too."""
    spark, before = accelerated._spark, accelerated.served("positions")
    with settings(spark, SPLIT):
        expected = rows_of(spark, statement, enabled=False)
        frame = spark.sql(statement)
        assert sorted(map(str, frame.collect())) == expected
    assert rows is None or len(expected) == rows
    assert accelerated.served("positions") == before + 1, accelerated.last()
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    assert leaves.size() == 1
    return int(leaves.apply(0).metrics().apply("numOutputRows").value())


COVERED = {
    "SELECT * FROM {t} VERSION AS OF 2 WHERE k = 'k77'": 6,
    "SELECT id, _metadata.row_index, _metadata.file_name FROM {t} VERSION AS OF 2 WHERE s.a = 3": 3,
    "SELECT id, input_file_name() FROM {t} VERSION AS OF 2 WHERE k IN ('k1', 'k2') AND id > 7": 12,
    "SELECT k, count(*), sum(f), max(s.l[0]) FROM {t} VERSION AS OF 2 WHERE k LIKE 'k19%' GROUP BY k": 11,
    "SELECT id FROM {t} VERSION AS OF 2 WHERE s.a = 5 OR k = 'k90'": 10,
    "SELECT id FROM {t} VERSION AS OF 1 WHERE s.a = 0 AND part = 'p 0'": 4,
}
"""Statements and the rows of their answer."""


@pytest.mark.parametrize("number", range(len(COVERED)))
def test_no_row_comes_out_of_a_scan_but_those_at_the_positions(
    accelerated: Acceleration, table: str, number: int
) -> None:
    statement, rows = list(COVERED.items())[number]
    out = scanned(accelerated, statement.format(t=table), rows)
    (scan,) = accelerated.last()
    assert scan.positions is not None
    assert out <= scan.positions + 3 <= ROWS // 10
    spark = accelerated._spark
    with settings(spark, {"spark.sql.parquet.enableVectorizedReader": "false"}):
        assert scanned(accelerated, statement.format(t=table), rows) <= scan.positions + 3


def test_files_that_are_not_covered_are_read_whole(accelerated: Acceleration, table: str) -> None:
    out = scanned(accelerated, f"SELECT id, f FROM {table} WHERE k = 'k77'", 8)
    assert 200 < out < 320


def test_filters_of_floating_point_are_left_as_spark_pushes_them(
    accelerated: Acceleration, table: str
) -> None:
    spark = accelerated._spark
    for condition in ("f = 0.0", "f > 8", "f <=> double('NaN')", "f IS NULL OR id < 0"):
        statement = f"SELECT id, f FROM {table} WHERE k LIKE 'k1%' AND ({condition})"
        assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
        (scan,) = accelerated.last()
        assert (scan.served, scan.no_positions) == (None, "floating-point")


def test_where_delta_counts_rows_to_know_their_places_files_are_read_whole(
    accelerated: Acceleration, table: str
) -> None:
    spark, statement = accelerated._spark, f"SELECT id FROM {table} VERSION AS OF 2 WHERE k = 'k77'"
    with settings(spark, {"spark.databricks.delta.deletionVectors.useMetadataRowIndex": "false"}):
        assert len(rows_of(spark, statement)) == 6
        (scan,) = accelerated.last()
        assert (scan.served, scan.no_positions) == (None, "no-row-index")
    assert scanned(accelerated, statement, 6) < ROWS // 10


def test_a_file_without_a_list_of_pages_is_read_whole(accelerated: Acceleration, tmp_path: Path) -> None:
    for number in range(2):
        ids = list(range(number * 100, number * 100 + 100))
        columns = pa.table({"k": [f"k{id_ % 40}" for id_ in ids], "id": ids})
        pq.write_table(columns, tmp_path / f"{number}.parquet", row_group_size=50, write_page_index=False)
    accelerated._spark.sql(f"CONVERT TO DELTA parquet.`{tmp_path}`")
    index_of(tmp_path, ["k"])
    assert scanned(accelerated, f"SELECT * FROM delta.`{tmp_path}` WHERE k = 'k7'", 5) == 200


def test_explain_names_the_rows_of_the_index(accelerated: Acceleration, table: str) -> None:
    spark = accelerated._spark
    with settings(
        spark, {"spark.sql.maxPlanStringLength": "10000", "spark.sql.debug.maxToStringFields": "100"}
    ):
        statement = f"EXPLAIN SELECT * FROM {table} WHERE k = 'k78'"
        assert "IndexedRows" in rows_of(spark, statement)[0]
        assert "IndexedRows" not in rows_of(spark, statement, enabled=False)[0]


@pytest.mark.parametrize("adaptive", ["false", "true"])
def test_of_200_files_the_three_that_hold_a_value_are_read_and_of_these_its_rows(
    accelerated: Acceleration, tmp_path: Path, adaptive: str
) -> None:
    spark, path = accelerated._spark, str(tmp_path / "many")
    # Every file has lesser and greater values, so that statistics leave all of them.
    key = "CASE WHEN id IN (5, 705, 1505) THEN 'm' WHEN id % 2 = 0 THEN 'a' ELSE 'z' END k"
    spark.range(0, 2000, 1, 200).selectExpr("id", key).write.format("delta").save(path)
    index_of(path, ["k"])
    statement, read = f"SELECT * FROM delta.`{path}` WHERE k = 'm'", {}
    for mode in ("none", "files", "positions"):
        with settings(spark, {"spark.tailbit.serve": mode, "spark.sql.adaptive.enabled": adaptive}):
            frame = spark.sql(statement)
            assert len(frame.collect()) == 3
        metrics = frame._jdf.queryExecution().executedPlan().collectLeaves().apply(0).metrics()
        read[mode] = tuple(metrics.apply(name).value() for name in ("numFiles", "numOutputRows"))
    assert read == {"none": (200, 30), "files": (3, 30), "positions": (3, 3)}
