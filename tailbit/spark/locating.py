"""Location of the keys of a DataFrame, where each executor looks up its share of the keys, or in SQL.

The SQL function `tailbit_locate` learns its columns when Spark analyses the statement, so path, version and
array of keys must be constants. The version is then fixed: the places are those of the version that was
analysed. The functions that plain SQL has replaced say what to use instead.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.functions import udtf
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructType, TimestampType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from tailbit.api import IndexedTable, open_indexed
from tailbit.arguments.key_tables import check_distinct
from tailbit.arguments.values import names, path_text, texts_by_name
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import UsageError
from tailbit.base.wording import quoted
from tailbit.index.query.locate import place_names
from tailbit.outputs.key_moves import change_column
from tailbit.spark.session import python_rows, session_zone, told_plainly, without_traceback
from tailbit.tables.cache import HANDLES_BYTES, Cache
from tailbit.tables.open import folder_of, names_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def located(
    table: Any,
    keys: Any,
    on: Any,
    version: Any,
    as_of: Any,
    index: Any,
    storage_options: Any,
    since: Any = None,
) -> DataFrame:
    """Return the keys of a frame with the places of their rows (see `tailbit.spark.locate`)."""
    if not hasattr(keys, "mapInArrow"):
        raise UsageError(
            reason=f"keys are of type {type(keys).__name__}, and no Spark DataFrame",
            hint="Ask tailbit.open(table).locate(keys), which takes keys of any form.",
        )
    key_names = keys.columns if on is None else [on] if isinstance(on, str) else names("on", on)
    check_distinct(key_names)
    given = {name.lower() for name in keys.columns}
    for name in key_names:
        if name.lower() not in given:
            reason = f"keys have no column {name}: they have {', '.join(keys.columns)}"
            raise UsageError(reason=reason, hint="Name columns that both the keys and the table have.")
    options, named = texts_by_name("storage_options", storage_options), path_text("table", table)
    root = folder_of(named) or (named if names_folder(named) else location_of(keys.sparkSession, named))
    opened = open_indexed(root, index, storage_options=options)
    zone = session_zone(keys.sparkSession)
    versions = _versions(opened, version, zone, as_of, since)
    look_up = _look_up(root, index, options, key_names, *versions, zone)
    distinct = keys.select(*(keys[quoted(name)].alias(name) for name in key_names)).dropDuplicates()
    return distinct.mapInArrow(look_up, _with_places(distinct.schema, since is not None))


def location_of(spark: SparkSession, name: str) -> str:
    """Return where a table of the session's catalogs lies."""
    detail = spark.sql(f"DESCRIBE DETAIL {name}").select("location").collect()
    location: str = detail[0]["location"]
    return location.removeprefix("file:")


def _versions(
    table: IndexedTable, version: Any, zone: str, as_of: Any = None, since: Any = None
) -> tuple[int, int | None]:
    """Return the number of the version that is asked for, and of the one since which changes are told."""
    older = None if since is None else table.where(version=since).version
    return table.where(version=version, as_of=as_of, zone=zone).version, older


def _with_places(keys: StructType, with_change: bool) -> StructType:
    """Return the columns of keys, and those of the places of their rows."""
    path, position = place_names(keys.names)
    columns = StructType().add(path, StringType()).add(position, LongType())
    if with_change:
        columns = columns.add(change_column(keys.names), StringType())
    return StructType([*keys.fields, *columns.fields])


def _look_up(
    root: str,
    index: str | None,
    options: Mapping[str, str],
    on: Iterable[str],
    version: int,
    since: int | None,
    zone: str,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` that looks up all keys of a partition together, at a version."""

    def look_up(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with without_traceback():
            share = [*batches]
            if share:
                table = open_indexed(root, index, storage_options=options)
                rows = pa.Table.from_batches(share)
                located = table.locate(rows, on, version=version, since=since, zone=zone)
                yield from located.to_batches()

    return look_up


@dataclass
class OfKeys(AnalyzeResult):
    """The columns of `tailbit_locate`, those of its keys as JSON, their versions and the time zone."""

    keys: str = ""
    version: int = 0
    since: int | None = None
    zone: str = "UTC"


class Located:
    """`tailbit_locate(path, keys, on, version, since)`: the keys, with `path` and `position` of their rows.

    `keys`: a constant array, of values of the one column `on` or of structs; or the rows of a TABLE.
    """

    def __init__(self, analyzed: OfKeys) -> None:
        self._analyzed, self._rows = analyzed, list[Any]()
        self._path = ""

    def eval(
        self,
        path: str,
        keys: Any,
        on: str | None = None,
        version: int | None = None,
        since: int | None = None,
    ) -> None:
        """Collect the keys of an array, or the key of a row of a TABLE."""
        self._path = path
        self._rows += [keys] if isinstance(keys, Row) else keys or []

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        """Yield the places of all keys, which are looked up together."""
        with without_traceback():
            if self._rows:
                fields = StructType.fromJson(json.loads(self._analyzed.keys)).fields
                rows = [row if isinstance(row, Row) else (row,) for row in self._rows]
                keys = [
                    tuple(_plain(value, field.dataType) for value, field in zip(row, fields, strict=True))
                    for row in rows
                ]
                table, on = open_indexed(self._path), [field.name for field in fields]
                analyzed = self._analyzed
                yield from python_rows(
                    table.locate(keys, on, analyzed.version, since=analyzed.since, zone=analyzed.zone)
                )


def _plain(value: Any, type_: DataType) -> Any:
    """Return a value of a worker as keys are given: an instant with its time zone, which Spark leaves out."""
    if isinstance(type_, TimestampType) and value is not None:
        return value.astimezone(datetime.timezone.utc)
    return bytes(value) if isinstance(value, bytearray) else value


def located_of(
    table: IndexedTable,
    keys: AnalyzeArgument,
    on: str | None,
    version: int | None,
    since: int | None,
    zone: str,
) -> OfKeys:
    """Return the result columns of `tailbit_locate`, and the versions in which it looks up the keys."""
    fields = _fields(keys, on)
    versions = _versions(table, version, zone, since=since)
    return OfKeys(
        _with_places(fields, since is not None),
        withSinglePartition=keys.isTable,
        keys=fields.json(),
        version=versions[0],
        since=versions[1],
        zone=zone,
    )


def _fields(keys: AnalyzeArgument, on: str | None) -> StructType:
    """Return the key columns of an argument."""
    type_ = keys.dataType
    if keys.isTable and isinstance(type_, StructType):
        return type_
    if not isinstance(type_, ArrayType):
        raise UsageError(
            reason=f"keys are of type {type_.simpleString()}",
            hint="Give a constant array, or the rows of a TABLE(SELECT ...).",
        )
    if isinstance(type_.elementType, StructType):
        return type_.elementType
    if on is None:
        reason = "keys have no names"
        raise UsageError(reason=reason, hint="Name the column behind them, or give an array of structs.")
    return StructType().add(on, type_.elementType)


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
    """Return the value of a constant argument; None if it is not given."""
    if argument is None:
        return None
    if argument.isTable or not argument.isConstantExpression:
        hint = "Give it as a literal: the columns must be known before a row is read."
        raise UsageError(reason=f"argument {name} is no constant", hint=hint)
    return argument.value
