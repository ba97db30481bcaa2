"""What Spark 4.2 says of every kind of predicate, ANSI mode on, zone UTC: TRUE, FALSE and NULL alike."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from support.profiles import SEED
from support.spark_cells import JudgedRows
from support.spark_session import session_settings
from support.truth import matches
from support.typed_rows import LITERALS, VALUES, rows, schema
from tailbit.errors import TailbitError
from tailbit.index.predicate.tree import is_null, negate
from tailbit.index.sql.bind import bind
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.schema import Schema

SCALE = int(os.environ.get("TAILBIT_SCALE", "1"))
"""How many times the usual number of random predicates is asked: 100 takes an hour."""

OPERATORS = ("=", "<>", "!=", "==", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
JOB = 200
"""Predicates judged in one job."""

Truth = list[bool | None]
TABLE, SCHEMA = rows(), schema()


@pytest.fixture
def typed(verdicts: Any, request: pytest.FixtureRequest, tmp_path: Path) -> JudgedRows:
    return JudgedRows(TABLE, verdicts, lambda: request.getfixturevalue("spark"), tmp_path)


def ours(text: str) -> Truth | None:
    """Our truth of each row; None where the predicate is refused or raises for a row."""
    try:
        node = bind(text, SCHEMA)
        true, false, null = (matches(n, TABLE, {}) for n in (node, negate(node), is_null(node)))
    except TailbitError:
        return None
    assert ((true.astype(int) + false + null) == 1).all(), text
    return [True if t else False if f else None for t, f in zip(true, false, strict=True)]


def sparks(typed: JudgedRows, predicates: Sequence[str], zone: str = "UTC") -> list[Truth]:
    def truths(asked: Sequence[str]) -> list[Truth]:
        found: list[Truth] = []
        names = {"spark.sql.session.timeZone": zone, "spark.sql.codegen.wholeStage": "false"}
        with session_settings(typed.frame.sparkSession, names):
            for start in range(0, len(asked), JOB):
                columns = [f"({text}\n) AS p{n}" for n, text in enumerate(asked[start : start + JOB])]
                judged = typed.frame.selectExpr("id", *columns).orderBy("id").toArrow()
                found += [judged[f"p{n}"].to_pylist() for n in range(len(columns))]
        return found

    return typed.ask(f"truth in {zone}", predicates, truths)


def check(typed: JudgedRows, candidates: Sequence[str], at_least: int) -> None:
    accepted = {text: truth for text in dict.fromkeys(candidates) if (truth := ours(text)) is not None}
    assert len(accepted) >= at_least
    theirs = dict(zip(accepted, sparks(typed, list(accepted)), strict=True))
    assert {t: (theirs[t], accepted[t]) for t in accepted if theirs[t] != accepted[t]} == {}


def comparison(rng: random.Random) -> str:
    column, sign, literal = rng.choice(list(VALUES)), rng.choice(OPERATORS), rng.choice(LITERALS)
    return (
        f"{literal} {sign} {column}"
        if rng.random() < 0.2 and sign[0] != "I"
        else f"{column} {sign} {literal}"
    )


def fitting(rng: random.Random, operand: str) -> str:
    """A constant that compares with a column or another constant."""
    while True:
        literal = rng.choice(LITERALS)
        if ours(f"{operand} = {literal}") is not None:
            return literal


def constants(rng: random.Random) -> str:
    """A condition in which no column takes part; lists of mixed types."""
    subject = fitting(rng, "NULL")
    word, roll = rng.choice(("", "NOT ")), rng.random()
    if roll < 0.6:
        listed = [fitting(rng, subject) for _ in range(rng.randint(1, 4))]
        listed += ["NULL"] * (rng.random() < 0.1)
        return f"{subject} {word}IN ({', '.join(listed)})"
    if roll < 0.8:
        return f"{subject} {word}BETWEEN {fitting(rng, subject)} AND {fitting(rng, subject)}"
    if roll < 0.9:
        return f"{subject} {rng.choice(OPERATORS)} {fitting(rng, subject)}"
    return f"({subject} = {fitting(rng, subject)}) IS {word}{rng.choice(('NULL', 'TRUE', 'FALSE'))}"


def leaf(rng: random.Random) -> str:
    column, roll = rng.choice(list(VALUES)), rng.random()
    if roll < 0.1:
        return constants(rng)
    if roll < 0.35:
        listed = ", ".join(fitting(rng, column) for _ in range(rng.randint(1, 4)))
        return f"{column} {rng.choice(('', 'NOT '))}IN ({listed})"
    if roll < 0.6:
        low, high = fitting(rng, column), fitting(rng, column)
        return f"{column} {rng.choice(('', 'NOT '))}BETWEEN {low} AND {high}"
    if roll < 0.7:
        return f"{column} IS {rng.choice(('', 'NOT '))}NULL"
    if roll < 0.75:
        return rng.choice(
            ("c_bool", "c_bool IS TRUE", "c_bool IS NOT FALSE", "NULL", "TRUE", "c_bool IS UNKNOWN")
        )
    return f"{column} {rng.choice(OPERATORS)} {fitting(rng, column)}"


def tree(rng: random.Random, depth: int) -> str:
    roll = rng.random()
    if depth == 0 or roll < 0.15:
        return leaf(rng)
    if roll < 0.3:
        return f"{rng.choice(('NOT', '!'))} ({tree(rng, depth - 1)})"
    if roll < 0.4:
        return (
            f"({tree(rng, depth - 1)}) IS {rng.choice(('', 'NOT '))}{rng.choice(('NULL', 'TRUE', 'FALSE'))}"
        )
    word = rng.choice((" AND ", " OR "))
    return word.join(f"({tree(rng, depth - 1)})" for _ in range(rng.randint(2, 3)))


def test_a_comparison_of_any_type_with_any_constant_is_what_spark_says(typed: JudgedRows) -> None:
    rng = random.Random(SEED)
    check(typed, [comparison(rng) for _ in range(1000 * SCALE)], at_least=300)


def test_lists_ranges_and_trees_of_conditions_are_what_spark_says(typed: JudgedRows) -> None:
    rng = random.Random(SEED)
    check(typed, [tree(rng, rng.randint(0, 3)) for _ in range(300 * SCALE)], at_least=200)


def nested(rng: random.Random, depth: int) -> str:
    """A condition over two columns below many levels of IS NULL and its like."""
    text = rng.choice(("c_int < c_long", "c_byte = c_short", "c_int <=> c_byte", "c_float = c_double"))
    for _ in range(depth):
        word, kind = rng.choice(("", "NOT ")), rng.choice(("NULL", "UNKNOWN", "TRUE", "FALSE"))
        text = f"({text}) IS {word}{kind}"
        if rng.random() < 0.7:
            text = f"({text}) {rng.choice(('AND', 'OR'))} ({leaf(rng)})"
        if rng.random() < 0.5:
            text = f"c_short {rng.choice(OPERATORS[:8])} c_int {rng.choice(('AND', 'OR'))} ({text})"
        if rng.random() < 0.3:
            text = f"NOT ({text})"
    return text


DEPTHS = (1, 2, 2, 3, 3, 4, 5, 7, 9, 12, 18)


def test_deeply_nested_conditions_over_two_columns_are_what_spark_says(typed: JudgedRows) -> None:
    rng = random.Random(SEED)
    check(typed, [nested(rng, depth) for depth in DEPTHS for _ in range(SCALE)], at_least=len(DEPTHS))


def test_constants_alone_and_lists_of_mixed_types_are_what_spark_says(typed: JudgedRows) -> None:
    rng = random.Random(SEED)
    check(typed, [constants(rng) for _ in range(600 * SCALE)], at_least=300)


def test_two_columns_compare_as_in_spark(typed: JudgedRows) -> None:
    pairs = [f"{a} {sign} {b}" for a in VALUES for b in VALUES for sign in ("=", "<", "<=>", ">=")]
    check(typed, pairs, at_least=200)


PRECEDENCE = (
    "NOT c_int = 1 AND c_bool",
    "NOT c_int = 1 OR c_bool",
    "! c_bool OR c_int = 1",
    "NOT NOT c_bool",
    "NOT c_int IS NULL",
    "c_int = 1 IS NULL",
    "c_int BETWEEN 0 AND 1 AND c_bool",
    "NOT c_int BETWEEN 0 AND 1 OR c_bool",
    "c_bool AND c_int = 1 OR c_long = 0 AND NOT c_bool",
    "c_bool OR c_int = 1 AND c_long = 0",
    "NOT c_int IN (1, 2) AND c_bool",
    "c_int IS NOT NULL AND NOT c_bool IS TRUE",
    "`C_INT` = 1 AND C_Long >= 0",
    "c_int/* = 5 */= 1 -- AND FALSE",
    "c_int -- one\n= 1",
    "(((c_int))) = (((1)))",
    "1 = 1 AND c_bool",
    "NULL IS NULL AND c_bool",
    "'a' < 'B' OR c_bool",
    "1.0 = '1' AND c_bool",
    "CAST(c_int AS INT) = 1",
    "1 IN (1, NULL) AND c_bool",
    "2 IN (1, NULL) OR c_bool",
    "1 BETWEEN 0 AND 2 AND c_bool",
    "c_int < 99999999999999999999 AND c_int IS NULL",
    "c_int BETWEEN -99999999999999999999 AND 1.5",
    "NOT (c_int > 99999999999999999999)",
    "c_bool AND CAST(NULL AS BIGINT) < 9223372036854775808",
    "c_bool OR -9223372036854775809.5 >= CAST(NULL AS TINYINT)",
)


def test_operators_bind_as_tightly_as_in_spark(typed: JudgedRows) -> None:
    check(typed, PRECEDENCE, at_least=len(PRECEDENCE))


REFUSED_BY_BOTH = (
    "c_int = 'x'",
    "c_int = '1.5'",
    "c_int = '99999999999999999999'",
    "c_byte = 128Y",
    "c_int = 1.5S",
    "c_double = 1e400",
    "c_double = 1e400D",
    "c_float = 3.4028235e38F",
    "c_dec = 123456789012345678901234567890123456789",
    "c_bool = 'x'",
    "c_bool = 1",
    "c_int = TRUE",
    "c_int = DATE'2020-01-01'",
    "c_date = 'x'",
    "c_date = DATE'x'",
    "c_date = '2020-02-30'",
    "c_date = 20200101",
    "c_ts = '24:00:00x'",
    "c_ts = 1",
    "c_binary = 1",
    "c_binary = X'GG'",
    "c_int",
    "c_string",
    "c_int AND c_bool",
    "c_int IS TRUE",
    "c_int IN ()",
    "c_int IN (1) = TRUE",
    "c_int = NOT TRUE",
    "c_bool = c_int < 1",
    "c_int = 0x1F",
    "c_int = 1_000",
    "no_such = 1",
    "c_int = 1 LIMIT 1",
    "c_int = 1; SELECT 1",
    "c_int = ",
    "(c_int = 1",
    "c_string IN ('a', 5)",
    "c_date IN (1)",
    "'2020' NOT IN (1.17F, 'x')",
    "'a' IN ('b', 5)",
    "DATE'2020-01-02' IN ('2020-01-01', 'x')",
    "1 IN (TRUE)",
    "CAST('x' AS INT) = c_int",
    "CAST(300 AS TINYINT) = c_int",
    "CAST(99.95 AS DECIMAL(3,1)) = c_dec",
    "c_int = -(-2147483648)",
    "c_int = - 'x'",
)


KEYWORD_USES = (
    "{k} = 1",
    "1 <> {k}",
    "NOT {k} = 1",
    "{k} IS NULL",
    "{k} IN (1)",
    "{k} NOT IN (2, 3)",
    "{k} BETWEEN {k} AND {k}",
    "({k}) <=> 1",
    "x = 1 AND {k} = 1 OR x = 2",
    "x = 1 AND {k} IS NOT NULL AND x = 1",
    "x IN (1) OR {k} > 0",
    "s.{k} = 1",
    "x IS DISTINCT FROM {k}",
)


def named(keyword: str) -> Schema:
    """A table with a column and a field that are named like a keyword."""
    inner = {"name": keyword, "type": "integer", "nullable": True, "metadata": {}}
    return of_fields(("x", "integer"), (keyword, "integer"), ("s", {"type": "struct", "fields": [inner]}))


def of_fields(*fields: tuple[str, Any]) -> Schema:
    """A schema of names and types, as a Delta log says it."""
    listed = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in fields]
    return parse_schema(json.dumps({"type": "struct", "fields": listed}), [], {}, "fields")


def is_read(text: str, of: Schema) -> bool:
    try:
        bind(text, of)
    except TailbitError:
        return False
    return True


def all_keywords(spark: Any) -> list[str]:
    """Spark's keywords, without that which the table of `with_keywords` has as a column."""
    return sorted({row[0] for row in spark.sql("SELECT keyword FROM SQL_KEYWORDS()").collect()} - {"X"})


def with_keywords(spark: Any) -> Any:
    """A table that has a column and a field for each keyword of Spark."""
    keywords = all_keywords(spark)
    fields = ", ".join(f"'{keyword}', 1" for keyword in keywords)
    return spark.range(0).selectExpr(
        "1 AS x", *(f"1 AS `{keyword}`" for keyword in keywords), f"named_struct({fields}) AS s"
    )


def test_a_column_named_like_any_keyword_of_spark_is_read_where_spark_reads_it(
    verdicts: Any, request: pytest.FixtureRequest
) -> None:
    spark = partial(request.getfixturevalue, "spark")
    [keywords] = verdicts.answers("keywords", [""], lambda _: [all_keywords(spark())])
    assert len(keywords) > 400
    asked = {(k, use.format(k=k)): named(k) for k in keywords for use in KEYWORD_USES}
    read = [text for (_, text), schema in asked.items() if is_read(text, schema)]

    def are_read(portions: Sequence[Sequence[str]]) -> list[bool]:
        frame = with_keywords(spark())
        return [bool(frame.selectExpr(*texts)) for texts in portions]  # raises where Spark does not read one

    verdicts.answers("all read", [read[start : start + 500] for start in range(0, len(read), 500)], are_read)
    accepted = frozenset(read)
    refused = [(keyword, text) for keyword, text in asked if text not in accepted]

    def are_refused(texts: Sequence[str]) -> list[bool]:
        frame = with_keywords(spark())
        return [refused_by_spark_at_once(frame, text) for text in texts]

    theirs = verdicts.answers("refused at once", [text for _, text in refused], are_refused)
    assert {k for (k, _), said in zip(refused, theirs, strict=True) if not said} == {"NOT"}


def refused_by_spark_at_once(frame: Any, text: str) -> bool:
    try:
        frame.selectExpr(text)
    except PySparkException:
        return True
    return False


def refused_by_spark(frame: Any, text: str) -> bool:
    try:
        frame.where(text).collect()
    except PySparkException:
        return True
    return False


def test_what_spark_refuses_is_refused(typed: JudgedRows) -> None:
    assert [text for text in REFUSED_BY_BOTH if ours(text) is not None] == []
    theirs = typed.ask(
        "refused", REFUSED_BY_BOTH, lambda texts: [refused_by_spark(typed.frame, text) for text in texts]
    )
    assert [text for text, refused in zip(REFUSED_BY_BOTH, theirs, strict=True) if not refused] == []


def test_rows_of_the_last_hours_and_days_are_those_of_spark(spark: Any, tmp_path: Path) -> None:
    hour = 3_600_000_000
    moment = time.time_ns() // 1000
    ages = [n * hour // 2 for n in range(-100, 100)]
    at = pa.array([moment - age for age in ages])
    rows = pa.table({"ts": at.cast(pa.timestamp("us", "UTC")), "nt": at.cast(pa.timestamp("us"))})
    rows = rows.append_column("dt", rows["nt"].cast(pa.date32(), safe=False))
    pq.write_table(rows, tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    where = [
        "ts > now() - INTERVAL 45 MINUTES",
        "ts BETWEEN current_timestamp - INTERVAL 1 DAY 15 MINUTES AND now() + INTERVAL 15 MINUTES",
        "nt < localtimestamp() - INTERVAL 100 MINUTES",
        "dt >= current_date - INTERVAL 1 DAY",
        "dt = date_sub(curdate(), 1)",
        "nt >= current_date()",
    ]
    schema = of_fields(("ts", "timestamp"), ("nt", "timestamp_ntz"), ("dt", "date"))
    for text in where:
        before = matches(bind(text, schema), rows, {}).sum()
        theirs = frame.where(text).count()
        after = matches(bind(text, schema), rows, {}).sum()  # a day may have begun since
        assert 0 < before < rows.num_rows
        assert theirs in (before, after), text


def test_a_zone_with_clock_changes_reads_texts_and_days_as_spark_does(typed: JudgedRows) -> None:
    zone, texts = (
        "Europe/Paris",
        ("2020-03-29 02:30:00", "2020-10-25 02:30:00", "2020-03-29", "1850-01-01", "9999-12-31"),
    )
    asked = [f"c_ts {sign} '{text}'" for text in texts for sign in ("=", "<", ">=")]
    asked += [f"c_date {sign} TIMESTAMP'{text}'" for text in texts for sign in ("=", "<", ">=")]
    asked += [f"c_ts {sign} DATE'{text[:10]}'" for text in texts for sign in ("=", "<", ">=")]
    for text, truth in zip(asked, sparks(typed, asked, zone), strict=True):
        node = bind(text, SCHEMA, zone)
        assert matches(node, TABLE, {}).tolist() == [t is True for t in truth], text
