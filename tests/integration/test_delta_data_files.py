"""Data files of other writers: pyarrow, DuckDB and delta-rs, in all that Parquet leaves to a writer."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.judged import JudgedTable
from tailbit.errors import DataFileError


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


COLUMNS = (
    "id int, s string, b binary, n bigint, f double, flag boolean, d decimal(20,3), small decimal(5,2),"
    " day date, ts timestamp, ntz timestamp_ntz, place struct<city:string, at:struct<x:int>>,"
    " tags array<string>"
)
INDEXED = ["s", "b", "n", "f", "flag", "d", "small", "day", "ts", "ntz", "place.city", "place.at.x"]
ASKED = (
    *(
        "s = 'v3'",
        "s IS NULL",
        "s > 'v5'",
        "s IN ('v1', 'v7', '')",
        "b = X'7631'",
        "n = 7",
        "n < 0",
        "f > 1e300",
    ),
    *(
        "f = 0",
        "f = CAST('NaN' AS DOUBLE)",
        "flag",
        "NOT flag AND n > 3",
        "d = 1.5",
        "d < 0",
        "small >= 9.99",
    ),
    *("day = DATE'1500-01-01'", "day > '2013-01-01'", "ts = '1500-01-01'", "ts > '2300-01-01'", "ts IS NULL"),
    *("ntz = '2013-01-01 05:00:00.000001'", "place.city = 'Oslo'", "place.city IS NULL", "place.at.x >= 2"),
    *("tags IS NULL", "place IS NULL AND id > 3"),
)
UTC = datetime.timezone.utc


def rows() -> pa.Table:
    """Forty rows; each value several times, runs of NULL, and times outside 1677 to 2262."""
    moments = [
        datetime.datetime(year, 1, 1, 5, 0, 0, year % 2, tzinfo=UTC) for year in (1500, 2013, 1969, 9999)
    ]
    moments[0] = moments[0].replace(hour=0)
    days = [datetime.date(1500, 1, 1), None, datetime.date(2013, 2, 28), datetime.date(1, 1, 1)]
    place = [
        {"city": "Oslo", "at": {"x": 2}},
        None,
        {"city": None, "at": None},
        {"city": "Rome", "at": {"x": None}},
    ]
    columns = {
        "id": pa.array(range(40), pa.int32()),
        "s": ["v1", "v3", None, "v7", "", "v9", "v3", "v8"] * 5,
        "b": pa.array([b"v1", b"\xff", None, b""] * 10, pa.binary()),
        "n": pa.array([7, None, -3, 7, 2**62] * 8, pa.int64()),
        "f": [0.0, -0.0, float("nan"), 1e301, None] * 8,
        "flag": [True, None, False, True] * 10,
        "d": pa.array(
            [Decimal("1.500"), Decimal("-7.001"), None, Decimal(10**16)] * 10, pa.decimal128(20, 3)
        ),
        "small": pa.array(
            [Decimal("9.99"), None, Decimal("-0.01"), Decimal("9.98")] * 10, pa.decimal128(5, 2)
        ),
        "day": days * 10,
        "ts": pa.array([*moments, None] * 8, pa.timestamp("us", "UTC")),
        "ntz": pa.array([m.replace(tzinfo=None) for m in moments] * 10, pa.timestamp("us")),
        "place": pa.array(
            place * 10, pa.struct([("city", pa.string()), ("at", pa.struct([("x", pa.int32())]))])
        ),
        "tags": pa.array([["a", None], [], None, ["b"]] * 10, pa.list_(pa.string())),
    }
    return pa.table(columns)


CODED: dict[str, Any] = {
    "n": "DELTA_BINARY_PACKED",
    "s": "DELTA_BYTE_ARRAY",
    "b": "DELTA_LENGTH_BYTE_ARRAY",
    "f": "PLAIN",
}
WRITTEN: dict[str, dict[str, Any]] = {
    "pages v1, dictionary": {"data_page_version": "1.0"},
    "pages v1, plain, several row groups": {"use_dictionary": False, "row_group_size": 7},
    "pages v2, dictionary, several row groups": {"data_page_version": "2.0", "row_group_size": 7},
    "pages v2, plain, small pages": {
        "data_page_version": "2.0",
        "use_dictionary": False,
        "data_page_size": 16,
    },
    "no statistics": {"write_statistics": False, "stats": False, "row_group_size": 11},
    "INT96": {"use_deprecated_int96_timestamps": True, "stats": False},
    "INT96, plain": {"use_deprecated_int96_timestamps": True, "use_dictionary": False, "row_group_size": 9},
    "delta encodings": {"use_dictionary": False, "column_encoding": CODED, "data_page_version": "2.0"},
    "decimals as integers": {"store_decimal_as_integer": True, "version": "1.0"},
    "milliseconds": {"coerce_timestamps": "ms", "allow_truncated_timestamps": True},
    "gzip": {"compression": "gzip", "write_page_index": True},
    "zstd": {"compression": "zstd", "write_page_checksum": True},
    "lz4": {"compression": "lz4"},
    "uncompressed": {"compression": "none", "store_schema": False},
}


@pytest.mark.supports(
    "Files", "pyarrow: dictionary and plain pages, data page v1 and v2, several row groups", "exact"
)
@pytest.mark.supports("Files", "pyarrow: delta encodings, gzip, zstd, lz4, uncompressed", "exact")
@pytest.mark.supports("Files", "INT96 timestamps, also outside 1677 to 2262", "exact")
@pytest.mark.supports("Files", "without statistics in the log and in the file", "exact")
def test_files_of_pyarrow_are_read_whatever_their_layout(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, INDEXED)
    table.sql(f"create table {{t}} ({COLUMNS}) using delta")
    builder = DeltaBuilder.of(table_path)
    named = {name.replace(" ", "_").replace(",", "") + ".parquet": how for name, how in WRITTEN.items()}
    builder.commit([builder.data_file(rows(), name, **how) for name, how in named.items()])
    table.judge(*ASKED, versions=[1])
    table.judge_facets(*INDEXED)


@pytest.mark.supports(
    "Files", "pyarrow: large_string, string views, categories, other column orders", "exact"
)
def test_other_arrow_types_and_orders_of_the_same_columns_are_read(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["s", "b", "n", "place.city"])
    table.sql(
        "create table {t} (id int, s string, b binary, n bigint, place struct<city:string, at:struct<x:int>>)"
        " using delta"
    )
    builder = DeltaBuilder.of(table_path)
    base = rows().select(["id", "s", "b", "n", "place"])
    large = pa.struct([("at", pa.struct([("x", pa.int32())])), ("city", pa.large_string())])
    turned = [None if p is None else {"at": p["at"], "city": p["city"]} for p in base["place"].to_pylist()]
    spelled = {
        "large": (pa.large_string(), pa.large_binary()),
        "views": (pa.string_view(), pa.binary_view()),
        "coded": (pa.dictionary(pa.int32(), pa.string()), pa.binary()),
    }
    for name, (text, data) in spelled.items():
        changed = pa.table(
            {
                "place": pa.array(turned, large),
                "not_in_the_table": base["n"],
                "b": base["b"].cast(data),
                "id": base["id"],
                "n": base["n"].cast(pa.int64()),
                "s": base["s"].cast(text),
            }
        )
        builder.commit([builder.data_file(changed, f"{name}.parquet", row_group_size=13)])
    table.judge(
        "s = 'v3'",
        "s IS NULL",
        "b = X'FF'",
        "n = 7",
        "place.city = 'Oslo'",
        "place.city IS NULL",
        versions=[3],
    )
    table.judge_facets("s", "b", "n", "place.city")


@pytest.mark.supports("Files", "INT96 timestamps before 4000 BC", "refused")
def test_int96_times_that_the_reader_would_mistake_are_refused(spark: Any, table_path: str) -> None:
    JudgedTable(spark, table_path, []).sql(
        "create table {t} using delta as"
        " select 1 id, timestamp'-5000-01-01' ts, array(timestamp'-5000-01-01') l",
        follow=False,
        spark__sql__parquet__outputTimestampType="INT96",
    )
    opened = tailbit.open(table_path)
    for predicate in ("ts < '2020-01-01'", "ts = '-5000-01-01'"):
        with pytest.raises(DataFileError, match="INT96"):
            opened.where(predicate).positions()
    with pytest.raises(DataFileError, match="INT96"):
        opened.where().read(["l"])
    assert opened.where("id = 1").count() == 1


@pytest.mark.supports("Files", "written by DuckDB", "exact")
def test_files_of_duckdb_are_read(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, INDEXED)
    table.sql(f"create table {{t}} ({COLUMNS}) using delta")
    builder = DeltaBuilder.of(table_path)
    adds = []
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("source", rows())
        for n, options in enumerate(("", ", PARQUET_VERSION V2, ROW_GROUP_SIZE 2048", ", CODEC 'zstd'")):
            name = f"duckdb-{n}.parquet"
            engine.execute(f"COPY source TO '{table_path}/{name}' (FORMAT parquet{options})")
            adds.append(existing(table_path, name))
    builder.commit(adds)
    table.judge(*ASKED, versions=[1])
    table.judge_facets(*INDEXED)


def existing(table: str, name: str) -> dict[str, Any]:
    """The add action of a file that is there, without statistics."""
    found = os.stat(Path(table, name))
    return {
        "add": {
            "path": name,
            "partitionValues": {},
            "size": found.st_size,
            "modificationTime": found.st_mtime_ns // 1_000_000,
            "dataChange": True,
        }
    }


@pytest.mark.supports("Files", "written by delta-rs", "exact")
def test_tables_of_delta_rs_are_read_at_every_version(spark: Any, table_path: str) -> None:
    write_deltalake(table_path, rows(), configuration={"delta.dataSkippingNumIndexedCols": "20"})
    table = JudgedTable(spark, table_path, INDEXED)
    table.follow()
    write_deltalake(table_path, rows().take(list(range(3, 23))), mode="append")
    DeltaTable(table_path).delete("n = 7 AND s = 'v1'")
    table.follow()
    DeltaTable(table_path).optimize.compact()
    table.judge(*ASKED)
    table.judge_facets(*INDEXED)


@pytest.mark.supports("Files", "Parquet made a table by CONVERT TO DELTA", "exact")
def test_parquet_made_a_table_is_read(spark: Any, table_path: str) -> None:
    parts = (
        rows().select(["id", "s", "n", "ts"]).append_column("p", pa.array(["a b", "c%d", None, "x=y"] * 10))
    )
    pq.write_to_dataset(parts, table_path, partition_cols=["p"], row_group_size=3, compression="gzip")
    spark.sql(f"convert to delta parquet.`{table_path}` partitioned by (p string)")
    table = JudgedTable(spark, table_path, ["s", "n", "ts", "p"])
    table.judge("s = 'v3'", "n = 7 AND p = 'a b'", "p IS NULL", "p = 'c%d'", "p > 'd'", "ts > '2013-01-01'")
    table.judge_facets("p", "s", "ts")
