"""Rows are deleted where the index says that they lie; Delta's own DELETE on a copy of the table judges."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.errors import PySparkException

import tailbit
import tailbit.spark
from support.spark_session import ids
from support.tables import copied, index_of
from support.waiting import HANG_S
from tailbit.errors import UsageError
from tailbit.spark.writing.deletion import Deleting

pytestmark = pytest.mark.spark

VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture
def orders(tmp_path: Path) -> str:
    """Three files of ten orders in two partitions, the first two indexed by customer, the third not yet."""
    path = str(tmp_path / "all orders")
    for number in range(3):
        rows = {
            "id": pa.array(range(10 * number, 10 * number + 10), pa.int64()),
            "customer": [f"c{row % 4}" for row in range(10)],
            "place": ["A & B/1%" if number else "ü+ü"] * 10,
        }
        write_deltalake(path, pa.table(rows), mode="append", partition_by=["place"], configuration=VECTORS)
        if number == 1:
            index_of(path, ["customer", "id"])
    return path


def last_commit(spark: Any, path: str) -> Any:
    return spark.sql(f"DESCRIBE HISTORY delta.`{path}`").first()


def test_a_deletion_at_lag_hides_rows_and_removes_files_without_rows(spark: Any, orders: str) -> None:
    twin = copied(orders)
    for condition in ("customer = 'c1' AND id > 3", "id BETWEEN 10 AND 19", "customer = 'nobody'", "id < 25"):
        done = tailbit.spark.delete(orders, condition, spark=spark)
        theirs = spark.sql(f"DELETE FROM delta.`{twin}` WHERE {condition}").first()[0]
        assert (done.by, done.rows, done.version is None) == ("index", theirs, theirs == 0)
        assert ids(spark, orders) == ids(spark, twin)
        ours, his = last_commit(spark, orders), last_commit(spark, twin)
        assert (ours.operation, ours.version) == (his.operation, his.version) == ("DELETE", ours.version)
        told = {name: n for name, n in his.operationMetrics.items() if not name.endswith(("Ms", "Bytes"))}
        assert {name: ours.operationMetrics.get(name) for name in told} == told
    index_of(orders)
    assert tailbit.open(orders).where("customer = 'c1'").count() == sum(
        i % 10 % 4 == 1 for i in ids(spark, twin)
    )


def test_no_data_file_is_read_that_the_index_covers(spark: Any, orders: str) -> None:
    index_of(orders)
    files = [*Path(orders).glob("place=*/*.parquet")]
    aside = [file.rename(file.with_suffix(".aside")) for file in files]
    done = tailbit.spark.delete(orders, "customer IN ('c0', 'c2')", spark=spark)
    for file in aside:
        file.rename(file.with_suffix(".parquet"))
    assert (done.by, done.rows, done.files) == ("index", 15, 3)
    assert ids(spark, orders) == [i for i in range(30) if i % 10 % 4 in (1, 3)]


def test_keys_are_deleted_wherever_they_lie(spark: Any, orders: str) -> None:
    keys = pa.table({"customer": ["c1", "c1", "c9", "c2"], "id": [1, 2, 3, 22]})
    assert tailbit.spark.delete(orders, keys, spark=spark, dry_run=True) == tailbit.spark.delete(
        orders, [("c1", 1), ("c2", 22)], on=["customer", "id"], spark=spark, dry_run=True
    )
    done = tailbit.spark.delete(orders, spark.createDataFrame(keys), spark=spark)
    assert (done.by, done.rows, done.files) == ("index", 2, 2)
    assert ids(spark, orders) == [i for i in range(30) if i not in (1, 22)]
    last = last_commit(spark, orders)
    assert (last.operation, last.operationMetrics["numTargetRowsDeleted"]) == ("MERGE", "2")
    assert "customer, id in 4 keys" in str(last.operationParameters)


def test_a_dry_run_changes_nothing(spark: Any, orders: str) -> None:
    before = last_commit(spark, orders)
    plan = tailbit.spark.delete(orders, "customer = 'c3'", spark=spark, dry_run=True)
    assert (plan.version, plan.rows, plan.files, plan.by, plan.reason) == (None, 6, 3, "index", None)
    assert last_commit(spark, orders) == before


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_transaction_of_an_application_is_committed_once(spark: Any, orders: str, vectors: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{orders}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")

    def delete(condition: str, number: int) -> int | None:
        return tailbit.spark.delete(orders, condition, spark=spark, application=("erasure", number)).rows

    assert delete("id = 1", 4) == 1
    assert delete("id = 2", 4) == delete("id = 2", 3) == 0
    assert delete("id = 2", 5) == 1
    assert ids(spark, orders) == [0, *range(3, 30)]


def with_property(name: str) -> Callable[[Any, str], None]:
    def change(spark: Any, path: str) -> None:
        value = "false" if name == "delta.enableDeletionVectors" else "true"
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{name}' = '{value}')")

    return change


@pytest.mark.parametrize(
    "name", ["delta.enableDeletionVectors", "delta.enableChangeDataFeed", "delta.enableRowTracking"]
)
def test_tables_whose_deletes_are_more_than_vectors_are_left_to_delta(
    spark: Any, orders: str, name: str
) -> None:
    with_property(name)(spark, orders)
    twin, condition = copied(orders), "upper(customer) = 'C2' AND id < 28"
    plan = tailbit.spark.delete(orders, condition, spark=spark, dry_run=True)
    done = tailbit.spark.delete(orders, condition, spark=spark)
    theirs = spark.sql(f"DELETE FROM delta.`{twin}` WHERE {condition}").first()[0]
    assert (plan.by, plan.rows, done.by, done.rows) == ("delta", None, "delta", theirs)
    assert name in str(done.reason)
    assert done.version == last_commit(spark, orders).version
    assert ids(spark, orders) == ids(spark, twin)


def test_where_the_jvm_has_letters_of_another_language_delta_deletes(spark: Any, orders: str) -> None:
    locales = spark._jvm.java.util.Locale
    before = locales.getDefault()
    locales.setDefault(spark._jvm.java.util.Locale("tr"))
    try:
        plan = tailbit.spark.delete(orders, "id = 1", spark=spark, dry_run=True)
    finally:
        locales.setDefault(before)
    assert (plan.by, plan.reason) == ("delta", "the session has user.language=tr")


@pytest.mark.parametrize(
    ("setting", "condition"),
    [
        ("spark.sql.ansi.enabled=false", "id = 1"),
        ("spark.sql.caseSensitive=true", "id = 1"),
        ("spark.sql.legacy.sizeOfNull=true", "id = 1"),
        ("spark.sql.timestampType=TIMESTAMP_NTZ", "id = 1"),
        ("spark.sql.decimalOperations.allowPrecisionLoss=false", "id = 1"),
        ("spark.sql.parquet.datetimeRebaseModeInRead=LEGACY", "id = 1"),
        ("spark.sql.parquet.int96RebaseModeInRead=LEGACY", "id = 1"),
        ("spark.sql.parquet.int96TimestampConversion=true", "id = 1"),
        ("spark.sql.readSideCharPadding=false", "id = 1"),
        ("spark.sql.icu.caseMappings.enabled=false", "id = 1"),
        ("spark.sql.storeAssignmentPolicy=LEGACY", "id = 1"),
        ("more than a filter", "own(customer) = 'C2'"),
        ("one", "id = one"),
    ],
)
def test_where_a_session_understands_a_condition_otherwise_delta_deletes_and_the_result_says_why(
    spark: Any, orders: str, setting: str, condition: str
) -> None:
    session = spark.newSession()
    name, _, value = setting.partition("=")
    if value:
        session.conf.set(name, value)
    session.sql("CREATE TEMPORARY FUNCTION own(s STRING) RETURNS STRING RETURN upper(s)")
    session.sql("DECLARE VARIABLE one BIGINT DEFAULT 1")
    plan = tailbit.spark.delete(orders, condition, spark=session, dry_run=True)
    assert plan.by == "delta"
    assert setting.removesuffix("=true") in str(plan.reason)


def test_a_key_with_null_is_refused_where_delta_would_delete_too(spark: Any, orders: str) -> None:
    with_property("delta.enableDeletionVectors")(spark, orders)
    before = last_commit(spark, orders).version
    with pytest.raises(UsageError, match="NULL in id"):
        tailbit.spark.delete(orders, [3, None], on="id", spark=spark)
    assert last_commit(spark, orders).version == before


def test_keys_go_by_merge_where_the_table_has_no_deletion_vectors(spark: Any, orders: str) -> None:
    with_property("delta.enableDeletionVectors")(spark, orders)
    done = tailbit.spark.delete(orders, [3, 17, 17, 99], on="id", spark=spark)
    assert (done.by, done.rows) == ("delta", 2)
    assert ids(spark, orders) == [i for i in range(30) if i not in (3, 17)]


@pytest.mark.parametrize(
    ("other", "conflicts"),
    [
        ("DELETE FROM {} WHERE id = 15", True),
        ("DELETE FROM {} WHERE id = 5", False),
        ("INSERT INTO {} VALUES (77, 'c1', 'A & B/1%')", True),
    ],
)
def test_a_commit_in_between_conflicts_as_with_a_delete(
    spark: Any, orders: str, monkeypatch: pytest.MonkeyPatch, other: str, conflicts: bool
) -> None:
    """Commits to another partition do not conflict. INSERT does, since the table is to be serializable."""
    located = Deleting._located

    def located_and_overtaken(self: Deleting, table: Any, version: int) -> Any:
        rows = located(self, table, version)
        spark.sql(other.format(f"delta.`{orders}`"))
        return rows

    monkeypatch.setattr(Deleting, "_located", located_and_overtaken)
    spark.sql(f"ALTER TABLE delta.`{orders}` SET TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')")
    condition = "place = 'A & B/1%' AND id IN (11, 19)"
    if conflicts:
        with pytest.raises(PySparkException, match="DELTA_CONCURRENT"):
            tailbit.spark.delete(orders, condition, spark=spark)
        assert {11, 19} <= set(ids(spark, orders))
    else:
        assert tailbit.spark.delete(orders, condition, spark=spark).rows == 2
        assert ids(spark, orders) == [i for i in range(30) if i not in (5, 11, 19)]


def test_a_table_of_the_catalog_is_found_by_its_name(spark: Any, orders: str) -> None:
    spark.sql(f"CREATE TABLE all_orders USING delta LOCATION '{orders}'")
    try:
        assert tailbit.spark.delete("all_orders", tailbit.col("id") < 4, spark=spark).rows == 4
        with pytest.raises(UsageError) as refused:
            tailbit.spark.delete("default.all_orders", spark.table("all_orders").id == 5)
        assert "a condition is text or built with tailbit.col" in refused.value.hint
        assert tailbit.spark.delete("default.all_orders", "id = 5").rows == 1
    finally:
        spark.sql("DROP TABLE all_orders")
    assert ids(spark, orders) == [4, *range(6, 30)]


def test_a_column_named_as_its_table_hides_no_other_column(spark: Any, tmp_path: Path) -> None:
    """To Spark `s.id` is column `id` of table `s`, before it is a field of column `s`."""
    rows = pa.table({"id": [1, 2], "s": [{"id": 2}, {"id": 1}]})
    write_deltalake(str(tmp_path / "x"), rows, configuration=VECTORS)
    spark.sql(f"CREATE TABLE s USING delta LOCATION '{tmp_path / 'x'}'")
    try:
        assert tailbit.spark.delete("s", "s.id = 1", spark=spark).rows == 1
    finally:
        spark.sql("DROP TABLE s")
    assert ids(spark, str(tmp_path / "x")) == [2]


def test_what_the_session_has_cached_is_read_anew(spark: Any, orders: str) -> None:
    frame = spark.read.format("delta").load(orders).cache()
    try:
        assert frame.count() == 30
        assert tailbit.spark.delete(orders, "id < 4", spark=spark).rows == 4
        assert spark.read.format("delta").load(orders).count() == frame.count() == 26
    finally:
        frame.unpersist()


def test_what_cannot_be_is_refused_and_nothing_changed(spark: Any, orders: str) -> None:
    before = last_commit(spark, orders)
    for rows, on, reason in (
        ([1, None], "id", "NULL"),
        ([1], None, "no names"),
        (["x"], "id", "do not fit"),
        ("id = 1", "id", "beside a condition"),
        (None, None, "keys"),
        ([{"id": 1}, {"id": 2, "place": "x"}], None, "NULL in place"),
    ):
        with pytest.raises(UsageError, match=reason):
            tailbit.spark.delete(orders, rows, on, spark=spark)
    with pytest.raises(UsageError, match="older version"):
        tailbit.spark.delete(f"{orders}@v1", "id = 1", spark=spark)
    with pytest.raises(UsageError, match="application"):
        tailbit.spark.delete(orders, "id = 1", spark=spark, application="daily")  # type: ignore[arg-type]
    for condition in ("no_column = 1", "id ==== 1", "id IN (SELECT 1)", "sum(id) > 1", "id / 0 > 1"):
        with pytest.raises(PySparkException):
            tailbit.spark.delete(orders, condition, spark=spark)
    with_property("delta.appendOnly")(spark, orders)
    with pytest.raises(PySparkException, match="APPEND"):
        tailbit.spark.delete(orders, "id = 1", spark=spark)
    assert last_commit(spark, orders).version == before.version + 1


def test_erase_tells_what_it_would_delete_deletes_it_and_says_when_it_is_gone(orders: str) -> None:
    def erase(*arguments: str) -> subprocess.CompletedProcess[str]:
        command, folder = [sys.executable, "-m", "tailbit.cli", "erase"], Path(orders)
        command += [folder.name, *arguments]
        return subprocess.run(
            command, cwd=folder.parent, input="n\n", capture_output=True, text=True, timeout=HANG_S
        )

    rows = ("--where", "customer = 'c1' AND id < 28")
    planned = erase(*rows, "--dry-run")
    assert (planned.returncode, planned.stdout) == (0, "would delete 8 rows in 3 files of version 2\n")
    assert erase(*rows).returncode == 130
    keys = Path(orders).with_name("keys.csv")
    keys.write_text("id\n1\n22\n99\n")
    assert json.loads(erase("--keys", str(keys), "--dry-run", "--json").stdout)["rows"] == 2
    assert DeltaTable(orders).version() == 2
    done = erase(*rows, "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("deleted 8 rows: version 3\n")
    assert f"REORG TABLE delta.`{orders}` APPLY (PURGE)" in done.stdout
    assert re.search(r"VACUUM.* from 20\d\d-\d\d-\d\d \d\d:\d\d UTC on", done.stdout)
    assert done.stderr.splitlines() == ["starting Spark, which fetches Delta's jars the first time"]
    assert tailbit.open(orders).where("customer = 'c1'").count() == 1
    nothing = erase(*rows)
    assert (nothing.returncode, nothing.stdout) == (0, "would delete 0 rows in 0 files of version 3\n")
    for wrong in ((), (*rows, "--keys", str(keys)), (*rows, "--on", "id"), ("--where", "nowhere = 1")):
        assert erase(*wrong).returncode == 2
