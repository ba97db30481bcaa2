"""Texts of predicates: what is read, what is refused, and how a refusal says so."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tailbit.errors import ColumnTypeError, PredicateError
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import Constant, Leaf, is_null, negate, nodes_of
from tailbit.index.query.explain import render
from tailbit.index.sql.bind import bind
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.index.values.literals import hexadecimal, number, string
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.schema import Schema

CHAR = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}


def field(name: str, type_: Any, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata or {}}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


SCHEMA: Schema = parse_schema(
    json.dumps(
        struct(
            field("x", "integer"),
            field("s", "string"),
            field("flag", "boolean"),
            field("ntz", "timestamp_ntz"),
            field("p", "decimal(10,2)"),
            field("address", struct(field("city", "string"), field("a.b", "integer"))),
            field("odd `name`", "integer"),
            field("date", "date"),
            field("tags", {"type": "array", "elementType": "string", "containsNull": True}),
            field("fixed", "string", CHAR),
            field("short", "string", {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}),
            field(
                "inside", struct(field("c", "string")), {"__CHAR_VARCHAR_TYPE_STRING": "struct<c:char(3)>"}
            ),
            field("collated", "string", {"__COLLATIONS": {"collated": "ICU.UNICODE_CI"}}),
        )
    ),
    [],
    {},
    "test",
)


def refusal(text: str) -> PredicateError:
    with pytest.raises(PredicateError) as refused:
        bind(text, SCHEMA)
    return refused.value


def leaf(text: str) -> Leaf:
    node = bind(text, SCHEMA)
    assert isinstance(node, Leaf)
    return node


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("  -- nothing", "it is empty"),
        ("x = ", "it ends where more must follow behind = (PARSE_SYNTAX_ERROR in Spark) at character 3"),
        ("x = 1 AND", "at character 9"),
        ("(x = 1", "the ( at character 1 is not closed (PARSE_SYNTAX_ERROR in Spark) at character 6"),
        ("x = 1 y", "y is not expected here (PARSE_SYNTAX_ERROR in Spark) at character 7"),
        (
            "x = 1\nAND\nx @ 2",
            "the character @ stands outside of quotes (PARSE_SYNTAX_ERROR in Spark) at character 13",
        ),
        ("s = 'open", "' is not closed (PARSE_SYNTAX_ERROR in Spark) at character 5"),
        ("s LIKE s", "LIKE takes a pattern that is a constant at character 1"),
        ("s LIKE 'a' ESCAPE 'ab'", "ESCAPE takes one character"),
        ("s LIKE 'a\\\\'", "ends in its escape (INVALID_FORMAT in Spark)"),
        ("s LIKE 'a\\\\b'", "(INVALID_FORMAT in Spark)"),
        ("s RLIKE 'b(?i)a'", "(?i in the pattern 'b(?i)a' is not read"),
        ("s RLIKE 'a++'", "++ in the pattern"),
        ("s RLIKE '\\\\bword'", "\\b in the pattern"),
        ("s RLIKE '(a)\\\\1'", "\\1 in the pattern"),
        ("nullif(fixed, 'a') IS NULL", "CHAR column fixed compared within an expression is not read"),
        ("equal_null(fixed, 'a')", "CHAR column fixed compared within an expression is not read"),
        ("flag + 1 = 2", "+ of BOOLEAN and INT is not read (DATATYPE_MISMATCH in Spark) at character 1"),
        ("date - date = 2", "DATE - DATE is not read"),
        ("p div 2 = 2", "div of DECIMAL(10,2) and INT is not read"),
        ("p & 1 = 1", "& of DECIMAL(10,2) and INT is not read (DATATYPE_MISMATCH in Spark)"),
        ("try_add(x, 2147483647) + 1 = 1", "ARITHMETIC_OVERFLOW"),
        ("s ~~ 'a'", "~~ is no operator here"),
        ("x << 1 = 2", "<< is not read"),
        ("+x = 1", "a plus sign in front of something that is not a number at character 1"),
        ("flag XOR flag", "XOR is no operator here (PARSE_SYNTAX_ERROR in Spark) at character 6"),
        ("my_function(s)", "the function my_function is not read at character 1"),
        ("x = 1 AND uper(s) = 'A'", "the function uper is not read at character 11"),
        ("upper(s, s) = 'A'", "upper takes 1 argument here, not 2"),
        ("abs(s) = 1", "abs takes a number, not a STRING"),
        ("year(x) = 1", "year takes a DATE, not an INT"),
        ("date_trunc('EON', ntz) = ntz", "a date cut to EON is not read"),
        ("date_format(ntz, 'G') = 'a'", "G in the format 'G' is not read"),
        ("1 / 0 = 1 AND flag", "1.0 / 0.0) = 1.0 raises for every row"),
        ("flag OR x > 1 % 0", "1 % 0 raises for every row (REMAINDER_BY_ZERO in Spark) at character 9"),
        ("s LIKE 'a' = flag", "'a' is not a BOOLEAN (CAST_INVALID_INPUT in Spark)"),
        (
            "x = x < 2",
            "BOOLEAN does not compare with INT (DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES in Spark)",
        ),
        ("CASE WHEN x THEN 1 END = 1", "an INT is not a condition"),
        ("if(flag, x, date) = 1", "CASE has values of INT, DATE, which have no common type"),
        ("x IN (SELECT 1)", "IN takes a list of values, not a query"),
        ("EXISTS (SELECT 1)", "EXISTS of a query is not read"),
        ("x = INTERVAL 1 DAY", "INTERVAL is not read"),
        ("x = :name", ": is not expected here (PARSE_SYNTAX_ERROR in Spark) at character 5"),
        ("upper(t -> t) = 'a'", "a lambda is not read"),
        ("tags['a'] = 'a'", "[n] takes a whole number, not a STRING (DATATYPE_MISMATCH"),
        ("s[0] = 'a'", "a STRING has no elements or fields"),
        ("CAST(x AS DATE) = date", "a cast from INT to DATE is not read"),
        ("x = CAST('1' AS VARCHAR(3))", "a cast to VARCHAR is not read"),
        ("s = CAST('a' AS STRING COLLATE UTF8_LCASE)", "a cast to STRING COLLATE is not read"),
        ("x = CAST('1' AS", "the ( at character 9 is not closed"),
        (
            "ntz = TIMESTAMP WITHOUT TIME ZONE '2020-01-01'",
            "a date or time stands without quotes (PARSE_SYNTAX_ERROR in Spark) at character 17",
        ),
        (
            "ntz = CAST('2020-01-01' AS TIMESTAMP WITHOUT TIME ZONE)",
            "a cast to TIMESTAMP WITHOUT is not read",
        ),
        ("x = CAST('1' AS FLOAT(3))", "a cast to FLOAT is not read"),
        ("x = CAST(1 AS DECIMAL(39,0))", "a cast to DECIMAL is not read"),
        ("x = INT '1'", "INT before a constant is not read"),
        ("x = 'one'", "'one' is not a BIGINT (CAST_INVALID_INPUT in Spark)"),
        ("x = 1.5S", "S follows whole numbers only at character 5"),
        ("x = 128Y", "128Y is out of the range of TINYINT (INVALID_NUMERIC_LITERAL_RANGE in Spark)"),
        ("x = 1e400", "1e400 is out of range (INVALID_NUMERIC_LITERAL_RANGE in Spark)"),
        ("NULL", "NULL is not a condition (DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN in Spark)"),
        ("(NULL)", "NULL is not a condition (DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN in Spark)"),
        ("CASE WHEN NULL THEN 1 END = 1", "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE in Spark"),
        ("date = DATE'2020-13-01'", "'2020-13-01' is not a DATE (INVALID_TYPED_LITERAL in Spark)"),
        ("date = CAST('2020-13-01' AS DATE)", "is not a DATE (CAST_INVALID_INPUT in Spark)"),
        ("date = 1", "(DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES in Spark)"),
        ("date IN (1)", "(DATATYPE_MISMATCH.DATA_DIFF_TYPES in Spark)"),
        ("1 / 0 = 1", "(DIVIDE_BY_ZERO in Spark)"),
        ("rlike(s, 'a', 'i')", "rlike takes 2 arguments, not 3 (WRONG_NUM_ARGS in Spark)"),
        (
            "x = X'0G'",
            "is not a hexadecimal literal (INVALID_TYPED_LITERAL in Spark); write X'1F' at character 5",
        ),
        ("x = 1" + "0" * 39, "more than 38 digits"),
        (f"x IN (0.{'0' * 38}1, 0.{'0' * 38}2)", "more than 38 digits"),
        ("x", "an INT is not a condition"),
        ("'true'", "a STRING is not a condition"),
        ("x = TRUE", "INT does not compare with BOOLEAN"),
        ("flag = x < 1", "BOOLEAN does not compare with INT"),
        ("x = 1 /*+ hint */", "a hint is not read here at character 7"),
        ("s = N'x'", "N before a constant is not read"),
        ("s = b'x'", "B before a constant is not read"),
        (
            "x BETWEEN SYMMETRIC 2 AND 1",
            "SYMMETRIC is no operator here (PARSE_SYNTAX_ERROR in Spark) at character 11",
        ),
        ("x IS DISTINCT FROM flag", "INT does not compare with BOOLEAN"),
        ("(x, s) = (1, 'a')", "several values in parentheses are not read"),
        ("* = 1", "* is not a value at character 1"),
    ],
)
def test_what_is_not_read_is_refused_by_name_and_place(text: str, reason: str) -> None:
    assert reason in str(refusal(text))


def test_a_refusal_shows_the_line_and_a_caret_below_its_place() -> None:
    assert str(refusal("x = 1\nAND my_function(s)")).endswith("\n    AND my_function(s)\n        ^")
    long = f"x IN ({', '.join(map(str, range(500)))}) AND x ! 2"
    *_, line, caret = str(refusal(long)).splitlines()
    assert len(line) < 130
    assert line[len(caret) - 1] in "!2"


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("date > INTERVAL '1' DAY", "INTERVAL is not read here", ">= now() -"),
        ("ntz - ntz > 5", "- of TIMESTAMP_NTZ and TIMESTAMP_NTZ is not read", "a - b > INTERVAL 1 HOUR"),
        ("now() - now() > 5", "- of TIMESTAMP and TIMESTAMP is not read", "Write unix_micros(a)"),
        ("ntz - ntz > INTERVAL 1 MONTH", "BINARY_OP_DIFF_TYPES", "Write it in days."),
        ("date * 2 = 4", "* of DATE and INT is not read", "unix_date of a date"),
        ("try_add(date, 1) = date", "+ of DATE and INT is not read", "Write x + INTERVAL 1 DAY"),
        ("ntz > ntz - INTERVAL 1 FORTNIGHT", "such an INTERVAL is not read", ">= now() -"),
        ("ntz > ntz - INTERVAL 1 MONTH 1 DAY", "nor by Spark", ">= now() -"),
        ("ntz > ntz - INTERVAL '1 day' 2 HOURS", "such an INTERVAL is not read", ">= now() -"),
        ("ntz > ntz - INTERVAL '1 day' '2 hours'", "such an INTERVAL is not read", ">= now() -"),
        ("ntz > ntz - INTERVAL 1 'DAY'", "such an INTERVAL is not read", ">= now() -"),
        ("ntz > ntz - INTERVAL 1 `DAY`", "such an INTERVAL is not read", ">= now() -"),
        ("ntz > ntz - INTERVAL '1 2' DAY TO HOUR", "such an INTERVAL is not read", ">= now() -"),
        ("s RLIKE 'b(?i)a'", "(?i in the pattern", "Write (?i) at the beginning"),
        ("s RLIKE 'a++'", "++ in the pattern", "LIKE, contains, startswith"),
        ("(x, s) IN ((1, 'a'))", "several values in parentheses are not read", "(a = 1 AND b = 2) OR"),
        ("CAST(CAST(s AS BINARY) AS STRING) = 'a'", "from BINARY to STRING is not read", "X'6162'"),
        ("CAST(CAST(x AS DOUBLE) AS STRING) = '1.0'", "from DOUBLE to STRING", "Compare the number itself"),
        ("x IN (SELECT 1)", "IN takes a list of values, not a query", "Ask the other table first"),
        ("x IN s", "IN takes a list of values in parentheses", "Write IN (1, 2)"),
        ("EXISTS (SELECT 1)", "EXISTS of a query is not read", "Ask the other table first"),
        ("x >> 1 = 2", ">> is not read", "Write x div 4"),
        ("tags -> tags = 'a'", "a lambda is not read", "exists(tags, t -> t = 'a')"),
    ],
)
def test_a_refusal_names_the_nearest_that_is_read(text: str, reason: str, hint: str) -> None:
    refused = refusal(text)
    assert reason in str(refused)
    assert hint.lower() in refused.hint.lower()


def test_a_regular_expression_is_asked_for_by_any_of_its_names() -> None:
    wanted = bind("s RLIKE '^a'", SCHEMA)
    for name in ("rlike", "regexp", "REGEXP", "regexp_like"):
        assert bind(f"{name}(s, '^a')", SCHEMA) == wanted
        assert bind(f"NOT {name}(s, '^a') OR flag", SCHEMA) == bind("NOT s RLIKE '^a' OR flag", SCHEMA)


@pytest.mark.parametrize(
    ("text", "at", "error"),
    [
        ("s ILIKE 'i", "'i", "PARSE_SYNTAX_ERROR"),
        ("s = 'a' 'b", "'b", "PARSE_SYNTAX_ERROR"),
        ("s = 'it''", "'it''", "PARSE_SYNTAX_ERROR"),
        ("s = 'it\\'", "'it", "PARSE_SYNTAX_ERROR"),
        ("s = r'it\\' AND s = 'x", "'x", "PARSE_SYNTAX_ERROR"),
        ("x = 1 -- it's\nAND s = \"it's", '"', "PARSE_SYNTAX_ERROR"),
        ("`x = ' AND s = '", "`", "PARSE_SYNTAX_ERROR"),
        ("x /* ' AND s = '", "/*", "UNCLOSED_BRACKETED_COMMENT"),
        ("x = 1 /* a /* b */", "/* a", "UNCLOSED_BRACKETED_COMMENT"),
        ("X'GG' = CAST(s AS BINARY)", "X'GG'", "INVALID_TYPED_LITERAL"),
        ("CAST(s AS BINARY) IN (X'1F', x'-1')", "x'-1'", "INVALID_TYPED_LITERAL"),
        ("s = X'1", "'1", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_a_text_without_tokens_is_refused_with_a_caret_below_its_place(
    text: str, at: str, error: str
) -> None:
    *found, line, caret = str(refusal(text)).splitlines()
    assert line[4:] == text.splitlines()[-1]
    assert len(caret) - 1 == line.rindex(at)
    assert error in "".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "x" + ")" * 5000,
        "NOT " * 5000 + "flag",
        "x = " + "- " * 5000 + "1",
        "(" * 5000 + "flag" + " IS NULL)" * 5000,
    ],
)
def test_nesting_without_end_is_an_error_and_not_a_crash(text: str) -> None:
    assert "nested too deeply" in str(refusal(text))


NESTED = (
    "({0}) IS NULL",
    "(({0}) IS NULL AND x = p) OR p = {1}",
    "NOT (({0}) IS UNKNOWN OR x < p AND p = {1}) IS TRUE AND x <> p",
    "(({0}) OR x < p) IS NULL AND p < x OR x > p",
    "NOT (({0}) AND x = p OR NOT (x < p AND p <> {1})) IS NOT UNKNOWN",
)


@pytest.mark.parametrize("shape", NESTED)
def test_a_condition_grows_by_no_more_at_a_deeper_level_of_nesting(shape: str) -> None:
    text, sizes = "x = p", []
    for level in range(30):
        text = shape.format(text, level)
        node = bind(text, SCHEMA)
        nodes = [*nodes_of(node), *nodes_of(negate(node)), *nodes_of(is_null(node))]
        sizes.append(sum(1 + len(getattr(n, "children", ())) for n in nodes))
        assert all(len(n.text) < 500 for n in nodes if isinstance(n, Leaf))
    growth = np.diff(sizes)
    assert max(growth[15:]) <= max(growth[:15])


@pytest.mark.parametrize("shape", NESTED)
def test_a_deeply_nested_condition_is_shown_as_a_text_that_ends(shape: str) -> None:
    text = "x = p"
    for level in range(30):
        text = shape.format(text, level)
    assert len(render(bind(text, SCHEMA))) <= 4000


def test_a_condition_too_deep_to_be_walked_is_refused() -> None:
    text = "x = p"
    for level in range(90):
        text = f"(x < p OR ({text}) IS NULL) AND p = {level}"
    assert "nested too deeply" in str(refusal(text))


def test_long_lists_and_long_chains_are_read() -> None:
    chain = leaf(" OR ".join(f"x = {n}" for n in range(5000)))
    listed = leaf(f"x IN ({', '.join(str(n) for n in range(5000))})")
    assert chain.true == listed.true
    assert len(chain.text) < 200
    assert len(listed.text) < 200


def test_names_are_found_in_any_case_quoted_and_nested() -> None:
    for text in ("ADDRESS.City = 'a'", "`address`.`city` = 'a'", "address . city = 'a'"):
        assert leaf(text).column.name == ("address", "city")
    assert leaf("address.`a.b` = 1").column.name == ("address", "a.b")
    assert leaf("`odd ``name``` = 1").column.name == ("odd `name`",)
    assert leaf("date = DATE'2020-01-01'").column.name == ("date",)


KEYWORDS = (
    "VALUES USING IF FROM ON CALL SHOW FETCH AND OR IN IS BETWEEN AS CASE INT DATE CURRENT_DATE".split()
)


@pytest.mark.parametrize("word", [*KEYWORDS, "show", "From"])
@pytest.mark.parametrize(
    "use",
    ["{k} = 1", "1 < {k} AND {k} IS NOT NULL", "{k} NOT IN (1)", "{k} BETWEEN {k} AND {k}", "s.{k} <=> 1"],
)
def test_a_keyword_is_a_column_where_only_a_column_can_stand(
    word: str, use: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = struct(field("x", "integer"), field(word, "integer"), field("s", struct(field(word, "integer"))))
    schema = parse_schema(json.dumps(kind), [], {}, "test")
    assert bind(use.format(k=word), schema) == bind(use.format(k=f"`{word}`"), schema)
    assert caplog.records == []


@pytest.mark.parametrize(
    "text", ["x = 1 AND", "AND x = 1", "x = 1 OR OR x = 2", "IN IN", "x NOT = 1", "NOT", "IF x = 1", "MAP(x)"]
)
def test_a_keyword_out_of_place_is_refused_and_nothing_is_printed(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    refusal(text)
    assert caplog.records == []


def test_a_keyword_that_is_not_read_as_a_column_is_refused_with_the_hint_to_quote_it() -> None:
    assert "is `not`" in str(refusal("x NOT = 1").hint)


@pytest.mark.parametrize("column", ["address", "tags", "inside.c", "collated"])
def test_values_without_an_order_of_bytes_can_only_be_asked_for_null(column: str) -> None:
    assert leaf(f"{column} IS NOT NULL").false.nulls
    assert leaf(f"{column} <=> NULL").true.nulls
    bind(f"isnull({column})", SCHEMA)
    for text in (f"{column} = 'a'", f"{column} IN ('a')", f"'a' < {column}"):
        with pytest.raises(ColumnTypeError, match="IS \\[NOT\\] NULL"):
            bind(text, SCHEMA)
    assert leaf("short = 'a'").true.contains(b"a")


def test_a_condition_that_no_row_can_meet_is_null() -> None:
    assert bind("x = NULL", SCHEMA) == Constant(None)
    assert bind("x IN (NULL)", SCHEMA) == Constant(None)
    assert bind("NOT x = NULL", SCHEMA) == Constant(None)


def test_a_constant_on_the_left_is_the_mirrored_comparison() -> None:
    assert leaf("5 < x").true == leaf("x > 5").true
    assert leaf("5 < x").text == "x > 5"


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("'01' IN ('1', 5)", True),
        ("'01' NOT IN ('1', 5)", False),
        ("9007199254740993 IN (9007199254740992, 1D)", True),
        ("'2020-01-01' IN ('2020-01-01 00:00:00', TIMESTAMP'2021-01-01')", True),
        ("1 IN (1.5, '1.5')", False),
        ("'1' IN ('x', NULL)", None),
        ("NULL IN (1, 2)", None),
    ],
)
def test_a_constant_and_the_list_that_it_is_sought_in_become_one_type(text: str, truth: bool | None) -> None:
    assert bind(text, SCHEMA) == Constant(truth)


@pytest.mark.parametrize("text", ["'2020' NOT IN (1.17F, 'x')", "'1' IN (1, 'x')", "NULL IN ('x', 1)"])
def test_a_malformed_constant_in_a_list_is_refused_even_where_spark_stops_before_it(text: str) -> None:
    assert "CAST_INVALID_INPUT" in str(refusal(text))


def test_a_constant_is_not_sought_in_a_list_of_another_kind() -> None:
    assert "INT does not compare with BOOLEAN in one list" in str(refusal("1 IN (TRUE)"))


def test_leaves_are_shown_as_written() -> None:
    assert leaf("s = 'it''s'").text == "s = 'it''s'"
    assert leaf("x IN (1, -2, NULL)").text == "x IN (1, -2, NULL)"
    assert leaf("date >= DATE '2020-01-01'").text == "date >= date '2020-01-01'"
    assert leaf(f"s = '{'y' * 99}'").text.endswith("...'")
    assert leaf("x BETWEEN 1 AND 5").text == "x >= 1 AND x <= 5"


def test_two_columns_are_compared_row_by_row() -> None:
    compared = bind("x < p", SCHEMA)
    assert isinstance(compared, Computed)
    assert [column.label for column in compared.columns] == ["x", "p"]


def test_one_text_is_parsed_and_bound_once() -> None:
    assert parse_predicate("x = 17") is parse_predicate("x = 17")
    assert bind("x = 17", SCHEMA) is bind("x = 17", SCHEMA)


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        ("ntz >= now() - INTERVAL 1 DAY", "ntz >= TIMESTAMP'2026-03-28 23:30:00Z'"),
        ("ntz < localtimestamp()", "ntz < TIMESTAMP_NTZ'2026-03-30 00:30:00'"),
        ("date = CURRENT_DATE", "date = DATE'2026-03-30'"),
        ("date > curdate() - 7", "date > DATE'2026-03-23'"),
        ("date >= current_date - INTERVAL 1 MONTH", "date >= DATE'2026-02-28'"),
    ],
)
def test_the_moment_of_a_question_is_a_constant_in_the_zone_of_the_session(asked: str, written: str) -> None:
    moment = 1_774_823_400_000_000  # 2026-03-29 22:30 in UTC, the day on which clocks of Berlin went forward
    assert bind(asked, SCHEMA, "Europe/Berlin", lambda: moment) == bind(written, SCHEMA, "Europe/Berlin")


def test_each_question_has_its_own_moment() -> None:
    first, second = (bind("ntz < localtimestamp()", SCHEMA, clock=iter([at]).__next__) for at in (1, 2))
    assert first != second


def test_a_column_named_like_the_moment_is_the_column() -> None:
    schema = parse_schema(json.dumps(struct(field("current_date", "date"))), [], {}, "test")
    assert bind("current_date = DATE'2026-01-31'", schema) == bind(
        "`current_date` = DATE'2026-01-31'", schema
    )
    assert isinstance(bind("current_date = current_date()", schema, clock=lambda: 0), Leaf)


def test_a_date_where_clocks_jumped_over_midnight_is_the_first_instant_after_the_gap() -> None:
    for constant, truth in (("1919-03-31 00:30:00", True), ("1919-03-31 00:00:00", False)):
        text = f"DATE'1919-03-31' = TIMESTAMP'{constant}'"
        assert bind(text, SCHEMA, "America/Toronto") == Constant(truth)


def test_a_zone_in_a_text_is_any_that_spark_knows() -> None:
    for zone in ("PST", " PST", "America/Los_Angeles", "-8", "GMT-08:00"):
        text = f"TIMESTAMP'2020-01-01 00:00:00{zone}' = TIMESTAMP'2020-01-01 08:00:00Z'"
        assert bind(text, SCHEMA) == Constant(True)
    with pytest.raises(PredicateError, match="time zone right/UTC is unknown"):
        bind("TIMESTAMP'2020-01-01 00:00:00 right/UTC' = TIMESTAMP'2020-01-01'", SCHEMA)


def test_a_zone_is_known_or_named() -> None:
    with pytest.raises(PredicateError, match="time zone Mars/Base is unknown"):
        bind("x = 1", SCHEMA, "Mars/Base")
    second = bind("ntz = TIMESTAMP'2020-10-25 01:30:00Z'", SCHEMA, "Europe/Paris")
    assert isinstance(second, Computed)
    shifted = bind("ntz = TIMESTAMP'1970-01-01 00:00:00Z'", SCHEMA, "+01:00")
    assert isinstance(shifted, Leaf)
    assert shifted.true.contains(3_600_000_000)


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("2147483647", "integer", 2147483647),
        ("2147483648", "long", 2147483648),
        ("9223372036854775808", "decimal(19,0)", 9223372036854775808),
        ("1.50", "decimal(3,2)", 150),
        (".05", "decimal(2,2)", 5),
        ("5.", "decimal(1,0)", 5),
        ("1e3", "double", 1000.0),
        ("1E-2BD", "decimal(2,2)", 1),
        ("15e1BD", "decimal(3,0)", 150),
        ("0.1F", "float", 0.10000000149011612),
        ("7y", "byte", 7),
    ],
)
def test_a_number_has_the_type_that_spark_gives_it(text: str, type_: str, value: float) -> None:
    found = number(text)
    assert (str(found.type), found.value) == (type_, value)


def test_the_least_integers_are_integers() -> None:
    assert str(number("2147483648", negative=True).type) == "integer"
    assert str(number("9223372036854775808", negative=True).type) == "long"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("''", ""),
        ("'it''s'", "it's"),
        ('"a""b\'"', "a\"b'"),
        (r"'\n\t\\\'\q\%'", "\n\t\\'q\\%"),
        (r"'\101\u00e4\U0001D11E'", "Aä𝄞"),
        (r"'\uD834\uDD1E'", "𝄞"),
        (r"r'\n'", r"\n"),
        (r"'\''''", "''"),
    ],
)
def test_a_string_is_unescaped_as_spark_does(raw: str, value: str) -> None:
    assert string(raw) == value


def test_hexadecimal_digits_come_in_pairs() -> None:
    assert hexadecimal("X'1fF'") == b"\x01\xff"


def test_half_a_character_is_refused() -> None:
    assert "half of a character" in str(refusal(r"s = '\uD834'"))


def test_is_not_unknown_is_no_column_of_that_name() -> None:
    assert bind("flag IS NOT UNKNOWN", SCHEMA) == bind("flag IS NOT NULL", SCHEMA)


def test_a_long_list_of_dates_is_read() -> None:
    days = [f"{1970 + n // 300}-{1 + n % 12:02}-{1 + n % 28:02}" for n in range(3000)]
    typed, texts = (
        leaf(f"date IN ({', '.join(form.format(d) for d in days)})") for form in ("DATE'{}'", "'{}'")
    )
    assert typed.true == texts.true


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("CAST(NULL AS BIGINT) < 9223372036854775808", True),
        ("CAST(NULL AS BIGINT) >= 9223372036854775808", False),
        ("-9223372036854775809.5 >= CAST(NULL AS TINYINT)", False),
        ("-9223372036854775809.5 < CAST(NULL AS TINYINT)", True),
        ("CAST(NULL AS INT) < 9223372036854775807.0", None),
        ("CAST(NULL AS INT) = 9223372036854775808", None),
        ("NULL < 9223372036854775808", None),
        ("2 > 1.5", True),
        ("1.5 >= 2", False),
    ],
)
def test_a_null_integer_beside_a_decimal_beyond_every_long_is_what_a_column_of_nulls_is(
    text: str, truth: bool | None
) -> None:
    assert bind(text, SCHEMA) == Constant(truth)


@pytest.mark.parametrize("number", ["1", "1L", "1.00", "CAST(1 AS DECIMAL(38,0))"])
def test_an_exact_number_that_elements_hold_is_sought_as_one_of_their_type(number: str) -> None:
    """So no element is cast, and an index looks the number up."""
    array = {"type": "array", "elementType": "byte", "containsNull": True}
    schema = parse_schema(json.dumps(struct(field("codes", array))), [], {}, "test")
    wanted, found = (bind(f"array_contains(codes, {n})", schema) for n in ("1Y", number))
    assert isinstance(wanted, Computed)
    assert isinstance(found, Computed)
    assert found.expression == wanted.expression


def test_long_texts_are_bound_once_and_few_of_them_are_kept() -> None:
    text = f"x IN ({', '.join(map(str, range(10_000)))})"
    assert bind(text, SCHEMA) is bind(text, SCHEMA)
    assert parse_predicate(text) is not parse_predicate(text)
