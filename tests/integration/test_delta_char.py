"""CHAR(n) and VARCHAR(n): what Spark fills up with spaces when it reads and compares, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.judged import JudgedTable
from support.verdicts import digest_of
from tailbit.errors import PredicateError


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


VALUES = (
    *("", " ", "   ", "a", "a  ", "a    ", "ab", "ab ", "abc", "abc  ", "abcd", "abcde", "abcdef"),
    *("\0", "\x01", "ab\x01", "a\x01b", "ab \x01", "abc\x01", "abc \x01", "éé", "éééé", "𝄞", "𝄞𝄞𝄞", None),
)
"""Shorter, longer and of any length, and characters that sort before the space."""

CONSTANTS = (
    *("''", "' '", "'a'", "'ab'", "'ab '", "'abc'", "'abc '", "'abcd'", "'abcd '", "'abcdef'", "'\\0'"),
    *("'ab\\u0001'", "'abc\\u0001'", "'abc \\u0001'", "'éé'", "'éé  '", "'éééé'", "'𝄞'"),
)

CHAR = (
    *(f"c {sign} {text}" for text in CONSTANTS for sign in ("=", "<", "<=")),
    *(
        "c > 'abcd'",
        "c >= 'ab'",
        "c <> 'a'",
        "c <=> 'a'",
        "c <=> NULL",
        "'ab' < c",
        "'abcd' >= c",
        "c = NULL",
    ),
    *("c = NULL", "c IS DISTINCT FROM 'a'", "NOT (c = 'a')", "c = X'61'", "c = X'612020'", "c < X'61'"),
    *(
        "c IN ('a')",
        "c IN ('a', 'abcd')",
        "c NOT IN ('a', 'abcd')",
        "c IN ('a', NULL)",
        "c IN ('abc ', NULL)",
    ),
    *("c IN ('a  ', NULL, 'abcd')", "c IN ('a', X'612020')", "c IN ('a', 'ab', CAST('abc' AS STRING))"),
    *(
        "c IN ('abc ', NULL)",
        "c BETWEEN 'a' AND 'ab'",
        "c NOT BETWEEN 'a' AND 'abcd'",
        "c = CAST('a' AS STRING)",
    ),
    *("c = d", "c < d", "d >= c", "c <=> d", "c <> d", "c = v", "c = s", "s < c", "c = c"),
    *(
        "CASE WHEN c = 'a' THEN 1 ELSE 2 END = 1",
        "CASE c WHEN 'ab' THEN 1 WHEN 'abcd' THEN 2 END = 1",
        "if(c IN ('a', 'abcd'), 1, 2) = 1",
        "CASE WHEN c < d THEN 1 END = 1",
        "CASE WHEN c BETWEEN 'a' AND 'ab' THEN 1 END = 1",
    ),
    *("v = 'a'", "v < 'ab'", "v IN ('a', 'abcd')", "v = s"),
    *("p = 'a'", "p IN ('a', 'abcd')", "p > 'ab'", "p = c"),
)


def rows(values: Sequence[str | None]) -> pa.Table:
    """The values in every column, `d` the other way round."""
    return pa.table(
        {
            "c": pa.array(values, pa.string()),
            "d": pa.array(values[::-1], pa.string()),
            "v": pa.array(values, pa.string()),
            "s": pa.array(values, pa.string()),
        }
    )


def append(table: JudgedTable, added: pa.Table, partition: dict[str, str | None]) -> None:
    """Commit a file whose texts are as they are given, without Spark."""

    def act() -> None:
        builder = DeltaBuilder.of(table.path)
        builder.commit([builder.data_file(added, partition=partition)])

    table.write(["append", digest_of(added), partition], act)


@pytest.mark.supports("Types", "char(n)", "exact", note="compared by = <=> <> < <= > >= IN BETWEEN")
@pytest.mark.supports("Types", "varchar(n)", "exact")
def test_char_compares_as_in_spark_whether_files_hold_the_spaces_or_not(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["c", "d", "v", "p"])
    table.sql(
        "create table {t} (c char(3), d char(5), v varchar(4), s string, p char(3)) using delta"
        " partitioned by (p)",
        "insert into {t} values ('a', 'abc', 'a ', 'a', 'a'), ('abc', 'ab', 'abcd', 'abc', 'abc')",
    )
    append(table, rows(VALUES), {"p": "ab"})
    table.judge(*CHAR, versions=[2])


@pytest.mark.supports("Types", "char(n)", "exact", note="changed to string: older postings are not used")
def test_a_char_column_that_becomes_a_string_loses_its_spaces(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["c"])
    table.sql("create table {t} (c char(3), v varchar(2)) using delta")
    append(table, rows(["a", "ab ", None]).select(["c", "v"]), {})
    table.follow()
    table.sql(
        "alter table {t} alter column c type string",
        "alter table {t} alter column v type varchar(4)",
        "insert into {t} values ('a', 'abcd'), ('a  ', 'x')",
        "restore {t} to version as of 1",
    )
    judged = ("c = 'a'", "c = 'a  '", "c > 'a'", "c IN ('a', 'ab')", "v = 'abcd'")
    table.judge(*judged, versions=[1, 4, 5])
    for version in (1, 4, 5):
        table.judge_facets("c", version=version)


@pytest.mark.supports("Types", "char(n)", "refused", note="a NULL cast to STRING in IN; a bound of BETWEEN")
def test_where_spark_loses_constants_of_a_list_the_list_is_refused(spark: Any, table_path: str) -> None:
    spark.sql(f"create table delta.`{table_path}` (c char(3), s string) using delta")
    for predicate in ("c IN (CAST(NULL AS STRING), 'a')", "s BETWEEN c AND 'b'", "'a' BETWEEN c AND c"):
        with pytest.raises(PredicateError):
            tailbit.open(table_path).where(predicate)
