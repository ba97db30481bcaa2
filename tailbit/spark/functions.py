"""SQL functions over tables with an index: `tailbit_count`, `_rows`, `_facets` and `_locate`.

The table functions learn their columns when Spark analyses the statement, so path, predicate and version must
be constants. The version is then fixed: the rows are those of the version that was analysed. Rows cross from
Python one by one: for more than some ten thousand, `spark.read.format("tailbit")` is the quicker way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.functions import udtf
from pyspark.sql.types import LongType, StructField, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from tailbit.answer import Answer
from tailbit.api import IndexedTable, open_indexed
from tailbit.arguments.values import split_names, text
from tailbit.errors import UsageError
from tailbit.imports.dataclass import dataclass
from tailbit.index.model import key_type_of_column
from tailbit.outputs.facets import facet_table
from tailbit.spark.locating import Located, OfKeys, located_of
from tailbit.spark.plain_errors import told_plainly, without_traceback
from tailbit.spark.schema import python_rows, spark_schema
from tailbit.spark.zone import session_zone
from tailbit.tables.cache import HANDLES_BYTES, Cache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OPENED: Cache[str, IndexedTable] = Cache(HANDLES_BYTES)
"""The handles of this worker process by path; bounded in bytes, not in tables."""

_NO_INDEX = 1 << 16
"""Bytes that the handle of a table without an index counts for in the cache."""


def opened(path: str) -> IndexedTable:
    """Return the worker process's handle of a table, which is shared by many statements.

    The handle looks for new commits at each question.
    """

    def load() -> tuple[IndexedTable, int]:
        table = open_indexed(path)
        return table, _NO_INDEX if table._index is None else table._index.bytes_held

    return _OPENED.get(path, load)


def register_functions(spark: SparkSession) -> None:
    """Register the four functions with a session; the session's time zone is pickled with their code."""
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
    spark.udtf.register("tailbit_locate", udtf(locating_in(zone)))


@dataclass
class OfVersion(AnalyzeResult):
    """The columns of a table function, the version that they belong to, and the predicate's time zone."""

    version: int = 0
    zone: str = "UTC"


class Rows:
    """`tailbit_rows(path, predicate, version)`: the rows of a table, in all its columns."""

    def __init__(self, analyzed: OfVersion) -> None:
        self._at = analyzed

    def eval(
        self, path: str, predicate: str | None = None, version: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows."""
        with without_traceback():
            _, tables = opened(path).where(predicate, version=self._at.version, zone=self._at.zone).stream()
            for table in tables:
                yield from python_rows(table)


def rows_of(answer: Answer, zone: str) -> OfVersion:
    """Return the columns and the version of an answer's rows."""
    columns = spark_schema(answer._selection.schema.columns, answer.stream(limit=0)[0])
    return OfVersion(columns, version=answer.version, zone=zone)


class Facets:
    """`tailbit_facets(path, column, predicate, version)`: matching rows per value, most frequent first.

    For several columns, such as "a, b", rows are counted per combination of values. In place of a column may
    stand an expression, such as "date_trunc('month', ts)".
    """

    def __init__(self, analyzed: OfVersion) -> None:
        self._at = analyzed

    def eval(
        self, path: str, column: str, predicate: str | None = None, version: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield a row per value, or per combination of values."""
        with without_traceback():
            answer = opened(path).where(predicate, version=self._at.version, zone=self._at.zone)
            yield from python_rows(answer.facet_table(*_named(column)))


def facets_of(answer: Answer, named: str, zone: str) -> OfVersion:
    """Return the facet columns in their types, and `count`."""
    schema = answer._selection.schema
    facet_columns = answer._keys(*_named(named))
    for column in facet_columns:
        key_type_of_column(column)
    header = facet_table(list(schema.arrow(facet_columns)), {}).schema
    values = spark_schema(facet_columns, header.remove(len(facet_columns))).fields
    for value in values:
        value.nullable = True
    columns = StructType([*values, StructField("count", LongType(), False)])
    return OfVersion(columns, version=answer.version, zone=zone)


def locating_in(zone: str) -> type[Located]:
    """Return `tailbit_locate` of a session with a time zone; its columns are told in the analysis."""

    class TailbitLocate(Located):
        @staticmethod
        @told_plainly
        def analyze(
            path: AnalyzeArgument,
            keys: AnalyzeArgument,
            on: AnalyzeArgument | None = None,
            version: AnalyzeArgument | None = None,
            since: AnalyzeArgument | None = None,
        ) -> OfKeys:
            table: IndexedTable = opened(_constant("path", path))
            named, at, older = _constant("on", on), _constant("version", version), _constant("since", since)
            return located_of(table, keys, named, at, older, zone)

    return TailbitLocate


def _named(columns: str) -> list[str]:
    """Return the column names and expressions in an argument such as "carrier, year(day)"."""
    return split_names(columns) or [columns]


def _answer(
    path: AnalyzeArgument, predicate: AnalyzeArgument | None, version: AnalyzeArgument | None, zone: str
) -> Answer:
    table: IndexedTable = opened(_constant("path", path))
    return table.where(_constant("predicate", predicate), version=_constant("version", version), zone=zone)


def _constant(name: str, argument: AnalyzeArgument | None) -> Any:
    """Return the value of a constant argument; None if it is not given.

    Raises:
        UsageError: the argument depends on a row.
    """
    if argument is None:
        return None
    if argument.isTable or not argument.isConstantExpression:
        hint = "Give it as a literal: the columns must be known before a row is read."
        raise UsageError(reason=f"argument {name} is no constant", hint=hint)
    return argument.value
