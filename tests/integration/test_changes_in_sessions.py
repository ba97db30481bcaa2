"""What a session has set or does elsewhere changes no row otherwise than Delta's own statement would."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql.types import BooleanType, LongType

import tailbit.spark
from support.waiting import HANG_S, wait_until

pytestmark = pytest.mark.spark

APPLICATION = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
VECTORS = {"delta.enableDeletionVectors": "true"}


def ids(spark: Any, path: str) -> list[int]:
    return sorted(row.id for row in spark.read.format("delta").load(path).select("id").collect())


@pytest.fixture
def slow(spark: Any, tmp_path: Path) -> Any:
    """A session whose function `after_all(id)` is TRUE once file `go` is there, and tables of ten ids."""
    session, begun, go = spark.newSession(), str(tmp_path / "begun"), str(tmp_path / "go")

    def after_all(_: int) -> bool:
        import time

        Path(begun).touch()
        while not Path(go).exists():
            time.sleep(0.02)
        return True

    session.udf.register("after_all", after_all, BooleanType())
    for name in "ab":
        write_deltalake(str(tmp_path / name), pa.table({"id": range(10)}), configuration=VECTORS)
    return session


def test_the_transaction_of_an_application_is_that_of_no_other_write_of_the_session(
    slow: Any, tmp_path: Path
) -> None:
    """A deletion goes by Delta's DELETE, which takes long; other threads write in the same session."""
    a, b, done = str(tmp_path / "a"), str(tmp_path / "b"), []
    slow.conf.set("spark.databricks.delta.lastCommitVersionInSession", "77")

    def delete() -> None:
        condition, known = "id < 4 AND after_all(id)", ("erasures", 7)
        done.append(tailbit.spark.delete(a, condition, spark=slow, application=known))

    thread = Thread(target=delete)
    thread.start()
    try:
        wait_until((tmp_path / "begun").exists)
        for number in (10, 11):
            slow.createDataFrame([(number,)], "id BIGINT").write.format("delta").mode("append").save(b)
        slow.sql(f"ALTER TABLE delta.`{b}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
        of_b = tailbit.spark.delete(b, "id = 3", spark=slow, application=("erasures", 7))
        within = [slow.conf.get(name, None) for name in APPLICATION]
    finally:
        (tmp_path / "go").touch()
        thread.join(HANG_S)
    assert (of_b.by, of_b.rows, of_b.version) == ("delta", 1, 4)
    assert within == [slow.conf.get(name, None) for name in APPLICATION] == [None, None]
    assert ids(slow, b) == [0, 1, 2, *range(4, 12)]
    assert [(each.by, each.rows, each.version) for each in done] == [("delta", 4, 1)]
    assert ids(slow, a) == [*range(4, 10)]
    again = tailbit.spark.delete(a, "id = 9", spark=slow, application=("erasures", 7))
    assert (again.rows, ids(slow, a)) == (0, [*range(4, 10)])


def test_a_statement_of_delta_has_what_the_session_has(spark: Any, tmp_path: Path) -> None:
    """Functions, variables, the database, and settings; and it says which version was committed."""
    session, path = spark.newSession(), str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": range(10)}))
    session.sql(f"CREATE DATABASE changes LOCATION '{tmp_path / 'changes'}'")
    try:
        session.sql(f"CREATE TABLE changes.numbers USING delta LOCATION '{path}'")
        session.sql("USE changes")
        session.udf.register("twice", lambda n: 2 * n, LongType())
        session.sql("DECLARE VARIABLE three BIGINT DEFAULT 3")
        session.sql("SET VARIABLE three = 4")
        done = tailbit.spark.delete("numbers", "twice(id) = three OR id = 0", spark=session)
        assert (done.by, done.rows, done.version) == ("delta", 2, 1)
        last = session.conf.get("spark.databricks.delta.lastCommitVersionInSession")
        nothing = tailbit.spark.delete("numbers", "twice(id) = 99", spark=session)
        assert (nothing.by, nothing.rows, nothing.version, last) == ("delta", 0, None, "1")
        session.conf.set("spark.sql.ansi.enabled", "false")
        assert tailbit.spark.delete("numbers", "id / 0 IS NULL AND id = 9", spark=session).rows == 1
    finally:
        session.sql("DROP DATABASE changes CASCADE")
    assert ids(session, path) == [1, 3, 4, 5, 6, 7, 8]


def test_rows_of_another_session_are_merged_by_delta_too(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": range(4), "v": ["old"] * 4}))
    rows = spark.newSession().createDataFrame([(3, "new"), (4, "new")], "id BIGINT, v STRING").cache()
    done = tailbit.spark.upsert(path, rows, "id", spark=spark)
    assert (done.by, done.updated, done.inserted, done.version) == ("delta", 1, 1, 1)
    assert spark.read.format("delta").load(path).where("v = 'new'").count() == 2
    assert rows.storageLevel.useMemory
    rows.unpersist()


def test_what_the_session_has_cached_is_read_anew_after_a_statement_of_delta(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": range(10)}))
    frame = spark.read.format("delta").load(path).cache()
    try:
        assert frame.count() == 10
        assert tailbit.spark.delete(path, "id < 4", spark=spark).by == "delta"
        assert spark.read.format("delta").load(path).count() == frame.count() == 6
    finally:
        frame.unpersist()
