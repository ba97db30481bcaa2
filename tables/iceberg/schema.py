"""The schema of an Iceberg table: columns whose physical names are field ids.

Source: Iceberg specification, Schemas and Data Types; Appendix C, Schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tailbit.base.errors import MalformedLogError
from tailbit.tables.model import Column, DataType
from tailbit.tables.schema import Schema

_PLAIN = {
    **{name: DataType(name) for name in ("boolean", "long", "float", "double", "date", "string", "binary")},
    "int": DataType("integer"),
    "timestamp": DataType("timestamp_ntz"),
    "timestamptz": DataType("timestamp"),
    "unknown": DataType("void"),
    "variant": DataType("variant"),
}
"""Types by their names in Iceberg; one that is not here is refused by its name where values are asked for."""
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*\d+\s*\]")
_MAX_DEPTH = 64


def parse_schema(schema: Mapping[str, Any], file: str) -> Schema:
    """Return the columns of a schema as a metadata file has it.

    Raises:
        MalformedLogError: the schema is damaged.
    """
    try:
        columns = tuple(column_of(field, (), ()) for field in schema["fields"])
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as wrong:
        raise MalformedLogError(file=file, reason=f"its schema cannot be read: {wrong!r}") from wrong
    ids = [column.field_id for column in columns]
    if len(set(ids)) != len(ids):
        raise MalformedLogError(file=file, reason="its schema has a field id twice")
    return Schema(columns)


def column_of(field: Mapping[str, Any], above: Sequence[Column], ids: tuple[int, ...]) -> Column:
    """Return the column of a field within the columns `above`; `ids`: those of the structs above."""
    number, name = int(field["id"]), str(field["name"])
    column = Column(
        name=(*(above[-1].name if above else ()), name),
        physical=(*(above[-1].physical if above else ()), str(number)),
        type=DataType("void"),
        nullable=field.get("required") is not True,
        field_id=number,
        field_ids=(*ids, number),
    )
    typed = _typed(column, field["type"], above)
    if field.get("initial-default") is None:
        return typed
    # Files that lack the column hold the default value, not NULL.
    return replace(typed, type=DataType(f"{typed.type} with a default value", raw=field["type"]))


def _inner(above: Sequence[Column], name: str, type_: Any, required: object) -> Column:
    """Return an element, key or value, which is known by its place and has no field id of its own."""
    column = Column(
        name=(*above[-1].name, name),
        physical=(*above[-1].physical, name),
        type=DataType("void"),
        nullable=required is not True,
        field_ids=above[-1].field_ids,
    )
    return _typed(column, type_, above)


def _typed(column: Column, type_: Any, above: Sequence[Column]) -> Column:
    if len(above) > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    return replace(column, type=_type(type_, (*above, column)))


def _type(type_: Any, above: Sequence[Column]) -> DataType:
    if isinstance(type_, str):
        decimal = _DECIMAL.fullmatch(type_)
        if decimal is not None:
            return DataType("decimal", int(decimal[1]), int(decimal[2]), raw=type_)
        if _FIXED.fullmatch(type_):
            return DataType("binary", raw=type_)
        return _PLAIN.get(type_) or DataType(type_, raw=type_)
    kind = type_["type"]
    if kind == "struct":
        ids = above[-1].field_ids
        return DataType("struct", fields=tuple(column_of(field, above, ids) for field in type_["fields"]))
    if kind == "list":
        return DataType(
            "array", fields=(_inner(above, "element", type_["element"], type_["element-required"]),)
        )
    if kind == "map":
        key = _inner(above, "key", type_["key"], True)
        return DataType("map", fields=(key, _inner(above, "value", type_["value"], type_["value-required"])))
    raise ValueError(f"a type is called {kind!r}")


def fields_by_id(
    schemas: Mapping[int, Mapping[str, Any]], current: int
) -> dict[int, list[Mapping[str, Any]]]:
    """Return each field of all schemas by its id: the structs above it, outermost first, and the field.

    The current schema has the last word on a field; of fields that it lacks, the newest schema.
    """
    out: dict[int, list[Mapping[str, Any]]] = {}
    for number in sorted(schemas, key=lambda number: (number == current, number)):
        _collect(schemas[number].get("fields") or (), [], out)
    return out


def _collect(fields: Any, above: list[Mapping[str, Any]], out: dict[int, list[Mapping[str, Any]]]) -> None:
    for field in fields:
        path = [*above, field]
        out[int(field["id"])] = path
        type_ = field["type"]
        if isinstance(type_, Mapping) and type_.get("type") == "struct":
            _collect(type_["fields"], path, out)


def key_columns(fields: Mapping[str, Sequence[Mapping[str, Any]]], ids: Sequence[int]) -> list[Column]:
    """Return the columns of some fields of `fields_by_id`, whose ids are texts here."""
    out = []
    for id_ in ids:
        column: Column | None = None
        for field in fields[str(id_)]:
            column = column_of(
                field, () if column is None else (column,), () if column is None else column.field_ids
            )
        assert column is not None
        out.append(column)
    return out
