"""What conditions imply for indexed terms: surely, and possibly."""

# ruff: noqa: E501

from __future__ import annotations

import pickle

import pytest

from support.implications import SCHEMA, shown, term
from tailbit.index.expression.indexed_term import indexed_term
from tailbit.index.functions.tree import Call, Ref
from tailbit.index.predicate.implied import implied, tuple_prefix
from tailbit.index.predicate.rising import substituted, term_of
from tailbit.index.predicate.tree import And, Node
from tailbit.index.sql.bind import bind
from tailbit.tables.model import Column, DataType

EXACT = [
    ("lower(s)", "lower(s) = 'x'", "{'x'}"),
    ("lower(s)", "'x' = lower(s)", "{'x'}"),
    ("lower(s)", "lower(s) IN ('x', 'y')", "{'x', 'y'}"),
    ("lower(s)", "lower(s) NOT IN ('x', 'y')", "all but {'x', 'y'}"),
    ("lower(s)", "lower(s) LIKE 'ab%'", "{'ab'..<'ac'}"),
    ("lower(s)", "startswith(lower(s), 'ab')", "{'ab'..<'ac'}"),
    ("lower(s)", "NOT (lower(s) LIKE 'ab%')", "all but {'ab'..<'ac'}"),
    ("lower(s)", "lower(s) BETWEEN 'a' AND 'c'", "{'a'..'c'}"),
    ("lower(s)", "lower(s) = 'x' OR lower(s) > 'y'", "{'x', 'y'<..}"),
    ("lower(s)", "lower(s) IS NULL", "{NULL}"),
    ("lower(s)", "lower(s) IS NOT NULL", "all"),
    ("lower(s)", "lower(s) <=> NULL", "{NULL}"),
    ("lower(s)", "(lower(s) = 'x') IS NULL", "{NULL}"),
    ("lower(s)", "(lower(s) = 'x') IS NOT TRUE", "all but {'x'} and NULL"),
    ("lower(s)", "lower(s) || '' = 'x'", "computed: concat(lower(s), '') = 'x'"),
    ("lower(s)", "length(lower(s)) > 3", "computed: length(lower(s)) > 3"),
    ("lower(s)", "lower(s) LIKE '%b'", "computed: lower(s) LIKE '%b'"),
    ("lower(s)", "CASE WHEN lower(s) = 'x' THEN 1 ELSE 2 END = 1", "computed: CASE WHEN lower(s) = 'x' THEN 1 ELSE 2 END = 1"),
    ("st.city || s", "st.city || s = 'ab'", "{'ab'}"),
    ("CAST(n AS INT)", "CAST(n AS INT) > 5", "{5<..}"),
    ("f + 1", "f + 1 = 2", "{2.0}"),
    ("f + 1", "f + 1 > CAST('NaN' AS DOUBLE)", "{nan<..}"),
    ("i + l", "i + l IN (1, 2)", "{1, 2}"),
    ("year(dt) * 100 + month(dt)", "year(dt) * 100 + month(dt) = 202401", "{202401}"),
    ("date_trunc('HOUR', ts)", "date_trunc('hour', ts) = '2024-01-01 10:00:00'", "{'2024-01-01 10:00:00'}"),
    ("date_trunc('HOUR', ts)", "date_trunc('hour', ts) IN ('2024-01-01 10:00:00', '2024-01-01 12:00:00')", "{'2024-01-01 10:00:00', '2024-01-01 12:00:00'}"),
    ("date_trunc('HOUR', ts)", "ts >= '2024-01-01 10:00:00' AND ts < '2024-01-02'", "{'2024-01-01 10:00:00'..'2024-01-01 23:00:00'}"),
    ("date_trunc('HOUR', ts)", "ts IS NULL", "{NULL}"),
    ("to_date(ts)", "to_date(ts) = '2024-01-01'", "{'2024-01-01'}"),
    ("year(dt)", "year(dt) = 1995", "{1995}"),
    ("year(dt)", "year(dt) NOT IN (1995, 1997)", "{..1994, 1996, 1998..}"),
    ("year(dt)", "dt < DATE'1996-01-01'", "{..1995}"),
    ("trunc(dt, 'MONTH')", "trunc(dt, 'MONTH') = DATE'2024-01-01'", "{'2024-01-01'}"),
    ("trunc(dt, 'MONTH')", "trunc(dt, 'MONTH') >= DATE'2024-01-01'", "{'2024-01-01'..}"),
    ("last_day(dt)", "last_day(dt) = DATE'2024-01-31'", "{'2024-01-31'}"),
    ("floor(p)", "floor(p) = 3", "{3}"),
    ("round(p, 1)", "round(p, 1) = 2.5", "{2.5}"),
    ("d * 2", "d * 2 = 6", "{6.0}"),
    ("d * 2", "d >= 3", "{6.0..}"),
    ("substr(s, 1, 2)", "substr(s, 1, 2) = 'a'", "{'a'}"),
    ("substr(s, 1, 2)", "substr(s, 1, 2) IN ('ab', 'é')", "{'ab', 'é'}"),
    ("substr(s, 1, 2)", "s LIKE 'ab%'", "{'ab'}"),
    ("i + 1", "i > 4", "{6..}"),
    ("10 - i", "i > 4", "{..5}"),
    ("l * -3", "l BETWEEN 2 AND 4", "{-12..-6}"),
    ("unix_micros(ts)", "ts < '1970-01-01 00:00:01'", "{..999999}"),
    ("substr(s, 1, 2)", "s LIKE 'a%'", "{'a'..<'b'}"),
    ("substr(s, 1, 2)", "s >= 'ab'", "{'ab'..}"),
    ("i < l", "i < l", "{TRUE}"),
    ("i < l", "l > i", "{TRUE}"),
    ("i < l", "i >= l", "{FALSE}"),
    ("i > 10", "i > 10", "{TRUE}"),
    ("i > 10", "NOT (i > 10)", "{FALSE}"),
    ("i > 10", "i <= 10", "{FALSE}"),
    ("i > 10", "i IS NULL", "{NULL}"),
    ("length(s) > 2", "length(s) > 2", "{TRUE}"),
    ("length(s) > 2", "NOT (length(s) > 2)", "{FALSE}"),
]  # fmt: skip
"""Term, condition, and the condition on the term that is TRUE for the same rows."""

WIDER = [
    ("lower(s)", "lower(s) = 'x' AND i > 1", "-", "{'x'}"),
    ("lower(s)", "s IN ('X', 'x', 'Y')", "-", "{'x', 'y'}"),
    ("lower(s)", "s = 'A' OR lower(s) = 'b'", "{'b'}", "{'a', 'b'}"),
    ("date_trunc('HOUR', ts)", "ts >= '2024-01-01 10:30:00'", "{'2024-01-01 10:00:00'<..}", "{'2024-01-01 10:00:00'..}"),
    ("date_trunc('HOUR', ts)", "ts = '2024-01-01 10:30:00'", "-", "{'2024-01-01 10:00:00'}"),
    ("to_date(ts)", "ts < '2024-01-01 10:30:00'", "{..<'2024-01-01'}", "{..'2024-01-01'}"),
    ("year(dt)", "dt BETWEEN DATE'1995-03-01' AND DATE'1997-03-01'", "{1995<..<1997}", "{1995..1997}"),
    ("floor(p)", "p >= 2.5", "{2<..}", "{2..}"),
    ("unix_seconds(ts)", "ts < '1970-01-01 00:00:01.5'", "{..<1}", "{..1}"),
    ("substr(s, 1, 2)", "s LIKE 'abc%'", "-", "{'ab'}"),
    ("substr(s, 1, 2)", "s > 'abc'", "{'ab'<..}", "{'ab'..}"),
    ("pmod(hash(i), 64)", "i = 7", "-", "{11}"),
    ("pmod(hash(i), 64)", "i BETWEEN 1 AND 3", "-", "{22, 35}"),
    ("pmod(hash(i, l), 64)", "i = 7 AND s = 'a' AND l IN (1, 2)", "-", "{17, 55}"),
    ("month(dt)", "dt >= DATE'2024-01-15' AND dt < DATE'2024-02-03'", "-", "{1, 2}"),
    ("10 / i", "i IN (0, 5)", "-", "{2.0}"),
    ("i > 10", "i > 20", "-", "{TRUE}"),
    ("i > 10", "i > 0", "{TRUE}", "{FALSE, TRUE}"),
]  # fmt: skip
"""Term, condition, and the conditions on the term that are sure and possible."""

NOTHING = [
    ("lower(s)", "s > 'X'"),
    ("lower(s)", "lower(s) = 'x' OR i > 1"),
    ("lower(s)", "lower(s) = n"),
    ("lower(s)", "n = 'x'"),
    ("pmod(hash(i, l), 64)", "i = 7"),
    ("pmod(hash(i), 64)", "i > 7"),
]


@pytest.mark.parametrize(("text", "condition", "asked"), EXACT)
def test_a_condition_that_a_term_says_whole_is_asked_of_the_term(
    text: str, condition: str, asked: str
) -> None:
    said = implied(bind(condition, SCHEMA), term(text))
    assert said is not None
    assert said.exact
    assert shown(said.maybe) == asked


@pytest.mark.parametrize(("text", "condition", "sure", "maybe"), WIDER)
def test_a_condition_that_a_term_says_in_part_has_sure_and_possible_values(
    text: str, condition: str, sure: str, maybe: str
) -> None:
    said = implied(bind(condition, SCHEMA), term(text))
    assert said is not None
    assert (shown(said.sure), shown(said.maybe)) == (sure, maybe)


ZONED = [
    ("to_date(ts)", "to_date(ts) = '2024-01-01'", "Europe/Berlin", "{'2024-01-01'}"),
    ("to_date(ts)", "ts >= '2024-03-31' AND ts < '2024-04-01'", "Europe/Berlin", "{'2024-03-31'}"),
    ("date_trunc('DAY', ts)", "date_trunc('DAY', ts) = '2024-01-01'", "Europe/Berlin", "{'2023-12-31 23:00:00'}"),
    ("date_trunc('MONTH', ts)", "ts >= '2024-03-01' AND ts < '2024-04-01'", "America/New_York", "{'2024-03-01 05:00:00'}"),
    ("year(ts)", "ts < '2024-01-01'", "Asia/Kolkata", "{..2023}"),
]  # fmt: skip
"""Term, condition, zone, and the condition on the term that is TRUE for the same rows."""


@pytest.mark.parametrize(("text", "condition", "zone", "asked"), ZONED)
def test_a_range_of_times_is_one_of_days_where_clocks_change(
    text: str, condition: str, zone: str, asked: str
) -> None:
    said = implied(bind(condition, SCHEMA, zone), term(text, zone))
    assert said is not None
    assert said.exact
    assert shown(said.maybe) == asked


def test_a_day_that_begins_twice_is_not_sure_before_its_second_begin() -> None:
    zone = "America/St_Johns"  # on 2010-11-07 at 00:01, clocks went back to 23:01 of the day before
    begin = bind("ts >= TIMESTAMP'2010-11-07 02:30:00Z'", SCHEMA, zone)
    said = implied(begin, term("to_date(ts)", zone))
    assert said is not None
    assert (shown(said.sure), shown(said.maybe)) == ("{'2010-11-06'<..}", "{'2010-11-06'..}")


@pytest.mark.parametrize(("text", "condition"), NOTHING)
def test_a_condition_that_has_nothing_to_do_with_a_term_implies_nothing(text: str, condition: str) -> None:
    assert implied(bind(condition, SCHEMA), term(text)) is None


def test_an_implication_is_found_once_for_a_condition_and_a_term() -> None:
    node = bind("date_trunc('hour', ts) = '2024-01-01 10:00:00'", SCHEMA)
    assert implied(node, term("date_trunc('HOUR', ts)")) is implied(node, term("date_trunc('HOUR', ts)"))


def test_a_condition_on_a_term_is_not_made_anew() -> None:
    of = term("lower(s)")
    first = implied(bind("lower(s) LIKE '%b' AND length(lower(s)) > 3", SCHEMA), of)
    assert first is not None
    again = implied(first.maybe, of)
    assert again is not None
    assert again.maybe is first.maybe is again.sure


def test_an_indexed_term_is_a_column_whose_id_no_column_has() -> None:
    of = term("lower(s)")
    plain = Column(("#0000abcd",), ("#0000abcd",), DataType("string"))
    assert of.id == "#0000abcd" != plain.id
    assert (of.label, of.type.name) == ("lower(s)", "string")


def test_an_indexed_term_survives_pickling() -> None:
    of = term("pmod(hash(i, l), 64)")
    assert pickle.loads(pickle.dumps(of)) == of


def test_an_expression_that_contains_a_term_reads_the_term() -> None:
    lower, upper = term("lower(s)"), indexed_term("#00000001", "upper(s)", term("upper(s)").expression)
    outer = substituted(term("concat(lower(s), '-', n, upper(s))").expression, [lower, upper])
    assert isinstance(outer, Call)
    assert [column.id for column in outer.columns] == [lower.id, "n", upper.id]
    assert substituted(lower.expression, [lower]) == Ref(lower)


def test_a_term_is_found_by_the_expression_that_it_holds() -> None:
    terms = [term("upper(s)"), term("lower(s)")]
    assert term_of(term("lcase(S)").expression, terms) is terms[1]
    assert term_of(term("lower(n)").expression, terms) is None


PARTS = [SCHEMA.resolve("i"), term("lower(s)"), SCHEMA.resolve("d")]


def conjuncts(text: str) -> tuple[Node, ...]:
    """The conditions between the ANDs of a text."""
    node = bind(text, SCHEMA)
    return node.children if isinstance(node, And) else (node,)


@pytest.mark.parametrize("text", ["lower(s) = 'x'", "d > 5 AND lower(s) = 'x'", "i = 1 OR lower(s) = 'x'"])
def test_a_composite_key_serves_nothing_without_its_first_part(text: str) -> None:
    assert tuple_prefix(conjuncts(text), PARTS) is None
