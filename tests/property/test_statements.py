"""Whatever becomes of a statement, it is refused by name, or its canonical SQL means the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailbit.errors import StatementError
from tailbit.index.sql.ddl.parser import parse_statement
from tailbit.index.sql.ddl.statements import (
    CreateIndex,
    DescribeIndex,
    DropIndex,
    RebuildIndex,
    ShowIndexes,
    Statement,
    TableReference,
    WrittenExpression,
)

STATEMENTS = (
    "CREATE INDEX IF NOT EXISTS i ON TABLE a.`b c`.t USING bitmap (lower(s), `x``y`.z OPTIONS (expr='trim'))"
    " OPTIONS (counts = 'off') WHERE p = 'a' AND q IN (1, 2) WITH DEFERRED REBUILD COMMENT 'it''s';",
    "CREATE INDEX i ON TABLE t (c, d) AS 'BITMAP' WITH DEFERRED REBUILD IDXPROPERTIES ('a' = 'b', c.d = -1)",
    "CREATE INDEX i ON delta.`/data/t` USING column_stats(ts) OPTIONS(expr='from_unixtime', format='yyyy')",
    "ALTER INDEX i ON '/data/t' PARTITION (p = 'a', q = DATE'2024-01-01', r = NULL) REBUILD",
    "REFRESH INDEX i ON t WHERE p > 1 /* all */",
    "SHOW FORMATTED INDEX ON t IN db -- all",
    "DESCRIBE INDEX FORMATTED `i j` ON t;",
    "DROP INDEX IF EXISTS i ON TABLE t",
)
PIECES = st.sampled_from(
    "( ) , ; . = ' \" ` - / * : ? ${x} \\ \n -- /* */ delta hudi ON IF NOT USING AS OPTIONS WHERE WITH TABLE "
    "PARTITION REBUILD INDEX FORMATTED IN FROM NULL CASE INTERVAL 1 1.5e3 a.b 'x' `y` é \u2028 \0".split(" ")
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Return a statement from which parts are cut, moved, or replaced by others."""
    text = draw(st.sampled_from(STATEMENTS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        piece = draw(st.just("") | PIECES | PIECES.map(lambda word: f" {word} ") | st.text(max_size=3))
        text = text[:start] + piece + text[end:]
    return text


def reads_back_or_is_refused(text: str) -> None:
    try:
        statement = parse_statement(text)
    except StatementError:
        return
    assert parse_statement(str(statement)) == statement


@given(damaged())
def test_a_damaged_statement_is_refused_by_name_or_its_sql_reads_back_equal(text: str) -> None:
    reads_back_or_is_refused(text)


@given(st.text(max_size=60))
def test_any_text_is_a_statement_or_refused_by_name(text: str) -> None:
    reads_back_or_is_refused(text)


WORDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8).filter(
    lambda word: "${" not in word
)
NAMES = WORDS.filter(lambda word: "/" not in word and "\\" not in word)
TABLES = st.builds(
    TableReference, st.just("name"), st.lists(NAMES, min_size=1, max_size=3).map(tuple)
).filter(lambda table: table.parts[0].lower() != "delta") | st.builds(
    TableReference, st.just("path"), st.tuples(WORDS)
)
EXPRESSIONS = st.sampled_from(
    ["a", "b.c", "`air time`", "lower(s)", "date_trunc('hour', ts)", "a + 1", "CASE WHEN a > 1 THEN 1 END"]
).map(WrittenExpression)
CONDITIONS = st.none() | EXPRESSIONS
NOTES = st.dictionaries(WORDS.map(lambda key: f"note {key}"), WORDS, max_size=2)
VALUES: st.SearchStrategy[Statement] = st.one_of(
    st.builds(
        CreateIndex,
        WORDS,
        TABLES,
        st.lists(EXPRESSIONS, min_size=1, max_size=4, unique=True).map(tuple),
        st.just("bitmap"),
        st.sampled_from([{}, {"counts": "off"}]),
        CONDITIONS,
        st.booleans(),
        st.booleans(),
        NOTES,
        st.just("") | WORDS,
    ),
    st.builds(DropIndex, WORDS, TABLES, st.booleans()),
    st.builds(RebuildIndex, WORDS, TABLES, CONDITIONS),
    st.builds(ShowIndexes, TABLES, st.booleans()),
    st.builds(DescribeIndex, WORDS, TABLES, st.booleans()),
)


@given(VALUES)
def test_the_sql_of_any_value_reads_back_as_the_value(statement: Statement) -> None:
    assert parse_statement(str(statement)) == statement


@pytest.mark.parametrize("text", STATEMENTS)
def test_every_beginning_of_a_statement_is_refused_by_name_or_whole(text: str) -> None:
    for end in range(len(text)):
        reads_back_or_is_refused(text[:end])
