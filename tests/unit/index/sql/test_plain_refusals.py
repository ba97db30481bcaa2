"""What a person is told of a wrong condition: what was found, where, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tailbit
from support.tables import eight_flights
from tailbit import errors
from tailbit.errors import EvaluationError, PredicateError, TailbitError, UnknownColumnError
from tailbit.index.sql import expressions, refusals
from tailbit.index.sql.ddl import refusals as ddl_refusals
from tailbit.index.sql.syntax import hints, tokens

CONDITIONS = (Path(__file__).parent / "wrong_conditions.txt").read_text(encoding="utf-8").splitlines()

_OF_A_PARSER = re.compile(
    r"sqlglot|<class|object at|NoneType|\b(str|int|dict|tuple|bytes|Bracket|BRACKET|Exists|Paren|Anonymous"
    r"|Identifier|Literal|Token|Tree|Column|PLACEHOLDER|DCOLON|DPIPE|DQMARK|QDCOLON|NEQ|GTE|LTE|VAR|EOF)\b"
    r"|\b[LR]_(PAREN|BRACKET|BRACE)\b|(?<!in )\b[A-Z][a-z]+Error\b"
)
"""Names of a parser, of classes and of Python's types."""
_OF_SPARK = re.compile(r"\([A-Z_.]+ in Spark\)|raises [A-Z_.]+|raises for every row \([A-Z_.]+ in Spark\)")
"""The names that Spark gives errors, which its documentation explains."""
_WORDS_OF_SQL = frozenset(
    "ALL AND ANY AS BETWEEN BIGINT BINARY BOOLEAN BY CASE CAST COLLATE COLUMN CONDITION DATE DECIMAL "
    "DISTINCT DOUBLE ELSE END ESCAPE EXISTS EXTRACT FALSE FROM GROUP HAVING ILIKE IN INT INTERVAL IS LAX "
    "LIKE LIMIT SQL MINUTES HOURS NOT NULL NULLIF OFFSET OR ORDER RLIKE SFO STRING SORT TABLE THEN "
    "TIMESTAMP TIMESTAMP_NTZ TINYINT SMALLINT FLOAT ARRAY MAP STRUCT "
    "TRUE TRY_CAST UA UNKNOWN WHEN WHERE YEAR DAY HOUR SELECT VALUES".split()
)


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> tailbit.IndexedTable:
    path = tmp_path_factory.mktemp("refusals") / "flights"
    eight_flights(str(path))
    return tailbit.open(path)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_wrong_condition_is_refused_in_plain_words_with_its_place_and_what_to_write(
    flights: tailbit.IndexedTable, condition: str
) -> None:
    with pytest.raises((PredicateError, UnknownColumnError, EvaluationError)) as caught:
        flights.where(condition).count()
    error = caught.value
    assert error.hint
    assert error.hint != PredicateError.hint
    said = f"{error}\n{error.hint}".replace(repr(condition), "")
    said = said.replace(condition, "") if len(condition) > 1 else said
    plain = _OF_SPARK.sub("", said)
    assert not _OF_A_PARSER.search(plain), plain
    plain = re.sub(r"\n    .*\n *\^", "", plain)
    capitals = set(re.findall(r"\b[A-Z][A-Z_]+\b", plain))
    assert capitals - _WORDS_OF_SQL - set(re.findall(r"\w+", condition.upper())) == set(), plain
    if not isinstance(error, EvaluationError) and re.sub(r"--.*|/\*.*\*/", "", condition).strip():
        assert re.search(r" at character \d+\n.*\n *\^", str(error)), str(error)


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("SELECT count(*) FROM flights WHERE carrier = 'UA'", ("tailbit count TABLE", "answer.count()")),
        (
            "SELECT dest, sum(dep_delay) FROM flights GROUP BY dest",
            ("tailbit facets TABLE", '.facets("COLUMN")'),
        ),
        ("SELECT max(dep_delay) FROM flights", ("tailbit summary TABLE COLUMN",)),
        ("SELECT flight, dest FROM flights ORDER BY flight LIMIT 2", ("--order-by a --limit 10", ".read([")),
        ("SELECT * FROM a JOIN b ON a.x = b.x", ("Ask each table by itself",)),
        ("select distinct carrier from flights", ("tailbit facets TABLE COLUMN",)),
        ("carrier = 'UA' GROUP BY dest", ("tailbit facets TABLE COLUMN --where",)),
        ("carrier = 'UA' LIMIT 3", ("tailbit read TABLE", "--limit 10", ".read(")),
        ("WHERE carrier = 'UA'", ("Leave the word WHERE out",)),
        ("carrier LIEK 'U%'", ("Did you mean LIKE?",)),
        ("carrier = 'UA' adn dest = 'SFO'", ("Did you mean AND?",)),
        ("carrier = 'UA';", ("Leave it out: carrier = 'UA'",)),
        ("count(*) > 3", ("tailbit count", "answer.count()")),
        ("sum(dep_delay) > 3", ("tailbit summary", 'answer.sum("COLUMN")')),
        ("carrier = 'UA' && dest = 'SFO'", ("Write AND.",)),
        ("carrier = 'UA' || dest = 'SFO'", ("write OR",)),
        ("carrier = ‘UA’", ("Write straight quotes",)),
        ("dest in ['SFO']", ("Write IN ('SFO').",)),
        ("dest in ('SFO'", ("Write )",)),
        ("carrier is not None", ("IS NOT NULL",)),
        ("carrier = UA", ("single quotes: 'UA'",)),
        ("dep_delay > DATE 2013-01-01", ("DATE'2026-01-31'",)),
        ("n = ?", ("where(", "--param")),
        ("carrier = 5", ("TRY_CAST(carrier AS",)),
        ("cast('abc' as int) = 5", ("try_cast",)),
        ("cast(carrier as text) = 'UA'", ("AS STRING",)),
        ("1 < dep_delay < 10", ("a > 1 AND a < 9",)),
        ("dep_delay > 1,000", ("a number as 1000000",)),
        ("dep_delay > 1.000.5", ("A number is written",)),
        ("dep_delay between 1, 2", ("BETWEEN 1 AND 2",)),
        ("dep_delay ** 2 = 4", ("n * n",)),
        ("carrier =~ 'U.*'", ("RLIKE",)),
        ("carrier like U%", ("pattern in quotes",)),
        ("carrier is distinct 'UA'", ("IS DISTINCT FROM",)),
        ("carrier:UA", ("Write = before a value",)),
        ("carrier->>'code' = 'UA'", ("a.b", "m['k']")),
        ("df['carrier'] = 'UA'", ("by its name alone",)),
        ("carrier = ua@example.org", ("A text stands in quotes",)),
        (
            "DELETE FROM flights WHERE carrier = 'UA'",
            ("tailbit erase TABLE --where", "changes are made in Spark"),
        ),
        ("to_date('2013-02-30') = to_date('2013-13-01')", ("DATE'2026-01-31'",)),
        ("to_date(carrier) > getdate()", ("Write now()",)),
        ("to_date(carrier) > sysdate", ("now() or current_date()",)),
        ("starts_with(carrier, 'U')", ("startswith(",)),
        ("list_contains(split(carrier, ','), 'U')", ("array_contains(",)),
        ("strftime('%Y', dest) = '2013'", ("date_format(",)),
        (";", ("Write a condition",)),
        ("split(dest, 'F')[7] = 'O'", ("get(tags, 0)",)),
        ("element_at(split(dest, 'F'), 0) = 'S'", ("counts from 1",)),
        ("1 / (flight - flight) > 1", ("nullif(b, 0)",)),
        ("N'UA' = carrier", ("only the quotes",)),
        ("arrays_overlap(array(carrier), ['UA'])", ("array(1, 2)",)),
        ("exists(array(carrier), c => c = 'UA')", ("x -> x > 1",)),
        ("split(carrier, ',') = 'UA'", ("split(column, ',')[0]",)),
        ("dep_delay mod 2 = 0", ("a % b",)),
        ("carrier -> 'code' = 'UA'", ("m['k']",)),
        ("round(dep_delay, flight) = 1", ("round(x, 2)",)),
        ("date('2013-01-01') > 'yesterday'", ("current_date()",)),
    ],
)
def test_what_to_write_instead_is_told_with_the_persons_own_pieces(
    flights: tailbit.IndexedTable, written: str, instead: tuple[str, ...]
) -> None:
    with pytest.raises((PredicateError, UnknownColumnError, EvaluationError)) as caught:
        flights.where(written).count()
    for piece in instead:
        assert piece in caught.value.hint


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("1 + 2", " an INT is not a condition"),
        ("carrier", " a STRING is not a condition"),
        ("NULL", " NULL is not a condition"),
        ("abs(DATE'2026-01-31') = 1", ", not a DATE"),
        ("size(7) = 1", "an array or a map, not an INT"),
        ("CAST('y' AS INT) = 1", "'y' is not an INT"),
        ("array_contains(array('x'), 1)", "type STRING and an INT"),
    ],
)
def test_a_type_in_a_message_has_the_article_that_its_sound_asks_for(
    flights: tailbit.IndexedTable, condition: str, said: str
) -> None:
    with pytest.raises((PredicateError, EvaluationError)) as caught:
        flights.where(condition).count()
    assert said in f"{caught.value}"
    assert not re.search(r"\ba [aeiou]\w*\b(?! b)", str(caught.value))


MODULES = (refusals, expressions, ddl_refusals, hints, tokens, errors)


def texts(value: Any) -> Iterator[str]:
    """The texts in the tables of hints of a module, and the hints of its errors."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for each in value.values() for text in texts(each))
    elif isinstance(value, (list, tuple)):
        yield from (text for each in value for text in texts(each))
    elif isinstance(value, type) and issubclass(value, TailbitError):
        yield value.hint


def of_module(module: ModuleType) -> list[str]:
    return [
        text for name, value in vars(module).items() if not name.startswith("__") for text in texts(value)
    ]


def is_paired(text: str) -> bool:
    """Whether backticks and double quotes are in pairs, but for those that a backslash or quotes show."""
    shown = re.sub(r"\\.|'[`\"]'", "", text)
    return shown.count("`") % 2 == 0 and shown.count('"') % 2 == 0


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_quotes_of_every_hint_are_in_pairs(module: ModuleType) -> None:
    assert [text for text in of_module(module) if not is_paired(text)] == []
