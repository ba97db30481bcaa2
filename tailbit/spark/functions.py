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
from tailbit.errors import UsageError
from tailbit.index.model import key_type_of_column
from tailbit.outputs.facets import facet_table
from tailbit.spark.schema import python_rows, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_open = lru_cache(maxsize=8)(open_indexed)
"""Handles of a worker's process, which serves many statements; each looks at its table anew when asked."""


def register_functions(spark: SparkSession) -> None:
    """Make the three functions known to a session."""
    spark.udf.register("tailbit_count", tailbit_count, LongType())
    spark.udtf.register("tailbit_rows", udtf(TailbitRows))
    spark.udtf.register("tailbit_facets", udtf(TailbitFacets))


def tailbit_count(path: str, predicate: str | None = None, version: int | None = None) -> int:
    """The number of rows of the table at `path` where `predicate` is TRUE."""
    return _open(path).where(predicate, version=version).count()


@dataclass
class OfVersion(AnalyzeResult):
    """The columns of a table function, and the version that they were found at."""

    version: int = 0


class TailbitRows:
    """`tailbit_rows(path, predicate, version)`: the rows of a table, in all its columns."""

    def __init__(self, analyzed: OfVersion) -> None:
        self._version = analyzed.version

    @staticmethod
    def analyze(
        path: AnalyzeArgument,
        predicate: AnalyzeArgument | None = None,
        version: AnalyzeArgument | None = None,
    ) -> OfVersion:
        """Columns and version of the answer."""
        answer = _answer(path, predicate, version)
        schema = answer._selection.schema
        columns = spark_schema(schema.columns, answer.stream(limit=0)[0])
        return OfVersion(columns, version=answer.version)

    def eval(
        self, path: str, predicate: str | None = None, version: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows."""
        _, tables = _open(path).where(predicate, version=self._version).stream()
        for table in tables:
            yield from python_rows(table)


class TailbitFacets:
    """`tailbit_facets(path, column, predicate, version)`: matching rows per value, most frequent first."""

    def __init__(self, analyzed: OfVersion) -> None:
        self._version = analyzed.version

    @staticmethod
    def analyze(
        path: AnalyzeArgument,
        column: AnalyzeArgument,
        predicate: AnalyzeArgument | None = None,
        version: AnalyzeArgument | None = None,
    ) -> OfVersion:
        """The column in its type, and `count`."""
        answer = _answer(path, predicate, version)
        schema = answer._selection.schema
        found = schema.resolve(str(_constant("column", column)))
        key_type_of_column(found)
        named = facet_table(list(schema.arrow([found])), {}).schema
        (value,) = spark_schema([found], named.remove(1)).fields
        value.nullable = True
        return OfVersion(StructType([value, StructField("count", LongType(), False)]), version=answer.version)

    def eval(
        self, path: str, column: str, predicate: str | None = None, version: int | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """A row per value."""
        yield from python_rows(_open(path).where(predicate, version=self._version).facet_table(column))


def _answer(
    path: AnalyzeArgument, predicate: AnalyzeArgument | None, version: AnalyzeArgument | None
) -> Answer:
    table: IndexedTable = _open(_constant("path", path))
    return table.where(_constant("predicate", predicate), version=_constant("version", version))


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
