"""Changes of rows that meet what is wrong, other, late or in the way: by name, and nothing is changed."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import tailbit
import tailbit.spark
from support.spark_session import rows_of
from support.tables import index_of
from support.waiting import HANG_S
from tailbit.base.faults import Fault
from tailbit.errors import ColumnTypeError, StaleIndexError, UsageError
from tailbit.spark.writing import deletion, upsert

pytestmark = pytest.mark.spark


def people(first: int, count: int = 10) -> pa.Table:
    ids = pa.array(range(first, first + count), pa.int64())
    return pa.table({"id": ids, "name": [f"n{i}" for i in ids.to_pylist()], "s": [{"a": 1}] * count})


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Thirty people in three files, the last of which the index does not cover."""
    path = str(tmp_path / "people")
    vectors = {"delta.enableDeletionVectors": "true"}
    for first in (0, 10, 20):
        write_deltalake(path, people(first), mode="append", configuration=vectors)
        if first == 10:
            index_of(path, ["id"])
    return path


def merged(spark: Any, path: str, rows: pa.Table, on: str) -> list[tuple[Any, ...]]:
    """The rows of a copy of a table after Delta's own MERGE."""
    twin = str(shutil.copytree(path, f"{path} twin", ignore=shutil.ignore_patterns("_tailbit")))
    merge = (
        f"MERGE INTO delta.`{twin}` t USING {{rows}} s ON t.{on} = s.{on}"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql(merge, rows=spark.createDataFrame(rows)).collect()
    return rows_of(spark, twin)


@pytest.mark.parametrize("change", ["upsert", "delete"])
def test_optimize_between_look_up_and_commit_conflicts_as_with_delta_and_a_second_call_is_right(
    spark: Any, path: str, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    rows = people(25).set_column(1, "name", pa.array(["new"] * 10))
    expected = merged(spark, path, rows, "id")
    before = rows_of(spark, path)
    if change == "delete":
        expected = [row for row in before if row[0] < 25]

    def call() -> Any:
        again: dict[str, Any] = {"spark": spark, "application": ("a", 1)}
        if change == "upsert":
            return tailbit.spark.upsert(path, rows, "id", **again)
        return tailbit.spark.delete(path, rows.select(["id"]), **again)

    def overtaken(fault: Fault) -> None:
        if fault is Fault.ROWS_LOCATED:
            spark.sql(f"OPTIMIZE delta.`{path}`").collect()

    with monkeypatch.context() as patched:
        patched.setattr(upsert if change == "upsert" else deletion, "fault_point", overtaken)
        with pytest.raises(PySparkException, match=r"DELTA_CONCURRENT_APPEND.*OPTIMIZE"):
            call()
    assert rows_of(spark, path) == before
    assert call().by == "index"
    assert call().version is None
    assert rows_of(spark, path) == expected


def test_an_index_that_lags_more_than_allowed_is_waited_for_or_refused(spark: Any, path: str) -> None:
    row = people(29, 2)
    before = DeltaTable(path).version()
    for limit in ({"max_staleness": 0.0}, {"wait": 0.1}):
        with pytest.raises(StaleIndexError, match="covers version 1"):
            tailbit.spark.upsert(path, row, "id", spark=spark, **limit)
        for rows in ("id = 29", [29]):
            on = "id" if isinstance(rows, list) else None
            with pytest.raises(StaleIndexError, match="covers version 1"):
                tailbit.spark.delete(path, rows, on, spark=spark, **limit)
    assert DeltaTable(path).version() == before
    later = threading.Timer(0.5, index_of, (path,))
    later.start()
    done = tailbit.spark.upsert(path, row, "id", spark=spark, wait=HANG_S)
    later.join()
    assert (done.by, done.updated, done.inserted) == ("index", 1, 1)
    assert tailbit.spark.delete(path, [29], "id", spark=spark, max_staleness=3600).rows == 1
    assert tailbit.spark.delete(path, [30], "id", spark=spark).rows == 1
    with pytest.raises(UsageError, match="wait"):
        tailbit.spark.delete(path, [30], "id", spark=spark, wait=-1)


def test_a_key_of_a_type_without_keys_is_refused_by_name(spark: Any, path: str) -> None:
    rows = people(0, 1).set_column(2, "s", pa.array([{"a": 7}]))
    with pytest.raises(ColumnTypeError, match="column s is of type STRUCT"):
        tailbit.spark.upsert(path, rows, "s", spark=spark)
    with pytest.raises(ColumnTypeError, match="column s is of type STRUCT"):
        tailbit.spark.delete(path, [{"s": {"a": 1}}], spark=spark)
    assert DeltaTable(path).version() == 2


def test_a_source_whose_columns_do_not_fit_changes_nothing(spark: Any, path: str) -> None:
    before = rows_of(spark, path)
    for source in (
        people(0, 1).set_column(2, "s", pa.array(["no struct"])),
        people(0, 1).set_column(0, "id", pa.array(["no number"])),
    ):
        with pytest.raises((PySparkException, Py4JError)):
            tailbit.spark.upsert(path, source, "id", spark=spark)
    assert rows_of(spark, path) == before
    more = people(0, 2).append_column("more", pa.array([1, 2]))
    done = tailbit.spark.upsert(path, more, "id", spark=spark)
    assert (done.by, done.updated, rows_of(spark, path)) == ("index", 2, before)


def test_a_table_without_deletion_vectors_is_upserted_by_merge_which_the_result_says(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "plain")
    write_deltalake(path, people(0))
    rows = people(5)
    expected = merged(spark, path, rows, "id")
    done = tailbit.spark.upsert(path, rows, "id", spark=spark)
    assert (done.by, done.updated, done.inserted) == ("delta", 5, 5)
    assert "delta.enableDeletionVectors" in str(done.reason)
    assert rows_of(spark, path) == expected


def test_a_column_of_pyspark_is_refused_with_what_to_give_in_its_place(spark: Any, path: str) -> None:
    from pyspark.sql.functions import col

    opened = tailbit.open(path)
    for asked in (
        lambda: opened.where(col("id") == 1),  # type: ignore[arg-type]
        lambda: opened.where().facets(col("id")),  # type: ignore[arg-type]
        lambda: opened.locate(col("id"), on="id"),
        lambda: tailbit.spark.delete(path, col("id") == 1, spark=spark),
        lambda: tailbit.spark.delete(path, col("id") == 1, on="id", spark=spark),
    ):
        with pytest.raises(UsageError, match=r"of type Column\n.*(text|list)"):
            asked()
