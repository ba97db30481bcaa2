"""The columns of a table at one version: resolved by name, in schema order, as Arrow types.

Names are resolved as Spark does, ignoring case. An unknown type keeps its name and is refused when its values
are read. Each table format builds its `Schema` from its metadata.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, UnknownColumnError
from tailbit.base.once import once
from tailbit.tables.model import Column, DataType

_PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.]+?))\s*(\.|$)")

PRESENCE = "presence"
"""The name of the type of a column of which only is asked whether a row has a value, TRUE or NULL."""
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
    PRESENCE: pa.bool_(),
}


@dataclass(frozen=True)
class Schema:
    """The top-level columns of a table at one version; nested columns are the fields of their types."""

    columns: tuple[Column, ...]

    def in_zone(self, zone: str) -> Schema:
        """Return the schema with `zone` as the time zone of timestamp partition values without an offset."""
        timed = [c.partition and c.type.name == "timestamp" and c.zone != zone for c in self.columns]
        if not any(timed):
            return self
        columns = zip(self.columns, timed, strict=True)
        return Schema(tuple(replace(c, zone=zone) if change else c for c, change in columns))

    def resolve(self, name: str | Sequence[str]) -> Column:
        """Return the column of a name: SQL text such as "address.city" or "`a.b`", or a sequence of parts.

        Raises:
            UnknownColumnError: there is no such column; the error names the nearest.
        """
        parts = name_parts(name) if isinstance(name, str) else tuple(name)
        column: Column | None = None
        among: Sequence[Column] = self.columns
        for part in parts or ("",):
            column = next((c for c in among if c.name[-1].lower() == part.lower()), None)
            if column is None:
                behind = self._known(parts[1:]) if among is self.columns else None
                raise self._unknown(name if isinstance(name, str) else ".".join(parts), behind)
            among = column.type.fields if column.type.name == "struct" else ()
        assert column is not None
        return column

    def reach(self, parts: Sequence[str]) -> tuple[Column, tuple[str, ...]]:
        """Return the column that the first parts of a name mean, and the parts that name something inside it.

        Only an array or a map has parts left: fields of structs are columns.

        Raises:
            UnknownColumnError: there is no such column; the error names the nearest.
        """
        try:
            return self.resolve(parts), ()
        except UnknownColumnError:
            for end in range(len(parts) - 1, 0, -1):
                column = self._known(parts[:end])
                if column is not None and column.type.name in ("array", "map"):
                    return column, tuple(parts[end:])
            raise

    def _known(self, parts: Sequence[str]) -> Column | None:
        """Return the column of a name, or None."""
        try:
            return self.resolve(parts) if parts else None
        except UnknownColumnError:
            return None

    def resolve_all(self, names: Iterable[str]) -> list[Column]:
        """Return the columns of some names, each once, in the order of first mention."""
        return list({column.id: column for column in map(self.resolve, names)}.values())

    def _unknown(self, name: str, behind: Column | None) -> UnknownColumnError:
        labels = [c.label for c in self.leaves()]
        if behind is not None:
            hint = f"; the table has no name here: write {behind.label}"
            return UnknownColumnError(column=name, nearest=hint, columns=", ".join(labels))
        import difflib

        near = difflib.get_close_matches(name.lower(), [label.lower() for label in labels], n=3)
        meant = [label for label in labels if label.lower() in near]
        hint = f" (nearest: {', '.join(meant)})" if meant else ""
        return UnknownColumnError(column=name, nearest=hint, columns=", ".join(labels))

    def leaves(self) -> tuple[Column, ...]:
        """Return every column that is not a struct, nested struct fields included, in schema order."""
        return self._leaves

    @once
    def generated(self) -> tuple[Column, ...]:
        """Return the generated columns."""
        return tuple(column for column in self.columns if column.generated)

    @once
    def _leaves(self) -> tuple[Column, ...]:
        return tuple(leaf for column in self.columns for leaf in _leaves_of(column))

    def arrow(self, columns: Sequence[Column] | None = None) -> pa.Schema:
        """Return the logical Arrow schema of `columns`, or of the table; nested columns are named by label.

        Field names are unique, ignoring case: a column named "s.a" next to a nested field s.a is also named
        by its label, "`s.a`".
        """
        wanted = self.columns if columns is None else columns
        return pa.schema(
            [
                pa.field(name, arrow_type(column.type, column.label), column.nullable)
                for column, name in zip(wanted, _names_apart(wanted), strict=True)
            ]
        )


class SameSchema:
    """A schema as a cache key, compared by identity: hashing its contents at every call costs too much."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameSchema) and other.schema is self.schema


def arrow_type(
    type_: DataType, label: str, of_field: Callable[[Column], pa.DataType] | None = None
) -> pa.DataType:
    """Return the Arrow type to which values of a logical type are decoded.

    `of_field`: returns the types of the fields within the type.

    Raises:
        ColumnTypeError: the type cannot be decoded (interval, geometry ...).
    """
    if type_.name in _PLAIN:
        return _PLAIN[type_.name]
    if type_.name.startswith("string collate"):
        return pa.string()
    if type_.name == "decimal":
        return pa.decimal128(type_.precision, type_.scale)
    if type_.name == "variant":
        return pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    of_field = of_field or (lambda inner: arrow_type(inner.type, inner.label))
    inner = [pa.field(f.name[-1], of_field(f), f.nullable) for f in type_.fields]
    if type_.name in ("struct", "tuple"):
        return pa.struct(inner)
    if type_.name == "array":
        return pa.list_(inner[0].with_name("element"))
    if type_.name == "map":
        return pa.map_(inner[0].type, inner[1].type)
    hint = f"Name the other columns, without {label}; {label} IS NULL may be asked of it."
    reason = "values of this type cannot be decoded"
    raise ColumnTypeError(column=label, type=type_.sql, reason=reason, hint=hint)


def declared_arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a column as `arrow_type` does, with times in the unit that is declared."""
    type_ = arrow_type(column.type, column.label, declared_arrow_type)
    return pa.timestamp(column.unit, type_.tz) if column.unit else type_


def presence_of(column: Column, may_be_read: bool = True) -> Column:
    """Return the column as it is read for IS NULL; of values not decoded, only whether they are there.

    A type that is not known, such as an interval, is no reason to refuse that question, at any depth.
    `may_be_read`: whether the values serve for more than that, if they are decoded.
    """
    try:
        arrow_type(column.type, column.label)
        decodes = may_be_read and column.type.name != "variant"
    except ColumnTypeError:
        decodes = False
    return column if decodes else replace(column, type=DataType(PRESENCE, raw=column.type.raw))


def _names_apart(columns: Sequence[Column]) -> list[str]:
    """Return a unique name per column: the column's name, or its label if another column has that name."""
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


def name_parts(text: str) -> tuple[str, ...]:
    """Split a column name in SQL text into its parts; return an empty tuple if the text is not a name."""
    out, at, dot = [], 0, "."
    while dot == ".":
        match = _PART.match(text, at)
        if match is None:
            return ()
        out.append(match.group(1).replace("``", "`") if match.group(1) is not None else match.group(2))
        at, dot = match.end(), match.group(3)
    return tuple(out)
