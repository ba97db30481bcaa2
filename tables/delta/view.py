"""A Delta view of a table of any format: a log over its data files, and vectors that hide rows not selected.

No data is copied: an add action names a data file of the source by absolute path, and a deletion vector hides
every row that was not selected. The metadata of a view of a Delta table are those of the table. For a table
of another format they are made from its columns and the footers of the shown files. A file whose columns have
narrower types than the table's needs Delta's type widening; a file from which Delta's readers would read
other values is refused by name. The caller writes commit 0 and the file of deletion vectors. Source: Delta
protocol, Add File and Remove File, Deletion Vectors, Per-file Statistics, Type Widening.
"""

from __future__ import annotations

import json
import struct
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import UsageError
from tailbit.tables.ahead import in_order
from tailbit.tables.date_text import date_texts
from tailbit.tables.delta.deletion_vectors import Z85, DeletionVector
from tailbit.tables.delta.protocol import Protocol
from tailbit.tables.delta.snapshot import DeltaSnapshot
from tailbit.tables.delta.statistics import DeltaStatistics, is_readable
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import DataFile, open_data_file
from tailbit.tables.parquet.decode import declared_type, find_column_in, find_field
from tailbit.tables.parquet.file import ParquetNode, plain_type
from tailbit.tables.parquet.rows import Positions
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import PORTABLE_MAGIC, bitmap_of
from tailbit.tables.schema import Schema, arrow_type
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import SPELLED, Storage, decoded

Path = tuple[str, ...]

_KEPT_SETTINGS = ("delta.columnMapping.mode", "delta.columnMapping.maxColumnId")
_KEPT_METADATA = ("delta.columnMapping.", "delta.typeChanges", "__")
"""Prefixes of field metadata that readers need; other metadata are for writers, and need writer features."""

_PLAIN = frozenset(
    "boolean byte short integer long float double string binary date timestamp timestamp_ntz".split()
)
"""Types that have the same name in Delta."""
_WIDENED = {pa.int8(): "byte", pa.int16(): "short", pa.int32(): "integer"}
"""Stored types that Delta's readers widen to `short`, `integer`, `long` or `double`, with Delta's names."""
_WIDER = ("byte", "short", "integer", "long")
_INSTEAD = "Write the rows instead: `read` gives them as Arrow."


@dataclass(frozen=True)
class ViewTable:
    """The metadata of a view. `schema`: a Delta struct, as JSON values."""

    schema: Any
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    reader_features: frozenset[str] = frozenset()


def view_table(snapshot: Snapshot, schema: Schema, storage: Storage, shown: Sequence[FileSlice]) -> ViewTable:
    """Return the metadata of a view over data files of a snapshot.

    Cost: nothing for a Delta table; for a table of another format, the footers of the files.
    """
    if isinstance(snapshot, DeltaSnapshot):
        return _of_delta(snapshot)
    _check_are_files(snapshot, storage, shown)
    stored = _Stored()
    for differences in in_order(partial(_compared, schema, storage, slice_) for slice_ in shown):
        stored.absent |= differences.absent
        for path, types in differences.narrower.items():
            stored.narrower.setdefault(path, set()).update(types)
    return ViewTable(
        stored.struct(schema.columns),
        tuple(column.name[0] for column in schema.columns if column.partition),
        reader_features=frozenset({"typeWidening"} if stored.narrower else ()),
    )


def _of_delta(snapshot: DeltaSnapshot) -> ViewTable:
    configuration = {k: v for k, v in snapshot.configuration.items() if k in _KEPT_SETTINGS}
    schema = _readable(json.loads(snapshot.metadata.schema_text))
    features = _features(snapshot.protocol, configuration)
    return ViewTable(schema, tuple(snapshot.partition_columns), configuration, features)


def _features(source: Protocol, configuration: Mapping[str, str]) -> frozenset[str]:
    """Return the source's reader features, without the one that concerns only VACUUM."""
    features = set(source.reader_features) - {"vacuumProtocolCheck"}
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    return frozenset(features)


def _readable(schema: Any) -> Any:
    """Return a schema, or a part of a schema, with only the field metadata that readers need.

    Defaults and generation expressions are dropped.
    """
    if isinstance(schema, list):
        return [_readable(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: value if key == "metadata" else _readable(value) for key, value in schema.items()}
    if isinstance(schema.get("metadata"), dict) and "name" in schema:
        out["metadata"] = {k: v for k, v in schema["metadata"].items() if k.startswith(_KEPT_METADATA)}
    return out


def _check_are_files(snapshot: Snapshot, storage: Storage, shown: Iterable[FileSlice]) -> None:
    """Check that all shown rows lie in files that other engines read, and none in blocks of log files."""
    blocks = [slice_.path for slice_ in shown if not storage.is_file(slice_.path)]
    if blocks:
        raise UsageError(
            reason=f"rows of {snapshot.root} lie in {len(blocks)} blocks of log files, such as {blocks[0]},"
            " which other engines cannot read as data files",
            hint=f"Compact the table, or ask for a version without pending logs. {_INSTEAD}",
        )


@dataclass
class _Stored:
    """The differences between the types that the shown files store and the table's, by physical path.

    `narrower`: stored types narrower than the table's, by Delta's names. `absent`: columns that a file lacks.
    """

    narrower: dict[Path, set[str]] = field(default_factory=dict)
    absent: set[Path] = field(default_factory=set)

    def struct(self, columns: Iterable[Column]) -> Any:
        """Return columns as a struct of Delta's schema."""
        return {"type": "struct", "fields": [self._field(column) for column in columns]}

    def _field(self, column: Column) -> Any:
        nullable = column.nullable or column.physical in self.absent
        changes = list(self._changes(column, ()))
        metadata = {"delta.typeChanges": changes} if changes else {}
        return {
            "name": column.name[-1],
            "type": self._type(column),
            "nullable": nullable,
            "metadata": metadata,
        }

    def _type(self, column: Column) -> Any:
        kind, inner = column.type.name, column.type.fields
        if kind == "struct":
            return self.struct(inner)
        if kind == "array":
            return {"type": "array", "elementType": self._type(inner[0]), "containsNull": inner[0].nullable}
        if kind == "map":
            types = {"keyType": self._type(inner[0]), "valueType": self._type(inner[1])}
            return {"type": "map", **types, "valueContainsNull": inner[1].nullable}
        if kind not in _PLAIN and kind != "decimal":
            raise UsageError(
                reason=f"column {column.label} is of type {kind}, which no data frame has", hint=_INSTEAD
            )
        return str(column.type)

    def _changes(self, column: Column, below: Path) -> Iterator[Any]:
        """Yield the type changes of a field; a change of an element, key or value has a path in the field."""
        for narrow in sorted(self.narrower.get(column.physical, ())):
            change = {"fromType": narrow, "toType": str(column.type)}
            yield {**change, "fieldPath": ".".join(below)} if below else change
        if column.type.name in ("array", "map"):
            for inner in column.type.fields:
                yield from self._changes(inner, (*below, inner.name[-1]))


def _compared(schema: Schema, storage: Storage, slice_: FileSlice, alone: bool) -> _Stored:
    """Compare the columns of a file with those of the table; `alone` (of `in_order`) is ignored."""
    file, stored = open_data_file(storage, slice_.path), _Stored()
    for column in schema.columns:
        if not column.partition:
            node = _node_of(file, file.tree, column)
            if column.is_null_in(slice_.path) and not _is_null(file, node):
                raise UsageError(
                    reason=f"data file {file.path} lies in the folder of NULL of {column.label}, and holds"
                    " another value: other engines would read that",
                    hint=_INSTEAD,
                )
            _compare(file, column, node, stored)
    return stored


def _node_of(file: DataFile, above: ParquetNode, column: Column) -> ParquetNode | None:
    """Return the field of a column in a file; None if the file lacks it."""
    if not column.field_ids:
        return find_field(above, column.physical[-1], None, file.path)
    node = find_column_in(above, column, file.path)
    named = find_field(above, column.name[-1], None, file.path)
    if node is not named or (node is None and (column.default is not None or column.in_folder)):
        raise UsageError(
            reason=f"data file {file.path} does not hold {column.label} under that name:"
            " other engines would read other values",
            hint=f"Have the table's writer write the file anew. {_INSTEAD}",
        )
    return node


def _is_null(file: DataFile, node: ParquetNode | None) -> bool:
    """Return whether the footer of a file proves that a column is NULL in every row."""
    if node is None:
        return True
    groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    chunks = [(group.num_rows, group.column(node.first).statistics) for group in groups]
    return all(statistics is not None and statistics.null_count == rows for rows, statistics in chunks)


def _compare(file: DataFile, column: Column, node: ParquetNode | None, stored: _Stored) -> None:
    """Note how a column of a file differs from the table's."""
    if node is None:
        stored.absent.add(column.physical)
        return
    kind = column.type.name
    if kind == "struct" and node.children:
        for inner in column.type.fields:
            _compare(file, inner, _node_of(file, node, inner), stored)
    elif kind in ("array", "map") and len(node.children) == len(column.type.fields):
        for inner, child in zip(column.type.fields, node.children, strict=True):
            _compare(file, inner, child, stored)
    elif not _is_read_as_stored(file, column, node):
        type_ = node.field.type
        if type_ not in _WIDENED or not _widens(_WIDENED[type_], kind):
            raise UsageError(
                reason=f"data file {file.path} holds {column.label} as {type_}, the table as {column.type}:"
                " other engines would not read the same values",
                hint=f"Have the table's writer write the file anew. {_INSTEAD}",
            )
        stored.narrower.setdefault(column.physical, set()).add(_WIDENED[type_])


def _widens(narrow: str, kind: str) -> bool:
    """Return whether Delta widens whole numbers of a type to another type."""
    return kind == "double" or (kind in _WIDER and _WIDER.index(narrow) < _WIDER.index(kind))


def _is_read_as_stored(file: DataFile, column: Column, node: ParquetNode) -> bool:
    """Return whether a leaf stores exactly the type of its column, in a form that all readers understand."""
    stored, type_ = plain_type(node.field.type), arrow_type(column.type, column.label)
    if declared_type(stored, column) is not None:
        return False
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(type_):
        if str(file.metadata.schema.column(node.first).physical_type) == "INT96":
            return type_.tz is not None
        return stored.unit in ("ms", "us") and (stored.tz is None) == (type_.tz is None)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        texts = (pa.types.is_string, pa.types.is_binary, pa.types.is_fixed_size_binary)
        return any(is_of_type(stored) for is_of_type in texts)
    return bool(stored == type_)


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
    stated = json.loads(text, parse_float=verbatim, parse_int=verbatim, parse_constant=verbatim)
    return orjson.dumps({**stated, "numRecords": file.rows, "tightBounds": False}).decode()


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
