"""A Spark session: its time zone, a table's columns as its types, and errors in its words.

An error of tailbit shows in Spark as two lines, message and hint, without a Python worker's traceback. A
worker sends the text of an exception to the JVM, with the traceback first unless the worker's environment has
`SPARK_HIDE_TRACEBACK`, and ends. So the variable is set when an error of tailbit leaves the package, in the
worker that the error ends; other functions of the session keep their tracebacks.

When Spark needs no more rows of a worker (LIMIT), the worker finds its pipe closed, prints half a traceback
(BrokenPipeError) and ends. Such an end is no error, so the traceback is not printed.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import pyarrow as pa
from pyspark.sql.types import StructType

from tailbit.arguments.values import known_zone
from tailbit.base.errors import ColumnTypeError, TailbitError
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_zone(spark: SparkSession) -> str:
    """Return the current time zone of a session, by the common name of all zones of its fixed offset."""
    zone: str | None = spark.conf.get("spark.sql.session.timeZone")
    return known_zone("spark.sql.session.timeZone", zone or "UTC")


def cores_of(spark: SparkSession) -> int:
    """Return the cores that a session's executors have now; 1 over Connect, which does not tell."""
    context = None if not hasattr(spark, "_jsparkSession") else spark.sparkContext
    return 1 if context is None else context.defaultParallelism


_OF_DELTA = ("delta.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")
"""Field metadata that only Delta uses; Spark's own reader of Delta removes it too."""


def spark_schema(columns: Sequence[Column], arrow: pa.Schema) -> StructType:
    """Return the columns, named as in `arrow`, with the types and nullability of the table.

    Raises:
        ColumnTypeError: a variant, which Spark takes from no data source in Python.
    """
    fields = [
        {"name": name, "type": _of_spark(raw), "nullable": c.nullable, "metadata": _own(c.metadata)}
        for c, name in zip(columns, arrow.names, strict=True)
        for raw in [c.type.raw or str(c.type)]
    ]
    for column in columns:
        if "variant" in str(column.type.raw):
            hint = "Leave it out with `columns`, or have Spark read what `to_delta` of an answer writes."
            reason = "Spark takes no variants from Python"
            raise ColumnTypeError(column=column.label, type="variant", reason=reason, hint=hint)
    return StructType.fromJson({"type": "struct", "fields": fields})


def _of_spark(type_: Any) -> Any:
    """Convert a type of Delta's schema to Spark's JSON, without field metadata that only Delta uses."""
    if isinstance(type_, list):
        return [_of_spark(element) for element in type_]
    if not isinstance(type_, dict):
        return type_
    return {key: _own(value) if key == "metadata" else _of_spark(value) for key, value in type_.items()}


def _own(metadata: Any) -> dict[str, Any]:
    return {key: value for key, value in (metadata or {}).items() if not key.startswith(_OF_DELTA)}


def python_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield rows as tuples of Python values.

    Raises:
        ColumnTypeError: a date or time outside of Python's calendar.
    """
    for batch in table.to_batches(max_chunksize=10_000):
        columns = [
            _python(column, name) for column, name in zip(batch.columns, table.schema.names, strict=True)
        ]
        yield from zip(*columns, strict=True)


def _python(column: pa.Array, name: str) -> list[Any]:
    try:
        listed: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as wrong:
        hint = "Ask tailbit.spark.locate, whose rows are never Python values."
        raise ColumnTypeError(column=name, type=str(column.type), reason=str(wrong), hint=hint) from wrong
    return listed


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@contextmanager
def without_traceback() -> Iterator[None]:
    """Report an error of tailbit without its traceback, and end silently when the pipe is closed."""
    _end_quietly()
    try:
        yield
    except TailbitError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


class _Traceback:
    """The standard error of a worker that ends, without the traceback of a closed pipe."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError):
            traceback.print_exc()


def _end_quietly() -> None:
    """Silence the traceback of a closed pipe, if this process is a Spark worker."""
    main = sys.modules["__main__"]
    if main.__spec__ is not None and main.__spec__.name == "pyspark.daemon":
        main.traceback = _Traceback  # type: ignore[attr-defined]


def told_plainly(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Wrap a function so that its worker reports errors of tailbit without a traceback."""

    @wraps(function)
    def plain(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with without_traceback():
            return function(*args, **kwargs)

    return plain
