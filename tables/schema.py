"""The columns of a table at one version: found by name, in schema order, as Arrow types.

Columns are resolved as Spark does, ignoring case. A type that is not known keeps its name and is refused
where its values are asked for. Each table format builds its `Schema` from what its metadata says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tailbit.errors import ColumnTypeError, UnknownColumnError
from tailbit.once import once
from tailbit.tables.model import Column, DataType

_PART = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`.]+?))\s*(\.|$)")

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
        parts = name_parts(name) if isinstance(name, str) else tuple(name)
        found: Column | None = None
        among: Sequence[Column] = self.columns
        for part in parts or ("",):
            found = next((c for c in among if c.name[-1].lower() == part.lower()), None)
            if found is None:
                behind = self._known(parts[1:]) if among is self.columns else None
                raise self._unknown(name if isinstance(name, str) else ".".join(parts), behind)
            among = found.type.fields if found.type.name == "struct" else ()
        assert found is not None
        return found

    def reach(self, parts: Sequence[str]) -> tuple[Column, tuple[str, ...]]:
        """The column that the first parts of a name mean, and the parts that name something inside of it.

        Only an array or a map has parts left: fields of structs are columns.

        Raises:
            UnknownColumnError: no such column; names the nearest.
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
        """The column of a name; None where there is none."""
        try:
            return self.resolve(parts) if parts else None
        except UnknownColumnError:
            return None

    def resolve_all(self, names: Iterable[str]) -> list[Column]:
        """The columns of some names, each once, in the order of first mention.

        Raises:
            UnknownColumnError: no such column; names the nearest.
        """
        return list({column.id: column for column in map(self.resolve, names)}.values())

    def _unknown(self, name: str, behind: Column | None) -> UnknownColumnError:
        labels = [c.label for c in self.leaves()]
        if behind is not None:
            hint = f"; the table has no name here: write {behind.label}"
            return UnknownColumnError(column=name, nearest=hint, columns=", ".join(labels))
        import difflib

        near = difflib.get_close_matches(name.lower(), [label.lower() for label in labels], n=3)
        meant = [label for label in labels if label.lower() in near]
        hint = f"; nearest: {', '.join(meant)}" if meant else ""
        return UnknownColumnError(column=name, nearest=hint, columns=", ".join(labels))

    def leaves(self) -> tuple[Column, ...]:
        """Every column that is not a struct, nested struct fields included, in schema order."""
        return self._leaves

    @once
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


def name_parts(text: str) -> tuple[str, ...]:
    """The parts of a column name in SQL text; empty where it is none."""
    out, at, dot = [], 0, "."
    while dot == ".":
        found = _PART.match(text, at)
        if found is None:
            return ()
        out.append(found.group(1).replace("``", "`") if found.group(1) is not None else found.group(2))
        at, dot = found.end(), found.group(3)
    return tuple(out)
