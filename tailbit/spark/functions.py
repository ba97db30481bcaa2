"""The SQL function `tailbit_locate`, and what is told of the functions that plain SQL has replaced.

The function learns its columns when Spark analyses the statement, so path, version and array of keys must be
constants. The version is then fixed: the places are those of the version that was analysed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.functions import udtf
from pyspark.sql.types import LongType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from tailbit.api import IndexedTable, open_indexed
from tailbit.base.errors import UsageError
from tailbit.spark.locating import Located, OfKeys, located_of
from tailbit.spark.plain_errors import told_plainly
from tailbit.spark.zone import session_zone
from tailbit.tables.cache import HANDLES_BYTES, Cache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OPENED: Cache[str, IndexedTable] = Cache(HANDLES_BYTES)
"""The handles of this worker process by path; bounded in bytes, not in tables."""

_NO_INDEX = 1 << 16
"""Bytes that the handle of a table without an index counts for in the cache."""

_INSTEAD = {
    "tailbit_count": "Ask SELECT count(*) of the Delta table, after tailbit.spark.accelerate(spark), or of "
    'a view: CREATE TEMPORARY VIEW name USING tailbit OPTIONS (path "...", where "...").',
    "tailbit_facets": "Ask SELECT ..., count(*) ... GROUP BY of the Delta table, after "
    "tailbit.spark.accelerate(spark).",
    "tailbit_rows": 'Read spark.read.format("tailbit").option("where", "...").load(path), or in SQL a view: '
    'CREATE TEMPORARY VIEW name USING tailbit OPTIONS (path "...", where "...").',
}
"""SQL functions that are gone, and what does the same."""


def opened(path: str) -> IndexedTable:
    """Return the worker process's handle of a table, which is shared by many statements.

    The handle looks for new commits at each question.
    """

    def load() -> tuple[IndexedTable, int]:
        table = open_indexed(path)
        return table, _NO_INDEX if table._index is None else table._index.bytes_held

    return _OPENED.get(path, load)


def register_functions(spark: SparkSession) -> None:
    """Register `tailbit_locate` with a session; the session's time zone is pickled with its code.

    The functions that are gone are registered too, to say what to use instead.
    """
    spark.udtf.register("tailbit_locate", udtf(locating_in(session_zone(spark))))

    @told_plainly
    def tailbit_count(*_: Any) -> int:
        _refuse("tailbit_count")

    spark.udf.register("tailbit_count", tailbit_count, LongType())
    for name in ("tailbit_facets", "tailbit_rows"):
        spark.udtf.register(name, udtf(_refusing(name)))


def _refusing(name: str) -> type[Any]:
    """Return a table function that refuses its analysis."""

    class Gone:
        @staticmethod
        @told_plainly
        def analyze(*_: AnalyzeArgument, **__: AnalyzeArgument) -> AnalyzeResult:
            _refuse(name)

        def eval(self, *_: Any, **__: Any) -> Iterator[tuple[Any, ...]]:
            _refuse(name)

    return Gone


def _refuse(name: str) -> NoReturn:
    raise UsageError(reason=f"the SQL function {name} is gone", hint=_INSTEAD[name])


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
            named, number, older = (
                _constant("on", on),
                _constant("version", version),
                _constant("since", since),
            )
            return located_of(table, keys, named, number, older, zone)

    return TailbitLocate


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
