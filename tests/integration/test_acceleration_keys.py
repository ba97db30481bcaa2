"""Aggregates over expressions of indexed columns are told by the number of rows of each key."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.acceleration import rows_of
from support.spark_session import session_settings
from support.tables import index_of
from tailbit.spark.acceleration import Acceleration


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six files in three partitions."""
    path = str(tmp_path_factory.mktemp("keys") / "table")
    rows = duckdb.sql(
        "SELECT range id, DATE '2019-11-20' + (range % 800)::INT AS d,"
        " to_timestamp(1577836800 + (range % 90) * 40000) t,"
        " if(range % 17 = 0, NULL, 'Mode ' || range % 7) AS mode,"
        " if(range % 19 = 0, NULL, (range % 23)::INT) n,"
        " (range % 5)::SMALLINT s, range % 3 part, range::DOUBLE x FROM range(3000)"
    ).to_arrow_table()
    for number in range(2):
        half = rows.slice(number * 1500, 1500)
        write_deltalake(path, half, mode="append", partition_by=["part"])
    index_of(path, ["d", "t", "mode", "n", "s"])
    return path


TOLD = {
    "year(d), count(*)": "GROUP BY 1",
    "date_trunc('MONTH', d), count(*)": "GROUP BY 1",
    "trunc(d, 'quarter') q, count(*), min(d), max(d)": "GROUP BY q ORDER BY q LIMIT 3",
    "extract(DAYOFWEEK FROM d), count(1)": "WHERE mode = 'Mode 3' GROUP BY 1",
    "year(d), quarter(d), count(*)": "GROUP BY 1, 2 HAVING count(*) > 250",
    "date_trunc('hour', t), count(*)": "WHERE n < 9 GROUP BY 1",
    "CASE WHEN mode = 'Mode 1' THEN 'air' WHEN mode IS NULL THEN 'none' END m, count(*)": "GROUP BY 1",
    "substring(mode, 6, 1), n % 2, count(*)": "GROUP BY 1, 2",
    "lower(mode), count(n), count(DISTINCT n)": "GROUP BY 1",
    "part + 1, max(n), min(mode)": "GROUP BY 1",
    "mode, count(n)": "GROUP BY mode",
    "mode, sum(n), sum(CASE WHEN s = 1 THEN 1 ELSE 0 END)": "GROUP BY mode",
    "date_format(d, 'yyyy-MM'), count(*) FILTER (WHERE n > 11)": "GROUP BY 1",
    "count(DISTINCT year(d)), count_if(mode = 'Mode 1'), sum(s)": "",
    "count(DISTINCT year(d)), sum(n), count(CASE WHEN n > 3 THEN 1 END)": "WHERE mode = 'no such'",
    "year(d) + n, count(*)": "WHERE n = 3 GROUP BY year(d) + n",
    "coalesce(mode, 'none'), count(*)": "WHERE year(d) = 2020 GROUP BY 1",
    "count(n), count(*), max(s + n)": "WHERE d > DATE'2020-03-03'",
    "mode, s, count(*), grouping_id(), sum(n)": "GROUP BY ROLLUP(mode, s)",
    "year(d), mode, count(n), max(n), grouping(mode)": "GROUP BY CUBE(year(d), mode) HAVING count(*) > 9",
    "s, n % 3, count(*), sum(s), count(DISTINCT n)": "WHERE part < 2 GROUP BY GROUPING SETS ((s), (n % 3))",
    "mode, count(DISTINCT n), count(DISTINCT s), count(*)": "GROUP BY mode",
}


@pytest.mark.parametrize("shown", TOLD)
def test_an_aggregate_over_keys_is_told_without_a_row(
    accelerated: Acceleration, path: str, shown: str
) -> None:
    spark, statement = accelerated._spark, f"SELECT {shown} FROM delta.`{path}` {TOLD[shown]}"
    assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
    (scan,) = accelerated.last()
    assert scan.served in ("groups", "counts"), scan


def test_few_rows_are_grouped_more_than_once(accelerated: Acceleration, path: str) -> None:
    where = "WHERE n = 3 AND mode = 'Mode 1'"
    statement = f"SELECT s, part, max(x), count(*) FROM delta.`{path}` {where} GROUP BY CUBE(s, part)"
    assert rows_of(accelerated._spark, statement) == rows_of(accelerated._spark, statement, enabled=False)
    assert [scan.served for scan in accelerated.last()] == ["rows"]


LEFT = {
    "sum(x), year(d)": "GROUP BY 2",
    "year(d), avg(n)": "GROUP BY 1",
    "year(d), count(*)": "WHERE x > 5 GROUP BY 1",
    "id % 7, count(*)": "GROUP BY 1",
    "year(d), collect_set(n)": "GROUP BY 1",
    "sum(cast(n AS bigint) * 4000000000000000)": "WHERE n = 1",
    "year(d), first(mode)": "GROUP BY 1",
    "sum(DISTINCT n)": "",
}


@pytest.mark.parametrize("shown", LEFT)
def test_an_aggregate_that_keys_do_not_tell_is_left_to_spark(
    accelerated: Acceleration, path: str, shown: str
) -> None:
    spark, statement = accelerated._spark, f"SELECT {shown} FROM delta.`{path}` {LEFT[shown]}"
    if "collect_set" not in shown and "first" not in shown:
        assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
    else:
        rows_of(spark, statement)
    (scan,) = accelerated.last()
    assert scan.served not in ("groups", "counts"), scan


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_parts_of_times_are_those_of_the_session(accelerated: Acceleration, path: str, zone: str) -> None:
    statement = f"SELECT date_trunc('day', t), hour(t), count(*) FROM delta.`{path}` GROUP BY 1, 2"
    with session_settings(accelerated._spark, {"spark.sql.session.timeZone": zone}):
        rows = rows_of(accelerated._spark, statement)
        assert rows == rows_of(accelerated._spark, statement, enabled=False)
    assert [scan.served for scan in accelerated.last()] == ["groups"]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_an_expression_that_raises_does_so_when_it_runs_and_as_for_rows(
    accelerated: Acceleration, path: str, ansi: str
) -> None:
    spark, statement = (
        accelerated._spark,
        f"SELECT cast(mode AS int), count(*) FROM delta.`{path}` GROUP BY 1",
    )
    outcomes = []
    with session_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        for enabled in (True, False):
            frame_of = spark.sql(f"EXPLAIN {statement}").collect()
            assert frame_of
            try:
                outcomes.append(str(rows_of(spark, statement, enabled)))
            except Exception as error:
                outcomes.append(str(getattr(error, "getCondition", lambda: "")()))
    assert outcomes[0] == outcomes[1]


@pytest.fixture(scope="module")
def signed_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Zeros of both signs, NaN and NULL, as FLOAT and DOUBLE, and texts that differ in spaces."""
    path = str(tmp_path_factory.mktemp("signed") / "table")
    numbers = [0.0, -0.0, float("nan"), None, 0.1, -1.5] * 50
    texts = ["a", "a ", "A", "", None, "é"] * 50
    rows = pa.table(
        {
            "x": pa.array(numbers, pa.float64()),
            "f": pa.array(numbers, pa.float32()),
            "s": pa.array(texts),
            "n": pa.array(range(300), pa.int32()),
        }
    )
    write_deltalake(path, rows)
    index_of(path, ["x", "f", "s", "n"])
    return path


@pytest.mark.parametrize(
    "shown",
    [
        *("cast(x AS STRING)", "cast(f AS STRING)", "signum(x)", "try_divide(1, x)", "concat(x, '')"),
        *("s || '.'", "hex(s)", "x = 0, s", "abs(f)", "-x", "array(x)", "n > 7, cast(x AS STRING)"),
    ],
)
def test_what_keys_hold_alike_is_told_apart_as_in_the_rows(
    accelerated: Acceleration, signed_path: str, shown: str
) -> None:
    columns = ", ".join(str(place + 1) for place in range(shown.replace("('", "").count(", ") + 1))
    columns = "1" if "(" in shown and not shown.startswith("n") else columns
    statement = f"SELECT {shown}, count(*) FROM delta.`{signed_path}` GROUP BY {columns}"
    spark = accelerated._spark
    assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)


@pytest.mark.parametrize(
    "shown", ["min(cast(x AS STRING))", "max(cast(f AS STRING))", "count(DISTINCT cast(x AS STRING))"]
)
def test_extremes_of_expressions_see_the_sign_of_zero(
    accelerated: Acceleration, signed_path: str, shown: str
) -> None:
    statement = f"SELECT {shown} FROM delta.`{signed_path}` WHERE x = 0"
    assert rows_of(accelerated._spark, statement) == rows_of(accelerated._spark, statement, enabled=False)
