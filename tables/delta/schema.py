"""The schema of a Delta table: logical names, physical paths and types, with column mapping by name or by id.

Input: the schemaString, partition columns and properties of a metaData action. Source: Delta protocol, Schema
Serialization Format and Column Mapping.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from tailbit.base.errors import MalformedLogError
from tailbit.base.wording import with_article
from tailbit.tables.model import Column, DataType
from tailbit.tables.schema import Schema

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_CHAR = re.compile(r"(?<!var)char\(\s*(\d+)\s*\)", re.IGNORECASE)
_MAX_DEPTH = 64
_NEVER_PARTITIONS = ("struct", "array", "map", "variant", "void", "udt")


def parse_schema(
    text: str, partition_columns: Sequence[str], configuration: Mapping[str, str | None], file: str
) -> Schema:
    """Parse the schema of a metaData action.

    Raises:
        MalformedLogError: the text is not a schema, a mapped column lacks its physical name or id or shares
            either with another column, or the partition columns are not distinct top-level columns.
    """
    mode = (configuration.get("delta.columnMapping.mode", "none") or "").lower()
    if mode not in ("none", "name", "id"):
        raise MalformedLogError(file=file, reason=f"column mapping mode {mode!r} is unknown")
    try:
        root = orjson.loads(text)
    except ValueError as wrong:
        raise MalformedLogError(file=file, reason=f"the schema is not JSON: {wrong}") from wrong
    reader = _SchemaReader(file, mode, set(partition_columns), set())
    columns = reader.fields(root, _TOP)
    _check_partitions(partition_columns, columns, file)
    return Schema(columns)


def _check_partitions(names: Sequence[str], columns: Sequence[Column], file: str) -> None:
    """Refuse partition columns that repeat, are not in the schema, or are of a type that cannot partition."""
    by_name = {column.name[0]: column for column in columns}
    for number, name in enumerate(names):
        if name in names[:number]:
            raise MalformedLogError(file=file, reason=f"partition column {name!r} is named twice")
        if name not in by_name:
            other = next((n for n in by_name if n.lower() == name.lower()), None)
            spelled = "" if other is None else f" in this spelling: it has {other!r}"
            raise MalformedLogError(
                file=file, reason=f"partition column {name!r} is not in the schema{spelled}"
            )
        if by_name[name].type.name in _NEVER_PARTITIONS:
            reason = f"partition column {name!r} is of type {by_name[name].type}"
            raise MalformedLogError(file=file, reason=reason)


class _Place(NamedTuple):
    """The place of a field in the schema: logical path, physical path, field ids, nesting depth.

    `nested_char`: the top-level column above has CHAR fields somewhere below; the declared type does not say
    which. `collations`: the collations that the nearest field lists, each under a path that begins with the
    name of that field; `inside`: the path of this place in that form.
    """

    name: tuple[str, ...]
    physical: tuple[str, ...]
    ids: tuple[int, ...]
    depth: int
    nested_char: bool = False
    collations: Any = None
    inside: tuple[str, ...] = ()

    def below(self, name: str, physical: str, ids: tuple[int, ...]) -> _Place:
        """Return the place of a field below this place."""
        names, stored = (*self.name, name), (*self.physical, physical)
        return self._replace(
            name=names,
            physical=stored,
            ids=(*self.ids, *ids),
            depth=self.depth + 1,
            inside=(*self.inside, name),
        )


_TOP = _Place((), (), (), 0)


class _SchemaReader(NamedTuple):
    """A reader of schema JSON into columns; holds what every nesting level needs."""

    file: str
    mode: str
    partitions: set[str]
    ids_seen: set[int]
    """Field ids seen so far, if the table maps columns by id."""

    def fields(self, struct: Any, above: _Place) -> tuple[Column, ...]:
        listed = struct.get("fields") if isinstance(struct, dict) else None
        if not isinstance(listed, list) or above.depth > _MAX_DEPTH:
            raise MalformedLogError(file=self.file, reason="a struct of the schema has no list of fields")
        columns = tuple(self._field(f, above) for f in listed)
        names = [c.name[-1].lower() for c in columns]
        if len(set(names)) != len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise MalformedLogError(file=self.file, reason=f"the schema has column {twice!r} twice")
        stored = [c.physical[-1].lower() for c in columns]
        if len(set(stored)) != len(stored):
            twice = next(n for n in stored if stored.count(n) > 1)
            raise MalformedLogError(file=self.file, reason=f"two columns have the physical name {twice!r}")
        return columns

    def _field(self, field: Any, above: _Place) -> Column:
        name = field.get("name") if isinstance(field, dict) else None
        if not isinstance(name, str):
            raise MalformedLogError(file=self.file, reason="a field of the schema has no name")
        metadata = field.get("metadata", {})
        if not isinstance(metadata, dict):
            raise MalformedLogError(file=self.file, reason=f"the metadata of field {name!r} is not an object")
        if not isinstance(field.get("nullable"), bool):
            raise MalformedLogError(
                file=self.file, reason=f"nullable of field {name!r} is neither true nor false"
            )
        own, number = self._mapping(name, metadata)
        declared = str(metadata.get("__CHAR_VARCHAR_TYPE_STRING") or "")
        type_ = field.get("type")
        place = above.below(name, own, (number,) if self.mode == "id" and number is not None else ())
        place = place._replace(
            nested_char=place.nested_char or (not isinstance(type_, str) and bool(_CHAR.search(declared))),
            collations=metadata.get("__COLLATIONS"),
            inside=(name,),
        )
        return Column(
            name=place.name,
            physical=place.physical,
            type=self._type(type_, place, _collation(place), declared),
            nullable=field["nullable"],
            partition=not above.name and name in self.partitions,
            field_id=number,
            metadata=metadata,
            generated=str(metadata.get("delta.generationExpression") or ""),
            field_ids=place.ids,
        )

    def _mapping(self, name: str, metadata: Mapping[str, Any]) -> tuple[str, int | None]:
        """Return the physical name and the field id of a column under the table's mapping mode."""
        if self.mode == "none":
            return name, None
        own, number = metadata.get("delta.columnMapping.physicalName"), metadata.get("delta.columnMapping.id")
        if not isinstance(own, str) or not isinstance(number, int) or isinstance(number, bool):
            raise MalformedLogError(file=self.file, reason=f"column {name!r} lacks its physical name or id")
        if self.mode == "id" and number in self.ids_seen:
            raise MalformedLogError(file=self.file, reason=f"two columns have the field id {number}")
        self.ids_seen.add(number)
        return own, number

    def _type(self, raw: Any, place: _Place, collation: str = "", declared: str = "") -> DataType:
        if place.depth > _MAX_DEPTH:
            raise MalformedLogError(file=self.file, reason="the schema is nested too deeply")
        if isinstance(raw, str):
            if raw in ("struct", "array", "map"):
                raise MalformedLogError(
                    file=self.file,
                    reason=f"column {'.'.join(place.name)!r} is {with_article(raw)} of nothing",
                )
            if raw == "string" and place.nested_char:
                return DataType("string or char in a nested column", raw=raw)
            length = _CHAR.fullmatch(declared) if raw == "string" else None
            named = self._named_type(raw, collation)
            return named if length is None else replace(named, char_length=int(length.group(1)))
        kind = raw.get("type") if isinstance(raw, dict) else None
        if kind == "struct":
            return DataType("struct", fields=self.fields(raw, place), raw=raw)
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
            raise MalformedLogError(file=self.file, reason=f"column {'.'.join(place.name)!r} has no type")
        return DataType(kind, fields=tuple(self._inner(n, place, *i) for n, i in inner.items()), raw=raw)

    def _inner(self, name: str, outer: _Place, type_: Any, nullable: Any) -> Column:
        """Return an element, key or value column: same name in every mapping mode, no field id."""
        place = outer.below(name, name, ())
        type_ = self._type(type_, place, _collation(place))
        return Column(place.name, place.physical, type_, nullable is not False)

    def _named_type(self, raw: str, collation: str) -> DataType:
        if raw == "string" and collation:
            return DataType(f"string collate {collation}", raw=raw)
        if raw == "decimal":
            return DataType("decimal", 10, 0, raw=raw)
        decimal = _DECIMAL.fullmatch(raw)
        if decimal is None:
            return DataType(raw, raw=raw)
        precision, scale = int(decimal.group(1)), int(decimal.group(2))
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise MalformedLogError(file=self.file, reason=f"the schema has the impossible type {raw}")
        return DataType("decimal", precision, scale, raw=raw)


def _collation(place: _Place) -> str:
    """Return the collation of the strings at a place; empty if the strings compare by bytes."""
    if not isinstance(place.collations, dict):
        return ""
    path = ".".join(place.inside).lower()
    named = [v for k, v in place.collations.items() if isinstance(k, str) and k.lower() == path]
    if not named or "UTF8_BINARY" in str(named[0]).split("."):
        return ""
    return str(named[0])
