"""The schema of an Iceberg table: columns whose physical names are field ids.

Source: Iceberg specification, Schemas and Data Types; Appendix C, Schemas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import orjson

from tailbit.base.errors import MalformedLogError
from tailbit.tables.model import UUID, Column, DataType
from tailbit.tables.schema import PRESENCE, Schema

_PLAIN = {
    **{name: DataType(name) for name in ("boolean", "long", "float", "double", "date", "string", "binary")},
    "int": DataType("integer"),
    "timestamp": DataType("timestamp_ntz"),
    "timestamptz": DataType("timestamp"),
    "unknown": DataType("void"),
    "variant": DataType("variant"),
    UUID: DataType("string", raw=UUID),
}
"""Types by their names in Iceberg; one that is not here is refused by its name where values are asked for."""
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*\d+\s*\]")
_MAX_DEPTH = 64
_FRACTION = re.compile(r"\.\d+")


def parsed_time(text: str) -> datetime:
    """Return a time from its text, whose fraction has as many digits as it needs.

    >>> parsed_time("2021-02-03T04:05:06.5+00:00").microsecond
    500000
    """
    # Python 3.10 takes no fraction but of three or six digits.
    return datetime.fromisoformat(_FRACTION.sub(lambda digits: digits[0][:7].ljust(7, "0"), text))


_DEFAULTS: Mapping[str, Callable[[Any], Any]] = {
    "boolean": bool,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "decimal": Decimal,
    "string": str,
    "binary": bytes.fromhex,
    "date": date.fromisoformat,
    "timestamp": parsed_time,
    "timestamp_ntz": parsed_time,
}
"""Default values from their JSON, by type; of other types none is read."""


class SchemaReader:
    """A reader of fields into columns.

    `mapping`: JSON of the names that mean a field in data files without ids; empty if there is none.
    `identities`: ids of the fields that are partition fields as they are: where a file was imported, such a
    field may stand in the names of folders alone.
    """

    def __init__(self, mapping: str = "", identities: Collection[int] = ()) -> None:
        self._names: dict[int, tuple[str, ...]] = {}
        self._identities = identities
        self._has_mapping = bool(mapping)
        if mapping:
            self._map(orjson.loads(mapping))

    def _map(self, fields: Any) -> None:
        for field in fields:
            if field.get("field-id") is not None:
                self._names[int(field["field-id"])] = tuple(map(str, field.get("names") or ()))
            self._map(field.get("fields") or ())

    def column(self, field: Mapping[str, Any], above: Column | None = None) -> Column:
        """Return the column of a field within the column `above`; the top level has none."""
        number, name = int(field["id"]), str(field["name"])
        ids = (*(above.field_ids if above else ()), number)
        column = Column(
            name=(*(above.name if above else ()), name),
            physical=(*(above.physical if above else ()), str(number)),
            type=DataType("void"),
            nullable=field.get("required") is not True,
            field_id=number,
            field_ids=ids,
            aliases=tuple(self._names.get(id_, ()) for id_ in ids) if self._has_mapping else (),
            in_folder=self._has_mapping and above is None and number in self._identities,
            pruned=not isinstance(field["type"], str),
        )
        column = replace(column, type=self._type(field["type"], column))
        default = field.get("initial-default")
        if default is None:
            return column
        # Files that lack the column hold the default value, not NULL.
        read = _DEFAULTS.get(column.type.name)
        if read is None:
            return replace(column, type=DataType(f"{column.type} with a default value", raw=field["type"]))
        return replace(column, default=read(default))

    def _inner(self, above: Column, name: str, type_: Any, required: object) -> Column:
        """Return an element, key or value, which is known by its place and has no field id of its own."""
        column = replace(
            above,
            name=(*above.name, name),
            physical=(*above.physical, name),
            nullable=required is not True,
            field_id=None,
            in_folder=False,
            pruned=not isinstance(type_, str),
        )
        return replace(column, type=self._type(type_, column))

    def _type(self, type_: Any, column: Column) -> DataType:
        if len(column.physical) > _MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        if isinstance(type_, str):
            decimal = _DECIMAL.fullmatch(type_)
            if decimal is not None:
                return DataType("decimal", int(decimal[1]), int(decimal[2]), raw=type_)
            if _FIXED.fullmatch(type_):
                return DataType("binary", raw=type_)
            return _PLAIN.get(type_) or DataType(type_, raw=type_)
        kind = type_["type"]
        if kind == "struct":
            return DataType("struct", fields=tuple(self.column(field, column) for field in type_["fields"]))
        if kind == "list":
            element = self._inner(column, "element", type_["element"], type_["element-required"])
            return DataType("array", fields=(element,))
        if kind == "map":
            key = self._inner(column, "key", type_["key"], True)
            value = self._inner(column, "value", type_["value"], type_["value-required"])
            return DataType("map", fields=(key, value))
        raise ValueError(f"a type is called {kind!r}")


def parse_schema(schema: Mapping[str, Any], file: str, reader: SchemaReader | None = None) -> Schema:
    """Return the columns of a schema as a metadata file has it."""
    reader = reader or SchemaReader()
    try:
        columns = tuple(reader.column(field) for field in schema["fields"])
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as wrong:
        raise MalformedLogError(file=file, reason=f"its schema cannot be read: {wrong!r}") from wrong
    ids = [column.field_id for column in columns]
    if len(set(ids)) != len(ids):
        raise MalformedLogError(file=file, reason="its schema has a field id twice")
    return Schema(columns)


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


def key_columns(
    fields: Mapping[str, Sequence[Mapping[str, Any]]], ids: Sequence[int], reader: SchemaReader
) -> list[Column]:
    """Return the columns of some fields of `fields_by_id`, whose ids are texts here.

    Structs above them are keys too: a NULL field of a struct is not that of a NULL struct.
    """
    out: dict[str, Column] = {}
    for id_ in ids:
        column: Column | None = None
        for field in fields[str(id_)]:
            column = reader.column(field, column)
            is_above = column.type.name == "struct"
            out[column.id] = replace(column, type=DataType(PRESENCE)) if is_above else column
    return [*out.values()]
