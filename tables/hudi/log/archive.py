"""The archive of a timeline of table version 6: blocks of Avro records, each with one state of an instant.

A block is `#HUDI#`, its size, a version, a type, headers, the content with its size, footers, and the size
again; all numbers are big-endian. Source: Hudi technical specification, Log format; HoodieArchivedMetaEntry.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from typing import Any

import orjson

from tailbit.base.errors import MalformedLogError
from tailbit.tables.hudi.log.instants import Instant
from tailbit.tables.hudi.log.metadata import damage_of_avro
from tailbit.tables.storage import Storage

_FILE = re.compile(r"\.commits_\.archive\.([0-9]+)(?:_[0-9-]+)?")
_MAGIC = b"#HUDI#"
_RECORDS, _SCHEMA = 3, 2
"""The type number of a block of Avro records, and the number of the header that holds their schema."""


def list_archive(storage: Storage, folder: str) -> list[Instant]:
    """Return the completed instants of the archive, in the order of completion; empty without an archive.

    Instants archived by a release that did not record completion times have an empty `completed` and come
    first.

    Raises:
        MalformedLogError: a file of the archive is damaged.
    """
    numbered = [(int(m[1]), e.name) for e in storage.list(folder) if (m := _FILE.fullmatch(e.name))]
    instants: dict[tuple[str, str], Instant] = {}
    for _, name in sorted(numbered):
        file = f"{folder}/{name}"
        for row, record in enumerate(_records(storage.read(file), file)):
            if record.get("actionState") != "COMPLETED":
                continue
            requested, action = record.get("commitTime"), record.get("actionType")
            if not (isinstance(requested, str) and isinstance(action, str)):
                raise MalformedLogError(file=file, reason="a completed instant lacks a time or an action")
            instant = Instant(requested, record.get("stateTransitionTime") or "", action, 0, file, row)
            instants[instant.key] = instant
    return sorted(instants.values(), key=lambda instant: (instant.completed, *instant.key))


def read_archived_record(storage: Storage, instant: Instant) -> dict[str, Any] | None:
    """Return the metadata of an archived instant, by field name; None if its record has no metadata.

    Raises:
        FileNotFoundError: the file has been merged into another: list the archive again.
        MalformedLogError: the file is damaged, or holds another instant in the row.
    """
    records = _records(storage.read(instant.file), instant.file)
    record = next((record for row, record in enumerate(records) if row == instant.row), {})
    if (record.get("commitTime"), record.get("actionType")) != instant.key:
        raise MalformedLogError(file=instant.file, reason=f"it has no metadata of {instant.requested}")
    return next((value for value in record.values() if isinstance(value, dict)), None)


def _records(data: bytes, file: str) -> Iterator[dict[str, Any]]:
    """Yield the records of all blocks of a file."""
    try:
        offset = 0
        while offset < len(data):
            if data[offset : offset + len(_MAGIC)] != _MAGIC:
                raise ValueError(f"no block begins at offset {offset}")
            start = offset + len(_MAGIC) + 8
            (size,) = struct.unpack_from(">q", data, start - 8)
            offset = start + size
            if size < 8 or offset > len(data):
                raise ValueError(f"a block of {size} bytes goes beyond the end")
            if struct.unpack_from(">q", data, offset - 8)[0] != size + len(_MAGIC):
                raise ValueError("the sizes at both ends of a block differ")
            yield from _records_of(data[start:offset])
    except damage_of_avro() as wrong:
        raise MalformedLogError(file=file, reason=f"it is no archive: {wrong}") from wrong


def _records_of(block: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records of a block."""
    import fastavro

    _, kind, count = struct.unpack_from(">iii", block)
    if kind != _RECORDS:
        raise ValueError(f"a block has the type {kind}")
    headers, position = {}, 12
    for _ in range(count):
        key, size = struct.unpack_from(">ii", block, position)
        headers[key] = block[position + 8 : position + 8 + size]
        position += 8 + size
    schema = fastavro.parse_schema(orjson.loads(headers[_SCHEMA]))
    _, records = struct.unpack_from(">ii", block, position + 8)
    position += 16
    for _ in range(records):
        (size,) = struct.unpack_from(">i", block, position)
        record = fastavro.schemaless_reader(
            io.BytesIO(block[position + 4 : position + 4 + size]), schema, None
        )
        if not isinstance(record, dict):
            raise ValueError("a record is no entry of an archive")
        yield record
        position += 4 + size
