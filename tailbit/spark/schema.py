"""Columns of a table as Spark types, and rows as the Python values that Spark accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from tailbit.base.errors import ColumnTypeError
from tailbit.tables.model import Column

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
