"""Rows of keys are updated and others inserted; Delta's own MERGE on a copy of the table judges."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import tailbit
import tailbit.spark
from support.tables import copied, index_of
from tailbit.errors import UsageError

pytestmark = pytest.mark.spark

COLUMNS = (
    "shop STRING, id INT, name STRING, price DECIMAL(9,2), day DATE,"
    " half BIGINT GENERATED ALWAYS AS (id DIV 2)"
)


@pytest.fixture
def goods(spark: Any, tmp_path: Path) -> str:
    """Four files of goods in two shops; the first half is indexed by shop and id."""
    path = str(tmp_path / "goods")
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta PARTITIONED BY (shop)"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT dear CHECK (price >= 0)")
    for number in range(2):
        spark.sql(
            f"INSERT INTO delta.`{path}` (shop, id, name, price, day) SELECT if(id % 3 = 0, 'A', 'B'),"
            f" {40 * number} + id, concat('n', id), id, date'2026-01-01' + CAST(id AS INT) FROM range(40)"
        )
        if number == 0:
            index_of(path, ["shop", "id"])
    return path


def source(spark: Any, rng: random.Random, count: int) -> Any:
    """Rows of new and of known keys; a known id in another shop is another key."""
    ids = rng.sample(range(100), count)
    rows = [
        (i, "A" if i % 3 == 0 or rng.random() < 0.2 else "B", f"new {i}", float(i), None, i // 2) for i in ids
    ]
    frame = spark.createDataFrame(
        rows, "ID BIGINT, shop STRING, name STRING, price DOUBLE, day DATE, half BIGINT"
    )
    return frame.withColumn("price", frame.price.cast("DECIMAL(9,2)"))


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_delta_computes_a_generated_column_that_the_source_lacks(
    spark: Any, goods: str, vectors: str
) -> None:
    spark.sql(f"ALTER TABLE delta.`{goods}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")
    rows = source(spark, random.Random(1), 20).drop("half")
    done = tailbit.spark.upsert(goods, rows, ["shop", "ID"], spark=spark)
    assert done.by == ("index" if vectors == "true" else "delta")
    kept = spark.read.format("delta").load(goods)
    assert kept.where("name LIKE 'new%'").count() == 20
    assert kept.where("half <=> id DIV 2").count() == kept.count()


def test_a_source_without_a_column_of_the_table_is_refused_by_name(spark: Any, goods: str) -> None:
    rows = source(spark, random.Random(1), 5).drop("day")
    before = rows_of(spark, goods)
    with pytest.raises(UsageError, match="no column day, which the table has"):
        tailbit.spark.upsert(goods, rows, ["shop", "id"], spark=spark)
    assert rows_of(spark, goods) == before


def rows_of(spark: Any, path: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.read.format("delta").load(path).collect()), key=str)


def merged(spark: Any, path: str, rows: Any, on: list[str]) -> Any:
    """What Delta's own MERGE tells."""
    same = " AND ".join(f"t.{name} = s.{name}" for name in on)
    return spark.sql(
        f"MERGE INTO delta.`{path}` t USING {{rows}} s ON {same}"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        rows=rows,
    ).first()


def test_upserts_at_any_lag_leave_the_rows_that_merge_leaves(spark: Any, goods: str) -> None:
    twin, rng, on = copied(goods), random.Random(7), ["shop", "id"]
    for round_ in range(3):
        rows = source(spark, rng, (3, 40, 1)[round_])
        plan = tailbit.spark.upsert(goods, rows, on, spark=spark, dry_run=True)
        done = tailbit.spark.upsert(goods, rows, on, spark=spark)
        theirs = merged(spark, twin, rows, on)
        assert (done.by, done.updated, done.inserted) == (
            "index",
            theirs.num_updated_rows,
            theirs.num_inserted_rows,
        ), done
        assert (plan.updated, plan.inserted, plan.version) == (done.updated, done.inserted, None)
        assert rows_of(spark, goods) == rows_of(spark, twin)
        if round_ == 1:
            index_of(goods)
    ours, his = (spark.sql(f"DESCRIBE HISTORY delta.`{path}`").first() for path in (goods, twin))
    assert ours.operation == his.operation == "MERGE"
    for name in (
        "numTargetRowsUpdated",
        "numTargetRowsInserted",
        "numTargetDeletionVectorsAdded",
        "numSourceRows",
    ):
        assert ours.operationMetrics[name] == his.operationMetrics[name], name
    index_of(goods)
    assert tailbit.open(goods).where("id < 20").count() == sum(row[1] < 20 for row in rows_of(spark, twin))


def test_no_data_file_is_read_for_whole_rows(spark: Any, goods: str) -> None:
    index_of(goods)
    files = [*Path(goods).glob("shop=*/*.parquet")]
    aside = [file.rename(file.with_suffix(".aside")) for file in files]
    done = tailbit.spark.upsert(goods, source(spark, random.Random(1), 30), "id", spark=spark)
    for file in aside:
        file.rename(file.with_suffix(".parquet"))
    assert done.by == "index"
    assert done.updated
    assert len(rows_of(spark, goods)) == 80 + (done.inserted or 0)


def test_a_batch_of_a_stream_that_is_replayed_is_upserted_once(spark: Any, goods: str) -> None:
    rows = [{"shop": "A", "id": 0, "name": "x", "price": 1, "day": None, "half": 0}]
    first, again = (
        tailbit.spark.upsert(goods, rows, ["shop", "id"], spark=spark, application=("s", 3)) for _ in range(2)
    )
    assert (first.updated, first.inserted) == (1, 0)
    assert (again.version, again.updated, again.inserted) == (None, 0, 0)


def test_what_needs_the_old_values_or_several_rows_goes_by_merge(spark: Any, goods: str) -> None:
    twin = copied(goods)
    few = pa.table({"id": [1, 50, 99], "name": ["a", "b", "c"], "shop": ["B", "B", "A"], "price": [1] * 3})
    done = tailbit.spark.upsert(goods, few, ["shop", "id"], set=["name"], spark=spark)
    assert (done.by, done.updated, done.inserted) == ("delta", 2, 1)
    assert "some columns" in str(done.reason)
    spark.sql(
        f"MERGE INTO delta.`{twin}` t USING {{rows}} s ON t.shop = s.shop AND t.id = s.id WHEN MATCHED"
        " THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name, shop, price)"
        " VALUES (s.id, s.name, s.shop, s.price)",
        rows=spark.createDataFrame(few),
    )
    assert rows_of(spark, goods) == rows_of(spark, twin)
    by_name = source(spark, random.Random(3), 1).selectExpr(
        "id", "shop", "'n7' AS name", "price", "day", "half"
    )
    done = tailbit.spark.upsert(goods, by_name, "name", spark=spark, dry_run=True)
    assert (done.by, "several rows" in str(done.reason)) == ("delta", True)
    texts = by_name.selectExpr("id", "shop", "name", "CAST(price AS STRING) AS price", "day", "half")
    done = tailbit.spark.upsert(goods, texts, ["shop", "id"], spark=spark, dry_run=True)
    assert (done.by, "column price" in str(done.reason)) == ("delta", True)


def test_zeros_of_both_signs_are_one_key_as_merge_has_it(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    spark.sql(f"CREATE TABLE delta.`{path}` (k DOUBLE, v INT) USING delta {properties}")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (0.0, 1)")
    index_of(path, ["k"])
    with pytest.raises((PySparkException, Py4JError), match="MULTIPLE_SOURCE_ROW"):
        tailbit.spark.upsert(path, [{"k": 0.0, "v": 2}, {"k": -0.0, "v": 3}], "k", spark=spark)
    assert rows_of(spark, path) == [(0.0, 1)]


HOURS = [datetime.datetime.fromisoformat(each) for each in ("2026-03-29 02:30", "2026-10-25 02:30")]
"""Two times without a zone: one that no clock of Berlin has shown, and one that it shows twice."""


@pytest.fixture
def berlin(spark: Any) -> Iterator[None]:
    """The session is in the zone of Berlin."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("form", [pa.Table.to_pylist, lambda rows: rows])
def test_times_without_a_zone_are_those_keys_whatever_the_zone_of_the_session(
    spark: Any, tmp_path: Path, vectors: str, form: Callable[[pa.Table], Any]
) -> None:
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (at TIMESTAMP_NTZ, since TIMESTAMP_NTZ, v STRING) USING delta"
        f" TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')"
    )
    hours = ", ".join(f"(timestamp_ntz'{hour}')" for hour in HOURS)
    spark.sql(f"INSERT INTO delta.`{path}` SELECT at, at, 'old' FROM VALUES {hours} AS given(at)")
    index_of(path, ["at"])
    new = pa.table({"at": HOURS, "since": HOURS, "v": ["new", "new"]})
    done = tailbit.spark.upsert(path, form(new), "at", spark=spark)
    assert (done.by, done.updated) == ("index" if vectors == "true" else "delta", 2)
    kept = spark.read.format("delta").load(path).toArrow()
    assert sorted(kept.to_pylist(), key=repr) == sorted(new.to_pylist(), key=repr)
    assert tailbit.spark.delete(path, HOURS[:1], "at", spark=spark).rows == 1
    assert tailbit.spark.delete(path, pa.table({"at": HOURS}), spark=spark).rows == 1


def test_a_broken_constraint_and_bad_keys_change_nothing(spark: Any, goods: str) -> None:
    before = DeltaTable(goods).version()
    good = {"shop": "A", "id": 0, "name": "x", "price": 1, "day": None, "half": 0}
    assert tailbit.spark.upsert(goods, [good], ["shop", "id"], spark=spark, dry_run=True).by == "index"
    for wrong, reason in (({"price": -1}, "dear"), ({"half": 7}, "Generated"), ({"id": 1 << 40}, "OVERFLOW")):
        with pytest.raises(PySparkException, match=reason):
            tailbit.spark.upsert(goods, [{**good, **wrong}], ["shop", "id"], spark=spark)
    spark.sql(f"ALTER TABLE delta.`{goods}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    before += 1
    with pytest.raises(PySparkException, match="dear"):
        tailbit.spark.upsert(goods, [{**good, "price": -1}], ["shop", "id"], spark=spark)
    for rows, on, reason in (
        ([good, good], ["shop", "id"], "stands twice"),
        ([{**good, "id": None}, good], ["shop", "id"], "NULL in id"),
        ([good], ["colour"], "no column colour"),
        ([good], [], "no key column"),
        (7, ["id"], "source is of type int"),
        ([good, {"shop": "A", "id": 1}], ["shop", "id"], "others have none"),
    ):
        with pytest.raises(UsageError, match=reason):
            tailbit.spark.upsert(goods, rows, on, spark=spark)
    assert DeltaTable(goods).version() == before


def test_a_key_of_another_type_is_no_other_key_by_a_cast(spark: Any, goods: str) -> None:
    """MERGE compares 1.5 with 1: they differ, so it inserts; a cast before would update row 1."""
    row = {"shop": "B", "id": 1.5, "name": "x", "price": 1, "day": None, "half": 0}
    done = tailbit.spark.upsert(goods, [row], ["shop", "id"], spark=spark)
    assert (done.by, done.updated, done.inserted) == ("delta", 0, 1)
