"""Decoding of stored values to the table's current logical type; structs, arrays and maps recursively.

Only widenings that Delta allows are cast, each exactly; any other type change is refused, except two of Hudi.
Source: Delta protocol, Type Widening; Spark's rules for INT96, zone-less timestamps, the legacy calendar.

Hudi's promotions: a whole number becomes the nearest float or double; a number becomes the text that Java
writes of it, a float the double of that text. Source: HoodieAvroUtils, rewritePrimaryTypeWithDiffSchemaType.

Hudi's units of times: writers of 0.14.1 to 1.0 stored milliseconds as instants in microseconds, and local
times without any unit. The table's schema says which they are, and Hudi reads them so from release 1.1 on. It
goes by the names of fields in a file, so lists of three levels have times as labelled: it expects those of
two, which the writers at fault wrote. Source: SchemaRepair of Hudi 1.2, and what it reads
(`tests/hudi_tables`); apache/hudi pull request 14161.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import DataFileError, LegacyCalendarError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, decoded, nested_array, numpy_of, uuid_texts
from tailbit.tables.model import UUID, Column
from tailbit.tables.parquet.file import ParquetNode, plain_type
from tailbit.tables.schema import PRESENCE, arrow_type
from tailbit.tables.variant import unshredded

if TYPE_CHECKING:
    import pyarrow.parquet as pq


_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Java writes numbers of a size between these without an exponent."""


def is_promotion(stored: pa.DataType, type_: pa.DataType) -> bool:
    """Return whether Hudi promotes values of a stored type to another by its own rules.

    >>> is_promotion(pa.int32(), pa.float32()), is_promotion(pa.float64(), pa.float32())
    (True, False)
    """
    types = pa.types
    if types.is_float32(type_):
        return bool(types.is_integer(stored))
    if types.is_float64(type_):
        return bool(types.is_integer(stored) or types.is_float32(stored))
    return bool(types.is_string(type_) and (types.is_integer(stored) or _is_float(stored)))


def promoted(stored: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return values of a stored type as Hudi promotes them; NULL stays NULL."""
    if _is_float(stored.type):
        texts = float_texts(stored) if pa.types.is_string(type_) else pc.cast(stored, pa.string())
        return pc.cast(texts, type_)
    return pc.cast(stored, type_, safe=pa.types.is_string(type_))


def float_texts(values: pa.Array) -> pa.StringArray:
    """Return the text of each float or double as Java writes it; NULL stays NULL."""
    numbers, valid = values.to_numpy(zero_copy_only=False), pc.is_valid(values).to_pylist()
    texts = [_float_text(n) if ok else None for n, ok in zip(numbers, valid, strict=True)]
    return arrow_array(texts, pa.string())


def _float_text(value: np.floating) -> str:
    """Return the shortest text that parses to the number again, as Java 19 and later write it.

    If one digit is enough in a text with an exponent, two digits are written, those nearest to the number:
    4.9E-324, not 5.0E-324.

    >>> [_float_text(np.float64(v)) for v in (0.1, 12.0, 1e7, -2.5e-4, 5e-324, float("nan"))]
    ['0.1', '12.0', '1.0E7', '-2.5E-4', '4.9E-324', 'NaN']
    """
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return np.format_float_positional(value, unique=True, trim="0")
    shortest = np.format_float_scientific(value, unique=True, trim="0")
    if shortest.lstrip("-")[1:4] == ".0e":
        shortest = f"{float(value):.1e}"
    digits, _, exponent = shortest.partition("e")
    return f"{digits}E{int(exponent)}"


def _is_float(type_: pa.DataType) -> bool:
    return bool(pa.types.is_float32(type_) or pa.types.is_float64(type_))


def declared_type(stored: pa.DataType, column: Column) -> pa.DataType | None:
    """Return the type that stored numbers have by the table's schema; None if the file's label is right.

    >>> from tailbit.tables.model import DataType
    >>> at = Column(("at",), ("at",), DataType("timestamp"), unit="ms")
    >>> declared_type(pa.timestamp("us", "UTC"), at)
    TimestampType(timestamp[ms, tz=UTC])
    >>> declared_type(pa.timestamp("ms", "UTC"), at) is None
    True
    """
    kind, types = column.type.name, pa.types
    if kind == "timestamp" and column.unit == "ms":
        is_wrong = types.is_timestamp(stored) and stored.unit == "us" and stored.tz is not None
        return pa.timestamp("ms", stored.tz) if is_wrong else None
    if kind == "timestamp_ntz" and column.unit:
        return pa.timestamp(column.unit) if types.is_int64(stored) else None
    return None


def has_unit(column: Column) -> bool:
    """Return whether the table declares the unit of times in a column, at any depth."""
    return bool(column.unit) or any(map(has_unit, column.type.fields))


def element_column(column: Column, node: ParquetNode) -> Column:
    """Return the element of an array; times have no unit but the file's where its list has three levels."""
    element = column.type.fields[0]
    if node.children[0].field.name == "array" or not has_unit(element):
        return element
    return _without_unit(element)


def _without_unit(column: Column) -> Column:
    fields = tuple(map(_without_unit, column.type.fields))
    return replace(column, unit="", type=replace(column.type, fields=fields))


def is_relabelled(column: Column, node: ParquetNode) -> bool:
    """Return whether values of a file depend on the unit that the table declares, at any depth."""
    if declared_type(plain_type(node.field.type), column) is not None:
        return True
    if column.type.name == "struct":
        named = ((inner, node.child(inner.physical[-1])) for inner in column.type.fields)
        return any(child is not None and is_relabelled(inner, child) for inner, child in named)
    if column.type.name == "array" and node.children:
        return is_relabelled(element_column(column, node), node.children[0])
    return any(map(is_relabelled, column.type.fields, node.children))


_GREGORIAN_START = -141_427
"""1582-10-15 in days since 1970: before it the legacy calendar is Julian."""
_ZONES_AGREE = -2_208_988_800_000_000
"""1900-01-01 in us since 1970: from here on, Spark's two calendars agree in every time zone."""


def field_id(node: ParquetNode) -> int | None:
    """Return the field id of a field in a file, or None."""
    text = (node.field.metadata or {}).get(b"PARQUET:field_id")
    return int(text) if text is not None else None


def has_ids(struct: ParquetNode) -> bool:
    """Return whether any field of a struct, or of the row, has a field id."""
    return any(field_id(child) is not None for child in struct.children)


def find_field(
    node: ParquetNode, name: str, number: int | None, path: str, aliases: Sequence[str] = ()
) -> ParquetNode | None:
    """Return the inner field of an id, or of a name (ignoring case) if `number` is None; None if missing.

    `aliases`: the names that mean the id where no field has an id.

    Raises:
        DataFileError: two fields match the name or id.
    """
    if number is not None and aliases and not has_ids(node):
        matches = [c for c in node.children if c.field.name in aliases]
    elif number is not None:
        matches = [c for c in node.children if field_id(c) == number]
    else:
        matches = [c for c in node.children if c.field.name.lower() == name.lower()]
    if len(matches) > 1:
        raise DataFileError(file=path, reason=f"it has {len(matches)} fields that {name!r} may mean")
    return matches[0] if matches else None


def holds(column: Column, node: ParquetNode, path: str) -> bool:
    """Return whether a file's field of a column holds any of the values that the column has now.

    Source: PruneColumns of Iceberg's reader.
    """
    kind, fields = column.type.name, column.type.fields
    if not column.pruned or not fields or not node.children:
        return True
    if kind != "struct":
        return holds(fields[-1], node.children[-1], path)
    return any(find_column_in(node, inner, path) is not None for inner in fields)


def find_column_in(node: ParquetNode, column: Column, path: str) -> ParquetNode | None:
    """Return the field of a column within the field of the struct above it; None if the file lacks it."""
    number = column.field_ids[-1] if column.field_ids else None
    aliases = column.aliases[-1] if column.aliases else ()
    child = find_field(node, column.physical[-1], number, path, aliases)
    return child if child is not None and holds(column, child, path) else None


@dataclass(frozen=True)
class Decoder:
    """A decoder of one column of one file; `path` and `label` name file and column in errors."""

    metadata: pq.FileMetaData
    path: str
    label: str

    def array(self, stored: pa.Array, column: Column, node: ParquetNode) -> pa.Array:
        """Decode stored values of a column to its logical Arrow type."""
        if isinstance(stored, pa.ExtensionArray):
            stored = stored.storage
        kind = column.type.name
        if kind == PRESENCE:
            return arrow_array([True] * len(stored), pa.bool_(), mask=_nulls(stored))
        if kind == "variant" and pa.types.is_struct(stored.type):
            return self._variant(stored, arrow_type(column.type, self.label))
        if kind == "struct" and pa.types.is_struct(stored.type):
            return self._struct(stored, column, node)
        if kind == "array" and (pa.types.is_list(stored.type) or pa.types.is_large_list(stored.type)):
            inner = self.array(stored.values, element_column(column, node), node.children[0])
            type_ = arrow_type(column.type, self.label)
            return nested_array(type_, [inner], pc.cast(stored.offsets, pa.int32()), _nulls(stored))
        if kind == "map" and pa.types.is_map(stored.type):
            keys = self.array(stored.keys, column.type.fields[0], node.children[0])
            items = self.array(stored.items, column.type.fields[1], node.children[1])
            type_ = arrow_type(column.type, self.label)
            return nested_array(type_, [keys, items], stored.offsets, _nulls(stored))
        return self._leaf(stored, column, node)

    def _struct(self, stored: pa.StructArray, column: Column, node: ParquetNode) -> pa.Array:
        children, fields = [], []
        for inner in column.type.fields:
            child = find_column_in(node, inner, self.path)
            type_ = arrow_type(inner.type, inner.label)
            fields.append(pa.field(inner.name[-1], type_, inner.nullable))
            if child is None:
                children.append(constant(inner.default, type_, len(stored)))
            else:
                index = next(i for i, c in enumerate(node.children) if c.first == child.first)
                children.append(self.array(stored.field(index), inner, child))
        return nested_array(pa.struct(fields), children, null=_nulls(stored))

    def _variant(self, stored: pa.StructArray, type_: pa.DataType) -> pa.Array:
        """Return the two encoded parts of a variant, also where it is shredded into columns."""
        fields = {stored.type.field(i).name: stored.field(i) for i in range(stored.type.num_fields)}
        try:
            if "typed_value" in fields:
                fields["value"] = unshredded(stored)
        except (ValueError, LookupError, pa.ArrowException) as wrong:
            reason = f"column {self.label} holds a shredded variant that cannot be read: {wrong!r}"
            raise DataFileError(file=self.path, reason=reason) from wrong
        arrays = [pc.cast(fields[f.name], pa.binary()) for f in type_]
        return nested_array(type_, arrays, null=_nulls(stored))

    def _leaf(self, stored: pa.Array, column: Column, node: ParquetNode) -> pa.Array:
        type_ = arrow_type(column.type, self.label)
        stored = self._as_declared(decoded(stored), column, node)
        self._check_calendar(stored, column, node)
        if column.type.char_length:
            return pc.utf8_rpad(pc.cast(stored, type_), column.type.char_length, " ")
        if stored.type == type_:
            return stored
        if column.type.raw == UUID and stored.type == pa.binary(16):
            return pc.cast(uuid_texts(stored), type_)
        if column.type.promoted and is_promotion(stored.type, type_):
            return promoted(stored, type_)
        if not _becomes(stored.type, type_) or (column.type.name == "timestamp_ntz" and self._is_int96(node)):
            raise DataFileError(
                file=self.path,
                reason=f"column {self.label} holds {stored.type}, the table says {column.type}",
            )
        return pc.cast(stored, type_)

    def _as_declared(self, stored: pa.Array, column: Column, node: ParquetNode) -> pa.Array:
        """Return stored times in the unit that the table declares, whatever the file says of them."""
        declared = declared_type(stored.type, column)
        if declared is None or self._is_int96(node):
            return stored
        return stored.view(declared)

    def _is_int96(self, node: ParquetNode) -> bool:
        return str(self.metadata.schema.column(node.first).physical_type) == "INT96"

    def _check_calendar(self, stored: pa.Array, column: Column, node: ParquetNode) -> None:
        """Refuse legacy calendar values that mean another day or instant in the current calendar."""
        if column.type.name not in ("date", "timestamp", "timestamp_ntz") or not len(stored):
            return
        if not written_legacy(self.metadata, self._is_int96(node)):
            return
        is_date = pa.types.is_date(stored.type)
        numbers = pc.cast(pc.cast(stored, pa.date32()), pa.int32()) if is_date else _micros(stored)
        least = pc.min(numbers).as_py()
        if least is not None and least < (_GREGORIAN_START if is_date else _ZONES_AGREE):
            since = "1582-10-15" if is_date else "1900-01-01"
            raise LegacyCalendarError(file=self.path, column=self.label, type=column.type.name, since=since)


def constant(value: Any, type_: pa.DataType, count: int) -> pa.Array:
    """Return a value `count` times; None is NULL."""
    return pa.nulls(count, type_) if value is None else pa.repeat(arrow_scalar(value, type_), count)


def _nulls(stored: pa.Array) -> Mask | None:
    return numpy_of(pc.is_null(stored)) if stored.null_count else None


def written_legacy(metadata: pq.FileMetaData, is_int96: bool) -> bool:
    """Return whether a file is in Spark's legacy calendar: written before 3.0 (INT96: 3.1), or so marked."""
    keys = metadata.metadata or {}
    mark, modern = (b"legacyINT96", b"3.1.0") if is_int96 else (b"legacyDateTime", b"3.0.0")
    version = keys.get(b"org.apache.spark.version")
    return b"org.apache.spark." + mark in keys or (version is not None and version < modern)


def _micros(stored: pa.Array) -> pa.Array:
    """Convert timestamps of any unit to us since 1970."""
    return pc.cast(pc.cast(stored, pa.timestamp("us", stored.type.tz), safe=False), pa.int64())


def _becomes(stored: pa.DataType, type_: pa.DataType) -> bool:
    """Return whether stored values of a type fit another: the same kind, or a widening that Delta allows."""
    types = pa.types
    if types.is_null(stored):
        return True
    if types.is_timestamp(type_):
        if types.is_timestamp(stored):
            return type_.tz is not None or stored.tz is None
        return types.is_date(stored) and type_.tz is None
    if types.is_decimal(type_):
        return bool(types.is_decimal(stored) or types.is_integer(stored))
    if types.is_float64(type_):
        return bool(types.is_float32(stored) or types.is_integer(stored))
    if types.is_integer(type_):
        return bool(types.is_integer(stored))
    if types.is_date(type_):
        return bool(types.is_date(stored))
    if types.is_string(type_) or types.is_binary(type_):
        return plain_type(stored) in (pa.string(), pa.binary()) or types.is_fixed_size_binary(stored)
    return False
