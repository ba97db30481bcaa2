"""A Column of pyspark is a condition: it means here what it means to Spark."""

from __future__ import annotations

import datetime
import functools
import math
import operator
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.function_cells import rows, schema
from support.truth import matches
from tailbit.arguments.conditions import condition_text
from tailbit.errors import UsageError
from tailbit.index.sql.bind import bind


def _struct(**fields: Any) -> dict[str, Any]:
    """A struct in the schema of a Delta log."""
    named = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields.items()]
    return {"type": "struct", "fields": named}


def _nested() -> tuple[pa.Table, pa.Table]:
    """The rows with a struct as Spark reads it, and with its leaves as they are decoded here."""
    flat = rows()
    x, z = flat["i"].combine_chunks(), flat["s"].combine_chunks()
    inner = pa.StructArray.from_arrays([z], ["c.d"])
    nested = flat.append_column("rec", pa.StructArray.from_arrays([x, inner], ["x", "a b"]))
    return nested, nested.append_column("rec.x", x).append_column("rec.`a b`.`c.d`", z)


_REC = {"name": "rec", "nullable": True, "metadata": {}}
_REC["type"] = _struct(x="integer", **{"a b": _struct(**{"c.d": "string"})})


class Judge:
    """Compares the rows that Columns select here with those that Spark selects, of one DataFrame."""

    def __init__(self, spark: Any, path: str) -> None:
        self.spark, (written, self.flat) = spark, _nested()
        pq.write_table(written, path)
        self.frame = spark.read.parquet(path).coalesce(1)

    def __call__(self, conditions: Sequence[Any], zone: str = "UTC") -> None:
        self.spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            asked = [condition.alias(f"c{n}") for n, condition in enumerate(conditions)]
            theirs = self.frame.select("row", *asked).orderBy("row").toArrow()
            texts = [condition_text("sql", condition) for condition in conditions]
        finally:
            self.spark.conf.set("spark.sql.session.timeZone", "UTC")
        for n, written in enumerate(texts):
            found = matches(bind(written, schema(_REC), zone), self.flat, {})
            assert found.tolist() == [value is True for value in theirs[f"c{n}"].to_pylist()], written


@pytest.fixture(scope="module")
def judge(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(spark, str(tmp_path_factory.mktemp("columns") / "rows.parquet"))


def test_a_column_of_pyspark_selects_the_rows_that_spark_selects(judge: Judge) -> None:
    from pyspark.sql import functions as f

    c = f.col
    judge(
        [
            c("i") > 0,
            (c("i") == 1) | ~(c("s") == "abc"),
            c("s").isin("a", "it's", "a\\c"),
            c("s").like("a%"),
            c("s").startswith("a") & c("s").contains("b"),
            c("i").isNull() | c("i").between(1, 65),
            c("d").eqNullSafe(0.5),
            f.upper(c("s")) == "ABC",
            f.length(c("s")) + 1 > f.lit(3),
            f.year(c("dt")) == 2020,
            f.when(c("i") > 0, "p").otherwise("n") == "p",
            f.coalesce(c("i"), f.lit(0)) == 0,
            f.substring(c("s"), 1, 1) == "a",
            c("dt") >= f.lit("2020-01-01").cast("date"),
            c("bo"),
        ]
    )


def test_the_text_of_expr_selects_the_rows_that_spark_selects(judge: Judge) -> None:
    from pyspark.sql import functions as f

    judge(
        [
            f.expr("i > 0"),
            f.expr("i = 0 or i > 0") & f.expr("s = 'a' or l > 0"),
            ~f.expr("i > 0 or i is null"),
            f.expr("i % 7 + 1") * 2 > f.expr("l % 3 - 1"),
            f.expr("i") > 0,
            f.expr("i > 0 -- or else") | f.expr("l > 0 /* and no more */"),
            f.expr("s = 'a -- b' or s = \"a\" -- and\n or bo"),
            f.expr("case when i > 0 then 'p' else 'n' end") == "p",
            f.expr("try_cast(n as int)").isin(1, -7),
            f.expr("d > 1.5") == f.expr("d > 1.5D"),
            f.expr("i div 4 % 2") == 1,
            f.expr("rec.`a b`.`c.d` like 'a%'"),
            f.expr("ts > timestamp'2020-01-01 00:00:00'").alias("x"),
        ],
        "+05:30",
    )


def test_a_column_of_a_dataframe_is_read_by_its_name(judge: Judge) -> None:
    from pyspark.sql import functions as f

    df = judge.frame
    judge(
        [
            df["i"] > 0,
            df.i == df.l,
            df["L"] > 0,
            df["`i`"].alias("x").isNull(),
            (df.alias("q")["q.i"] > 0) & (f.col("l") > 0) | f.expr("bo"),
            df["i"] == df.where("i > 0")["i"],
            df["rec.x"] > 0,
            df["rec.`a b`.`c.d`"] == "abc",
            df["rec"]["x"] > 0,
            df.rec["a b"]["c.d"].startswith("a"),
            df.rec.isNull(),
        ]
    )


def test_a_field_is_read_as_a_nested_column_however_it_is_reached(judge: Judge) -> None:
    from pyspark.sql import functions as f

    rec = f.col("rec")
    judge(
        [
            rec["x"] > 0,
            rec.x > 0,
            rec.getField("X") > 0,
            rec.getItem("x") > 0,
            rec[f.lit("x")] > 0,
            rec.alias("y")["x"] > 0,
            f.col("rec.`a b`")["c.d"] == "abc",
            rec.getField("a b").getField("c.d").isin("a", "abc"),
        ]
    )


def test_a_function_that_sql_writes_otherwise_is_read_as_that(judge: Judge) -> None:
    from pyspark.sql import functions as f

    c = f.col
    judge(
        [
            c("n").try_cast("int") == 1,
            c("t").try_cast("date").isNotNull(),
            f.equal_null(c("i"), c("l")),
            f.nullifzero(c("i")).isNull(),
            f.nullifzero(c("d")) == 0.5,
            f.zeroifnull(c("i")) == 0,
            f.zeroifnull(c("p")) < 1,
            f.extract(f.lit("YEAR"), c("ts")) == 2020,
            f.datepart(f.lit("month"), c("dt")) == 1,
            f.call_function("upper", c("s")) == "ABC",
            f.like(c("s"), f.lit("a/%c"), f.lit("/")),
        ]
    )


def test_the_bits_of_a_number_are_asked_for_as_in_spark(judge: Judge) -> None:
    from pyspark.sql import functions as f

    i, b = f.col("i"), f.col("b")
    judge(
        [
            i.bitwiseAND(4) > 0,
            i.bitwiseOR(b) == -1,
            i.bitwiseXOR(f.col("l")) == 0,
            f.bitwise_not(i) < f.bitwise_not(b),
            f.bitwise_not(i.bitwiseAND(b).bitwiseOR(1)) + 1 == -1,
            i.bitwiseAND(f.bitwise_not(f.lit(1))) == i,
        ]
    )


def test_conditions_joined_in_a_long_chain_are_read(judge: Judge) -> None:
    from pyspark.sql import functions as f

    i = f.col("i")
    many = [i == n for n in range(400)]
    judge(
        [
            functools.reduce(operator.or_, many),
            functools.reduce(lambda before, one: one | before, many),
            ~functools.reduce(operator.and_, [~one for one in many]),
            (i > 0) & ((f.col("l") > 0) | f.col("bo") | (f.col("s") == "a")) & f.col("d").isNotNull(),
        ]
    )
    deep = functools.reduce(operator.add, [i % 3] * 1500) > 0
    with pytest.raises(UsageError, match="nested too deeply"):
        condition_text("sql", deep)


_STRANGE = [0.0, -0.0, math.inf, -math.inf, math.nan]
_TIME = datetime.datetime.fromisoformat("2020-02-29T12:34:56.789012")
_UTC = datetime.timezone.utc
_EAST = datetime.datetime(2019, 12, 31, 18, 59, 59, 999999, datetime.timezone(datetime.timedelta(hours=-5)))
CONSTANTS: dict[str, list[Any]] = {
    "b": [np.int8(5), -128, 0.1, Decimal("5")],
    "sh": [np.int16(-32768), 300, 7.5],
    "i": [1, -(2**31), np.int32(65), 0.1, Decimal("0.50"), Decimal("1E+3"), 2**40, None, "65"],
    "l": [-(2**63), 2**53 + 1, 2.0**53, np.int64(7), Decimal(2**63), 3037000500.5],
    "f": [1.5, 0.1, np.float32(3.4e38), np.float32(0.1), *_STRANGE],
    "d": [0.5, 2.675, 1e300, 5e-324, 1e15 + 0.5, np.float64(0.1), *_STRANGE],
    "p": [0.05, 1.5, Decimal("1.50"), Decimal("-1.5500"), Decimal("1E-10"), 0],
    "q": [Decimal("999999999999.999999"), Decimal("0E-20"), 3.5, Decimal("1" * 38)],
    "s": ["", "abc", "line\nend", "a\\c", "𝄞x", "it's \"\\%", "İ"],
    "x": [b"", b"a", b"\xff\x00", bytearray(b"abc")],
    "dt": [
        datetime.date(2020, 2, 29),
        datetime.date(1582, 10, 10),
        datetime.date(9999, 12, 31),
        "1970-01-01",
    ],
    "ts": [_TIME, _TIME.replace(tzinfo=_UTC), _EAST, datetime.date(2021, 1, 1)],
    "nt": [_TIME, datetime.date(2021, 1, 1)],
    "bo": [True, np.bool_(False), "t"],
}
"""By columns of the table, constants of every type that pyspark makes of values of Python."""


@pytest.mark.parametrize("zone", ["UTC", "+05:30"])
def test_a_constant_of_any_type_selects_the_rows_that_spark_selects(judge: Judge, zone: str) -> None:
    from pyspark.sql import functions as f

    asked: list[Any] = []
    for name, constants in CONSTANTS.items():
        column = f.col(name)
        for constant in map(f.lit, constants):
            asked += [column == constant, column < constant, ~(column <= constant), constant > column]
            asked += [column.eqNullSafe(constant), column.isin(constant), column.between(constant, constant)]
        asked.append(column.isin(*map(f.lit, constants)))
    judge(asked, zone)


def test_an_element_of_an_array_or_a_map_selects_the_rows_that_spark_selects(judge: Judge) -> None:
    from pyspark.sql import functions as f

    judge(
        [
            (f.size("ai") > 1) & (f.col("ai")[1] > 0),
            (f.size("ai") > f.col("i")) & (f.col("i") >= 0) & (f.col("ai")[f.col("i")] > 0),
            f.col("m")["k"] == "v",
            f.col("m").getItem("k").isNull(),
            f.array_contains("tags", "a"),
            f.arrays_overlap("ai", f.array(f.lit(1), f.lit(7))),
            f.try_element_at("ai", f.lit(-1)) > 0,
            f.expr("rec")["x"] > 0,
        ]
    )


def test_a_constant_is_computed_with_as_what_it_is_to_spark(judge: Judge) -> None:
    from pyspark.sql import functions as f

    c = f.col
    judge(
        [
            c("i") * 0.1 == 0.1,
            c("i") * 0.1 == 6.5,
            c("i") / 3.0 == 0.3333333333333333,
            c("b") * 0.1 < 0.30000000000000004,
            c("sh") % 0.7 > 0.3,
            1.1 + c("b") == 6.1,
            c("d") - 0.1 == 0.4,
            c("p") * 0.1 == 0.15000000000000002,
            c("p") * Decimal("0.10") == Decimal("0.15"),
            c("p") + Decimal("0.005") == 0.055,
            c("l") * f.lit(1e10) > 3e19,
            c("l") * Decimal("1E+3") > Decimal("1E+12"),
            c("f") + f.lit(0.1).cast("float") == f.lit(1.6).cast("float"),
            c("b") % f.lit(3).cast("byte") == 2,
            (c("d") + math.inf) == math.inf,
            c("d") * 0.5 == math.nan,
            f.round(c("d") * 0.1, 2) == 0.05,
            f.coalesce(c("dt"), f.lit(datetime.date(2020, 1, 1))) == datetime.date(2020, 1, 1),
            f.coalesce(c("bo"), f.lit(None)) == f.lit(False),
            f.when(c("i") > 0, 0.1).otherwise(Decimal("0.1")) == 0.1,
        ]
    )


def test_a_local_time_is_one_where_spark_makes_it_one(judge: Judge, spark: Any) -> None:
    from pyspark.sql import functions as f

    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        constant = f.lit(_TIME)
    finally:
        spark.conf.unset("spark.sql.timestampType")
    assert "TIMESTAMP_NTZ'2020-02-29 12:34:56.789012'" in condition_text("sql", f.col("nt") == constant)
    judge([f.col("nt") == constant, f.col("ts") > constant, f.col("dt") < constant], "+05:30")


@pytest.mark.parametrize(
    ("constant", "type_"),
    [
        (datetime.timedelta(days=1, seconds=3), "interval day to second"),
        (datetime.time(1, 2, 3), r"time\(6\)"),
        (np.array([1.0]), "array<double>"),
    ],
)
def test_a_constant_of_another_type_is_refused_by_the_name_of_its_type(
    spark: Any, constant: Any, type_: str
) -> None:
    from pyspark.sql import functions as f

    with pytest.raises(UsageError, match=f"a constant of Spark's type {type_} is not read"):
        condition_text("sql", f.col("i") == f.lit(constant))


@pytest.mark.parametrize(
    ("made", "found", "instead"),
    [
        (lambda f, df: f.expr("i > 0) or (l > 0"), "does not parse .*PARSE_SYNTAX_ERROR", "whole"),
        (lambda f, df: f.expr("i > 0 as x"), "gives a name with AS", "name out"),
        (lambda f, df: f.exists("ar", lambda x: x > 3), "LambdaFunction", "SQL text"),
        (lambda f, df: f.col("rec").withField("x", f.lit(1))["x"] == 1, "UpdateFields", "SQL text"),
        (lambda f, df: df.colRegex("`i`") > 0, "UnresolvedRegex", "Name each column"),
        (lambda f, df: f.count("*") > 0, "UnresolvedStar", "Name each column"),
        (lambda f, df: f.udf(lambda v: v, "int")(f.col("i")) > 0, "PythonUDF", "functions.md"),
        (lambda f, df: f.row_number().over(_window()) > 1, "Window", "one row"),
        (lambda f, df: f.col("i").desc(), "SortOrder", "order_by"),
        (lambda f, df: f.col("i").isin(df.select("i")), "SubqueryExpression", "list"),
        (lambda f, df: f.call_function("system.builtin.upper", "s") == "A", "calls system", "F.upper"),
        (lambda f, df: df.i == df.sparkSession.range(1).toDF("i").i, "columns i of two DataFrames", "F.col"),
    ],
)
def test_a_column_that_has_no_equivalent_is_refused_by_name(
    judge: Judge, made: Callable[[Any, Any], Any], found: str, instead: str
) -> None:
    from pyspark.sql import functions as f

    with pytest.raises(UsageError, match=found) as refused:
        condition_text("sql", made(f, judge.frame))
    assert instead in str(refused.value.hint)


def _window() -> Any:
    from pyspark.sql import Window

    return Window.orderBy("i")
