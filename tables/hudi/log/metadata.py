"""The metadata of an instant, in Avro or JSON: one table may hold both, so the first bytes decide.

fastavro is imported only when a file of Avro is read.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import orjson

from tailbit.base.errors import MalformedLogError

_AVRO = b"Obj\x01"
_DAMAGE = (
    *(ValueError, TypeError, LookupError, EOFError, AttributeError, ArithmeticError, MemoryError),
    *(RecursionError, AssertionError, struct.error, zlib.error),
)
"""The exceptions of Python that fastavro raises for damaged bytes."""


def damage_of_avro() -> tuple[type[Exception], ...]:
    """Return the classes of all exceptions that fastavro raises for damaged bytes."""
    from fastavro.schema import SchemaParseException, UnknownType

    return (*_DAMAGE, SchemaParseException, UnknownType)


def decode_metadata(data: bytes, file: str) -> dict[str, Any]:
    """Return the metadata of an instant by field name, from the bytes of the instant's file.

    Raises:
        MalformedLogError: the bytes are neither JSON nor an Avro file of one record. The file may be half
            written: releases before 1.1 write a file in place.
    """
    if data.startswith(_AVRO):
        return _from_avro(data, file)
    try:
        decoded = orjson.loads(data)
    except ValueError as wrong:
        reason = "it is empty" if not data else f"it is neither Avro nor JSON: {wrong}"
        raise MalformedLogError(file=file, reason=reason) from wrong
    if not isinstance(decoded, dict):
        raise MalformedLogError(file=file, reason="it is not a JSON object")
    return decoded


def _from_avro(data: bytes, file: str) -> dict[str, Any]:
    import fastavro

    try:
        records = list(zip(range(2), fastavro.reader(io.BytesIO(data)), strict=False))
    except damage_of_avro() as wrong:
        raise MalformedLogError(file=file, reason=f"it is no Avro file: {wrong!r}") from wrong
    if len(records) != 1 or not isinstance(records[0][1], dict):
        raise MalformedLogError(file=file, reason="it should hold one record of Avro")
    return records[0][1]
