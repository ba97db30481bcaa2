"""Sums, averages, extremes and parts of times are those of Spark, in value and type, or raise as it does."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException

import tailbit
from support.tables import index_of
from tailbit.errors import AggregateError

ROWS = 400
ZONES = ("UTC", "+05:30", "America/New_York", "Australia/Lord_Howe")
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
NUMBERS = ("l", "i", "small", "money", "wide", "deep", "cents", "third")
BEYOND = {
    "longs": pa.array([2**62, 2**62, 1], pa.int64()),
    "digits": pa.array([Decimal(9 * 10**37)] * 2 + [None], pa.decimal128(38, 0)),
}


def random_table(rng: random.Random) -> pa.Table:
    def decimals(precision: int, scale: int) -> pa.Array:
        most = 10**precision - 1
        values = [None if rng.random() < 0.1 else rng.randint(-most, most) for _ in range(ROWS)]
        listed = [None if v is None else Decimal(v).scaleb(-scale) for v in values]
        return pa.array(listed, pa.decimal128(precision, scale))

    moments = [rng.randint(-(10**15), 2 * 10**15) for _ in range(ROWS)]
    # Around the ends of summer time in New York and on Lord Howe Island, where clocks go back half an hour.
    moments[:80] = [1_383_458_400_000_000 + rng.randint(-7200, 7200) * 10**6 for _ in range(80)]
    moments[80:160] = [1_365_260_400_000_000 + rng.randint(-7200, 7200) * 10**6 for _ in range(80)]
    return pa.table(
        {
            "k": [rng.choice("abc") for _ in range(ROWS)],
            "l": pa.array([rng.randint(-(2**53), 2**53) for _ in range(ROWS)], pa.int64()),
            "i": pa.array([rng.randint(-50, 50) for _ in range(ROWS)], pa.int32()),
            "small": pa.array([rng.choice([None, -128, 0, 127]) for _ in range(ROWS)], pa.int8()),
            "money": decimals(10, 2),
            "cents": decimals(3, 2),
            "third": decimals(12, 3),
            "wide": decimals(28, 6),
            "deep": decimals(30, 30),
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "day": pa.array([rng.randint(-20000, 20000) for _ in range(ROWS)], pa.int32()).cast(pa.date32()),
        }
    )


@pytest.mark.parametrize("columns", [["k", "l", "i", "small", "money", "wide", "cents"], ["k"]])
def test_measures_by_group_are_those_of_spark(spark: Any, table_path: str, columns: list[str]) -> None:
    write_deltalake(table_path, random_table(random.Random(12)))
    index_of(table_path, columns)
    names = ("l", "i", "small", "money", "wide", "cents")
    functions = ("sum", "min", "max", "avg")
    frame = spark.read.format("delta").load(table_path).where("i > -30").groupBy("k")
    sql = [f"{function}({name})" for function in functions for name in names]
    theirs = frame.agg(*map(expression, ["count(1)", *sql]))
    found = tailbit.open(table_path).where("i > -30").facet_table("k", **dict.fromkeys(functions, names))
    assert found.column_names[2:] == sql
    ours = {row["k"]: [*row.values()][1:] for row in found.to_pylist()}
    for k, *values in theirs.collect():
        for name, mine, value in zip(["n", *sql], ours[k], values, strict=True):
            # Spark adds doubles row by row.
            near = isinstance(value, float) and math.isclose(mine, value, rel_tol=1e-12)
            assert near or mine == value, name
    types = [field.type for field in theirs.toArrow().schema][2:]
    assert [field.type for field in found.schema][2:] == types


def test_sums_averages_and_parts_of_times_are_those_of_spark(spark: Any, table_path: str) -> None:
    write_deltalake(table_path, random_table(random.Random(11)))
    index_of(table_path, ["k", "l", "money", "wide", "at", "cents"])
    opened = tailbit.open(table_path)
    frame = spark.read.format("delta").load(table_path)
    asked = [f"{f}({c})" for c in NUMBERS for f in ("sum", "avg", "min", "max", "count_distinct")]
    sql = [text.replace("count_distinct(", "count(DISTINCT ") for text in asked]
    theirs = {row[0]: row[1:] for row in frame.groupBy("k").agg(*map(expression, sql)).collect()}
    for k, values in theirs.items():
        answer = opened.where(f"k = '{k}'")
        for text, value in zip(asked, values, strict=True):
            function, column = text.rstrip(")").split("(")
            found = getattr(answer, function)(column)
            assert type(found) is type(value), text
            if isinstance(value, float):
                # Spark adds doubles row by row.
                assert math.isclose(found, value, rel_tol=1e-12), text
            else:
                assert found == value, text


def expression(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


@pytest.mark.parametrize("zone", ZONES)
def test_parts_of_times_are_those_of_spark_in_every_zone(spark: Any, table_path: str, zone: str) -> None:
    write_deltalake(table_path, random_table(random.Random(13)))
    index_of(table_path, ["at", "day"])
    answer = tailbit.open(table_path).where("i > -30")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.read.format("delta").load(table_path).where("i > -30")
        cuts = [f"unix_micros(date_trunc('{unit}', at)) AS {unit}" for unit in UNITS]
        theirs = frame.selectExpr(*cuts).toPandas()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for unit in UNITS:
        found = answer.date_histogram("at", unit, zone)
        mine = {round(value.timestamp()) * 10**6: n for value, n in found.items()}
        assert mine == theirs[unit].value_counts().to_dict(), unit


@pytest.mark.parametrize("column", BEYOND)
def test_a_sum_beyond_its_type_raises_as_spark_does(spark: Any, table_path: str, column: str) -> None:
    write_deltalake(table_path, pa.table(BEYOND))
    index_of(table_path, [column])
    with pytest.raises(PySparkException, match=r"ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE"):
        spark.read.format("delta").load(table_path).selectExpr(f"sum({column})").collect()
    with pytest.raises(AggregateError, match="overflows"):
        tailbit.open(table_path).where().sum(column)
