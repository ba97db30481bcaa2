"""Partition values: of every type, NULL, the empty string, any characters, and times in the writer's zone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.judged import JudgedTable


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


TYPED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "byte": ("tinyint", ("-128Y", "127Y", "NULL")),
    "short": ("smallint", ("-32768S", "0S", "NULL")),
    "whole": ("int", ("-2147483648", "2147483647", "NULL")),
    "long": ("bigint", ("-9223372036854775808L", "9223372036854775807L", "NULL")),
    "real": ("float", ("CAST('NaN' AS FLOAT)", "-0.0F", "1.4E-45F")),
    "wide": ("double", ("CAST('-Infinity' AS DOUBLE)", "0.1D", "NULL")),
    "exact": ("decimal(38,10)", ("-9999999999999999999999999999.9999999999BD", "0.0000000001BD", "NULL")),
    "flag": ("boolean", ("TRUE", "FALSE", "NULL")),
    "day": ("date", ("DATE'0001-01-01'", "DATE'9999-12-31'", "NULL")),
    "ts": (
        "timestamp",
        ("TIMESTAMP'1582-10-10 12:00:00.000001'", "TIMESTAMP'9999-12-31 23:59:59.999999'", "NULL"),
    ),
    "ntz": (
        "timestamp_ntz",
        ("TIMESTAMP_NTZ'0001-01-01'", "TIMESTAMP_NTZ'2024-02-29 01:02:03.000004'", "NULL"),
    ),
    "raw": ("binary", ("X'61'", "X'C3A4'", "NULL")),
    "name": ("string", ("'a'", "'NULL'", "NULL")),
    "fixed": ("char(3)", ("'a'", "'abc'", "NULL")),
    "short_name": ("varchar(3)", ("'a'", "'abc'", "NULL")),
}
"""Partition column to its type and the values of three partitions."""


@pytest.mark.supports("Partition values", "of every type, and NULL", "exact")
def test_partition_values_of_every_type_are_exact(spark: Any, table_path: str) -> None:
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in TYPED.items())
    table = JudgedTable(spark, table_path, ["id", *TYPED])
    rows = [", ".join(values[n] for _, values in TYPED.values()) for n in range(3)]
    listed = ", ".join(f"({n}, {row})" for n, row in enumerate(rows))
    table.sql(
        f"create table {{t}} (id int, {columns}) using delta partitioned by ({', '.join(TYPED)})",
        f"insert into {{t}} values {listed}, (3, {rows[0]})",
    )
    asked = [
        f"{name} {sign} {v}" for name, (_, vs) in TYPED.items() for v in vs for sign in ("=", "<", "<=>")
    ]
    asked += [f"{name} IS NULL OR id = 0" for name in TYPED] + ["real > 1", "name = short_name"]
    table.judge(*asked, "NOT flag AND id > 0", "ts < '1600-01-01' OR ntz > '2000-01-01'", versions=[1])
    table.judge_facets(*TYPED)


TEXTS = (
    *(
        "",
        " ",
        "a b",
        "a%20b",
        "%",
        "%2F",
        "a/b",
        "a=b",
        "a:b",
        "x\\y",
        "?#&+",
        "ä",
        "日本",
        "𝄞",
        "'",
        '"',
        "`",
    ),
    *("__HIVE_DEFAULT_PARTITION__", "null", "a\nb", "\x01", ".", "..", "{x}", "a*b", "_hidden", None),
)


@pytest.mark.supports("Partition values", "of any characters, percent-encoded in paths", "exact")
@pytest.mark.supports("Partition values", "NULL and the empty string as Spark writes them", "exact")
@pytest.mark.supports("Partition values", "`__HIVE_DEFAULT_PARTITION__` as a value", "exact")
def test_partition_texts_may_hold_any_character(spark: Any, table_path: str) -> None:
    rows = pa.table({"p": pa.array(TEXTS, pa.string()), "id": pa.array(range(len(TEXTS)), pa.int32())})
    spark.createDataFrame(rows).write.format("delta").partitionBy("p").save(table_path)
    table = JudgedTable(spark, table_path, ["id", "p"])
    table.follow()
    builder = DeltaBuilder.of(table_path)
    foreign = [
        builder.data_file(rows.select(["id"]), partition={"p": p}) for p in ("", None, "a%20b", "\U0001d11e")
    ]
    builder.commit([*foreign, builder.data_file(rows.select(["id"]), partition={})])
    quoted = ["'" + t.replace("\\", "\\\\").replace("'", "\\'") + "'" for t in TEXTS if t is not None]
    table.judge(
        *(f"p = {q}" for q in quoted), "p IS NULL", "p > 'a'", f"p IN ({', '.join(quoted[2:8])})", "p <> ''"
    )
    table.judge_facets("p")


@pytest.mark.supports("Partition values", "as delta-rs writes them", "exact")
def test_partition_values_of_delta_rs_are_exact(spark: Any, table_path: str) -> None:
    moments = pa.array([0, 1_704_067_200_123_456, None], pa.int64())
    rows = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "ts": moments.cast(pa.timestamp("us", "UTC")),
            "ntz": moments.cast(pa.timestamp("us")),
            "wide": pa.array([1e20, -0.0, None], pa.float64()),
            "real": pa.array([0.1, float("nan"), None], pa.float32()),
            "exact": pa.array([1, -2, None], pa.int64()).cast(pa.decimal128(24, 5)),
            "day": pa.array([-719_162, 2_932_896, None], pa.int32()).cast(pa.date32()),
            "name": ["", "a%/ b", None],
        }
    )
    parts = [name for name in rows.column_names if name != "id"]
    write_deltalake(table_path, rows, partition_by=parts)
    table = JudgedTable(spark, table_path, ["id", *parts])
    table.judge(
        *(
            "ts = '1970-01-01'",
            "ts > '2024-01-01'",
            "ntz = '2024-01-01 00:00:00.123456'",
            "wide = 1e20",
            "wide = 0",
        ),
        *(
            "real = 0.1F",
            "real > 1",
            "exact < 0",
            "day = DATE'0001-01-01'",
            "name = ''",
            "name IS NULL",
            "name > 'a'",
        ),
    )
    table.judge_facets(*parts)


ZONELESS = (
    "2024-07-01 12:00:00",
    "2024-03-31 02:30:00",
    "2024-10-27 02:30:00.5",
    "1800-01-01 00:00:00",
    "9999-12-31",
)
"""In Paris: summer, skipped, twice, before there were zones, and far away."""


@pytest.mark.supports(
    "Partition values", "times without a zone", "exact", note="in the session's zone, or one given"
)
def test_times_without_a_zone_are_in_the_zone_of_the_session_or_of_the_writer(
    spark: Any, table_path: str
) -> None:
    JudgedTable(spark, table_path, []).sql(
        "create table {t} (id int, p timestamp) using delta partitioned by (p)", follow=False
    )
    builder = DeltaBuilder.of(table_path)
    one = pa.table({"id": pa.array([1], pa.int32())})
    texts = [*ZONELESS, "2024-07-01T10:00:00.000000Z", None]
    builder.commit([builder.data_file(one, partition={"p": text}) for text in texts])
    table = JudgedTable(spark, table_path, ["id", "p"])
    asked = [f"p {sign} '{text}'" for text in ZONELESS for sign in ("=", "<", ">=")]
    asked += ["p = '2024-07-01T10:00:00Z'", "p < '2024-10-27T01:00:00Z'", "p IS NULL"]
    for zone in ("UTC", "Europe/Paris", "-03:30"):
        table.judge(*asked, versions=[1], zone=zone, rows=False)
    opened = tailbit.open(table_path)
    paris = "p = TIMESTAMP'2024-07-01 10:00:00Z'"
    assert opened.where(paris).count() == 1
    assert opened.where(paris, partition_zone="Europe/Paris").count() == 2
    assert opened.where(partition_zone="Europe/Paris").facets("p") == opened.where(
        zone="Europe/Paris"
    ).facets("p")
    assert opened.where(partition_zone="Europe/Paris").facets("p") != opened.where().facets("p")
