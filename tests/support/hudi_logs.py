"""Log files of Hudi, written as Hudi writes them: blocks of Avro, of Parquet, of deletions, of commands."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

COMMAND, DELETE, AVRO, HFILE, PARQUET, CDC = 0, 1, 3, 4, 5, 6
INSTANT, TARGET, SCHEMA, COMMAND_TYPE, COMPACTED, POSITIONS, PARTIAL, BASE_INSTANT = 0, 1, 2, 3, 4, 5, 7, 8
Headers = Mapping[int, bytes | str]
OneWritten = int | float | str | Decimal
Written = OneWritten | tuple[OneWritten, ...]
"""An ordering value in a delete block: of one column, or of several."""


def log_block(kind: int, headers: Headers, content: bytes = b"", form: int = 1) -> bytes:
    parts = [struct.pack(">ii", form, kind), _headers(headers), struct.pack(">q", len(content)), content]
    inner = b"".join([*parts, _headers({})])
    size = len(inner) + 8
    return b"#HUDI#" + struct.pack(">q", size) + inner + struct.pack(">q", size + 6)


def _headers(headers: Headers) -> bytes:
    out = [struct.pack(">i", len(headers))]
    for key, value in headers.items():
        data = value.encode() if isinstance(value, str) else value
        out += [struct.pack(">ii", key, len(data)), data]
    return b"".join(out)


def avro_block(
    instant: str, schema: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], more: Headers | None = None
) -> bytes:
    parsed = fastavro.parse_schema(dict(schema))
    out = [struct.pack(">ii", 3, len(rows))]
    for row in rows:
        record = io.BytesIO()
        fastavro.schemaless_writer(record, parsed, dict(row))
        out += [struct.pack(">i", len(record.getvalue())), record.getvalue()]
    return log_block(AVRO, {INSTANT: instant, SCHEMA: json.dumps(schema), **(more or {})}, b"".join(out))


def parquet_block(
    instant: str, schema: Mapping[str, Any], rows: pa.Table, more: Headers | None = None
) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink)
    return log_block(PARQUET, {INSTANT: instant, SCHEMA: json.dumps(schema), **(more or {})}, sink.getvalue())


def delete_block(
    instant: str,
    deletions: Iterable[tuple[str, Written | None]],
    more: Headers | None = None,
    version: int = 3,
) -> bytes:
    """Return a block of deleted keys with their ordering values; None is written as the int 0."""
    listed = list(deletions)
    records = [avro_long(len(listed))] if listed else []
    for key, ordering in listed:
        text = key.encode()
        branch = ordering_value(ordering)
        records.append(avro_long(1) + avro_long(len(text)) + text + avro_long(1) + avro_long(0) + branch)
    body = b"".join([*records, avro_long(0)])
    content = struct.pack(">ii", version, len(body)) + body
    return log_block(DELETE, {INSTANT: instant, **(more or {})}, content)


def ordering_value(ordering: Written | None) -> bytes:
    """Return an ordering value as a delete block holds it: an array of them where there are several."""
    if ordering is None:
        return avro_long(2) + avro_long(0)
    if isinstance(ordering, int):
        return avro_long(3) + avro_long(ordering)
    if isinstance(ordering, float):
        return avro_long(5) + struct.pack("<d", ordering)
    if isinstance(ordering, str):
        return avro_long(7) + avro_long(len(ordering.encode())) + ordering.encode()
    if isinstance(ordering, Decimal):
        return avro_long(9) + avro_long(13) + int(ordering.scaleb(15)).to_bytes(13, "big", signed=True)
    values = b"".join(map(ordering_value, ordering))
    return avro_long(12) + avro_long(1) + avro_long(len(ordering)) + values + avro_long(0)


def rollback_block(instant: str, target: str) -> bytes:
    """Return a block that takes the blocks of an instant back."""
    return log_block(COMMAND, {INSTANT: instant, TARGET: target, COMMAND_TYPE: "0"})


def positions(rows: Iterable[int]) -> str:
    """Return positions of base rows as the header of a block holds them."""
    return base64.b64encode(BitMap64(rows).serialize()).decode()


def avro_long(number: int) -> bytes:
    """Return a number in Avro's encoding."""
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
