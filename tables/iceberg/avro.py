"""Avro files of Iceberg's metadata, as columns by field id: writers name some fields differently.

Maps by number are stored as arrays of records with fields `key` and `value`. Source: Iceberg specification,
Appendix A, Avro.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError
from tailbit.tables.iceberg.values import encoded

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - times without zone are counted from here too


@dataclass(frozen=True)
class Records:
    """Decoded records; `fields` are those of their schema, `header` the metadata of the file."""

    rows: Sequence[Mapping[str, Any]]
    fields: Mapping[int, Mapping[str, Any]]
    header: Mapping[str, str]

    def column(self, id_: int, default: Any = None, rows: Sequence[int] | None = None) -> list[Any]:
        """Return the values of a field in all rows or at some; `default` where it is missing or null."""
        field = self.fields.get(id_)
        chosen = self.rows if rows is None else [self.rows[row] for row in rows]
        if field is None:
            return [default] * len(chosen)
        name = field["name"]
        return [default if (value := row[name]) is None else value for row in chosen]

    def within(self, id_: int, rows: Sequence[int]) -> Records:
        """Return the records of a field that is a record, at some rows."""
        return Records(self.column(id_, rows=rows), _fields(self.fields[id_]["type"]), self.header)

    def maps(self, id_: int, type_: pa.DataType) -> pa.Array:
        """Return a map by number as lists of keys and values."""
        return pa.array(self.column(id_), type_)

    def partitions(self, id_: int) -> list[Mapping[int, bytes | None]]:
        """Return the partition tuples as encoded values by id of the partition field."""
        names = [(number, field["name"]) for number, field in _fields(self.fields[id_]["type"]).items()]
        tuples_by_values: dict[tuple[Any, ...], Mapping[int, bytes | None]] = {}
        tuples = []
        for record in self.column(id_):
            values = tuple(record[name] for _, name in names)
            if values not in tuples_by_values:
                tuples_by_values[values] = {
                    number: encoded(_stored(value)) for (number, _), value in zip(names, values, strict=True)
                }
            tuples.append(tuples_by_values[values])
        return tuples


def read_records(data: bytes, file: str) -> Records:
    """Decode the records of an Avro file.

    Raises:
        MalformedLogError: the file is damaged.
    """
    import fastavro

    try:
        reader = fastavro.reader(io.BytesIO(data))
        header = {name: str(value) for name, value in reader.metadata.items()}
        fields = _fields(orjson.loads(header["avro.schema"]))
        rows: list[Any] = list(reader)
        return Records(rows, fields, header)
    except Exception as wrong:
        # A damaged file raises errors of many kinds in fastavro.
        raise MalformedLogError(file=file, reason=f"it is not readable Avro: {wrong}") from wrong


def _fields(type_: Any) -> dict[int, Mapping[str, Any]]:
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
