"""The effect of a completed instant: base and log files written, file groups replaced, the new schema."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError, UnsafePathError, UnsupportedFeatureError
from tailbit.tables.hudi.files import check_folder
from tailbit.tables.hudi.groups import BaseFile, FileGroup, LogFile, base_file, log_file
from tailbit.tables.hudi.log.instants import Instant
from tailbit.tables.hudi.log.timeline import Timeline
from tailbit.tables.hudi.versions import WRITES
from tailbit.tables.model import UNKNOWN_SIZE

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
    """Read the effect of an instant.

    Raises:
        FileNotFoundError: the instant has been archived or rolled back since the timeline was read.
        MalformedLogError: the metadata are damaged; the newest instant is read again for 2 seconds.
        UnsafePathError: a path leads out of the table.
        UnsupportedFeatureError: columns are known by numbers, not by their names.
    """
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
    known = rows if isinstance(rows, int) and rows >= 0 else None
    return base_file(folder, name, _size(stat), known) or log_file(folder, name)


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
