"""A Delta view of a table: a log that names the source's data files, and vectors that hide unselected rows.

No data is copied: an add action names a data file of the source by absolute path, and a deletion vector hides
every row that was not selected. Input: the source's metadata, and the selected positions per file. Output:
the actions of commit 0 and the bytes of one file of deletion vectors; the caller writes them. Source: Delta
protocol, Add File and Remove File, Deletion Vectors, Per-file Statistics.
"""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections.abc import Iterable
from dataclasses import field
from typing import Any
from urllib.parse import quote

import orjson
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.tables.date_text import date_texts
from tailbit.tables.delta.deletion_vectors import Z85, DeletionVector
from tailbit.tables.delta.statistics import DeltaStatistics, is_readable
from tailbit.tables.delta.view_schema import ViewTable
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import bitmap_of
from tailbit.tables.schema import Schema
from tailbit.tables.storage import SPELLED, Storage, decoded
from tailbit.tables.vector_frame import PORTABLE_MAGIC

Action = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A data file of `rows` physical rows, and the ascending 0-based positions of the rows to show."""

    slice_: FileSlice
    rows: int
    positions: Positions


@dataclass
class Vectors:
    """One file of deletion vectors, kept in memory until all vectors are known."""

    id: uuid.UUID = field(default_factory=uuid.uuid4)
    data: bytearray = field(default_factory=lambda: bytearray(b"\x01"))

    @property
    def name(self) -> str:
        """The name of the file, below the table's root."""
        return f"deletion_vector_{self.id}.bin"

    def add(self, hidden: BitMap) -> Action:
        """Append a vector to the file and return its descriptor."""
        payload = _payload(hidden)
        offset = len(self.data)
        self.data += struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
        return DeletionVector("u", encode_z85(self.id.bytes), offset, len(payload), len(hidden)).action()


def view_log(
    table: ViewTable, schema: Schema, storage: Storage, shown: Iterable[ShownFile]
) -> tuple[bytes, Vectors]:
    """Return commit 0 of a view as text, and the deletion vectors that the commit names.

    `schema`: of the snapshot, in the time zone of its partition values. `storage`: of the source's files.
    `table`: the schema, settings and reader features that the view's log states.
    """
    vectors = Vectors()
    adds = [{"add": _add(file, schema, storage, vectors)} for file in shown]
    now = time.time_ns() // 1_000_000
    info = {"timestamp": now, "operation": "CREATE TABLE", "engineInfo": "tailbit", "isBlindAppend": True}
    actions = [
        {"commitInfo": info},
        {"protocol": _protocol(table, schema)},
        {"metaData": _metadata(table, now)},
        *adds,
    ]
    return "".join(json.dumps(action) + "\n" for action in actions).encode(), vectors


def _uri(storage: Storage, slice_: FileSlice) -> str:
    """Return the absolute URI of a file, spelled in a view as the source spells it."""
    place = storage.resolve(slice_.path)
    if not slice_.path.startswith(SPELLED):
        return "file://" + quote(place)
    return "file://" + quote(place.removesuffix(decoded(slice_.path))) + slice_.path.removeprefix(SPELLED)


def encode_z85(data: bytes) -> str:
    """Encode bytes as Z85 text: four bytes become five digits. The length must be a multiple of four."""
    out = bytearray()
    for (number,) in struct.iter_unpack(">I", data):
        out += bytes(Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return out.decode()


def _payload(hidden: BitMap) -> bytes:
    """Encode a bitmap in the portable form: magic, number of 32-bit bitmaps, high 32 bits, the bitmap."""
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
        "stats": _statistics(file),
    }
    if len(file.positions) < file.rows:
        add["deletionVector"] = vectors.add(_hidden(file))
    return add


def _partition_values(slice_: FileSlice, schema: Schema) -> dict[str, str | None]:
    """Return the partition values as text for the log.

    A timestamp without a zone becomes an instant, so that every reader reads the same time.
    """
    values = dict(slice_.partition)
    for column in schema.columns:
        if column.partition and column.type.name == "timestamp":
            values[column.physical[0]] = _instant(column, values.get(column.physical[0]))
    return values


def _instant(column: Column, text: str | None) -> str | None:
    local = date_texts(partition_array(column, text, 1))[0]
    return None if local is None else local.replace(" ", "T")


def _statistics(file: ShownFile) -> str:
    """Return the source's statistics, marked as not tight: the shown rows may not reach min or max.

    Numbers stay as they are written: a decimal of many digits would not survive as a double.
    """
    stats = file.slice_.stats
    text = stats.text if isinstance(stats, DeltaStatistics) and is_readable(stats.text) else "{}"
    verbatim = orjson.Fragment
    known = json.loads(text, parse_float=verbatim, parse_int=verbatim, parse_constant=verbatim)
    return orjson.dumps({**known, "numRecords": file.rows, "tightBounds": False}).decode()


def _protocol(table: ViewTable, schema: Schema) -> Action:
    """Return a protocol with the source's reader features and deletion vectors.

    The only feature that concerns writers alone is `invariants`.
    """
    readers = {*table.reader_features, "deletionVectors"}
    if any(leaf.type.name == "timestamp_ntz" for leaf in schema.leaves()):
        readers.add("timestampNtz")
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted(readers),
        # Non-nullable columns need the writer feature `invariants`.
        "writerFeatures": sorted(readers | {"invariants"}),
    }


def _metadata(table: ViewTable, now: int) -> Action:
    return {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(table.schema),
        "partitionColumns": list(table.partition_columns),
        "configuration": {**table.configuration, "delta.enableDeletionVectors": "true"},
        "createdTime": now,
    }
