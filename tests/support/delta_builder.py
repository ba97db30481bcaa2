"""Delta tables made by hand: any commit, any log checkpoint, any deletion vector, broken ones too.

The builder keeps its own account of what is live, so that a reader can be compared with it.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from support.checkpoints import checkpoint_row, checkpoint_schema
from support.vectors import encode_z85, framed, portable

Action = dict[str, Any]

DELTA_TYPES = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def delta_type(type_: pa.DataType) -> Any:
    """The schema JSON of an Arrow type."""
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_struct(type_):
        return {"type": "struct", "fields": [field_json(f) for f in type_]}
    if pa.types.is_list(type_):
        return {"type": "array", "elementType": delta_type(type_.value_type), "containsNull": True}
    if pa.types.is_map(type_):
        return {
            "type": "map",
            "keyType": delta_type(type_.key_type),
            "valueType": delta_type(type_.item_type),
            "valueContainsNull": True,
        }
    return DELTA_TYPES[type_]


def field_json(column: pa.Field, **metadata: Any) -> Action:
    return {"name": column.name, "type": delta_type(column.type), "nullable": True, "metadata": metadata}


def schema_json(schema: pa.Schema) -> Action:
    return {"type": "struct", "fields": [field_json(f) for f in schema]}


def _spelled(name: str) -> str:
    """A path in a log as writers spell it: characters beyond ASCII stand as they are."""
    return "".join(one if ord(one) > 0xA0 else quote(one, safe="/=:;!~'()*@&+$,") for one in name)


@dataclass
class DeltaBuilder:
    """Writes a Delta table; `live` is what a reader must see, by path as written in the log."""

    path: str
    version: int = -1
    live: dict[str, Action] = field(default_factory=dict)
    protocol: Action = field(default_factory=lambda: {"minReaderVersion": 1, "minWriterVersion": 2})
    metadata: Action = field(default_factory=dict)
    history: list[dict[str, Action]] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return Path(self.path) / "_delta_log"

    def create(
        self,
        schema: pa.Schema | Action,
        partition_by: Sequence[str] = (),
        configuration: dict[str, str] | None = None,
        features: Sequence[str] = (),
        reader_version: int | None = None,
    ) -> DeltaBuilder:
        """Commit 0: protocol and metadata. With `features`, protocol (3, 7)."""
        self.log.mkdir(parents=True, exist_ok=True)
        if features:
            self.protocol = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": list(features),
                "writerFeatures": list(features),
            }
        if reader_version is not None:
            self.protocol["minReaderVersion"] = reader_version
        self.metadata = self.metadata_action(schema, partition_by, configuration)
        self.commit([{"protocol": self.protocol}, {"metaData": self.metadata}])
        return self

    def create_without_columns(self, features: Sequence[str] = ()) -> DeltaBuilder:
        """Commit 0 as Delta Live Tables writes it: the metadata sets no schema yet."""
        self.create(pa.schema([]), features=features)
        del self.metadata["schemaString"]
        self.version -= 1
        self.history.pop()
        self.commit([{"protocol": self.protocol}, {"metaData": self.metadata}])
        return self

    def metadata_action(
        self,
        schema: pa.Schema | Action,
        partition_by: Sequence[str] = (),
        configuration: dict[str, str] | None = None,
        table_id: str | None = None,
    ) -> Action:
        text = json.dumps(schema if isinstance(schema, dict) else schema_json(schema))
        return {
            "id": table_id or str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": text,
            "partitionColumns": list(partition_by),
            "configuration": configuration or {},
            "createdTime": 1,
        }

    def commit(
        self, actions: Sequence[Action], version: int | None = None, info: Action | None = None
    ) -> int:
        """Write the next commit, its lines in the order given; keeps the account of what is live."""
        self.version = self.version + 1 if version is None else version
        lines = [{"commitInfo": {"timestamp": 1, "operation": "TEST", **(info or {})}}, *actions]
        text = "\n".join(json.dumps(line) for line in lines) + "\n"
        self.write_commit(self.version, text.encode())
        gone = [a["remove"]["path"] for a in actions if "remove" in a]
        for path in gone:
            self.live.pop(path, None)
        self.live.update({a["add"]["path"]: a["add"] for a in actions if "add" in a})
        self.protocol = next((a["protocol"] for a in actions if "protocol" in a), self.protocol)
        self.metadata = next((a["metaData"] for a in actions if "metaData" in a), self.metadata)
        self.history.append(dict(self.live))
        return self.version

    def write_commit(self, version: int, data: bytes) -> None:
        """Write the bytes of a commit as they are; nobody sees half of them."""
        self.log.mkdir(parents=True, exist_ok=True)
        unfinished = self.log / f".{version:020d}.json.tmp"
        unfinished.write_bytes(data)
        unfinished.replace(self.log / f"{version:020d}.json")

    @classmethod
    def of(cls, path: str) -> DeltaBuilder:
        """Goes on by hand where another writer has stopped; `live` stays empty."""
        return cls(path, max(int(commit.stem) for commit in Path(path, "_delta_log").glob("*.json")))

    def data_file(
        self,
        table: pa.Table,
        name: str | None = None,
        partition: dict[str, str | None] | None = None,
        stats: bool = True,
        absolute: bool = False,
        **options: Any,
    ) -> Action:
        """Write a Parquet file; the add action for it, not yet committed. `name` is decoded."""
        name = name or f"part-{uuid.uuid4()}.parquet"
        target = Path(name) if os.path.isabs(name) else Path(self.path) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target, **options)
        found = target.stat()
        path = "file://" + quote(str(target)) if absolute else _spelled(name)
        add: Action = {
            "path": path,
            "partitionValues": partition or {},
            "size": found.st_size,
            "modificationTime": found.st_mtime_ns // 1_000_000,
            "dataChange": True,
        }
        if stats:
            add["stats"] = json.dumps({"numRecords": table.num_rows})
        return {"add": add}

    def remove(self, path: str) -> Action:
        """The remove action of a live file."""
        add = self.live[path]
        body = {
            "path": path,
            "deletionTimestamp": 1,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": add["partitionValues"],
            "size": add["size"],
        }
        if add.get("deletionVector"):
            body["deletionVector"] = add["deletionVector"]
        return {"remove": body}

    def hide(self, path: str, vector: Action | None) -> list[Action]:
        """Remove and add of a live file with other hidden rows, add first: order must not matter."""
        add = {k: v for k, v in self.live[path].items() if k != "deletionVector"}
        if vector is not None:
            add["deletionVector"] = vector
        return [{"add": add}, self.remove(path)]

    def inline_vector(
        self, rows: Iterable[int], payload: Callable[[Iterable[int]], bytes] = portable
    ) -> Action:
        """The descriptor of an inline deletion vector."""
        rows = list(rows)
        data = payload(rows)
        return {
            "storageType": "i",
            "pathOrInlineDv": encode_z85(data),
            "sizeInBytes": len(data),
            "cardinality": len(rows),
        }

    def stored_vectors(
        self,
        *sets: Iterable[int],
        prefix: str = "",
        absolute: str | None = None,
        payload: Callable[[Iterable[int]], bytes] = portable,
    ) -> list[Action]:
        """Write deletion vectors into one file; their descriptors (u, or p where `absolute` is a folder)."""
        number = uuid.uuid4()
        folder = Path(absolute) if absolute is not None else Path(self.path) / prefix
        folder.mkdir(parents=True, exist_ok=True)
        data, out = b"\x01", []
        target = folder / f"deletion_vector_{number}.bin"
        for rows in sets:
            listed = list(rows)
            body = payload(listed)
            where = encode_z85(number.bytes) if absolute is None else "file://" + quote(str(target))
            out.append(
                {
                    "storageType": "u" if absolute is None else "p",
                    "pathOrInlineDv": f"{prefix}{where}" if absolute is None else where,
                    "offset": len(data),
                    "sizeInBytes": len(body),
                    "cardinality": len(listed),
                }
            )
            data += framed(body)
        target.write_bytes(data)
        return out

    def checkpoint(self, form: str = "classic", parts: int = 1, stats_as_struct: bool = False) -> list[Path]:
        """Write a log checkpoint of the current version: classic, multipart, v2-json, v2-parquet."""
        rows: list[Action] = [{"protocol": self.protocol}, {"metaData": self.metadata}]
        adds = [{"add": a} for a in self.live.values()]
        base = f"{self.version:020d}.checkpoint"
        if form == "classic":
            return [self._rows_file(f"{base}.parquet", rows + adds, stats_as_struct)]
        if form == "multipart":
            pieces = [(rows + adds)[i::parts] for i in range(parts)]
            names = [f"{base}.{i + 1:010d}.{parts:010d}.parquet" for i in range(parts)]
            return [self._rows_file(n, piece) for n, piece in zip(names, pieces, strict=True)]
        sidecars = []
        for i in range(parts):
            name = f"{uuid.uuid4()}.parquet"
            written = self._rows_file(f"_sidecars/{name}", adds[i::parts])
            size = written.stat().st_size
            sidecars.append({"sidecar": {"path": name, "sizeInBytes": size, "modificationTime": 1}})
        rows = [{"checkpointMetadata": {"version": self.version}}, *rows, *sidecars]
        if form == "v2-parquet":
            return [self._rows_file(f"{base}.{uuid.uuid4()}.parquet", rows)]
        target = self.log / f"{base}.{uuid.uuid4()}.json"
        target.write_text("\n".join(json.dumps(row) for row in rows))
        return [target]

    def _rows_file(self, name: str, rows: list[Action], stats_as_struct: bool = False) -> Path:
        target = self.log / name
        target.parent.mkdir(parents=True, exist_ok=True)
        schema = checkpoint_schema(stats_as_struct)
        pq.write_table(
            pa.Table.from_pylist([checkpoint_row(r, stats_as_struct) for r in rows], schema), target
        )
        return target
