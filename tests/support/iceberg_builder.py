"""Iceberg tables of a Hadoop catalog, written by hand: metadata as JSON, manifests as Avro, files as Parquet.

Every file is written as the specification has it; what a table means is for whoever builds it to know.
"""

from __future__ import annotations

import datetime
import gzip
import json
import random
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

Json = dict[str, Any]
EXISTING, ADDED, DELETED = 0, 1, 2
DATA, POSITIONS, EQUALITY = 0, 1, 2
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001
PATH_ID, POSITION_ID = 2147483546, 2147483545
AVRO = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
}
MAGIC = 1681511377


@dataclass(frozen=True)
class Written:
    """A file as a manifest has it: `entry` by name of the field, `partition` by id of the partition field."""

    path: str
    entry: Mapping[str, Any]
    spec: int = 0
    partition: Mapping[int, Any] = field(default_factory=dict)
    sequence: int = 0

    @property
    def content(self) -> int:
        """Data, position deletes or equality deletes."""
        return int(self.entry["content"])


def iceberg_type(type_: pa.DataType) -> Any:
    """The name of a leaf type in Iceberg."""
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision}, {type_.scale})"
    if pa.types.is_timestamp(type_):
        return "timestamptz" if type_.tz else "timestamp"
    names = {
        pa.bool_(): "boolean",
        pa.int32(): "int",
        pa.int64(): "long",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.binary(): "binary",
        pa.date32(): "date",
    }
    return names[type_]


def single(value: Any, type_: Any) -> bytes:
    """A value as single-value serialization has it; `type_`: the Iceberg type at the time of writing."""
    if isinstance(value, bool):
        return b"\x01" if value else b"\x00"
    if isinstance(value, Decimal):
        unscaled = int("".join(map(str, value.as_tuple().digits))) * (-1 if value.is_signed() else 1)
        return unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
    if isinstance(value, datetime.datetime):
        since = value.replace(tzinfo=None) - EPOCH
        return struct.pack("<q", (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
    if isinstance(value, datetime.date):
        return struct.pack("<i", value.toordinal() - EPOCH.toordinal())
    if isinstance(value, (int, float)):
        return struct.pack({"int": "<i", "long": "<q", "float": "<f", "double": "<d"}[type_], value)
    return value.encode() if isinstance(value, str) else bytes(value)


def bounds_of(values: Sequence[Any], type_: Any) -> tuple[bytes | None, bytes | None]:
    """The least and greatest value as a manifest has them; texts are cut to 16 characters."""
    known = [v for v in values if v is not None and v == v]
    if not known:
        return None, None
    if type_ == "string":
        known.sort(key=lambda text: text.encode("utf-8", "surrogatepass"))
        low, high = known[0][:16], known[-1]
        if len(high) > 16:
            cut = high[:16]
            last = ord(cut[-1]) + 1
            if last > 0x10FFFF or 0xD800 <= last < 0xE000:
                return low.encode(), None
            high = cut[:-1] + chr(last)
        return low.encode(), high.encode()
    return single(min(known), type_), single(max(known), type_)


class IcebergBuilder:
    """Writes the files of one table; `root` is also its location unless another one is given."""

    def __init__(self, root: str, rng: random.Random, version: int = 2, location: str = "") -> None:
        self.root, self.rng, self.version = Path(root), rng, version
        self.location = location or rng.choice((root, f"file:{root}", f"file://{root}"))
        self.uuid = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        self.schemas: list[Json] = []
        self.schema = 0
        self.specs: list[Json] = [{"spec-id": 0, "fields": []}]
        self.spec = 0
        self.snapshots: list[Json] = []
        self.current: int | None = None
        self.refs: dict[str, Json] = {}
        self.log: list[Json] = []
        self.properties: dict[str, str] = {}
        self.sequence = 0
        self.clock_ms = 1_700_000_000_000
        self.number = 0
        self.gz = rng.random() < 0.2
        self.lags = rng.random() < 0.3
        (self.root / "metadata").mkdir(parents=True, exist_ok=True)
        (self.root / "data").mkdir(exist_ok=True)

    def named(self, rel: str) -> str:
        """The path of a file as metadata has it."""
        return f"{self.location}/{rel}"

    def _new(self, suffix: str, folder: str = "data") -> str:
        return f"{folder}/{self.rng.getrandbits(64):016x}{suffix}"

    def metadata(self) -> Json:
        """The table's metadata as it is now."""
        fields = self.specs[self.spec]["fields"]
        out: Json = {
            "format-version": self.version,
            "table-uuid": self.uuid,
            "location": self.location,
            "last-updated-ms": self.clock_ms,
            "last-column-id": 1000,
            "schemas": self.schemas,
            "current-schema-id": self.schema,
            "partition-specs": self.specs,
            "default-spec-id": self.spec,
            "last-partition-id": 1100,
            "properties": self.properties,
            "current-snapshot-id": -1 if self.current is None else self.current,
            "snapshots": self.snapshots,
            "snapshot-log": self.log,
            "refs": self.refs,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
        }
        if self.version == 1:
            out |= {"schema": self.schemas[self.schema], "partition-spec": fields}
        else:
            out["last-sequence-number"] = self.sequence
        return out

    def commit(self) -> None:
        """Write the metadata as the next version; the hint may stay behind."""
        self.number += 1
        self.clock_ms += self.rng.randint(1, 5000)
        data = json.dumps(self.metadata()).encode()
        suffix = ".gz.metadata.json" if self.gz else ".metadata.json"
        name = self.root / "metadata" / f"v{self.number}{suffix}"
        name.write_bytes(gzip.compress(data) if self.gz else data)
        if not self.lags or self.number == 1 or self.rng.random() < 0.2:
            (self.root / "metadata" / "version-hint.text").write_text(str(self.number))

    def data_file(
        self,
        rows: pa.Table,
        fields: Sequence[Json],
        partition: Mapping[int, Any],
        spec: int | None = None,
        folder: str | None = None,
        left_out: int = 0,
        **options: Any,
    ) -> Written:
        """Write a data file; `rows` have the fields of a schema in its order.

        `folder`: write a file without field ids into it, whose columns are named by `imported_name`, as if it
        were imported; it lacks the column of the id `left_out`.
        """
        rel = self._new(".parquet", folder or "data")
        (self.root / rel).parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([with_ids(f, col.type) for f, col in zip(fields, rows.columns, strict=True)])
        table = pa.Table.from_arrays(
            [c.combine_chunks().cast(f.type) for c, f in zip(rows.columns, schema, strict=True)],
            schema=schema,
        )
        stats = self._stats(table, fields)
        if folder is not None:
            named = {f["id"]: imported(f, table[n].combine_chunks()) for n, f in enumerate(fields)}
            named.pop(left_out, None)
            table = pa.table(list(named.values()), names=[imported_name(id_) for id_ in named])
        pq.write_table(table, self.root / rel, store_schema=False, **options)
        return self._written(rel, DATA, len(table), self.spec if spec is None else spec, partition, stats)

    def _stats(self, table: pa.Table, fields: Sequence[Json]) -> Json:
        nulls, nans, lower, upper = [], [], [], []
        for f, column in zip(fields, table.columns, strict=True):
            if not isinstance(f["type"], str) or self.rng.random() < 0.2:
                continue
            values, key = column.to_pylist(), f["id"]
            nulls.append({"key": key, "value": column.null_count})
            if f["type"] in ("float", "double") and self.rng.random() < 0.8:
                nans.append({"key": key, "value": sum(v is not None and v != v for v in values)})
            low, high = bounds_of(values, f["type"])
            lower += [] if low is None else [{"key": key, "value": low}]
            upper += [] if high is None else [{"key": key, "value": high}]
        return {
            "null_value_counts": nulls,
            "nan_value_counts": nans,
            "lower_bounds": lower,
            "upper_bounds": upper,
        }

    def _written(
        self, rel: str, content: int, rows: int, spec: int, partition: Mapping[int, Any], more: Json
    ) -> Written:
        entry = {
            "content": content,
            "file_path": self.named(rel),
            "file_format": "PARQUET",
            "record_count": rows,
            "file_size_in_bytes": (self.root / rel).stat().st_size,
            "column_sizes": None,
            "value_counts": None,
            "null_value_counts": None,
            "nan_value_counts": None,
            "lower_bounds": None,
            "upper_bounds": None,
            "key_metadata": None,
            "equality_ids": None,
            "referenced_data_file": None,
            "content_offset": None,
            "content_size_in_bytes": None,
            **more,
        }
        return Written(rel, entry, spec, partition)

    def position_deletes(self, hidden: Mapping[str, Sequence[int]], like: Written, bounded: bool) -> Written:
        """Write position deletes of data files of one partition; `bounded`: say which file if it is one."""
        rel = self._new("-deletes.parquet")
        pairs = sorted((self.named(path), row) for path, rows in hidden.items() for row in rows)
        schema = pa.schema(
            [_field("file_path", pa.string(), PATH_ID), _field("pos", pa.int64(), POSITION_ID)]
        )
        columns = [[path for path, _ in pairs], [row for _, row in pairs]]
        pq.write_table(pa.table(columns, schema=schema), self.root / rel, store_schema=False)
        more: Json = {}
        if bounded and len(hidden) == 1:
            path = pairs[0][0]
            if self.rng.random() < 0.5:
                more["referenced_data_file"] = path
            else:
                ends = [{"key": PATH_ID, "value": path.encode()}]
                more |= {"lower_bounds": ends, "upper_bounds": ends}
        return self._written(rel, POSITIONS, len(pairs), like.spec, like.partition, more)

    def vectors(self, hidden: Mapping[str, Sequence[int]], like: Mapping[str, Written]) -> list[Written]:
        """Write deletion vectors of some data files into one Puffin file."""
        rel, blob = self._new("-deletes.puffin"), bytearray(b"PFA1")
        places = {}
        for path, rows in hidden.items():
            body = struct.pack("<iqI", MAGIC, 1, 0) + BitMap(rows).serialize()
            frame = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
            places[path] = (len(blob), len(frame))
            blob += frame
        (self.root / rel).write_bytes(bytes(blob) + b"PFA1")
        return [
            self._written(
                rel,
                POSITIONS,
                len(hidden[path]),
                like[path].spec,
                like[path].partition,
                {
                    "file_format": "PUFFIN",
                    "referenced_data_file": self.named(path),
                    "content_offset": offset,
                    "content_size_in_bytes": length,
                },
            )
            for path, (offset, length) in places.items()
        ]

    def equality_deletes(
        self, rows: pa.Table, fields: Sequence[Json], spec: int, partition: Mapping[int, Any]
    ) -> Written:
        """Write an equality delete file of some key columns."""
        rel = self._new("-equal.parquet")
        schema = pa.schema([with_ids(f, col.type) for f, col in zip(fields, rows.columns, strict=True)])
        pq.write_table(pa.Table.from_arrays(rows.columns, schema=schema), self.root / rel, store_schema=False)
        more = {"equality_ids": [f["id"] for f in fields], **self._stats(rows, fields)}
        return self._written(rel, EQUALITY, len(rows), spec, partition, more)

    def manifest(
        self, entries: Sequence[tuple[int, Written]], spec: int, deletes: bool, snapshot: int
    ) -> Json:
        """Write a manifest of entries with their status; its description for a manifest list.

        The sequence number of an added file is left out, and inherited, unless the file has an older one.
        """
        rel = self._new("-m0.avro", "metadata")
        fields = self.specs[spec]["fields"]
        schema = entry_schema([(f, self._result(f)) for f in fields], self.version)
        records = []
        for status, file in entries:
            inherits = status == ADDED and file.sequence in (0, self.sequence)
            sequence = None if inherits else file.sequence
            by_name = {f["name"]: file.partition.get(f["field-id"]) for f in fields}
            records.append(
                {
                    "status": status,
                    "snapshot_id": snapshot,
                    "sequence_number": sequence,
                    "file_sequence_number": sequence,
                    "data_file": {**file.entry, "partition": by_name, "block_size_in_bytes": 64},
                }
            )
        header = {
            "schema": json.dumps(self.schemas[self.schema]),
            "partition-spec": json.dumps(fields),
            "partition-spec-id": str(spec),
            "format-version": str(self.version),
            "content": "deletes" if deletes else "data",
        }
        with (self.root / rel).open("wb") as out:
            fastavro.writer(out, schema, records, codec=self.rng.choice(("null", "deflate")), metadata=header)
        counts = [sum(status == wanted for status, _ in entries) for wanted in (ADDED, EXISTING, DELETED)]
        return {
            "manifest_path": self.named(rel),
            "manifest_length": (self.root / rel).stat().st_size,
            "partition_spec_id": spec,
            "content": int(deletes),
            "sequence_number": self.sequence,
            "min_sequence_number": 0,
            "added_snapshot_id": snapshot,
            "added_files_count": counts[0],
            "existing_files_count": counts[1],
            "deleted_files_count": counts[2],
            "added_rows_count": 0,
            "existing_rows_count": 0,
            "deleted_rows_count": 0,
        }

    def _result(self, partition_field: Json) -> Any:
        """The Iceberg type of a partition field's values."""
        transform, source = partition_field["transform"], partition_field["source-id"]
        if transform == "day":
            return "date"
        if transform in ("year", "month", "hour") or transform.startswith("bucket"):
            return "int"
        kinds = [f["type"] for schema in self.schemas for f in schema["fields"] if f["id"] == source]
        return kinds[-1]

    def new_snapshot(self) -> int:
        """Draw the id of a new snapshot and raise the sequence number."""
        if self.version > 1:
            self.sequence += 1
        return self.rng.getrandbits(62) + 1

    def add_snapshot(self, id_: int, manifests: Sequence[Json], operation: str, to_main: bool = True) -> None:
        """Write the manifest list of a snapshot, and make it the current one."""
        self.clock_ms += self.rng.randint(1, 5000)
        snapshot: Json = {
            "snapshot-id": id_,
            "timestamp-ms": self.clock_ms,
            "summary": {"operation": operation},
            "schema-id": self.schema,
        }
        if self.current is not None:
            snapshot["parent-snapshot-id"] = self.current
        if self.version > 1:
            snapshot["sequence-number"] = self.sequence
        if (
            self.version == 1
            and self.rng.random() < 0.3
            and all(m["partition_spec_id"] == 0 for m in manifests)
        ):
            snapshot["manifests"] = [m["manifest_path"] for m in manifests]
        else:
            rel = f"metadata/snap-{id_}-{self.rng.getrandbits(32):08x}.avro"
            with (self.root / rel).open("wb") as out:
                fastavro.writer(out, list_schema(self.version), manifests)
            snapshot["manifest-list"] = self.named(rel)
        self.snapshots.append(snapshot)
        if to_main:
            self.set_current(id_)

    def set_current(self, id_: int) -> None:
        """Make a snapshot the current one of `main`."""
        self.current = id_
        self.refs["main"] = {"snapshot-id": id_, "type": "branch"}
        self.log.append({"timestamp-ms": self.clock_ms, "snapshot-id": id_})


def _field(name: str, type_: pa.DataType, id_: int) -> pa.Field:
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(id_)})


def imported_name(id_: int) -> str:
    """The name of a column in files without ids, which the table's name mapping has."""
    return f"n{id_}"


def imported(field_: Json, values: pa.Array) -> pa.Array:
    """Values of a column whose inner fields are named as in files without ids."""
    if not pa.types.is_struct(values.type):
        return values.cast(pa.list_(values.type.value_type)) if pa.types.is_list(values.type) else values
    inner = field_["type"]["fields"]
    parts = [imported(f, values.field(n)) for n, f in enumerate(inner)]
    return pa.StructArray.from_arrays(
        parts, names=[imported_name(f["id"]) for f in inner], mask=values.is_null()
    )


def with_ids(field_: Json, type_: pa.DataType) -> pa.Field:
    """A field of a data file with the ids of an Iceberg field, at any depth."""
    kind = field_["type"]
    if isinstance(kind, dict) and kind["type"] == "struct":
        type_ = pa.struct([with_ids(inner, type_.field(n).type) for n, inner in enumerate(kind["fields"])])
    elif isinstance(kind, dict) and kind["type"] == "list":
        type_ = pa.list_(_field("element", type_.value_type, kind["element-id"]))
    return _field(field_["name"], type_, field_["id"])


def _map(name: str, id_: int, key: int, value: int, type_: str) -> Json:
    record = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [
            {"name": "key", "type": "int", "field-id": key},
            {"name": "value", "type": type_, "field-id": value},
        ],
    }
    array = {"type": "array", "items": record, "logicalType": "map"}
    return {"name": name, "type": ["null", array], "default": None, "field-id": id_}


def _maybe(name: str, type_: Any, id_: int) -> Json:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": id_}


def _avro(type_: Any, name: str) -> Any:
    if type_.startswith("decimal"):
        precision, scale = (int(part) for part in type_[len("decimal(") : -1].split(","))
        size = next(n for n in range(1, 20) if 2 ** (8 * n - 1) > 10**precision)
        return {
            "type": "fixed",
            "name": f"d_{name}",
            "size": size,
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
        }
    return AVRO[type_]


def entry_schema(fields: Sequence[tuple[Json, Any]], version: int) -> Json:
    """The Avro schema of a manifest's entries; `fields`: those of the spec with the types of their values."""
    partition = [_maybe(f["name"], _avro(type_, f["name"]), f["field-id"]) for f, type_ in fields]
    data: list[Json] = [
        *([{"name": "content", "type": "int", "field-id": 134}] if version > 1 else []),
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {
            "name": "partition",
            "type": {"type": "record", "name": "r102", "fields": partition},
            "field-id": 102,
        },
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
        *([{"name": "block_size_in_bytes", "type": "long", "field-id": 105}] if version == 1 else []),
        _map("column_sizes", 108, 117, 118, "long"),
        _map("value_counts", 109, 119, 120, "long"),
        _map("null_value_counts", 110, 121, 122, "long"),
        _map("nan_value_counts", 137, 138, 139, "long"),
        _map("lower_bounds", 125, 126, 127, "bytes"),
        _map("upper_bounds", 128, 129, 130, "bytes"),
        _maybe("key_metadata", "bytes", 131),
    ]
    if version > 1:
        ids = {"type": "array", "items": "int", "element-id": 136}
        data += [_maybe("equality_ids", ids, 135), _maybe("referenced_data_file", "string", 143)]
        data += [_maybe("content_offset", "long", 144), _maybe("content_size_in_bytes", "long", 145)]
    sequences = [_maybe("sequence_number", "long", 3), _maybe("file_sequence_number", "long", 4)]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int", "field-id": 0},
            _maybe("snapshot_id", "long", 1),
            *(sequences if version > 1 else []),
            {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": data}, "field-id": 2},
        ],
    }


def list_schema(version: int) -> Json:
    """The Avro schema of a manifest list."""
    counts = zip(("added", "existing", "deleted"), (504, 505, 506), (512, 513, 514), strict=True)
    fields: list[Json] = [
        {"name": "manifest_path", "type": "string", "field-id": 500},
        {"name": "manifest_length", "type": "long", "field-id": 501},
        {"name": "partition_spec_id", "type": "int", "field-id": 502},
    ]
    if version > 1:
        fields += [
            {"name": "content", "type": "int", "field-id": 517},
            {"name": "sequence_number", "type": "long", "field-id": 515},
            {"name": "min_sequence_number", "type": "long", "field-id": 516},
        ]
    fields.append({"name": "added_snapshot_id", "type": "long", "field-id": 503})
    for name, files, rows in counts:
        fields.append({"name": f"{name}_files_count", "type": "int", "field-id": files})
        fields.append({"name": f"{name}_rows_count", "type": "long", "field-id": rows})
    return {"type": "record", "name": "manifest_file", "fields": fields}
