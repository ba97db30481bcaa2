"""Commits to the index's Delta log through the store alone: in object stores, and where delta-rs cannot go.

A commit is a `put_if_absent` of its JSON: one winner per version. A log checkpoint is what the newest one
and the commits after it come to.
Source: Delta protocol, Delta Log Entries, Checkpoints, Action Reconciliation.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tailbit.errors import CommitConflictError, IndexLogError, MalformedLogError, StorageError
from tailbit.faults import Fault, fault_point
from tailbit.index.kinds.rows import kind_of
from tailbit.index.model import IndexFile
from tailbit.index.store.log_writer import (
    CONFIGURATION,
    app_transaction,
    last_checkpoint,
    log_checkpoints,
    read_log_checkpoint,
)
from tailbit.tables.storage import Storage

_LOG = "_delta_log"
_HINT = f"{_LOG}/_last_checkpoint"
_OF_A_VERSION = re.compile(r"\d{20}\.")
_MILLIS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}

_MAP = pa.map_(pa.string(), pa.string())
_FILE = [("path", pa.string()), ("partitionValues", _MAP), ("size", pa.int64()), ("dataChange", pa.bool_())]
_CHECKPOINT = pa.schema(
    {
        "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        "metaData": pa.struct(
            [
                ("id", pa.string()),
                ("name", pa.string()),
                ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
                ("schemaString", pa.string()),
                ("partitionColumns", pa.list_(pa.string())),
                ("configuration", _MAP),
                ("createdTime", pa.int64()),
            ]
        ),
        "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
        "add": pa.struct([*_FILE, ("modificationTime", pa.int64()), ("stats", pa.string())]),
        "remove": pa.struct(
            [*_FILE, ("deletionTimestamp", pa.int64()), ("extendedFileMetadata", pa.bool_())]
        ),
    }
)

Action = dict[str, Any]


class StoredLog:
    """Writes commits on top of a version that the caller has seen, never on top of another."""

    def __init__(self, storage: Storage, path: str, schema: pa.Schema) -> None:
        self._storage, self._path, self._schema = storage, path, schema

    def create(self, index_id: str, files: Sequence[IndexFile]) -> None:
        """Make the table, with its first files, in one commit.

        Raises:
            CommitConflictError: there is a table already.
        """
        self._put(0, index_id, 0, [*self._heads(), *_adds(files, True)])

    def make_anew(self, index_id: str, files: Sequence[IndexFile], gone: Sequence[IndexFile]) -> None:
        """Make the table anew above whatever its log says, by a commit and a log checkpoint.

        Nothing below the commit is read, and all of it goes once the log checkpoint is there. `gone`: files
        that it may have named. Killed at any moment this leaves what was, or what is made, or a log that can
        be read no more than before.

        Raises:
            CommitConflictError: another writer was first.
            StorageError: the storage refused.
        """
        names = [entry.name for entry in self._storage.list(_LOG)]
        version = max((int(name[:20]) for name in names if _OF_A_VERSION.match(name)), default=-1) + 1
        state = [*self._heads(), *_adds(files, True), *_removes(gone, True)]
        self._put(version, index_id, 1, state)
        fault_point(Fault.REPAIR_HALF_DONE)
        mark = {"appId": app_transaction(index_id), "version": 1, "lastUpdated": _now()}
        self._put_checkpoint(version, [{"txn": mark}, *map(_storable, state)])
        # Newest first: what is left of them, where this is cut short, is not read as what leads to the head.
        for name in sorted(filter(_OF_A_VERSION.match, names), reverse=True):
            self._storage.delete(f"{_LOG}/{name}")

    def _heads(self) -> list[Action]:
        """Protocol and metadata of a new table."""
        from deltalake import Schema

        made = {
            "id": str(uuid.uuid4()),
            "name": "tailbit index",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": Schema.from_arrow(self._schema).to_json(),
            "partitionColumns": ["kind"],
            "configuration": CONFIGURATION,
            "createdTime": _now(),
        }
        protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        return [{"protocol": protocol}, {"metaData": made}]

    def commit(
        self,
        based_on: int,
        index_id: str,
        seq: int,
        adds: Sequence[IndexFile],
        removes: Sequence[IndexFile],
        *,
        data_change: bool,
    ) -> None:
        """Write version `based_on + 1`, or nothing.

        Invariant: it lands only if nobody has committed since `based_on`, and only if `seq` is higher than
        any committed. Cost: one small read, one conditional put, one read of the hint.

        Raises:
            CommitConflictError: another writer was first.
            StorageError: the storage refused.
        """
        # Every commit has the one app transaction, which only grows: the newest is the highest.
        if self._transaction(based_on) >= seq:
            raise self._conflict(based_on + 1)
        fault_point(Fault.BEFORE_COMMIT)
        gone = _removes(removes, data_change)
        self._put(based_on + 1, index_id, seq, [*_adds(adds, data_change), *gone])
        if last_checkpoint(self._storage) > based_on + 1:
            # This process slept so long that the commit which took this version has been cleaned up.
            raise self._conflict(based_on + 1)
        fault_point(Fault.AFTER_COMMIT)

    def checkpoint(self) -> None:
        """Write a log checkpoint and delete the commits before it that are older than the retention.

        Raises:
            StorageError: the storage refused; the commits themselves are unharmed.
        """
        since = max(log_checkpoints(self._storage), default=-1)
        version = max(number for number, _ in self._commits())
        state = self._reconciled(since, version)
        properties = dict(state["metaData", ""]["metaData"]["configuration"])
        kept = _now() - _interval(properties["delta.deletedFileRetentionDuration"])
        rows = [a for a in state.values() if "remove" not in a or a["remove"]["deletionTimestamp"] > kept]
        self._put_checkpoint(version, rows)
        fault_point(Fault.LOG_CHECKPOINT_HALF_WRITTEN)
        oldest = self._storage.clock_ms() - _interval(properties["delta.logRetentionDuration"])
        for number, mtime_ms in list(self._commits()):
            if number < version and mtime_ms <= oldest:
                self._storage.delete(_commit_name(number))

    def _put_checkpoint(self, version: int, rows: Sequence[Action]) -> None:
        out = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=_CHECKPOINT), out)
        self._storage.put(_checkpoint_name(version), out.getvalue().to_pybytes())
        self._storage.put(_HINT, orjson.dumps({"version": version, "size": len(rows)}))

    def _reconciled(self, since: int, version: int) -> dict[tuple[str, str], Action]:
        """What the log says at a version: per protocol, metadata, transaction and file the newest action."""
        rows = self._checkpoint_rows(since) if since >= 0 else []
        state = {_subject(action): action for action in rows}
        for number in range(since + 1, version + 1):
            lines = self._commit(number).splitlines()
            state |= {_subject(a): _storable(a) for a in map(orjson.loads, lines) if "commitInfo" not in a}
        return state

    def _commit(self, version: int) -> bytes:
        try:
            return self._storage.read(_commit_name(version))
        except FileNotFoundError as gone:
            reason = f"another process cleaned up commit {version} meanwhile"
            raise StorageError(path=self._path, reason=reason) from gone

    def _checkpoint_rows(self, version: int) -> list[Action]:
        try:
            rows = read_log_checkpoint(self._storage, version).to_pylist()
        except MalformedLogError as damage:
            raise IndexLogError(file=self._path, reason=str(damage)) from damage
        return [{name: value for name, value in row.items() if value is not None} for row in rows]

    def _put(self, version: int, index_id: str, seq: int, actions: Sequence[Action]) -> None:
        mark = {"appId": app_transaction(index_id), "version": seq, "lastUpdated": _now()}
        # Its own id makes it unlike any other: a store that lost its reply is asked whose commit it has.
        operation = "WRITE" if version else "CREATE TABLE"
        info = {"timestamp": _now(), "operation": operation, "txnId": str(uuid.uuid4())}
        lines = [orjson.dumps(action) for action in ({"commitInfo": info}, {"txn": mark}, *actions)]
        try:
            self._storage.put_if_absent(_commit_name(version), b"\n".join(lines))
            fault_point(Fault.COMMIT_REPLY_LOST)
        except FileExistsError:
            raise self._conflict(version) from None

    def _transaction(self, version: int) -> int:
        """The app transaction's version in a commit.

        Raises:
            CommitConflictError: the commit has been cleaned up: there are newer ones.
        """
        try:
            lines = self._storage.read(_commit_name(version)).splitlines()
        except FileNotFoundError:
            raise self._conflict(version + 1) from None
        return max(int(found["txn"]["version"]) for found in map(orjson.loads, lines) if "txn" in found)

    def _commits(self) -> Iterator[tuple[int, int]]:
        """Version and modification time of the commits."""
        for entry in self._storage.list(_LOG):
            if found := re.fullmatch(r"(\d{20})\.json", entry.name):
                yield int(found[1]), entry.mtime_ms

    def _conflict(self, version: int) -> CommitConflictError:
        return CommitConflictError(version=version, path=self._path)


def _adds(files: Sequence[IndexFile], data_change: bool) -> list[Action]:
    now = _now()
    return [
        {
            "add": {
                **_file(file, data_change),
                "modificationTime": now,
                "stats": json.dumps({"numRecords": file.rows}),
            }
        }
        for file in files
    ]


def _removes(files: Sequence[IndexFile], data_change: bool) -> list[Action]:
    now = _now()
    return [
        {"remove": {**_file(file, data_change), "deletionTimestamp": now, "extendedFileMetadata": True}}
        for file in files
    ]


def _file(file: IndexFile, data_change: bool) -> Action:
    return {
        "path": file.path,
        "partitionValues": {"kind": kind_of(file.path)},
        "size": file.size,
        "dataChange": data_change,
    }


def _subject(action: Action) -> tuple[str, str]:
    """What an action is about: a newer one about the same takes its place, an add that of a remove."""
    [(name, value)] = action.items()
    if name in ("add", "remove"):
        return "file", value["path"]
    return name, value.get("appId", "")


def _storable(action: Action) -> Action:
    """An action of a commit as a row of a log checkpoint: a map is a list of pairs there."""
    [(name, value)] = action.items()
    maps: Action = {
        key: list(value[key].items()) for key in ("partitionValues", "configuration") if key in value
    }
    if "format" in value:
        maps["format"] = {**value["format"], "options": list(value["format"]["options"].items())}
    return {name: {**value, **maps}}


def _interval(text: str) -> int:
    """Milliseconds of a Delta interval of one unit, such as `interval 10 minutes`."""
    _, number, unit = text.split()
    return int(number) * _MILLIS[unit.removesuffix("s")]


def _commit_name(version: int) -> str:
    return f"{_LOG}/{version:020}.json"


def _checkpoint_name(version: int) -> str:
    return f"{_LOG}/{version:020}.checkpoint.parquet"


def _now() -> int:
    return time.time_ns() // 1_000_000
