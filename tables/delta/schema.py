"""The schema of a Delta table: logical names, physical paths, types; column mapping by name and by id.

Input: the schemaString, partition columns and properties of a metaData action. Columns are resolved as Spark
does, ignoring case. A type that this module does not know keeps its name and is refused where it is asked
for. Source: Delta protocol, Schema Serialization Format and Column Mapping.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import orjson
import pyarrow as pa

from tailbit.errors import ColumnTypeError, MalformedLogError, UnknownColumnError
from tailbit.tables.model import Column, DataType

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_CHAR = re.compile(r"(?<!var)char\(\s*(\d+)\s*\)", re.IGNORECASE)
_PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.]+?))\s*(\.|$)")
_MAX_DEPTH = 64

_PLAIN = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


@dataclass(frozen=True)
class Schema:
    """The top-level columns of a table at one version; nested ones are the fields of their types."""

    columns: tuple[Column, ...]

    def in_zone(self, zone: str) -> Schema:
        """The schema where partition values that are times without a zone are in `zone`."""
        timed = [c.partition and c.type.name == "timestamp" and c.zone != zone for c in self.columns]
        if not any(timed):
            return self
        columns = zip(self.columns, timed, strict=True)
        return Schema(tuple(replace(c, zone=zone) if change else c for c, change in columns))

    def resolve(self, name: str | Sequence[str]) -> Column:
        """The column of a name: SQL text such as "address.city" or "`a.b`", or its parts; case is ignored.

        Raises:
            UnknownColumnError: no such column; names the nearest.
        """
        parts = _parts(name) if isinstance(name, str) else tuple(name)
        found: Column | None = None
        among: Sequence[Column] = self.columns
        for part in parts or ("",):
            found = next((c for c in among if c.name[-1].lower() == part.lower()), None)
            if found is None:
                raise self._unknown(name if isinstance(name, str) else ".".join(parts))
            among = found.type.fields if found.type.name == "struct" else ()
        assert found is not None
        return found

    def _unknown(self, name: str) -> UnknownColumnError:
        labels = [c.label for c in self.leaves()]
        near = difflib.get_close_matches(name.lower(), [label.lower() for label in labels], n=3)
        meant = [label for label in labels if label.lower() in near]
        hint = f"; nearest: {', '.join(meant)}" if meant else ""
        return UnknownColumnError(column=name, nearest=hint, columns=", ".join(labels))

    def leaves(self) -> tuple[Column, ...]:
        """Every column that is not a struct, nested struct fields included, in schema order."""
        return self._leaves

    @cached_property
    def _leaves(self) -> tuple[Column, ...]:
        return tuple(leaf for column in self.columns for leaf in _leaves_of(column))

    def arrow(self, columns: Sequence[Column] | None = None) -> pa.Schema:
        """The logical Arrow schema of `columns`, else of the table; a nested column is named by its label.

        No two fields have one name, whatever the case: of a field s.a and a column named "s.a", the column is
        named by its label too, "`s.a`".

        Raises:
            ColumnTypeError: a column of a type that cannot be decoded.
        """
        wanted = self.columns if columns is None else columns
        return pa.schema(
            [
                pa.field(name, arrow_type(column.type, column.label), column.nullable)
                for column, name in zip(wanted, _names_apart(wanted), strict=True)
            ]
        )


def parse_schema(
    text: str, partition_columns: Sequence[str], configuration: Mapping[str, str | None], file: str
) -> Schema:
    """The schema of a metaData action.

    Raises:
        MalformedLogError: the text is not a schema, or a mapped column lacks its physical name or id.
    """
    mode = configuration.get("delta.columnMapping.mode") or "none"
    if mode not in ("none", "name", "id"):
        raise MalformedLogError(file=file, reason=f"column mapping mode {mode!r} is unknown")
    try:
        root = orjson.loads(text)
    except ValueError as wrong:
        raise MalformedLogError(file=file, reason=f"the schema is not JSON: {wrong}") from wrong
    reader = _SchemaReader(file, mode, {name.lower() for name in partition_columns})
    columns = reader.fields(root, _TOP)
    missing = reader.partitions - {c.name[0].lower() for c in columns}
    if missing:
        raise MalformedLogError(file=file, reason=f"partition column {min(missing)!r} is not in the schema")
    return Schema(columns)


def arrow_type(type_: DataType, label: str) -> pa.DataType:
    """The Arrow type that values of a logical type are decoded to.

    Raises:
        ColumnTypeError: a type that cannot be decoded (interval, geometry ...).
    """
    if type_.name in _PLAIN:
        return _PLAIN[type_.name]
    if type_.name.startswith("string collate"):
        return pa.string()
    if type_.name == "decimal":
        return pa.decimal128(type_.precision, type_.scale)
    if type_.name == "variant":
        return pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    inner = [pa.field(f.name[-1], arrow_type(f.type, f.label), f.nullable) for f in type_.fields]
    if type_.name == "struct":
        return pa.struct(inner)
    if type_.name == "array":
        return pa.list_(inner[0].with_name("element"))
    if type_.name == "map":
        return pa.map_(inner[0].type, inner[1].type)
    raise ColumnTypeError(column=label, type=type_.name, reason="values of this type cannot be decoded")


def _names_apart(columns: Sequence[Column]) -> list[str]:
    """A name for each of distinct columns: its own, or its label where another's would be the same."""
    names = [column.name[0] if len(column.name) == 1 else column.label for column in columns]
    while len(lowered := Counter(name.lower() for name in names)) < len(names):
        pairs = zip(columns, names, strict=True)
        apart = [column.label if lowered[name.lower()] > 1 else name for column, name in pairs]
        if apart == names:
            break
        names = apart
    return names


def _leaves_of(column: Column) -> Iterator[Column]:
    if column.type.name != "struct":
        yield column
        return
    for field in column.type.fields:
        yield from _leaves_of(field)


def _parts(text: str) -> tuple[str, ...]:
    """The parts of a column name in SQL text; empty where it is none."""
    out, at, dot = [], 0, "."
    while dot == ".":
        found = _PART.match(text, at)
        if found is None:
            return ()
        out.append(found.group(1).replace("``", "`") if found.group(1) is not None else found.group(2))
        at, dot = found.end(), found.group(3)
    return tuple(out)


@dataclass(frozen=True)
class _Place:
    """Where in the schema a field stands: logical path, physical path, field ids, nesting level.

    `nested_char`: somewhere below a top-level column there are CHAR fields; which ones only its text says.
    """

    name: tuple[str, ...]
    physical: tuple[str, ...]
    ids: tuple[int, ...]
    depth: int
    nested_char: bool = False

    def below(self, name: str, physical: str, ids: tuple[int, ...]) -> _Place:
        """The place of a field of this one."""
        names, stored = (*self.name, name), (*self.physical, physical)
        return _Place(names, stored, (*self.ids, *ids), self.depth + 1, self.nested_char)


_TOP = _Place((), (), (), 0)


@dataclass(frozen=True)
class _SchemaReader:
    """Turns schema JSON into columns; carries what every level needs."""

    file: str
    mode: str
    partitions: set[str]

    def fields(self, struct: Any, above: _Place) -> tuple[Column, ...]:
        found = struct.get("fields") if isinstance(struct, dict) else None
        if not isinstance(found, list) or above.depth > _MAX_DEPTH:
            raise MalformedLogError(file=self.file, reason="a struct of the schema has no list of fields")
        columns = tuple(self._field(f, above) for f in found)
        names = [c.name[-1].lower() for c in columns]
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise MalformedLogError(file=self.file, reason=f"the schema has column {twice!r} twice")
        return columns

    def _field(self, field: Any, above: _Place) -> Column:
        name = field.get("name") if isinstance(field, dict) else None
        if not isinstance(name, str):
            raise MalformedLogError(file=self.file, reason="a field of the schema has no name")
        metadata = field.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise MalformedLogError(file=self.file, reason=f"the metadata of field {name!r} is not an object")
        own, number = self._mapping(name, metadata)
        declared = str(metadata.get("__CHAR_VARCHAR_TYPE_STRING") or "")
        type_ = field.get("type")
        at = above.below(name, own, (number,) if self.mode == "id" and number is not None else ())
        at = replace(
            at, nested_char=at.nested_char or (not isinstance(type_, str) and bool(_CHAR.search(declared)))
        )
        return Column(
            name=at.name,
            physical=at.physical,
            type=self._type(type_, at, _collation(metadata.get("__COLLATIONS"), name), declared),
            nullable=field.get("nullable") is not False,
            partition=not above.name and name.lower() in self.partitions,
            field_id=number,
            metadata=metadata,
            field_ids=at.ids,
        )

    def _mapping(self, name: str, metadata: Mapping[str, Any]) -> tuple[str, int | None]:
        """Physical name and field id under the table's mapping mode."""
        if self.mode == "none":
            return name, None
        own, number = metadata.get("delta.columnMapping.physicalName"), metadata.get("delta.columnMapping.id")
        if not isinstance(own, str) or (self.mode == "id" and not isinstance(number, int)):
            raise MalformedLogError(file=self.file, reason=f"column {name!r} lacks its physical name or id")
        return own, number if isinstance(number, int) else None

    def _type(self, raw: Any, at: _Place, collation: str = "", declared: str = "") -> DataType:
        if at.depth > _MAX_DEPTH:
            raise MalformedLogError(file=self.file, reason="the schema is nested too deeply")
        if isinstance(raw, str):
            if raw in ("struct", "array", "map"):
                raise MalformedLogError(
                    file=self.file, reason=f"column {'.'.join(at.name)!r} is a {raw} of nothing"
                )
            if raw == "string" and at.nested_char:
                return DataType("string or char in a nested column", raw=raw)
            length = _CHAR.fullmatch(declared) if raw == "string" else None
            found = self._named_type(raw, collation)
            return found if length is None else replace(found, char_length=int(length.group(1)))
        kind = raw.get("type") if isinstance(raw, dict) else None
        if kind == "struct":
            return DataType("struct", fields=self.fields(raw, at), raw=raw)
        if kind == "array":
            inner = {"element": (raw.get("elementType"), raw.get("containsNull"))}
        elif kind == "map":
            inner = {
                "key": (raw.get("keyType"), False),
                "value": (raw.get("valueType"), raw.get("valueContainsNull")),
            }
        elif kind == "udt":
            return DataType("udt", raw=raw)
        else:
            raise MalformedLogError(file=self.file, reason=f"column {'.'.join(at.name)!r} has no type")
        return DataType(kind, fields=tuple(self._inner(n, at, *i) for n, i in inner.items()), raw=raw)

    def _inner(self, name: str, at: _Place, type_: Any, nullable: Any) -> Column:
        """An element, key or value: named so in every mapping mode, and without an id of its own."""
        place = at.below(name, name, ())
        return Column(place.name, place.physical, self._type(type_, place), nullable is not False)

    def _named_type(self, raw: str, collation: str) -> DataType:
        if raw == "string" and collation:
            return DataType(f"string collate {collation}", raw=raw)
        if raw == "decimal":
            return DataType("decimal", 10, 0, raw=raw)
        found = _DECIMAL.fullmatch(raw)
        if found is None:
            return DataType(raw, raw=raw)
        precision, scale = int(found.group(1)), int(found.group(2))
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise MalformedLogError(file=self.file, reason=f"the schema has the impossible type {raw}")
        return DataType("decimal", precision, scale, raw=raw)


def _collation(collations: Any, name: str) -> str:
    """The collation of a string field where it is not byte order."""
    if not isinstance(collations, dict):
        return ""
    named = [v for k, v in collations.items() if isinstance(k, str) and k.lower() == name.lower()]
    if not named or "UTF8_BINARY" in str(named[0]).split("."):
        return ""
    return str(named[0])
