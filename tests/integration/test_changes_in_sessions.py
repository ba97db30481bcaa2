"""What a session has set or does elsewhere changes no row otherwise than Delta's own statement would."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql.types import BooleanType, LongType

import tailbit
import tailbit.spark
from support.delta_builder import DeltaBuilder
from support.spark_session import ids
from support.tables import copied, index_of
from support.waiting import HANG_S, wait_until

pytestmark = pytest.mark.spark

APPLICATION = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
VECTORS = {"delta.enableDeletionVectors": "true"}


def session_with(spark: Any, **settings: str) -> Any:
    """A new session; `__` stands for a dot in the names of settings."""
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name.replace("__", "."), value)
    return session


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


@pytest.fixture
def hours(spark: Any, tmp_path: Path) -> str:
    """A table partitioned by times without an offset, as delta-rs writes them; one file is not indexed."""
    path = str(tmp_path / "hours")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, p TIMESTAMP, v STRING) USING delta PARTITIONED BY (p)"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    builder = DeltaBuilder.of(path)
    for number, hour in enumerate((10, 12, 14)):
        rows = pa.table({"id": pa.array([number, 7], pa.int32()), "v": ["old", "old"]})
        builder.commit([builder.data_file(rows, partition={"p": f"2024-07-01 {hour}:00:00"})])
        if number == 1:
            index_of(path, ["id"])
    return path


NOON = datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.timezone.utc)
"""Noon in Paris."""


@pytest.mark.parametrize("on", [["p", "id"], ["p"]])
@pytest.mark.parametrize("hour", [0, 2])
def test_partition_times_without_an_offset_are_keys_in_the_zone_of_the_session(
    spark: Any, hours: str, on: list[str], hour: int
) -> None:
    session = session_with(spark, spark__sql__session__timeZone="Europe/Paris")
    twin, at = copied(hours), NOON + datetime.timedelta(hours=hour)
    session.sql(f"ALTER TABLE delta.`{twin}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    keys = pa.table({"p": pa.array([at], pa.timestamp("us", "UTC")), "id": pa.array([7], pa.int32())})
    for path, by in ((hours, "index"), (twin, "delta")):
        done = tailbit.spark.upsert(path, keys.append_column("v", [["new"]]), ["p", "id"], spark=session)
        assert (done.by, done.updated, done.inserted) == (by, 1, 0)
        found = tailbit.open(path).locate(keys, ["p", "id"], zone="Europe/Paris")["position"].to_pylist()
        assert None not in found
    for path, by in ((hours, "index"), (twin, "delta")):
        done = tailbit.spark.delete(path, keys.select(on), spark=session)
        assert (done.by, done.rows) == (by, len({"p", "id"} - {*on}) + 1)
    ours, theirs = (
        sorted(map(tuple, session.read.format("delta").load(path).collect())) for path in (hours, twin)
    )
    assert ours == theirs


def test_keys_of_frames_are_located_in_the_zone_of_the_session(spark: Any, hours: str) -> None:
    session = session_with(spark, spark__sql__session__timeZone="Europe/Paris")
    tailbit.spark.register(session)
    keys = session.sql("SELECT TIMESTAMP'2024-07-01 12:00:00' AS p, id FROM VALUES (1), (0) AS given(id)")
    keys.createOrReplaceTempView("wanted")
    in_sql = session.sql(f"SELECT * FROM tailbit_locate('{hours}', TABLE(wanted))")
    for frame in (tailbit.spark.locate(hours, keys), in_sql):
        assert sorted((row.id, row.position) for row in frame.collect()) == [(0, None), (1, 0)]


def times(path: str) -> None:
    hours = [datetime.datetime.fromisoformat(f"2026-03-29 0{hour}:30") for hour in (2, 3, 4)]
    write_deltalake(path, pa.table({"id": range(3), "nt": hours}), configuration=VECTORS)


def small_decimals(path: str) -> None:
    small = pa.array([1, 10**7, 0], pa.int64()).cast(pa.decimal128(38, 0))
    values = pa.array([value.as_py().scaleb(-10) for value in small], pa.decimal128(20, 10))
    write_deltalake(path, pa.table({"id": range(3), "p": values, "q": values}), configuration=VECTORS)


def old_days(path: str) -> None:
    days = [datetime.date(1500, 1, 1), datetime.date(1500, 1, 10), datetime.date(2026, 1, 1)]
    write_deltalake(path, pa.table({"id": range(3), "day": days}), configuration=VECTORS)


@pytest.mark.parametrize(
    ("settings", "made", "condition"),
    [
        (
            {"timestampType": "TIMESTAMP_NTZ", "session__timeZone": "Europe/Berlin"},
            times,
            "nt = TIMESTAMP'2026-03-29 02:30:00'",
        ),
        ({"decimalOperations__allowPrecisionLoss": "false"}, small_decimals, "p * q > 0"),
        ({"parquet__datetimeRebaseModeInRead": "LEGACY"}, old_days, "day = DATE'1500-01-01'"),
        ({"parquet__datetimeRebaseModeInRead": "LEGACY"}, old_days, "day < DATE'1500-01-05'"),
    ],
)
def test_a_session_that_reads_values_or_conditions_otherwise_deletes_what_delta_deletes(
    spark: Any, tmp_path: Path, settings: dict[str, str], made: Callable[[str], None], condition: str
) -> None:
    session = session_with(spark, **{f"spark__sql__{name}": value for name, value in settings.items()})
    path = str(tmp_path / "t")
    made(path)
    index_of(path, ["id"])
    twin = copied(path)
    done = tailbit.spark.delete(path, condition, spark=session)
    theirs = session.sql(f"DELETE FROM delta.`{twin}` WHERE {condition}").first()[0]
    assert (done.rows, ids(session, path)) == (theirs, ids(session, twin))
