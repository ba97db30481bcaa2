"""A refusal of what Spark refuses, too, names the error class that Spark raises."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from support.function_cells import COLUMNS, rows, schema
from support.spark_cells import JudgedRows
from tailbit.errors import PredicateError
from tailbit.index.sql.bind import bind

LITERALS = """
i = 300Y | 32768S = i | -129Y = b | i = 99999999999999999999L | i = 9223372036854775808L
d = 1e400 | d = 1e400D | d = -1e400 | f = 1e39F | f = 3.5e38F
i = 1234567890123456789012345678901234567890 | i = 1.2345678901234567890123456789012345678901
p = 1e40BD | p = 1e400BD | p = 1e-40BD
dt = DATE'x' | dt = DATE'' | dt = DATE'2020-13-01' | dt = DATE'99999999-01-01' | ts = TIMESTAMP'x'
ts = TIMESTAMP_LTZ'x' | nt = TIMESTAMP_NTZ'x' | nt = TIMESTAMP_NTZ'12:34'
DATE'x' IN (dt) | year(DATE'x') = 1
x = X'GG' | x = X'1 2' | x = x'-1' | s = 'open | s = "open | `s = 1 | i = 1 /* open
"""
CONSTANTS = """
i = 'x' | i = '' | dt = 'x' | bo = 'maybe' | d = 'x' | ts = 'x' | i IN (1, 'x') | CAST('x' AS INT) = i
CAST('300' AS TINYINT) = b | CAST(300 AS TINYINT) = b | CAST(1e30 AS INT) = i | l = '99999999999999999999'
CAST(CAST('NaN' AS DOUBLE) AS INT) = i | CAST(123456 AS DECIMAL(5,2)) = p | CAST('123456' AS DECIMAL(5,2)) = p
1Y + 127Y = 1Y | 2147483647 + 1 = 1 | 9223372036854775807 * 2 = 1 | 1 / 0 = 1 | 1 % 0 = 1 | abs(-128Y) = 1
i + 2147483647 + 1 > 1 | bo AND i > 1 % 0 | i IN (1, 1 % 0) | i + abs(-128Y) BETWEEN 1 AND 2
(i <=> 1 / 0) IS TRUE | 7 / 0 % i > nullif(CAST(7 AS INT), 7) | 1 / 0 + nullif(7, 7) > i
CASE WHEN i > 1000000000 THEN 1 END >= -99999999999999999999 % 0
least(0.5D / 0, -0.05, b) < locate(NULL, 'a', 0) | nullif(nullif(NULL, d), i) >= 1 % 0
1 % 0 > TRY_CAST('x' AS INT) | length(concat(NULL, 'a')) < least(1 % 0, i)
length(trim(NULL)) + i < 1 % 0 | 1 % 0 > length(right('a', NULL)) | 1 % 0 > length(concat('a', NULL)) + i
1 % 0 > greatest(NULL, NULL) | 1 % 0 > coalesce(NULL, nullif(1, 1)) | 1 % 0 > ceil(nullif(1, 1)) + i
b / (1 / 0) NOT IN (NULL) AND i > 1 | 'a' LIKE '' AND ((~b) / (-1 / 0)) NOT IN (NULL) | 1 / 0 IN (NULL, NULL)
(((CASE WHEN bo AND NOT bo THEN 1 END >= 1 % 0) OR d > f) AND i = 1) IS NULL
"""
CONDITIONS = """
NULL | (NULL) | i | s | 1 | 'true' | dt | if(bo, NULL, NULL) | coalesce(NULL, NULL) | upper(s)
NOT i | i AND bo | bo OR dt | i IS TRUE | d IS NOT FALSE | if(i, 1, 2) = 1 | CASE WHEN i THEN 1 END = 1
CASE WHEN NULL THEN 1 END = 1 | NOT (i OR bo)
"""
FUNCTIONS = """
bo + 1 = 2 | 2 * bo = 2 | x / 2 = 1 | bo - bo = 1 | s * s = 1 | dt + 1L = dt | dt - 1.5 = dt
dt + dt = dt | dt + 'a' = dt
coalesce(i, dt) = 1 | if(bo, i, dt) = 1 | CASE WHEN bo THEN i ELSE bo END = 1 | nullif(i, bo) = 1
CASE i WHEN bo THEN 1 END = 1 | year(i) = 1 | hour(bo) = 1 | datediff(1, dt) = 1 | last_day(x) = dt
date_add(dt, 1L) = dt | date_add(dt, bo) = dt | date_sub(i, 1) = dt | substr(s, dt) = 'a' | left(s, bo) = 'a'
abs(bo) = 1 | -bo = 1 | -dt = dt | round(dt) = 1 | floor(ts) = 1 | ceil(x) = 1 | isnan(bo)
trunc(i, 'YEAR') = dt | CAST(bo AS DATE) = dt | CAST(i AS DATE) = dt | CAST(dt AS INT) = 1
CAST(d AS BINARY) = x | CAST(nt AS BIGINT) = 1
CAST(ts AS BOOLEAN) | CAST(x AS INT) = 1 | CAST(bo AS TIMESTAMP) = ts | CAST(dt AS BOOLEAN)
date_trunc('YEAR', i) = ts | date_format(i, 'yyyy') = '' | rlike(s, 'a', 'i')
"""


def refused(text: str) -> str | None:
    """The error class that a refusal names."""
    with pytest.raises(PredicateError) as wrong:
        bind(text, schema())
    named = re.findall(r"\(([A-Z_.]+) in Spark\)", str(wrong.value).splitlines()[0])
    return str(named[-1]) if named else None


def predicates(listed: str) -> list[str]:
    return [text.strip() for line in listed.strip().splitlines() for text in line.split(" | ")]


def comparisons() -> list[str]:
    """Comparisons of columns and constants of each two types that Spark does not compare."""
    shapes = ("{0} > {1}", "{0} IN ({1})", "i + 1 BETWEEN {0} AND {1}")
    given = [*COLUMNS, "1", "1.5", "TRUE", "DATE'2020-01-01'", "X'1F'"]
    found = []
    for shape in shapes:
        for a in given:
            for b in given:
                text = shape.format(a, b)
                try:
                    bind(text, schema())
                except PredicateError as wrong:
                    if "DIFF_TYPES" in str(wrong):
                        found.append(text)
    return found


def condition_of(frame: Any, text: str, whole: bool) -> str:
    """Return the class of the error that Spark raises for a filter; `whole`: when its rows are collected."""
    try:
        filtered = frame.where(text)
        return f"none: {filtered.collect()}" if whole else "none"
    except PySparkException as raised:
        return str(raised.getCondition())


@pytest.mark.parametrize("listed", [LITERALS, CONSTANTS, CONDITIONS, FUNCTIONS, None])
def test_a_refusal_names_the_error_class_that_spark_raises(
    verdicts: Any, request: pytest.FixtureRequest, tmp_path: Path, listed: str | None
) -> None:
    judge = JudgedRows(rows(), verdicts, lambda: request.getfixturevalue("spark"), tmp_path)
    asked = comparisons() if listed is None else predicates(listed)
    assert listed is not None or len(asked) > 300
    wrong = {}
    whole = listed == CONSTANTS

    def conditions(texts: Sequence[str]) -> list[str]:
        return [condition_of(judge.frame, text, whole) for text in texts]

    theirs = judge.ask("error of rows" if whole else "error", asked, conditions)
    for text, condition in zip(asked, theirs, strict=True):
        named = refused(text)
        if named is None or not f"{condition}.".startswith(f"{named}."):
            wrong[text] = (named, condition)
    assert wrong == {}
