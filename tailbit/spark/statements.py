"""Index statements in a Spark session, whose catalogs resolve the names of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from tailbit.index.sql.ddl.parser import parse_statement
from tailbit.index.sql.ddl.statements import Statement, TableReference
from tailbit.spark.locating import location_of
from tailbit.spark.session import session_zone
from tailbit.tables.open import named_in_catalog
from tailbit.upkeep.statements import as_dict, run, table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES: Mapping[str, DataType] = {
    **dict.fromkeys(("name", "kind"), StringType()),
    "terms": ArrayType(StringType()),
    "state": StringType(),
    "files_left": LongType(),
    **dict.fromkeys(("only", "zone"), StringType()),
    "options": MapType(StringType(), StringType()),
    "bytes": LongType(),
    **dict.fromkeys(("indexer", "counts_reason", "changed"), StringType()),
}
_COLUMNS = StructType([StructField(name, type_) for name, type_ in _TYPES.items()])


def run_in(
    spark: SparkSession, text: str, storage_options: Mapping[str, str] | None, index: str | None
) -> DataFrame:
    """Carry out an index statement, its table found by the session; return a row per index."""
    statement = parse_statement(text)
    table = table_of(_located(spark, statement), text, storage_options, index)
    rows = [as_dict(description) for description in run(table, statement, session_zone(spark))]
    return spark.createDataFrame([tuple(row[name] for name in _TYPES) for row in rows], _COLUMNS)


def _located(spark: SparkSession, statement: Statement) -> Statement:
    """Return the statement with the path of its table in place of the table's name in a catalog."""
    if statement.table.kind == "path":
        return statement
    catalog = spark.conf.get(f"spark.sql.catalog.{statement.table.parts[0]}", "") or ""
    path = named_in_catalog(statement.table.parts, catalog) or location_of(spark, str(statement.table))
    return replace(statement, table=TableReference("path", (path,), statement.table.place))
