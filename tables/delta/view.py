"""A Delta table over chosen rows of another: its log names the other's files, and vectors hide the rest.

Nothing is copied but the metadata: an add action names a data file of the source by its absolute path, and a
deletion vector hides every row that was not chosen. Input: a snapshot, and per file the chosen positions.
Output: the actions of commit 0 and the bytes of one file of deletion vectors; nothing is written here.
Source: Delta protocol, Add File and Remove File, Deletion Vectors, Per-file Statistics.
"""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from pyroaring import BitMap

from tailbit.tables.date_text import date_texts
from tailbit.tables.delta.deletion_vectors import PORTABLE_MAGIC, Z85, DeletionVector
from tailbit.tables.delta.log.protocol import Protocol
from tailbit.tables.delta.snapshot import DeltaSnapshot
from tailbit.tables.delta.statistics import DeltaStatistics, is_readable
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import bitmap_of
from tailbit.tables.schema import Schema
from tailbit.tables.storage import Storage

Action = dict[str, Any]

_KEPT_SETTINGS = ("delta.columnMapping.mode", "delta.columnMapping.maxColumnId")
_KEPT_METADATA = ("delta.columnMapping.", "delta.typeChanges", "__")
"""What the metadata of a field says to readers; the rest is for writers, and needs features of theirs."""


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A data file of `rows` physical rows, and the ascending 0-based positions of those that are shown."""

    slice_: FileSlice
    rows: int
    positions: Positions


@dataclass
class Vectors:
    """One file of deletion vectors, in memory until all of them are known."""

    id: uuid.UUID = field(default_factory=uuid.uuid4)
    data: bytearray = field(default_factory=lambda: bytearray(b"\x01"))

    @property
    def name(self) -> str:
        """The file's name below the table's root."""
        return f"deletion_vector_{self.id}.bin"

    def add(self, hidden: BitMap) -> Action:
        """Append a vector; its descriptor."""
        payload = _payload(hidden)
        offset = len(self.data)
        self.data += struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
        return {
            "storageType": "u",
            "pathOrInlineDv": encode_z85(self.id.bytes),
            "offset": offset,
            "sizeInBytes": len(payload),
            "cardinality": len(hidden),
        }


def view_log(
    snapshot: DeltaSnapshot, schema: Schema, storage: Storage, shown: Iterable[ShownFile]
) -> tuple[bytes, Vectors]:
    """The text of commit 0 of a view, and the deletion vectors that it names.

    `schema`: of the snapshot, in the time zone of its partition values. `storage`: where the source's data
    files are. Schema and nullability, column mapping and partition columns are those of the source.
    """
    vectors = Vectors()
    adds = [{"add": _add(file, schema, storage, vectors)} for file in shown]
    now = time.time_ns() // 1_000_000
    info = {"timestamp": now, "operation": "CREATE TABLE", "engineInfo": "tailbit", "isBlindAppend": True}
    actions = [
        {"commitInfo": info},
        {"protocol": _protocol(snapshot.protocol, schema, snapshot.configuration)},
        {"metaData": _metadata(snapshot, now)},
        *adds,
    ]
    return "".join(json.dumps(action) + "\n" for action in actions).encode(), vectors


def plain_add(slice_: FileSlice, storage: Storage) -> Action:
    """An add action of a file as the source's log has it, its statistics left out."""
    hidden = slice_.hidden
    return {
        "path": _uri(storage, slice_),
        "partitionValues": dict(slice_.partition),
        "size": slice_.size,
        "modificationTime": slice_.mtime,
        "dataChange": False,
        "deletionVector": _descriptor(hidden) if isinstance(hidden, DeletionVector) else None,
    }


def inline_add(file: ShownFile, schema: Schema, storage: Storage) -> Action:
    """An add action of a file that shows chosen rows alone: its deletion vector stands in it."""
    payload = _payload(_hidden(file))
    vector = {
        "storageType": "i",
        "pathOrInlineDv": encode_z85(payload + b"\0" * (-len(payload) % 4)),
        "sizeInBytes": len(payload),
        "cardinality": file.rows - len(file.positions),
    }
    return {
        **plain_add(file.slice_, storage),
        "partitionValues": _partition_values(file.slice_, schema),
        "stats": json.dumps({"numRecords": file.rows, "tightBounds": False}),
        "deletionVector": vector if len(file.positions) < file.rows else None,
    }


def _descriptor(vector: DeletionVector) -> Action:
    found: Action = {
        "storageType": vector.storage_type,
        "pathOrInlineDv": vector.path_or_inline,
        "sizeInBytes": vector.size,
        "cardinality": vector.cardinality,
    }
    return found if vector.offset is None else {**found, "offset": vector.offset}


def _uri(storage: Storage, slice_: FileSlice) -> str:
    return "file://" + quote(storage.resolve(slice_.path))


def encode_z85(data: bytes) -> str:
    """Z85 text of bytes, whose number is a multiple of four: five digits for every four."""
    out = bytearray()
    for (number,) in struct.iter_unpack(">I", data):
        out += bytes(Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return out.decode()


def _payload(hidden: BitMap) -> bytes:
    """The portable form: magic, number of 32-bit bitmaps, their high 32 bits, the bitmap."""
    hidden.run_optimize()
    return struct.pack("<iqI", PORTABLE_MAGIC, 1, 0) + hidden.serialize()


def _hidden(file: ShownFile) -> BitMap:
    shown = bitmap_of(file.positions)
    return BitMap(range(file.rows)) - shown


def _add(file: ShownFile, schema: Schema, storage: Storage, vectors: Vectors) -> Action:
    slice_ = file.slice_
    add: Action = {
        "path": _uri(storage, slice_),
        "partitionValues": _partition_values(slice_, schema),
        "size": slice_.size,
        "modificationTime": slice_.mtime,
        "dataChange": True,
        "stats": json.dumps(_statistics(file)),
    }
    if len(file.positions) < file.rows:
        add["deletionVector"] = vectors.add(_hidden(file))
    return add


def _partition_values(slice_: FileSlice, schema: Schema) -> dict[str, str | None]:
    """The log's texts; a time without a zone becomes an instant, so that every reader finds the same one."""
    values = dict(slice_.partition)
    for column in schema.columns:
        if column.partition and column.type.name == "timestamp":
            values[column.physical[0]] = _instant(column, values.get(column.physical[0]))
    return values


def _instant(column: Column, text: str | None) -> str | None:
    found = date_texts(partition_array(column, text, 1))[0]
    return None if found is None else found.replace(" ", "T")


def _statistics(file: ShownFile) -> Action:
    """The source's bounds hold for fewer rows too, but are no longer the least and the greatest value."""
    stats = file.slice_.stats
    known = json.loads(stats.text) if isinstance(stats, DeltaStatistics) and is_readable(stats.text) else {}
    return {**known, "numRecords": file.rows, "tightBounds": False}


def _protocol(source: Protocol, schema: Schema, configuration: Mapping[str, str]) -> Action:
    """What the source demands of readers, and deletion vectors; not what it demands of its writers."""
    readers = set(source.reader_features) | {"deletionVectors"}
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        readers.add("columnMapping")
    if any(leaf.type.name == "timestamp_ntz" for leaf in schema.leaves()):
        readers.add("timestampNtz")
    readers.discard("vacuumProtocolCheck")
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted(readers),
        # A column that is not nullable is one of their features.
        "writerFeatures": sorted(readers | {"invariants"}),
    }


def _metadata(snapshot: DeltaSnapshot, now: int) -> Action:
    configuration = {k: v for k, v in snapshot.configuration.items() if k in _KEPT_SETTINGS}
    return {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(_readable(json.loads(snapshot.metadata.schema_text))),
        "partitionColumns": list(snapshot.partition_columns),
        "configuration": {**configuration, "delta.enableDeletionVectors": "true"},
        "createdTime": now,
    }


def _readable(schema: Any) -> Any:
    """A schema, or a part of it, whose fields carry what readers need: no defaults, no generated values."""
    if isinstance(schema, list):
        return [_readable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: value if key == "metadata" else _readable(value) for key, value in schema.items()}
    if isinstance(schema.get("metadata"), dict) and "name" in schema:
        out["metadata"] = {k: v for k, v in schema["metadata"].items() if k.startswith(_KEPT_METADATA)}
    return out
