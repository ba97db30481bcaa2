"""SQL functions over tables with an index: `tailbit_count`, `tailbit_rows` and `tailbit_facets`.

The table functions learn their columns when Spark analyses the statement, so path, predicate and version must
be constants. The version is then fixed: the rows are those of the version that was analysed. Rows cross from
Python one by one: for more than some ten thousand, `spark.read.format("tailbit")` is the quicker way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import udtf
from pyspark.sql.types import LongType, StructField, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from tailbit.answer import Answer
from tailbit.api import IndexedTable, open_indexed
from tailbit.arguments.values import split_names, text
from tailbit.errors import UsageError
from tailbit.index.model import key_type_of_column
from tailbit.outputs.facets import facet_table
from tailbit.spark.plain_errors import told_plainly, without_traceback
from tailbit.spark.schema import python_rows, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@lru_cache(maxsize=8)
def opened(path: str) -> IndexedTable:
    """A handle of a worker's process, which serves many statements; it looks at its table anew when asked."""
    return open_indexed(path)


def register_functions(spark: SparkSession) -> None:
    """Make the three functions known to a session; its time zone travels as a part of their code."""
    zone = session_zone(spark)

    @told_plainly
    def tailbit_count(path: str, predicate: str | None = None, version: int | None = None) -> int:
        return opened(path).where(predicate, version=version, zone=zone).count()

    class TailbitRows(Rows):
        @staticmethod
        @told_plainly
        def analyze(
            path: AnalyzeArgument,
            predicate: AnalyzeArgument | None = None,
            version: AnalyzeArgument | None = None,
        ) -> OfVersion:
            return rows_of(_answer(path, predicate, version, zone), zone)

    class TailbitFacets(Facets):
        @staticmethod
        @told_plainly
        def analyze(
            path: AnalyzeArgument,
            column: AnalyzeArgument,
            predicate: AnalyzeArgument | None = None,
            version: AnalyzeArgument | None = None,
        ) -> OfVersion:
            named = text("column", _constant("column", column))
            return facets_of(_answer(path, predicate, version, zone), named, zone)

    spark.udf.register("tailbit_count", tailbit_count, LongType())
    spark.udtf.register("tailbit_rows", udtf(TailbitRows))
    spark.udtf.register("tailbit_facets", udtf(TailbitFacets))


def session_zone(spark: SparkSession) -> str:
    """The time zone that a session has now."""
    zone: str | None = spark.conf.get("spark.sql.session.timeZone")
    return zone or "UTC"


@dataclass
class OfVersion(AnalyzeResult):
    """The columns of a table function, the version that they were found at, and the zone of its predicate."""

    version: int = 0
    zone: str = "UTC"


class Rows:
    """`tailbit_rows(path, predicate, version)`: the rows of a table, in all its columns."""

    def __init__(self, analyzed: OfVersion) -> None:
        self._at = analyzed

    def eval(
        self, path: str, predicate: str | None = None, version: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows."""
        with without_traceback():
            _, tables = opened(path).where(predicate, version=self._at.version, zone=self._at.zone).stream()
            for table in tables:
                yield from python_rows(table)


def rows_of(answer: Answer, zone: str) -> OfVersion:
    """Columns and version of an answer's rows."""
    columns = spark_schema(answer._selection.schema.columns, answer.stream(limit=0)[0])
    return OfVersion(columns, version=answer.version, zone=zone)


class Facets:
    """`tailbit_facets(path, column, predicate, version)`: matching rows per value, most frequent first.

    Of columns "a, b" they are counted per pair of values.
    """

    def __init__(self, analyzed: OfVersion) -> None:
        self._at = analyzed

    def eval(
        self, path: str, column: str, predicate: str | None = None, version: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """A row per value, or per values."""
        with without_traceback():
            answer = opened(path).where(predicate, version=self._at.version, zone=self._at.zone)
            yield from python_rows(answer.facet_table(*_named(column)))


def facets_of(answer: Answer, named: str, zone: str) -> OfVersion:
    """The columns in their types, and `count`."""
    schema = answer._selection.schema
    found = [schema.resolve(name) for name in _named(named)]
    for column in found:
        key_type_of_column(column)
    header = facet_table(list(schema.arrow(found)), {}).schema
    values = spark_schema(found, header.remove(len(found))).fields
    for value in values:
        value.nullable = True
    columns = StructType([*values, StructField("count", LongType(), False)])
    return OfVersion(columns, version=answer.version, zone=zone)


def _named(columns: str) -> list[str]:
    """The columns of an argument such as "carrier, dest"."""
    return split_names(columns) or [columns]


def _answer(
    path: AnalyzeArgument, predicate: AnalyzeArgument | None, version: AnalyzeArgument | None, zone: str
) -> Answer:
    table: IndexedTable = opened(_constant("path", path))
    return table.where(_constant("predicate", predicate), version=_constant("version", version), zone=zone)


def _constant(name: str, argument: AnalyzeArgument | None) -> Any:
    """The value of an argument that is a constant; None where it is not given.

    Raises:
        UsageError: it depends on a row.
    """
    if argument is None:
        return None
    if argument.isTable or not argument.isConstantExpression:
        hint = "Give it as a literal: the columns must be known before a row is read."
        raise UsageError(reason=f"argument {name} is no constant", hint=hint)
    return argument.value
