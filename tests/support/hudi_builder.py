"""Hand-made Hudi tables, COPY_ON_WRITE: data files with Hudi's own columns, and commits that name them."""

from __future__ import annotations

import json
import random
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.hudi_timeline import HudiTimeline, Instant

COMMIT_TIME, SEQUENCE, KEY, FOLDER, FILE_NAME = META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
PRIMITIVES = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
}


@dataclass(frozen=True)
class BaseFile:
    """A data file of a file group, written for one instant. `path` is that below the table's root."""

    file_id: str
    folder: str
    path: str
    requested: str
    previous: str | None
    """The path of the file before it in its group."""
    rows: int
    size: int

    @property
    def name(self) -> str:
        """The name without its folder."""
        return Path(self.path).name


def avro_type(type_: pa.DataType, name: str) -> Any:
    """Spell an Arrow type as Hudi does in a commit's schema; `name` is that of the record or fixed type."""
    if type_ in PRIMITIVES:
        return PRIMITIVES[type_]
    if type_ == pa.date32():
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(type_):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if pa.types.is_decimal(type_):
        size = ((10**type_.precision).bit_length() + 8) // 8
        decimal = {"logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
        return {"type": "fixed", "name": "fixed", "namespace": name, "size": size, **decimal}
    if pa.types.is_list(type_):
        return {"type": "array", "items": ["null", avro_type(type_.value_type, f"{name}.element")]}
    assert pa.types.is_struct(type_), type_
    return {
        "type": "record",
        "name": name.rpartition(".")[2],
        "namespace": name,
        "fields": avro_fields(type_, name),
    }


def avro_fields(columns: Iterable[pa.Field], name: str) -> list[dict[str, Any]]:
    """Spell columns as Hudi does: each may be NULL."""
    return [
        {
            "name": column.name,
            "type": ["null", avro_type(column.type, f"{name}.{column.name}")],
            "default": None,
        }
        for column in columns
    ]


def avro_schema(schema: pa.Schema, table: str) -> str:
    """Spell the columns of a table as a commit holds them: Hudi's own are left out."""
    columns = [column for column in schema if column.name not in META]
    record = {"type": "record", "name": f"{table}_record", "namespace": f"hoodie.{table}"}
    return json.dumps({**record, "fields": avro_fields(columns, f"hoodie.{table}.{table}_record")})


class HudiBuilder:
    """A table in a folder, its data files and its instants."""

    def __init__(self, path: str, version: int, rng: random.Random, **properties: str) -> None:
        self.root, self.rng = Path(path), rng
        self.timeline = HudiTimeline(self.root, version, rng)
        self.timeline.properties(**properties)
        self._written = 0

    def new_group(self) -> str:
        """Return a new file id."""
        return f"{uuid.UUID(int=self.rng.getrandbits(128), version=4)}-{self.rng.randrange(3)}"

    def data_file(
        self,
        rows: pa.Table,
        requested: str,
        file_id: str,
        folder: str,
        previous: str | None = None,
        **how: Any,
    ) -> tuple[BaseFile, pa.Table]:
        """Write a base file and return it with its rows, Hudi's columns first.

        Rows that have a commit time keep it, as rows do that an upsert only copies.
        """
        self._written += 1
        name = f"{file_id}_{self._written % 3}-{self._written}-{self._written * 7}_{requested}.parquet"
        full = _with_meta(rows, requested, name, folder)
        where = self.root / folder
        self.begin_folder(folder, requested)
        pq.write_table(full, where / name, **how)
        path = f"{folder}/{name}" if folder else name
        size = (where / name).stat().st_size
        return BaseFile(file_id, folder, path, requested, previous, len(rows), size), full

    def begin_folder(self, folder: str, requested: str) -> None:
        """Mark a folder as one of data, unless it is marked."""
        where = self.root / folder
        where.mkdir(parents=True, exist_ok=True)
        depth = len(Path(folder).parts)
        text = f"#partition metadata\ncommitTime={requested}\npartitionDepth={depth}\n"
        if not (where / ".hoodie_partition_metadata").exists():
            (where / ".hoodie_partition_metadata").write_text(text)

    def commit(
        self,
        requested: str,
        files: Sequence[BaseFile],
        schema: pa.Schema,
        operation: str,
        replaced: Mapping[str, Sequence[str]] | None = None,
    ) -> Instant:
        """Complete a commit that wrote files; with `replaced`, file ids by folder, it is a replacecommit."""
        stats: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for file in files:
            stats[file.folder].append(_statistics(file))
        metadata: dict[str, Any] = {
            "partitionToWriteStats": dict(stats),
            "compacted": False,
            "extraMetadata": {"schema": avro_schema(schema, self.timeline.name)},
            "operationType": operation,
        }
        if replaced is None:
            return self.timeline.complete(requested, "commit", metadata)
        metadata["partitionToReplaceFileIds"] = {folder: list(ids) for folder, ids in replaced.items()}
        return self.timeline.complete(requested, "replacecommit", metadata)

    def clean(self, files: Sequence[BaseFile], retained: str) -> Instant:
        """Delete files that were superseded; the earliest instant whose files stay is `retained`."""
        self._delete(files)
        return self.cleaned(_by_folder(files), retained)

    def cleaned(self, names_by_folder: Mapping[str, list[str]], retained: str) -> Instant:
        """Complete a clean that has deleted files."""
        policy = "KEEP_LATEST_COMMITS"
        folders = {
            folder: {
                "partitionPath": folder,
                "policy": policy,
                "deletePathPatterns": names,
                "successDeleteFiles": names,
                "failedDeleteFiles": [],
                "isPartitionDeleted": False,
            }
            for folder, names in names_by_folder.items()
        }
        return self.timeline.at_once(
            "clean",
            {
                "startCleanTime": retained,
                "timeTakenInMillis": 1,
                "totalFilesDeleted": sum(map(len, names_by_folder.values())),
                "earliestCommitToRetain": retained,
                "lastCompletedCommitTimestamp": retained,
                "partitionMetadata": folders,
                "version": 2,
                "bootstrapPartitionMetadata": {},
            },
        )

    def _delete(self, files: Iterable[BaseFile]) -> None:
        for file in files:
            (self.root / file.path).unlink()

    def rollback(self, requested: str, action: str, files: Sequence[BaseFile]) -> Instant:
        """Take back an instant, completed or pending, with the files that were written for it."""
        return self.timeline.at_once("rollback", self.undo(requested, action, files))

    def restore(self, undone: Sequence[tuple[str, str, Sequence[BaseFile]]]) -> Instant:
        """Take back completed instants, newest first: requested time, action and files of each."""
        requested = self.timeline.request("restore")
        taken = {}
        for instant, action, files in undone:
            taken[instant] = [self.undo(instant, action, files)]
        metadata = {
            "startRestoreTime": requested,
            "timeTakenInMillis": 1,
            "instantsToRollback": [instant for instant, _, _ in undone],
            "hoodieRestoreMetadata": taken,
            "version": 1,
            "restoreInstantInfo": [{"commitTime": i, "action": action} for i, action, _ in undone],
        }
        return self.timeline.complete(requested, "restore", metadata)

    def undo(self, requested: str, action: str, files: Sequence[BaseFile]) -> dict[str, Any]:
        """Delete an instant and the files that were written for it; return what a rollback says of that."""
        self._delete(files)
        completed = [i for i in self.timeline.instants if (i.requested, i.action) == (requested, action)]
        for instant in completed:
            self.timeline.forget(instant)
        if not completed:
            self.timeline.drop_pending(requested, action)
        return self._rolled_back(requested, action, files)

    def _rolled_back(self, requested: str, action: str, files: Sequence[BaseFile]) -> dict[str, Any]:
        folders = {
            folder: {
                "partitionPath": folder,
                "successDeleteFiles": [f"{self.root / folder}/{name}" for name in names],
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            }
            for folder, names in _by_folder(files).items()
        }
        return {
            "startRollbackTime": requested,
            "timeTakenInMillis": 1,
            "totalFilesDeleted": len(files),
            "commitsRollback": [requested],
            "partitionMetadata": folders,
            "version": 1,
            "instantsRollback": [{"commitTime": requested, "action": action}],
        }

    def savepoint(self, instant: Instant, files: Sequence[BaseFile]) -> Instant:
        """Keep the files of an instant from the cleaner."""
        folders = {
            folder: {"partitionPath": folder, "savepointDataFile": names}
            for folder, names in _by_folder(files).items()
        }
        metadata = {"savepointedBy": "", "savepointedAt": 0, "comments": "", "partitionMetadata": folders}
        return self.timeline.complete(instant.requested, "savepoint", {**metadata, "version": 1})


def _by_folder(files: Iterable[BaseFile]) -> dict[str, list[str]]:
    folders: dict[str, list[str]] = defaultdict(list)
    for file in files:
        folders[file.folder].append(file.name)
    return folders


def _with_meta(rows: pa.Table, requested: str, name: str, folder: str) -> pa.Table:
    """Put Hudi's columns before the others."""
    count, known = len(rows), rows.column_names
    fresh = {
        COMMIT_TIME: [requested] * count,
        SEQUENCE: [f"{requested}_0_{row}" for row in range(count)],
        KEY: [str(row) for row in range(count)],
    }
    columns = [
        rows[column].combine_chunks().fill_null(pa.array(new, pa.string()))
        if column in known
        else pa.array(new, pa.string())
        for column, new in fresh.items()
    ]
    columns += [pa.array([folder] * count, pa.string()), pa.array([name] * count, pa.string())]
    others = [column for column in known if column not in META]
    return pa.table([*columns, *(rows[column] for column in others)], names=[*META, *others])


def _statistics(file: BaseFile) -> dict[str, Any]:
    """Describe a file as a commit does."""
    return {
        "fileId": file.file_id,
        "path": file.path,
        "prevCommit": "null" if file.previous is None else Path(file.previous).stem.rpartition("_")[2],
        "prevBaseFile": None if file.previous is None else Path(file.previous).name,
        "numWrites": file.rows,
        "numDeletes": 0,
        "numUpdateWrites": 0,
        "numInserts": file.rows,
        "totalWriteBytes": file.size,
        "totalWriteErrors": 0,
        "partitionPath": file.folder,
        "fileSizeInBytes": file.size,
    }
