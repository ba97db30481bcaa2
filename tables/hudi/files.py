"""The data files of a table: in its folders, and as instants wrote and replaced them.

A folder of data holds `.hoodie_partition_metadata`. Source: Hudi technical specification, File layout.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError, UnsafePathError, UnsupportedFeatureError
from tailbit.tables import compute as pc
from tailbit.tables.hudi.groups import BaseFile, FileGroup, LogFile, base_file, log_file
from tailbit.tables.hudi.instants import Instant
from tailbit.tables.hudi.log_files.slices import FIELDS, MergedRows
from tailbit.tables.hudi.timeline import Timeline
from tailbit.tables.hudi.versions import WRITES
from tailbit.tables.hudi.words import LOG
from tailbit.tables.model import UNKNOWN_SIZE, FileSlice
from tailbit.tables.snapshot import FileList, stored_columns, stored_schema
from tailbit.tables.storage import Storage

STORED = stored_schema(pa.struct([(name, pa.string()) for name in FIELDS]))
PARTITION_MARK = ".hoodie_partition_metadata"
_INDEX = "_tailbit"


class HudiFiles(FileList):
    """The live base files and log blocks of a table, without statistics: the timeline has none."""

    @classmethod
    def stored(cls, slices: Sequence[FileSlice]) -> pa.Table:
        """Return slices as a table of schema STORED, in the order given."""
        hidden = [
            slice_.hidden.stored if isinstance(slice_.hidden, MergedRows) else None for slice_ in slices
        ]
        return stored_columns(slices, STORED, hidden, [None] * len(slices))

    def _hidden_ids(self, stored: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.struct_field(stored, [FIELDS.index("id")])

    def _hidden(self, stored: Any) -> MergedRows | None:
        return None if stored is None else MergedRows(**stored)

    def _statistics(self, text: str | None) -> None:
        return None

    def of_group(self, group: FileGroup) -> str | None:
        """Return the path of the live file of a group; None if the group is not shown. Cost: a bisection."""
        index, _ = self._find(group.prefix)
        path = self.paths[index].as_py() if index < len(self) else ""
        return path if path.startswith(group.prefix) else None

    def blocks_of(self, group: FileGroup) -> list[str]:
        """Return the paths of the live log blocks of a group. Cost: a bisection, and a step per block."""
        index, out = self._find(group.log_prefix)[0], []
        while index < len(self) and (path := self.paths[index].as_py()).startswith(group.log_prefix):
            out.append(path)
            index += 1
        return out


class ListedFiles(NamedTuple):
    """The base files and the log files below a table's root."""

    bases: list[BaseFile]
    logs: list[LogFile]


def list_files(storage: Storage) -> ListedFiles:
    """Return the data files below a table's root, including those of instants that never completed.

    Cost: a listing of every folder; in an object store a request per thousand files.
    """
    entries = storage.walk("", (LOG, _INDEX))
    split = [(*entry.name.rpartition("/")[::2], entry.size) for entry in entries]
    folders = {folder for folder, name, _ in split if name == PARTITION_MARK}
    files = [(folder, name, size) for folder, name, size in split if folder in folders]
    bases = (base_file(*file) for file in files)
    logs = (log_file(folder, name) for folder, name, _ in files)
    return ListedFiles([f for f in bases if f is not None], [f for f in logs if f is not None])


def check_folder(folder: object, root: str, file: str) -> str:
    """Check a folder name from the metadata of an instant in `file`, and return the name."""
    if not isinstance(folder, str):
        raise MalformedLogError(file=file, reason=f"a folder is named {folder!r}")
    steps = folder.split("/") if folder else []
    if "\0" in folder or any(step in ("", ".", "..") for step in steps):
        raise UnsafePathError(file=folder, path=root, reason=f"{file} names a folder outside of the table")
    return folder


def newest_of_groups(
    files: Iterable[BaseFile], hidden: Collection[FileGroup]
) -> dict[FileGroup, list[BaseFile]]:
    """Return, by group, the files of the greatest requested instant; groups of `hidden` are left out.

    A group has several files of one instant if a task was retried and its first file was not cleaned up.
    """
    newest: dict[FileGroup, list[BaseFile]] = {}
    for file in files:
        if file.group in hidden:
            continue
        newest_files = newest.get(file.group)
        if newest_files is None or newest_files[0].requested < file.requested:
            newest[file.group] = [file]
        elif newest_files[0].requested == file.requested:
            newest_files.append(file)
    return newest


_KEEPS_SCHEMA = frozenset(("CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT"))
"""The operations that never change the schema; the schema in their metadata is ignored."""
_SCHEMA_ON_READ = "latest_schema"
"""The key that a commit has if columns of the table are known by numbers, and may be renamed."""
_PATIENCE_S, _PAUSE_S = 2.0, 0.05
"""Seconds of retries, and between two of them, for the newest instant: before 1.1, it may be half written."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The effect of one instant. `schema`: Avro as JSON, empty if the instant does not change the schema.

    `is_known`: whether the instant's metadata could be read; those of some archived instants cannot. `logs`:
    the log files that the instant wrote or appended to; `log_bytes`: the sum of their sizes.
    """

    written: tuple[BaseFile, ...] = ()
    replaced: frozenset[FileGroup] = frozenset()
    schema: str = ""
    operation: str = ""
    is_known: bool = True
    logs: tuple[LogFile, ...] = ()
    log_bytes: int = 0


def read_commit(timeline: Timeline, instant: Instant) -> Commit:
    """Read the effect of an instant."""
    if instant.action not in WRITES:
        return Commit(operation=instant.action.upper())
    metadata = _metadata(timeline, instant)
    if metadata is None:
        return Commit(operation=instant.action.upper(), is_known=False)
    return _commit(metadata, instant.file, timeline.storage.root)


def _metadata(timeline: Timeline, instant: Instant) -> dict[str, Any] | None:
    """Read the metadata of an instant; those of the newest instant are retried for a while if damaged."""
    until = time.monotonic() + (_PATIENCE_S if instant is timeline.completed[-1] else 0)
    while True:
        try:
            return timeline.metadata(instant)
        except MalformedLogError:
            if time.monotonic() >= until:
                raise
        time.sleep(_PAUSE_S)


def _commit(metadata: Mapping[str, Any], file: str, root: str) -> Commit:
    operation = str(metadata.get("operationType") or "UNKNOWN")
    extra = _mapping(metadata, "extraMetadata", file)
    if extra.get(_SCHEMA_ON_READ):
        raise UnsupportedFeatureError(
            path=root,
            version=file.rpartition("/")[2],
            feature="schema evolution on read (hoodie.schema.on.read.enable)",
            hint="Copy the rows into a table without it: columns are then known by their names alone.",
        )
    schema = extra.get("schema") or ""
    if not isinstance(schema, str):
        raise MalformedLogError(file=file, reason="the schema is no text")
    written = _written(metadata, file, root)
    return Commit(
        tuple(file for file, _ in written if isinstance(file, BaseFile)),
        frozenset(_replaced(metadata, file, root)),
        "" if operation in _KEEPS_SCHEMA else schema,
        operation,
        logs=tuple(file for file, _ in written if isinstance(file, LogFile)),
        log_bytes=sum(size for file, size in written if isinstance(file, LogFile)),
    )


def _written(metadata: Mapping[str, Any], file: str, root: str) -> list[tuple[BaseFile | LogFile, int]]:
    """Return the base files and log files that the statistics of a write name, each with its size."""
    out: list[tuple[BaseFile | LogFile, int]] = []
    for folder, stats in _mapping(metadata, "partitionToWriteStats", file).items():
        check_folder(folder, root, file)
        for stat in stats or ():
            if not isinstance(stat, dict):
                raise MalformedLogError(file=file, reason="a statistic of a write is no record")
            path = stat.get("path")
            written = _data_file(folder, path, stat, file, root) if path else None
            if written is not None:
                out.append((written, _size(stat)))
    return out


def _size(stat: Mapping[str, Any]) -> int:
    size = stat.get("fileSizeInBytes")
    return size if isinstance(size, int) and size > 0 else UNKNOWN_SIZE


def _data_file(
    folder: str, path: object, stat: Mapping[str, Any], file: str, root: str
) -> BaseFile | LogFile | None:
    """Return the base file or log file of one statistic; None for a file of another kind."""
    if not isinstance(path, str):
        raise MalformedLogError(file=file, reason=f"a data file is named {path!r}")
    inside, _, name = path.rpartition("/")
    if inside != folder or name in ("", ".", "..") or "\0" in name:
        raise UnsafePathError(
            file=path, path=root, reason=f"{file} should name a file of {folder or 'the root'}"
        )
    rows = stat.get("numWrites")
    row_count = rows if isinstance(rows, int) and rows >= 0 else None
    return base_file(folder, name, _size(stat), row_count) or log_file(folder, name)


def _replaced(metadata: Mapping[str, Any], file: str, root: str) -> list[FileGroup]:
    groups = []
    for folder, ids in _mapping(metadata, "partitionToReplaceFileIds", file).items():
        check_folder(folder, root, file)
        if not isinstance(ids, list) or not all(isinstance(file_id, str) for file_id in ids):
            raise MalformedLogError(
                file=file, reason=f"the file groups replaced in {folder!r} are no list of ids"
            )
        groups += [FileGroup(folder, file_id) for file_id in ids]
    return groups


def _mapping(metadata: Mapping[str, Any], name: str, file: str) -> Mapping[str, Any]:
    """Return a field that maps names; empty if it is missing."""
    value = metadata.get(name)
    if value is not None and not isinstance(value, dict):
        raise MalformedLogError(file=file, reason=f"{name} is no map")
    return value or {}
