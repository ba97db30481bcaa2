"""Constants as written: what Spark does with a literal alone, wherever it stands, and with nothing else."""

from __future__ import annotations

import pytest

from support.function_cells import rows, schema
from support.truth import matches
from tailbit.errors import PredicateError
from tailbit.index.sql.bind import bind

SCHEMA = schema()
TABLE = rows().select(["i", "n"]).slice(4)
"""`i` is NULL in some rows; `n` holds texts that are no numbers, and NULL in the last row."""
ROWS, HUGE = TABLE.num_rows, "99999999999999999999"


def count(text: str) -> int:
    return int(matches(bind(text, SCHEMA), TABLE, {}).sum())


@pytest.mark.parametrize(
    "text",
    [
        f"i < {HUGE}",
        f"abs(i) < {HUGE}",
        f"{HUGE} > abs(i)",
        f"abs(i) > -{HUGE}",
        f"-{HUGE} <= abs(i)",
        f"coalesce(i < {HUGE}, false)",
        f"CASE WHEN i <= {HUGE} THEN true ELSE false END",
        f"if({HUGE} >= i, TRUE, FALSE)",
        f"CAST(n AS INT) < {HUGE}",
        f"i + 0 BETWEEN -{HUGE} AND {HUGE}",
        f"(abs(i) > {HUGE}) = FALSE",
        f"NOT (abs(i) >= {HUGE})",
        "abs(i) < 9223372036854775807.5",
    ],
)
def test_an_integer_is_less_than_a_decimal_beyond_all_integers_even_where_it_is_null(text: str) -> None:
    assert count(text) == ROWS


@pytest.mark.parametrize(
    "text",
    [
        f"abs(i) < +{HUGE}",
        f"abs(i) < CAST({HUGE} AS DECIMAL(20,0))",
        f"i < CAST({HUGE} AS DECIMAL(20,0))",
        f"i < coalesce({HUGE})",
        f"abs(i) <> {HUGE}",
        "abs(i) < 9223372036854775807",
    ],
)
def test_what_is_no_literal_of_that_size_leaves_null_as_it_is(text: str) -> None:
    assert count(text) == count("i IS NOT NULL")


@pytest.mark.parametrize("high", ["999999999999999999999", "CAST(999999999999999999999 AS DECIMAL(38,0))"])
@pytest.mark.parametrize("value", ["i", "i + 0L"])
def test_a_decimal_between_two_bounds_is_no_literal_to_them(value: str, high: str) -> None:
    known = count("i IS NOT NULL")
    assert count(f"{HUGE} BETWEEN {value} AND {high}") == known
    assert count(f"coalesce({HUGE} BETWEEN {value} AND {high}, FALSE)") == known
    assert count(f"({HUGE} NOT BETWEEN {value} AND {high}) IS NULL") == ROWS - known


def test_an_integer_in_nullif_has_the_digits_of_its_type() -> None:
    near = "3.000000000000000000000000000000001"
    assert count(f"nullif(3, {near} + 0) IS NULL") == ROWS
    assert count(f"3 = {near} + 0") == 0


def test_an_integer_beside_a_written_fraction_is_compared_as_one_within_an_expression() -> None:
    assert count("coalesce(i < 65.5, FALSE)") == count("i <= 65")
    assert count("coalesce(-6.5 >= i, FALSE)") == count("i <= -7")


@pytest.mark.parametrize("seven", ["CAST(7 AS INT)", "int(7)", "coalesce(7)", "TRY_CAST(7 AS INT)", "+7"])
def test_a_literal_is_none_any_more_behind_a_cast_to_its_own_type(seven: str) -> None:
    assert count(f"3.0/{seven} = 0.428571") == 0
    assert count("3.0/7 = 0.428571") == ROWS
    assert count("3.0/(7) = 0.428571") == ROWS


def test_a_tinyint_beside_a_decimal_has_three_digits_even_as_written() -> None:
    assert count("3.000000/7Y = 0.4285714286") == ROWS
    assert count("3.000000/7S = 0.42857143") == ROWS


def test_functions_of_many_arguments_have_no_limit_of_them() -> None:
    assert count(f"coalesce({'NULL, ' * 1500}1) = 1") == ROWS
    assert count(f"length(concat({', '.join(['n'] * 1200)})) >= 0") == count("n IS NOT NULL")
    with pytest.raises(PredicateError, match="takes 1 or more arguments here, not 0"):
        bind("coalesce() = 1", SCHEMA)


def test_a_written_number_may_begin_with_thousands_of_zeros() -> None:
    zeros = "0" * 5000
    assert count(f"i = {zeros}65") == count("i = 65")
    assert count(f"i = {zeros}65L") == count("i = 65")
    assert count(f"i < {zeros}65.5") == count("i < 65.5")
    assert count(f"CAST(65.46 AS DECIMAL({zeros}3,{zeros}1)) = 65.5") == ROWS


@pytest.mark.parametrize(("number", "reason"), [("9" * 5000, "more than 38"), ("9" * 5000 + "L", "range")])
def test_a_written_number_of_thousands_of_digits_is_refused_as_one(number: str, reason: str) -> None:
    with pytest.raises(PredicateError, match=reason) as refused:
        bind(f"i = {number}", SCHEMA)
    assert "sys." not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "'epoch' BETWEEN TIMESTAMP_NTZ'2020-01-01' AND '0.1'",
        "nullif('epoch', DATE'1970-01-01') IS NULL",
        "i = 1 AND ('today' BETWEEN DATE'2020-01-01' AND n)",
    ],
)
def test_a_word_for_a_time_is_refused_where_spark_does_not_read_it(text: str) -> None:
    with pytest.raises(PredicateError, match="compared twice"):
        bind(text, SCHEMA)
