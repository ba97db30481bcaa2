"""Spark's own parser judges ours: of index statements, Spark reads those that name columns alone."""

from __future__ import annotations

from typing import Any

import pytest

from tailbit.index.sql.ddl.parser import parse_statement
from tailbit.index.sql.ddl.statements import CreateIndex, DropIndex, TableReference

pytestmark = pytest.mark.spark

TABLES = ("t", "TABLE db.`my table`", "c.db.t", "delta.`/data/t`", "`2024`.t")
CREATED = [
    f"{words} {name} ON {table} {kind}({columns}){options}"
    for words, name, table, kind, columns, options in (
        ("CREATE INDEX", "i", TABLES[0], "", "a", ""),
        ("create index if not exists", "`my index`", TABLES[1], "USING bitmap ", "a, `air time`", ""),
        ("CREATE INDEX", "`i``j`", TABLES[2], "using BITMAP", "a.b.`c d`", " OPTIONS (counts = 'off')"),
        ("CREATE INDEX", "`on`", TABLES[3], "USING bitmap", "a /* b */, c -- d\n", " options('counts' 'on')"),
        ("CREATE\nINDEX", "i1", TABLES[4], "USING column_stats", "a, b, c, d, e", ""),
        ("CREATE INDEX", "i", TABLES[0], "USING bitmap", "DATE, index, TABLE, case", ""),
    )
]
DROPPED = [f"DROP INDEX {absent}i ON {table}" for table in TABLES for absent in ("", "IF EXISTS ")]


def words(sequence: Any) -> list[str]:
    """The elements of a sequence of Scala's, as texts."""
    return [str(sequence.apply(at)) for at in range(sequence.size())]


def table_of(plan: Any) -> tuple[str, ...]:
    return tuple(words(plan.table().multipartIdentifier()))


def parts(table: TableReference) -> tuple[str, ...]:
    return ("delta", table.text) if table.kind == "path" else table.parts


@pytest.mark.parametrize("text", CREATED)
def test_an_index_is_created_of_what_spark_reads(spark: Any, text: str) -> None:
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    create = parse_statement(text)
    assert isinstance(create, CreateIndex)
    columns = [tuple(words(plan.columns().apply(at)._1().name())) for at in range(plan.columns().size())]
    options = {str(key): str(plan.properties().apply(key)) for key in words(plan.properties().keys().toSeq())}
    assert (create.name, create.if_not_exists) == (plan.indexName(), plan.ignoreIfExists())
    assert parts(create.table) == table_of(plan)
    assert [term.column for term in create.terms] == columns
    assert create.options == options


@pytest.mark.parametrize("text", DROPPED)
def test_an_index_is_dropped_of_what_spark_reads(spark: Any, text: str) -> None:
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    drop = parse_statement(text)
    assert isinstance(drop, DropIndex)
    assert (drop.name, drop.if_exists) == (plan.indexName(), plan.ignoreIfNotExists())
    assert parts(drop.table) == table_of(plan)


@pytest.mark.parametrize("text", CREATED + DROPPED)
def test_canonical_sql_is_to_spark_the_statement_as_written(spark: Any, text: str) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()
    canonical = parser.parsePlan(str(parse_statement(text)).replace("USING bitmap", kind_of(text)))
    assert canonical.toString().lower() == parser.parsePlan(text).toString().lower()


def kind_of(text: str) -> str:
    """The kind in a statement, which canonical SQL always names."""
    return "USING bitmap" if "using bitmap" in text.lower() else ""
