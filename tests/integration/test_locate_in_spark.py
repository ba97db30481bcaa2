"""Executors tell where the keys of a DataFrame live, as `locate` of an opened table does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException

import tailbit
import tailbit.spark
from support.tables import index_of
from tailbit.errors import UsageError, VersionNotFoundError

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(tmp_path: Path) -> str:
    """Three files of orders, two of them indexed; keys 5 to 9 stand in two files."""
    path = str(tmp_path / "orders")
    for number in range(3):
        rows = {"id": range(5 * number, 5 * number + 10), "shop": [f"s{row % 3}" for row in range(10)]}
        write_deltalake(path, pa.table(rows), mode="append")
        if number == 1:
            index_of(path, ["id"])
    return path


def rows(found: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, found), key=str)


def test_executors_locate_the_keys_of_a_frame_at_the_version_of_the_call(spark: Any, orders: str) -> None:
    keys = spark.range(0, 40, 2, 3).unionAll(spark.range(3)).withColumnRenamed("id", "ID")
    found = tailbit.spark.locate(orders, keys, on="id")
    older = tailbit.spark.locate(orders, keys.toDF("id"), version=0)
    write_deltalake(orders, pa.table({"id": [38], "shop": ["late"]}), mode="append")
    for frame, version in ((found, 2), (older, 0)):
        expected = tailbit.open(orders).locate([*range(0, 40, 2), 1], on="id", version=version)
        assert frame.columns == expected.column_names
        assert rows(frame.collect()) == rows(row.values() for row in expected.to_pylist())


def test_keys_of_several_columns_are_located_in_a_table_of_the_catalog(spark: Any, orders: str) -> None:
    spark.sql(f"CREATE TABLE located_orders USING delta LOCATION '{orders}'")
    keys = spark.createDataFrame([(1, "s1"), (1, "s2")], "id BIGINT, shop STRING")
    try:
        found = rows(tailbit.spark.locate("located_orders", keys).collect())
    finally:
        spark.sql("DROP TABLE located_orders")
    assert [(id_, shop, position) for id_, shop, _, position in found] == [(1, "s1", 1), (1, "s2", None)]


def test_what_is_no_frame_of_keys_is_refused_by_name(spark: Any, orders: str) -> None:
    with pytest.raises(UsageError, match="no Spark DataFrame"):
        tailbit.spark.locate(orders, [1, 2], on="id")  # type: ignore[arg-type]
    for on, reason in (("shop", "no column shop"), (["id", "ID"], "named twice")):
        with pytest.raises(UsageError, match=reason):
            tailbit.spark.locate(orders, spark.range(2), on=on)
    with pytest.raises(VersionNotFoundError):
        tailbit.spark.locate(orders, spark.range(2), version=9)
    with pytest.raises(PySparkException, match="a key has NULL in id"):
        tailbit.spark.locate(orders, spark.sql("SELECT CAST(NULL AS BIGINT) AS id")).collect()


def test_sql_locates_the_keys_of_an_array_or_of_a_table(spark: Any, orders: str) -> None:
    tailbit.spark.register(spark)
    session = spark.newSession()
    tailbit.spark.register(session)
    session.sql("SELECT id, concat('s', id % 3) AS shop FROM range(3, 9)").createOrReplaceTempView("wanted")
    opened = tailbit.open(orders)
    for arguments, keys, on in (
        ("array(5, 99)", [5, 99], "id"),
        ("array(named_struct('id', 1L, 'shop', 's1'))", [(1, "s1")], ["id", "shop"]),
        ("TABLE(SELECT id FROM wanted)", [*range(3, 9)], "id"),
        ("TABLE(wanted)", [(i, f"s{i % 3}") for i in range(3, 9)], ["id", "shop"]),
    ):
        named = ", 'id'" if arguments == "array(5, 99)" else ""
        found = session.sql(f"SELECT * FROM tailbit_locate('{orders}', {arguments}{named})")
        expected = opened.locate(keys, on=on)
        assert found.columns == expected.column_names
        assert rows(found.collect()) == rows(row.values() for row in expected.to_pylist()), arguments
    older = f"SELECT * FROM tailbit_locate('{orders}', array(1, 12), 'id', version => 1, since => 0)"
    assert [(row.id, row.position, row.change) for row in session.sql(older).collect()] == [
        (1, 1, "same"),
        (12, 7, "new"),
    ]
    frame = tailbit.spark.locate(orders, spark.range(1, 15, 11), since=0)
    assert frame.columns == ["id", "path", "position", "change"]
    assert rows((row.id, row.change) for row in frame.collect()) == [(1, "same"), (12, "new"), (12, "new")]
    for arguments, reason in (
        ("array(1)", "keys have no names"),
        ("1, 'id'", "keys are of type int"),
        ("array(1), 'nothing'", "no column nothing"),
        ("array(1), 'id', version => 9", "version 9"),
        ("array(1, NULL), 'id'", "a key has NULL in id"),
    ):
        with pytest.raises(PySparkException, match=reason):
            session.sql(f"SELECT * FROM tailbit_locate('{orders}', {arguments})").collect()
