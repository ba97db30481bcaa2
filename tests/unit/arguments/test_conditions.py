"""Conditions built in Python mean what the text means that one would write."""

from __future__ import annotations

import datetime
import enum
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

import tailbit
from support.function_cells import schema
from tailbit.arguments.conditions import Condition, call, col, condition_text, sql_of
from tailbit.errors import UsageError
from tailbit.index.sql.bind import bind

UTC = datetime.timezone.utc
LONDON = ZoneInfo("Europe/London")


class _Grade(int, enum.Enum):
    GOOD = 3


@pytest.mark.parametrize(
    ("built", "written"),
    [
        (col("i") == 1, "i = 1"),
        (col("i") != 1, "i <> 1"),
        ((col("i") >= 1) & (col("l") < 2) | ~(col("s") == "a"), "(i >= 1 AND l < 2) OR NOT (s = 'a')"),
        (col("s").isin("a", "it's", "back\\slash"), r"s IN ('a', 'it\'s', 'back\\slash')"),
        (col("s").isin(["a", None]), "s IN ('a', NULL)"),
        (col("i").isin(1, 2.5, _Grade.GOOD), "i IN (1, 2.5D, 3)"),
        (col("i").isin(_Grade.GOOD, _Grade.GOOD), "i IN (3, 3)"),
        (col("bo").isin(True, False), "bo IN (TRUE, FALSE)"),
        (col("i").isin(1, col("j")), "i IN (1, j)"),
        (col("i").isin(col("i") + 1, col("j")), "i IN ((i + 1), j)"),
        (col("s").isin(np.array("a")), "s IN ('a')"),
        (col("i").isin(np.array(1)), "i IN (1)"),
        (col("s").isin([]), "FALSE"),
        (col("i").between(1, 5), "i BETWEEN 1 AND 5"),
        (col("s").like("a%"), "s LIKE 'a%'"),
        (col("s").like("a!%%", escape="!"), "s LIKE 'a!%%' ESCAPE '!'"),
        (col("s").ilike("A%"), "s ILIKE 'A%'"),
        (col("s").rlike(r"^\d"), r"s RLIKE '^\\d'"),
        (col("s").startswith("a") & col("s").endswith("b") & col("s").contains("c"),
         "startswith(s, 'a') AND endswith(s, 'b') AND contains(s, 'c')"),
        (col("s").is_null() | col("s").is_not_null(), "s IS NULL OR s IS NOT NULL"),
        (col("bo").is_true() | col("bo").is_false(), "bo IS TRUE OR bo IS FALSE"),
        (col("i").same_as(None), "i <=> NULL"),
        (col("i") + 1 - col("l") * 2 > -col("i"), "i + 1 - l * 2 > -i"),
        (10 / col("i") % 3 < 1 - col("d"), "10 / i % 3 < 1 - d"),
        (1 + col("i") == 2 * col("i"), "1 + i = 2 * i"),
        (col("n").cast("int") == col("n").try_cast("int"), "CAST(n AS INT) = TRY_CAST(n AS INT)"),
        (call("year", col("dt")) == 2013, "year(dt) = 2013"),
        (col("d") == 1.5, "d = 1.5D"),
        (col("d") == float("nan"), "d = CAST('NaN' AS DOUBLE)"),
        (col("p") == Decimal("1.50"), "p = 1.50"),
        (col("x") == b"ab", "x = X'6162'"),
        (col("bo") == True, "bo = TRUE"),  # noqa: E712
        (col("dt") == datetime.date(2020, 1, 2), "dt = DATE'2020-01-02'"),
        (col("ts") == datetime.datetime(2020, 1, 2, 3, tzinfo=UTC), "ts = TIMESTAMP'2020-01-02 03:00:00Z'"),
        (col("ts") == datetime.datetime(2020, 1, 2, 3, 0, 0, 6, LONDON),
         "ts = TIMESTAMP'2020-01-02 03:00:00.000006Z'"),
        (col("ts") == datetime.datetime(2020, 7, 2, 3, tzinfo=LONDON),
         "ts = TIMESTAMP'2020-07-02 02:00:00Z'"),
        (col("nt") == datetime.datetime.fromisoformat("2020-01-02 03:04:05.000006"),
         "nt = TIMESTAMP_NTZ'2020-01-02 03:04:05.000006'"),
        (col("i") == np.int64(7), "i = 7"),
        (
            col("nt") == np.datetime64("2020-01-01T01:02:03.000004", "ns"),
            "nt = TIMESTAMP_NTZ'2020-01-01 01:02:03.000004'",
        ),
        (col("nt") == np.datetime64("2020-01-01T01:02:03", "s"), "nt = TIMESTAMP_NTZ'2020-01-01 01:02:03'"),
        (col("dt") == np.datetime64("2020-01-01"), "dt = DATE'2020-01-01'"),
        (col("i") > -5, "i > -5"),
        (Condition("i = 1 OR l = 2") & (col("b") == 3), "(i = 1 OR l = 2) AND b = 3"),
        (~Condition("i = 1 OR l = 2"), "NOT (i = 1 OR l = 2)"),
        (Condition("i + 1") * 2 == 4, "(i + 1) * 2 = 4"),
        (col("i") == _Grade.GOOD, "i = 3"),
    ],
)  # fmt: skip
def test_a_condition_built_in_python_is_the_one_that_is_written(built: Condition, written: str) -> None:
    found, expected = bind(built.sql, schema()), bind(written, schema())
    assert found == expected or str(found) == str(expected)


def test_a_time_that_utc_has_no_year_for_is_refused() -> None:
    east = datetime.timezone(datetime.timedelta(hours=5))
    with pytest.raises(UsageError) as refused:
        sql_of(datetime.datetime(1, 1, 1, tzinfo=east))
    assert "years 1 to 9999" in str(refused.value.hint)


def test_a_column_is_found_by_a_name_with_blanks_dots_and_backticks() -> None:
    assert [str(col(name)) for name in ("a b", "a.b", "`a.b`", "`a``b`")] == [
        "`a b`",
        "`a`.`b`",
        "`a.b`",
        "`a``b`",
    ]


def test_a_condition_is_no_truth_of_python() -> None:
    with pytest.raises(UsageError, match="no truth"):
        bool(col("i") == 1)
    with pytest.raises(UsageError, match="no truth"):
        1 < col("i") < 3  # noqa: B015


@pytest.mark.parametrize("value", [object(), {}, Decimal("nan"), b"a".decode().__class__])
def test_a_value_that_is_no_constant_is_refused(value: Any) -> None:
    with pytest.raises(UsageError):
        sql_of(value)


def test_a_function_is_called_by_a_name() -> None:
    with pytest.raises(UsageError, match="not the name of a function"):
        call("upper(s) OR lower", col("s"))


def test_where_takes_a_condition_and_shows_its_text(table_path: str) -> None:
    from support.tables import eight_flights

    eight_flights(table_path)
    flights = tailbit.open(table_path)
    answer = flights.where(tailbit.col("carrier").isin("UA", "DL") & (tailbit.col("dep_delay") >= 0))
    assert answer.count() == flights.where("carrier IN ('UA', 'DL') AND dep_delay >= 0").count() > 0
    assert answer.predicate == condition_text("sql", answer.predicate)
    with pytest.raises(UsageError, match="where is 7"):
        flights.where(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        np.datetime64("2020-01-01T00:00:00.000000001"),
        pd.Timestamp("2020-01-01T00:00:00.000000001"),
        np.datetime64("20000-01-01T00:00:00", "us"),
        np.timedelta64(3, "ns"),
    ],
)
def test_a_time_that_no_constant_holds_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="type"):
        col("nt").isin([value])
