"""Avro files of Iceberg's metadata, as columns by field id: writers name some fields differently.

Maps by number are stored as arrays of records with fields `key` and `value`. Source: Iceberg specification,
Appendix A, Avro.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import orjson
import pyarrow as pa

from tailbit.base.errors import MalformedLogError
from tailbit.tables import compute as pc
from tailbit.tables.iceberg.by_polars import read_avro
from tailbit.tables.iceberg.values import encoded

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - times without zone are counted from here too
Fields = Mapping[int, Mapping[str, Any]]


class Records(NamedTuple):
    """Decoded records as columns, or as Python's values where polars cannot decode them.

    `fields` are those of their schema, `header` the metadata of the file.
    """

    rows: pa.StructArray | Sequence[Mapping[str, Any]]
    fields: Fields
    header: Mapping[str, str]

    @property
    def form(self) -> str | None:
        """The schema of records that may be joined with others of that schema; None if they may not."""
        return self.header["avro.schema"] if isinstance(self.rows, pa.StructArray) else None

    def joined(self, others: Sequence[Records]) -> Records:
        """Return the records with those of others of the same form behind them."""
        return self._replace(rows=pa.concat_arrays([self.rows, *(records.rows for records in others)]))

    def column(self, id_: int, type_: pa.DataType) -> pa.Array:
        """Return the values of a field; NULL where it is missing."""
        field = self.fields.get(id_)
        if field is None:
            return pa.nulls(len(self.rows), type_)
        if isinstance(self.rows, pa.StructArray):
            return pc.cast(self.rows.field(self.rows.type.get_field_index(field["name"])), type_)
        return pa.array(self._values(id_), type_)

    def _values(self, id_: int) -> list[Any]:
        name = self.fields[id_]["name"]
        if isinstance(self.rows, pa.StructArray):
            values: list[Any] = self.rows.field(self.rows.type.get_field_index(name)).to_pylist()
            return values
        return [row[name] for row in self.rows]

    def within(self, id_: int) -> Records:
        """Return the records of a field that is a record."""
        field = self.fields[id_]
        inner = _fields_of(field["type"])
        if isinstance(self.rows, pa.StructArray):
            rows = self.rows.field(self.rows.type.get_field_index(field["name"]))
            return Records(rows, inner, self.header)
        return Records(self._values(id_), inner, self.header)

    def partitions(self, id_: int) -> tuple[list[int], list[Mapping[int, bytes | None]]]:
        """Return the number of each row's partition tuple, and the tuples: encoded values by field id."""
        inner = self.within(id_)
        columns = [inner._values(number) for number in inner.fields]
        numbers: dict[tuple[Any, ...], int] = {}
        tuples = zip(*columns, strict=True) if columns else (() for _ in range(len(self.rows)))
        rows = [numbers.setdefault(values, len(numbers)) for values in tuples]
        return rows, [
            {number: encoded(_stored(value)) for number, value in zip(inner.fields, values, strict=True)}
            for values in numbers
        ]


def read_records(data: bytes, file: str, quickly: bool = False) -> Records:
    """Decode the records of an Avro file; `quickly`: by polars, where it can.

    Raises:
        MalformedLogError: the file is damaged.
    """
    import fastavro

    try:
        reader = fastavro.reader(io.BytesIO(data))
        header = {name: str(value) for name, value in reader.metadata.items()}
        fields = _fields(header["avro.schema"])
        columns = read_avro(data) if quickly else None
        rows: Any = list(reader) if columns is None else columns
        return Records(rows, fields, header)
    except Exception as wrong:
        # A damaged file raises errors of many kinds in fastavro.
        raise MalformedLogError(file=file, reason=f"it is not readable Avro: {wrong}") from wrong


@lru_cache(maxsize=64)
def _fields(schema: str) -> Fields:
    return _fields_of(orjson.loads(schema))


def _fields_of(type_: Any) -> Fields:
    """Return the fields of a record, or of a record or null, by their ids."""
    if isinstance(type_, list):
        type_ = next(member for member in type_ if member != "null")
    return {int(field["field-id"]): field for field in type_["fields"] if "field-id" in field}


def _stored(value: Any) -> Any:
    """Return a value of a logical type as the number or bytes that stand for it."""
    if isinstance(value, datetime):
        zoned = value if value.tzinfo is None else value.astimezone(timezone.utc).replace(tzinfo=None)
        since = zoned - _EPOCH
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if isinstance(value, date):
        return (value.toordinal() - _EPOCH.toordinal()).to_bytes(4, "little", signed=True)
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, Decimal):
        digits = value.as_tuple().digits
        unscaled = int("".join(map(str, digits)) or "0") * (-1 if value.is_signed() else 1)
        return unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
    return value.bytes if isinstance(value, UUID) else value
