"""The schema of a Hudi table, from the Avro schema that its commits hold.

A column's physical name is its name. Hudi's own five columns come first, as in Spark, unless the table does
not fill its meta columns. Source: Avro specification, Logical types; Spark's rules for Avro.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError
from tailbit.tables.model import Column, DataType
from tailbit.tables.schema import Schema

META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""Hudi's own columns."""

_PLAIN = {
    "boolean": DataType("boolean"),
    "int": DataType("integer"),
    "long": DataType("long"),
    "float": DataType("float", promoted=True),
    "double": DataType("double", promoted=True),
    "string": DataType("string", promoted=True),
    "enum": DataType("string"),
    "bytes": DataType("binary", promoted=True),
    "fixed": DataType("binary"),
    "null": DataType("void"),
}
_LOGICAL = {
    "date": DataType("date"),
    "timestamp-millis": DataType("timestamp"),
    "timestamp-micros": DataType("timestamp"),
    "local-timestamp-millis": DataType("timestamp_ntz"),
    "local-timestamp-micros": DataType("timestamp_ntz"),
}
_UNITS = {"timestamp-millis": "ms", "local-timestamp-millis": "ms", "local-timestamp-micros": "us"}
"""Types of times whose unit counts, whatever a data file says of its numbers; see `decode`."""
READING_RULES = 2
"""The version of the rules by which values of data files are read, raised when the values of a file change.

An index that was built by other rules checks its files once, and reads those anew whose values may differ.
"""
_MAX_DEPTH = 64


def parse_schema(text: str, file: str, with_meta: bool = True) -> Schema:
    """Parse the Avro schema of a commit; `with_meta` puts Hudi's own columns before the others."""
    try:
        root = orjson.loads(text)
    except ValueError as wrong:
        raise MalformedLogError(file=file, reason=f"the schema is not JSON: {wrong}") from wrong
    columns = _SchemaReader(file).fields(root, ())
    own = {column.name[0] for column in columns}
    meta = [Column((name,), (name,), DataType("string")) for name in META if name not in own]
    return Schema((*meta, *columns) if with_meta else columns)


def with_null_folders(schema: Schema, partitioned: Sequence[str]) -> Schema:
    """Return a schema whose partition columns have a `null_folder`: the folder that tells if they are NULL.

    `partitioned`: the partition columns in the order of the folders. Spark reads their values from folder
    names, and an empty text has the same folder name as NULL.
    """
    columns = (
        replace(column, null_folder=partitioned.index(column.name[0]))
        if column.name[0] in partitioned
        else column
        for column in schema.columns
    )
    return Schema(tuple(columns))


@lru_cache(maxsize=64)
def reading_mark(text: str) -> int:
    """Return a number that identifies how a schema in Avro has values of files read; 0 if as they are stored.

    Hudi reads a float that has become a double by the float's text, and times in the unit that the schema
    declares: under another schema, the same file has other values.
    """
    if '"float"' not in text and not any(name in text for name in _UNITS):
        return 0
    try:
        read_otherwise = sorted(_read_otherwise(orjson.loads(text), ""))
    except ValueError:
        return 0
    return zlib.crc32("\0".join(read_otherwise).encode()) if read_otherwise else 0


def _read_otherwise(type_: Any, path: str) -> Iterator[str]:
    """Yield the paths of the floats in a type, and of the times whose unit is declared."""
    if type_ == "float":
        yield path
    elif isinstance(type_, list):
        for member in type_:
            yield from _read_otherwise(member, path)
    elif isinstance(type_, dict):
        if type_.get("logicalType") in _UNITS:
            yield f"{path}:{type_['logicalType']}:{READING_RULES}"
        for field_ in type_.get("fields") or ():
            yield from _read_otherwise(field_.get("type"), f"{path}.{field_.get('name')}")
        for key in ("type", "items", "values"):
            yield from _read_otherwise(type_.get(key), path)


@dataclass
class _SchemaReader:
    """A reader of Avro types into logical types; `named` holds the named types seen so far."""

    file: str
    named: dict[str, Any] = field(default_factory=dict)

    def fields(self, record: Any, above: tuple[str, ...]) -> tuple[Column, ...]:
        """Return the columns of a record."""
        listed = record.get("fields") if isinstance(record, dict) else None
        if not isinstance(listed, list) or len(above) > _MAX_DEPTH:
            raise self._wrong("a record of the schema has no list of fields")
        columns = []
        for entry in listed:
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str) or not name:
                raise self._wrong("a field of the schema has no name")
            columns.append(self._column(name, entry.get("type"), above))
        names = [column.name[-1].lower() for column in columns]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise self._wrong(f"the schema has column {twice!r} twice")
        return tuple(columns)

    def _column(self, name: str, type_: Any, above: tuple[str, ...]) -> Column:
        path = (*above, name)
        nullable = isinstance(type_, list)
        if nullable:
            others = [member for member in type_ if member != "null"]
            if len(others) > 1:
                return Column(path, path, DataType("union", raw=type_))
            nullable, type_ = "null" in type_, others[0] if others else "null"
        unit = _UNITS.get(str(type_.get("logicalType")), "") if isinstance(type_, dict) else ""
        return Column(path, path, self._type(type_, path), nullable, unit=unit)

    def _type(self, type_: Any, path: tuple[str, ...]) -> DataType:
        """Return the logical type of an Avro type other than a union."""
        if isinstance(type_, str):
            declared = self.named.get(type_)
            if declared is None:
                return _PLAIN.get(type_) or DataType(type_, raw=type_)
            type_ = declared
        kind = type_.get("type") if isinstance(type_, dict) else None
        if isinstance(kind, (dict, list)):
            raise self._wrong(f"column {'.'.join(path)!r} has a type within a type")
        if not isinstance(kind, str):
            raise self._wrong(f"column {'.'.join(path)!r} has no type")
        self._remember(type_)
        logical = type_.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            return self._decimal(type_, path)
        if logical in _LOGICAL and kind in ("int", "long"):
            return _LOGICAL[logical]
        if logical in ("time-millis", "time-micros"):
            return DataType(logical, raw=type_)
        if kind == "record":
            return DataType("struct", fields=self.fields(type_, path))
        if kind == "array":
            return DataType("array", fields=(self._column("element", type_.get("items"), path),))
        if kind == "map":
            key = Column((*path, "key"), (*path, "key"), DataType("string"), nullable=False)
            return DataType("map", fields=(key, self._column("value", type_.get("values"), path)))
        return _PLAIN.get(kind) or self._type(kind, path)

    def _remember(self, type_: dict[str, Any]) -> None:
        """Remember a named type under its name, and under its name with its namespace."""
        name, space = type_.get("name"), type_.get("namespace")
        if isinstance(name, str) and type_["type"] in ("record", "fixed", "enum"):
            self.named.setdefault(name, type_)
            if isinstance(space, str) and space:
                self.named.setdefault(f"{space}.{name}", type_)

    def _decimal(self, type_: dict[str, Any], path: tuple[str, ...]) -> DataType:
        precision, scale = type_.get("precision"), type_.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= 38:
            raise self._wrong(f"column {'.'.join(path)!r} is a decimal of {precision!r} and {scale!r} digits")
        return DataType("decimal", precision, scale)

    def _wrong(self, reason: str) -> MalformedLogError:
        return MalformedLogError(file=self.file, reason=reason)
