"""Tables that delta-spark wrote: at every version the rows are those that Spark reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from support.profiles import chosen
from support.rows import canonical
from tailbit.errors import LegacyCalendarError
from tailbit.tables import Table, open_table
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import open_data_file, read_columns
from tailbit.tables.partition_values import partition_array

Sql = Callable[..., Any]


def slice_rows(table: Table, slice_: FileSlice, columns: Sequence[Column]) -> list[str]:
    """The visible rows of one slice."""
    file = open_data_file(table.storage, slice_.path, slice_.size)
    count = file.metadata.num_rows
    stored = read_columns(file, [c for c in columns if not c.partition])
    arrays = [
        partition_array(c, slice_.partition.get(c.physical[0]), count) if c.partition else stored[c.id]
        for c in columns
    ]
    hidden = slice_.hidden.read(table.storage) if slice_.hidden else set()
    rows = pa.Table.from_arrays(arrays, [c.id for c in columns]).to_pylist()
    assert slice_.rows in (None, count)
    return [repr(canonical(list(r.values()))) for i, r in enumerate(rows) if i not in hidden]


def compare(spark: Any, path: str) -> Table:
    """The chosen versions of a table, read by us and by Spark, in one Spark job for all of one schema."""
    table = open_table(path)
    found: dict[str, list[str]] = {}
    frames: dict[str, Any] = {}
    for version in chosen(range(table.earliest(), table.head() + 1)):
        columns = table.snapshot(version).schema.columns
        rows = [row for slice_ in table.snapshot(version).files for row in slice_rows(table, slice_, columns)]
        frame = spark.read.format("delta").option("versionAsOf", version).load(path)
        assert frame.columns == [c.name[0] for c in columns]
        frame, shape = frame.selectExpr("*", f"{version} as version_"), frame.schema.simpleString()
        frames[shape] = frames[shape].union(frame) if shape in frames else frame
        found.setdefault(shape, []).extend(f"{row[:-1]}, {version}]" for row in rows)
    for shape, frame in frames.items():
        assert sorted(found[shape]) == sorted(repr(canonical(list(row))) for row in frame.collect())
    return table


@pytest.fixture
def sql(spark: Any, table_path: str) -> Sql:
    """Run statements; {t} is the table."""

    def run(*statements: str, **settings: str) -> None:
        for name, value in settings.items():
            spark.conf.set(name.replace("__", "."), value)
        try:
            for statement in statements:
                spark.sql(statement.replace("{t}", f"delta.`{table_path}`"))
        finally:
            for name in settings:
                spark.conf.unset(name.replace("__", "."))

    return run


def test_columns_mapped_by_id_are_found_at_any_depth(spark: Any, sql: Sql, table_path: str) -> None:
    sql(
        "create table {t} (id long, s struct<x:int>, l array<struct<x:int>>, m map<string,struct<y:int>>)"
        " using delta tblproperties ('delta.columnMapping.mode'='id')",
        "insert into {t} values"
        " (1, named_struct('x',1), array(named_struct('x',1)), map('k',named_struct('y',2)))",
        "alter table {t} rename column s.x to xx",
        "alter table {t} add column (s.new string)",
        "insert into {t} values (2, named_struct('xx',2,'new','n'), array(), null)",
    )
    compare(spark, table_path)


def test_dates_and_times_at_their_edges_are_exact(spark: Any, sql: Sql, table_path: str) -> None:
    sql(
        "create table {t} (a timestamp, b timestamp_ntz, d date, x decimal(38,10), p timestamp, q date)"
        " using delta partitioned by (p, q)",
        "insert into {t} values (timestamp'0001-01-02 00:00:00.000001',"
        " timestamp_ntz'9999-12-31 23:59:59.999999', date'1500-01-01',"
        " 1234567890123456789012345678.0123456789, timestamp'2024-01-01 01:02:03.456789',"
        " date'2024-02-29'), (null, null, null, null, null, null),"
        " (timestamp'9999-12-31 23:59:59.999999', timestamp_ntz'0001-01-01 00:00:00', date'9999-12-31', -1.5,"
        " timestamp'1969-12-31 23:59:59.999999', date'1582-10-10')",
    )
    sql(
        "insert into {t} values (timestamp'0001-01-02 00:00:00.000001', null, null, null, null, null)",
        spark__sql__parquet__outputTimestampType="INT96",
    )
    compare(spark, table_path)


@pytest.mark.supports("Files", "dates of Spark's legacy calendar", "refused")
def test_the_legacy_calendar_of_spark_is_refused(spark: Any, sql: Sql, table_path: str) -> None:
    sql("create table {t} (a date) using delta", "insert into {t} values (date'1500-01-01')")
    compare(spark, table_path)
    sql("insert into {t} values (date'1500-01-01')", spark__sql__parquet__datetimeRebaseModeInWrite="LEGACY")
    with pytest.raises(LegacyCalendarError):
        compare(spark, table_path)


@pytest.mark.supports("Log", "multi-part log checkpoint", "exact")
def test_multi_part_checkpoints_with_parsed_statistics_are_read(
    spark: Any, sql: Sql, table_path: str
) -> None:
    inserts = [f"insert into {{t}} values ({i}, 'x')" for i in range(5)]
    sql(
        "create table {t} (a int, c char(3)) using delta tblproperties ('delta.checkpointInterval'='3',"
        " 'delta.checkpoint.writeStatsAsStruct'='true', 'delta.checkpoint.writeStatsAsJson'='false')",
        *inserts,
        spark__databricks__delta__checkpoint__partSize="2",
    )
    assert compare(spark, table_path).snapshot().files.rows.to_pylist() == [1] * 5
