"""What Spark does not parse is refused where Spark stops; what Spark parses is read as Spark binds it."""

from __future__ import annotations

import json
import random

import pytest

from support.predicates import random_predicate
from support.random_conditions import Conditions
from tailbit.errors import PredicateError
from tailbit.index.sql.bind import bind
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.tables.delta.schema import parse_schema

TYPES = {"id": "integer", "c": "boolean", "s": "string", "p": "double", "IS": "integer", "NOT": "boolean"}
SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": type_, "nullable": True, "metadata": {}}
                for name, type_ in TYPES.items()
            ],
        }
    ),
    [],
    {},
    "test",
)


def refusal(text: str) -> str:
    with pytest.raises(PredicateError) as refused:
        bind(text, SCHEMA)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("id NOT NULL", "NOT"),
        ("id NOTNULL", "NOTNULL"),
        ("id ISNULL", "ISNULL"),
        ("id IN (1,)", ")"),
        ("id IN ()", ")"),
        ("coalesce(c,)", ")"),
        ("id IS NULL = true", "="),
        ("c IS NULL IN (c)", "IN"),
        ("c IS NULL LIKE 'a'", "LIKE"),
        ("s LIKE 'a' LIKE 'b'", "LIKE 'b'"),
        ("id IN (1) IS NULL", "IS"),
        ("id BETWEEN 1 AND 2 IS NULL", "IS"),
        ("id BETWEEN 1 AND 2 BETWEEN 1 AND 2", "BETWEEN 1 AND 2"),
        ("c IS NULL IS NULL", "IS NULL"),
        ("c IS TRUE IS NOT TRUE", "IS NOT"),
        ("c IS DISTINCT FROM c IS DISTINCT FROM c", "IS DISTINCT FROM c"),
        ("c = NOT c", "NOT"),
        ("s LIKE ANY ()", ")"),
        ("s LIKE ALL ()", ")"),
        ("s LIKE ANY ('1',)", ")"),
        ("EXTRACT(YEAR, DATE'2020-01-01') = 2020", ","),
        ("id = CAST('1' AS DECIMAL(1,0,3))", ",3"),
        ("CASE WHEN id NOT NULL THEN 1 END = 1", "NOT"),
        ("coalesce(id IS NULL = c, c)", "="),
    ],
)
def test_what_spark_does_not_parse_is_refused_with_a_caret_where_it_stops(text: str, at: str) -> None:
    *found, line, caret = refusal(text).splitlines()
    assert "PARSE_SYNTAX_ERROR" in found[0]
    assert len(caret) - 1 == line.rindex(at)


@pytest.mark.parametrize(
    "text",
    [
        "id BETWEEN ASYMMETRIC 1 AND 2",
        "s LIKE ANY '1'",
        "s LIKE ALL '1'",
        "s RLIKE ANY ('1')",
        "s RLIKE 'a' ESCAPE 'b'",
        "s LIKE 'a' ESCAPE 1",
        "id IS 1",
        "c IS `unknown`",
        "id = CAST('1' AS DECIMAL(1.5))",
        "id = CAST('1' AS DECIMAL(+1))",
        "id = CAST('1' AS DECIMAL('1'))",
    ],
)
def test_what_spark_does_not_parse_or_reads_otherwise_is_refused_at_a_place(text: str) -> None:
    assert " at character " in refusal(text)


@pytest.mark.parametrize("text", ["id ! IN (1)", "id IS ! NULL", "s ! LIKE 'a'", "c IS ! DISTINCT FROM c"])
def test_an_exclamation_mark_is_not_in_front_of_a_condition_alone(text: str) -> None:
    assert f"BANG_EQUALS_NOT in Spark) at character {text.index('!') + 1}" in refusal(text)
    assert bind("! c", SCHEMA) == bind("NOT c", SCHEMA)


@pytest.mark.parametrize("subject", ["id", "s", "id + 1", "p"])
def test_unknown_is_asked_of_conditions_alone(subject: str) -> None:
    for text in (f"{subject} IS UNKNOWN", f"CASE WHEN {subject} IS NOT UNKNOWN THEN 1 END = 1"):
        assert "is not a condition" in refusal(text)


@pytest.mark.parametrize("subject", ["c", "(c AND id = 1)", "(NULL)", "id = 1"])
def test_a_condition_that_is_unknown_is_null(subject: str) -> None:
    for shape in ("{} IS NULL", "{} IS NOT NULL", "CASE WHEN {} IS NULL THEN 1 END = 1"):
        text = shape.format(subject)
        assert repr(bind(text.replace("S NULL", "S UNKNOWN").replace("T NULL", "T UNKNOWN"), SCHEMA)) == repr(
            bind(text, SCHEMA)
        )


@pytest.mark.parametrize("asked", ["NULL", "TRUE", "FALSE", "UNKNOWN", "DISTINCT FROM c"])
def test_a_column_named_not_is_asked_for_what_only_is_takes(asked: str) -> None:
    for word in ("IS", "IS NOT"):
        assert bind(f"(NOT {word} {asked})", SCHEMA) == bind(f"`NOT` {word} {asked}", SCHEMA)
        assert bind(f"(NOT NOT {word} {asked})", SCHEMA) == bind(f"NOT (`NOT` {word} {asked})", SCHEMA)
    for rest in ("IS NULL", "IN (1)", "NOT IN (1)", "= 1"):
        assert bind(f"NOT IS {rest}", SCHEMA) == bind(f"NOT (`IS` {rest})", SCHEMA)


@pytest.mark.parametrize("asked", ["NULL", "TRUE", "FALSE", "UNKNOWN"])
def test_not_is_null_at_the_end_of_a_text_is_refused_as_spark_gives_the_condition_a_name(asked: str) -> None:
    for text in (f"NOT IS {asked}", f"c AND NOT IS {asked}"):
        with pytest.raises(PredicateError):
            bind(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("c = c IS NULL", "(c = c) IS NULL"),
        ("c <=> c IS NOT TRUE", "(c <=> c) IS NOT TRUE"),
        ("c IS DISTINCT FROM c = c", "c IS DISTINCT FROM (c = c)"),
        ("id = 1 = c", "(id = 1) = c"),
        ("NOT c IS NULL", "NOT (c IS NULL)"),
        ("NOT NOT c <=> NULL", "NOT NOT (c <=> NULL)"),
        ("(id IS NULL) = true", "((id IS NULL)) = true"),
        ("(c IS NULL) IN (c, id IS NULL)", "(c IS NULL) IN ((c), (id IS NULL))"),
        ("((id IN (1)) IS NULL) IS NULL", "(((id IN (1))) IS NULL) IS NULL"),
        ("id BETWEEN 1 AND 2 AND c", "(id BETWEEN 1 AND 2) AND c"),
        ("coalesce(id IN (1, 2), c IS NULL)", "coalesce((id IN (1, 2)), (c IS NULL))"),
        ("s NOT LIKE ANY ('a', 'b%')", "(s NOT LIKE ANY ('a', 'b%'))"),
        ("s NOT LIKE 'a!%' ESCAPE '!'", "(s NOT LIKE 'a!%' ESCAPE '!')"),
        ("CASE c WHEN id IS NULL THEN 1 ELSE 2 END = 1", "CASE c WHEN (id IS NULL) THEN 1 ELSE 2 END = 1"),
        ("c AND like(s, 'a')", "c AND (s LIKE 'a')"),
        ("like(s, 'a!%', '!')", "s LIKE 'a!%' ESCAPE '!'"),
        ("c <=> c < c", "(c <=> c) < c"),
        ("c <=> NULL <= c", "(c <=> NULL) <= c"),
        ("c <=> c NOT IN (c)", "(c <=> c) NOT IN (c)"),
        ("id | 6 & 1 = 1", "(id | (6 & 1)) = 1"),
        ("id ^ 6 | 1 & id = 1", "((id ^ 6) | (1 & id)) = 1"),
        ("'1' || id - 1 = 1", "(('1' || id) - 1) = 1"),
        ("id = -1::INT", "id = (-1)::INT"),
        ("id = - -1", "id = -(-1)"),
        ("id + 2 * id % 3 = ~id + 1", "(id + ((2 * id) % 3)) = ((~id) + 1)"),
        ("id = 1 /* a /* b */ c */", "id = 1"),
        ("id = 1 -- a\\\n OR c", "id = 1"),
        ("x'1F' = X '1F'", "X'1F' = X'1F'"),
        ("rlike(s, 'a') IS NULL", "(s RLIKE 'a') IS NULL"),
        ("EXTRACT(YEAR FROM DATE'2020-01-01') = id", "year(DATE'2020-01-01') = id"),
    ],
)
def test_what_spark_parses_is_read_as_spark_binds_it(text: str, meant: str) -> None:
    assert repr(bind(text, SCHEMA)) == repr(bind(meant, SCHEMA))


def test_random_conditions_of_every_type_and_function_are_in_the_grammar() -> None:
    conditions = Conditions(random.Random(7))
    texts = [conditions.tree(2).text for _ in range(300)]
    texts += [random_predicate(random.Random(seed)).spark for seed in range(200)]
    for text in texts:
        parse_predicate(text)


@pytest.mark.parametrize("text", ["s = '${x}'", "s RLIKE r'\\${3}b'", "s = 'a' AND ${env:HOME} = id"])
def test_a_variable_that_spark_puts_a_setting_for_is_refused(text: str) -> None:
    assert "is a variable at character" in refusal(text)


@pytest.mark.parametrize("text", ["s = '$' '{x}'", "s = '${}'", "s = '${a b}'", "s = '${x'", "s = '$ {x}'"])
def test_a_dollar_and_a_brace_that_are_no_variable_are_read(text: str) -> None:
    bind(text, SCHEMA)


@pytest.mark.parametrize("count", ["2147483648", "-106751992", "9223372036854775807"])
def test_days_that_no_time_is_moved_by_are_refused(count: str) -> None:
    assert "is not read" in refusal(f"dateadd(DAY, {count}, TIMESTAMP'2020-01-01') = now()")
