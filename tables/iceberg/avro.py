"""The records of manifests by field id, and single values as Iceberg stores them.

Writers name some fields differently. Maps by number are stored as arrays of records with fields `key` and
`value`. Source: Iceberg specification, Appendix A, Avro; Appendix D, Single-value serialization.
"""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timezone
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from tailbit.base.errors import MalformedLogError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import in_one
from tailbit.tables.model import UUID as UUID_TYPE
from tailbit.tables.model import DataType

_TIMES = ("timestamp", "timestamp_ntz")
_WHOLE = ("integer", "long", "date", *_TIMES)
_DAY_US = 86_400_000_000


def encoded(value: Any) -> bytes | None:
    """Return a value of a partition in one form for all types it may have been promoted from.

    Numbers have eight bytes, so a tuple is the same in manifests of before and after a promotion; dates, as
    bytes of their own, have four.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    if isinstance(value, int):
        return struct.pack("<q", value)
    return struct.pack("<d", value) if isinstance(value, float) else str(value).encode()


def decoded(type_: DataType, data: bytes) -> Any:
    r"""Return the canonical value of stored bytes, as `FileBounds` holds it; None if it cannot be told.

    The bytes may be of a narrower type, which the column had when they were written.

    >>> decoded(DataType("long"), b"\x02\x00\x00\x00")
    2
    """
    name = type_.name
    if name in _WHOLE:
        number = int.from_bytes(data, "little", signed=True) if len(data) in (4, 8) else None
        # A time of four bytes is a date, which the column held before it was promoted.
        return number * _DAY_US if number is not None and len(data) == 4 and name in _TIMES else number
    if name in ("float", "double"):
        if len(data) not in (4, 8):
            return None
        (value,) = struct.unpack("<f" if len(data) == 4 else "<d", data)
        return None if value != value else value
    if name == "decimal":
        unscaled = int.from_bytes(data, "big", signed=True)
        return Decimal(f"{unscaled}E{-type_.scale}") if 0 < len(data) <= 16 else None
    if name == "boolean":
        return data != b"\x00" if len(data) == 1 else None
    try:
        if type_.raw == UUID_TYPE:
            return str(UUID(bytes=data))
        return data.decode() if name == "string" else None
    except ValueError:
        return None


_ROW = "row"


def is_loaded() -> bool:
    """Return whether this process has imported polars, which takes as long as dozens of manifests."""
    return "polars" in sys.modules


def read_avro(data: bytes) -> pa.StructArray | None:
    """Return the records of an Avro file as one struct array; None if polars cannot decode them."""
    import polars as pl

    try:
        table = pl.read_avro(io.BytesIO(data)).to_arrow(compat_level=pl.CompatLevel.oldest())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    return pa.StructArray.from_arrays([in_one(column) for column in table.columns], fields=list(table.schema))


def rows_equal(rows: pa.Table, others: pa.Table) -> npt.NDArray[np.uint32]:
    """Return the numbers of the rows that `others` holds too; both have the same columns.

    NULL equals NULL. Floats are no columns here: which of them are equal is the caller's to say.
    """
    import polars as pl

    numbered = rows.append_column(_ROW, pa.array(np.arange(rows.num_rows, dtype=np.uint32)))
    rows_frame, others_frame = (pl.DataFrame(pl.from_arrow(table)) for table in (numbered, others))
    same = rows_frame.join(others_frame.unique(), on=rows.column_names, how="semi", nulls_equal=True)
    return np.asarray(same[_ROW].to_numpy(), dtype=np.uint32)


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - times without zone are counted from here too
Fields = Mapping[int, Mapping[str, Any]]


_MARKER = 16
"""Bytes of the marker that ends the header of a file and each of its blocks."""


class Blocks(NamedTuple):
    """The blocks of an Avro file without their markers; files of one header can be decoded as one file."""

    header: bytes
    blocks: Sequence[bytes]
    records: int


def blocks_of(data: bytes, file: str) -> Blocks:
    """Return the blocks of an Avro file. Source: Avro specification, Object Container Files."""
    marker = data[-_MARKER:]
    place, blocks, total = data.find(marker), list[bytes](), 0
    header = data[:place]
    place += _MARKER
    try:
        while place < len(data):
            count, start = _number(data, place)
            size, start = _number(data, start)
            end = start + size
            if count < 0 or size < 0 or data[end : end + _MARKER] != marker:
                raise ValueError("a block does not end where its size says")
            blocks.append(data[place:end])
            place, total = end + _MARKER, total + count
    except (ValueError, IndexError) as wrong:
        raise MalformedLogError(file=file, reason=f"it is not readable Avro: {wrong}") from wrong
    return Blocks(header, blocks, total)


def _number(data: bytes, place: int) -> tuple[int, int]:
    """Return the number that begins at a place, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), place


def one_file(files: Sequence[Blocks]) -> bytes:
    """Return an Avro file with the blocks of all files, which have one header."""
    marker = b"\0tailbit-marker\0"
    blocks = (piece for file in files for block in file.blocks for piece in (block, marker))
    return b"".join((files[0].header, marker, *blocks))


class Records(NamedTuple):
    """Decoded records as columns, or Python's values; `fields` of their schema, `header` of the file."""

    rows: pa.StructArray | Sequence[Mapping[str, Any]]
    fields: Fields
    header: Mapping[str, str]

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
    """Decode the records of an Avro file; `quickly`: by polars, where it can."""
    import fastavro

    fastavro.read.BLOCK_READERS.update(zstandard=_zstandard, snappy=_snappy)
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


def _zstandard(file: io.BytesIO) -> io.BytesIO:
    """Return the bytes of a compressed block; fastavro would need a package more."""
    import fastavro

    block = pa.BufferReader(fastavro.schemaless_reader(file, "bytes"))
    return io.BytesIO(pa.CompressedInputStream(block, "zstd").read())


def _snappy(file: io.BytesIO) -> io.BytesIO:
    import fastavro

    block: Any = fastavro.schemaless_reader(file, "bytes")
    number, _ = _number(block, 0)
    return io.BytesIO(pa.decompress(block[:-4], number << 1 ^ number >> 63, "snappy", asbytes=True))


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
