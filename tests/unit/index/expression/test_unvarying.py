"""Functions and expressions: what decides a value, which is the same whatever the session, and what the page says."""

from __future__ import annotations

# ruff: noqa: E501
import random
from pathlib import Path

import pytest

from support.function_cells import CELLS
from support.functions_page import page, read
from support.implications import TERMS, arrays, term
from tailbit.index.expression.calls import names
from tailbit.index.expression.evaluate import evaluate
from tailbit.index.expression.unvarying import is_unvarying
from tailbit.index.functions.table import CASES, FUNCTIONS, LOCALE, OPERATIONS, RELEASE, ZONE
from tailbit.index.functions.tree import CONDITIONAL, LAMBDAS, columns_in
from tailbit.index.functions.vectors import ERRORS, NOT_READ

UNVARYING = (
    "year(dt) * 100 + month(dt)", "CAST(nt AS DATE)", "year(CAST(nt AS DATE))", "trunc(dt, 'MONTH')", "last_day(dt)",
    "pmod(hash(l), 64)", "pmod(hash(s, i), 8)", "hash(coalesce(i, 0)) % 4", "i % 7", "pmod(l, 3)", "l div 1000",
    "floor(l / 1000)", "CAST(l / 1000 AS BIGINT)", "CAST(CAST(i AS BIGINT) % 16 AS TINYINT)", "CAST(i AS BIGINT) * i",
    "substring(s, 1, 3)", "left(s, 2)", "right(s, 2)", "concat(s, '-', CAST(i AS STRING))", "s || s", "length(s)",
    "coalesce(dt, DATE'1970-01-01')", "CASE WHEN s = 'a' THEN 1 ELSE 2 END", "i > 10", "dt < '2024-01-01'", "md5(s)",
    "d * 2", "d / 3", "-d", "unix_seconds(ts)", "CAST(year(dt) AS STRING)", "abs(l % 8)", "-(i % 9)",
)  # fmt: skip
UNLESS_THEY_RAISE = (
    "i + 1", "l * 3", "-l", "abs(i)", "10 / i", "i % l", "pmod(i, -3)", "l div -1", "i + l", "CAST(l AS INT)", "CAST(d AS INT)",
    "year(dt) * 10000 + month(dt) * 100 + day(dt)", "length(s) * 2", "CAST(l / 1000 AS INT)", "i % 0", "floor(l / 0.5D)",
)  # fmt: skip
VARYING = (
    "CAST(s AS DATE)", "to_date(s)", "year(s)", "trunc(s, 'quarter')", "TRY_CAST(s AS DATE)", "CAST(s AS INT)", "s + 1",
    "CAST(ts AS DATE)", "year(ts)", "hour(ts)", "date_trunc('HOUR', ts)", "date_trunc('DAY', nt)", "CAST(ts AS STRING)",
    "CAST(nt AS STRING)", "CAST(dt AS STRING)", "CAST(p AS STRING)", "CAST(nt AS TIMESTAMP)", "CAST(dt AS TIMESTAMP_NTZ)",
    "date_format(dt, 'yyyy-MM')", "date_format(ts, 'yyyy-MM-dd')", "substring(dt, 1, 7)", "from_unixtime(l)", "unix_timestamp(ts)",
    "to_timestamp(s, 'yyyy-MM-dd')", "lower(s)", "upper(s)", "initcap(s)", "concat(s, upper('a'))", "s LIKE 'a_b'", "s RLIKE 'a'",
    "regexp_extract(s, '(a)', 1)", "split(s, ',')[0]", "get_json_object(j, '$.a')", "tags[0]", "size(tags)", "hash(d)", "hash(f)",
    "f + 1", "f = i", "p * 2", "p + q", "p / 3", "floor(p)", "round(p, 1)", "round(i, -1)", "try_divide(i, sh)", "date_add(dt, 1)",
    "dt + 1", "datediff(dt, DATE'1970-01-01')", "make_date(i, 1, 1)", "substring(s, -2, 2)", "dayname(dt)", "d % 3",
    "coalesce(dt, to_date('2024', 'yyyy'))", "CASE WHEN upper(s) = 'A' THEN 1 ELSE 2 END", "floor(d)", "CAST(d AS BIGINT)",
)  # fmt: skip


@pytest.mark.parametrize("text", UNVARYING)
def test_an_expression_without_settings_locale_or_errors_is_unvarying(text: str) -> None:
    assert is_unvarying(term(text).expression)


@pytest.mark.parametrize("text", UNLESS_THEY_RAISE)
def test_arithmetic_that_ansi_mode_checks_is_unvarying_only_where_it_does_not_raise(text: str) -> None:
    expression = term(text).expression
    assert is_unvarying(expression, may_raise=True)
    assert not is_unvarying(expression)


@pytest.mark.parametrize("text", VARYING)
def test_an_expression_that_another_session_may_give_another_value_is_not_unvarying(text: str) -> None:
    expression = term(text).expression
    of_doubles = text in ("d % 3", "floor(d)", "CAST(d AS BIGINT)")
    assert is_unvarying(expression, may_raise=True) == of_doubles
    assert not is_unvarying(expression)


def test_an_unvarying_expression_raises_for_no_value() -> None:
    rng = random.Random(11)
    texts = [text for text in dict.fromkeys((*UNVARYING, *TERMS)) if is_unvarying(term(text).expression)]
    assert len(texts) > len(UNVARYING) + 20
    for text in texts:
        expression = term(text).expression
        raised = evaluate(expression, arrays(columns_in(expression), rng, 400), 400).raised
        codes = set() if raised is None else {ERRORS[code] for code in raised.tolist()}
        assert codes <= {"", NOT_READ, *_OF_LAST_DAYS.get(text, ())}, text


_OF_LAST_DAYS = {"trunc(dt, 'QUARTER')": ["ARITHMETIC_OVERFLOW"]}
"""Errors of the last 32-bit days, which Spark raises with ANSI mode off, too."""


def test_every_function_without_a_kernel_is_evaluated_as_a_whole() -> None:
    without = {name for name, operation in OPERATIONS.items() if not operation.kernel}
    assert without == {*CONDITIONAL, *LAMBDAS, "and", "or", "try_cast"}


def test_every_function_with_a_time_zone_depends_on_it() -> None:
    zoned = [function.kernel for function in FUNCTIONS.values() if function.zoned]
    assert [kernel for kernel in zoned if ZONE not in OPERATIONS[kernel].causes] == []


@pytest.mark.parametrize(
    ("function", "causes"), [("lower", {CASES, LOCALE}), ("initcap", {CASES, LOCALE}), ("like", {RELEASE})]
)
def test_letters_depend_on_locale_setting_and_release(function: str, causes: set[str]) -> None:
    assert causes <= set(OPERATIONS[function].causes)


PAGE = Path(__file__).parents[4] / "docs" / "functions.md"


def test_the_page_of_functions_is_made_from_what_is_judged() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make functions-page"


def test_every_function_is_judged_by_spark() -> None:
    assert set(names()) <= set(CELLS)
    assert [name for name, texts in CELLS.items() if not any(map(read, texts))] == []
