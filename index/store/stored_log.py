"""Commits to the index's own Delta log, in every store: a commit is a `put_if_absent` of its JSON.

Exactly one writer wins a version. deltalake is imported only to create an index.
Source: Delta protocol, Delta Log Entries.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence

import orjson
import pyarrow as pa

from tailbit.base.errors import CommitConflictError, StorageError
from tailbit.base.faults import Fault, fault_point
from tailbit.index.kinds.rows import kind_of
from tailbit.index.kinds.schemas import Kinds
from tailbit.index.model import IndexFile
from tailbit.index.store.place import OF_A_VERSION
from tailbit.index.store.state import IndexState
from tailbit.index.store.stored_checkpoints import (
    CONFIGURATION,
    LOG,
    Action,
    StoredCheckpoints,
    commit_name,
    is_checkpointed_above,
    last_checkpoint,
    now_ms,
    rows_of,
    storable,
)
from tailbit.tables.model import Version
from tailbit.tables.storage import Storage


def app_transaction(index_id: str) -> str:
    """Return the id of an index's only app transaction, whose version is the `seq` of the latest commit."""
    return f"tailbit:{index_id}"


class StoredLog:
    """Writer of commits on top of a version that the caller has read, never on top of another version."""

    def __init__(self, storage: Storage, path: str, schema: pa.Schema) -> None:
        self._storage, self._path, self._schema = storage, path, schema
        self._checkpoints = StoredCheckpoints(storage, path)

    def create(self, index_id: str, files: Sequence[IndexFile]) -> None:
        """Create the table with its first files in one commit.

        Raises:
            CommitConflictError: the table exists already.
        """
        self._put(0, index_id, 0, [*self._heads(), *_adds(files, True)])

    def make_anew(self, index_id: str, files: Sequence[IndexFile], gone: Sequence[IndexFile]) -> None:
        """Create the table again above any old contents of its log, by a commit and a log checkpoint.

        Nothing below the new commit is read, and all of it is deleted once the log checkpoint exists. `gone`:
        files that the old log may have named; they become tombstones. If the process is killed at any moment,
        the log holds the old state, or the new state, or is as unreadable as before.

        Raises:
            CommitConflictError: another writer was first.
            StorageError: the storage refused.
        """
        names = [entry.name for entry in self._storage.list(LOG)]
        version = max((int(name[:20]) for name in names if OF_A_VERSION.match(name)), default=-1) + 1
        state = [*self._heads(), *_adds(files, True), *_removes(gone, True)]
        self._put(version, index_id, 1, state)
        fault_point(Fault.REPAIR_HALF_DONE)
        self._put_state(version, index_id, 1, state)
        # Newest first: if the deletion stops half-way, the remaining old files are not read as a chain up to
        # the head.
        for name in sorted(filter(OF_A_VERSION.match, names), reverse=True):
            self._storage.delete(f"{LOG}/{name}")

    def _heads(self) -> list[Action]:
        """Return the protocol and metadata actions of a new table."""
        from deltalake import Schema

        metadata = {
            "id": str(uuid.uuid4()),
            "name": "tailbit index",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": Schema.from_arrow(self._schema).to_json(),
            "partitionColumns": ["kind"],
            "configuration": CONFIGURATION,
            "createdTime": now_ms(),
        }
        protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        return [{"protocol": protocol}, {"metaData": metadata}]

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
        """Write version `based_on + 1` or nothing.

        Invariant: the commit lands only if nobody has committed since `based_on`, and only if `seq` is higher
        than any committed `seq`. Cost: one small read, one conditional put, one read of the hint.

        Raises:
            CommitConflictError: another writer was first.
            StorageError: the storage refused.
        """
        # Every commit holds the one app transaction, whose version only grows: the newest is the highest.
        if self._transaction(based_on) >= seq:
            raise self._conflict(based_on + 1)
        fault_point(Fault.BEFORE_COMMIT)
        gone = _removes(removes, data_change)
        self._put(based_on + 1, index_id, seq, [*_adds(adds, data_change), *gone])
        if is_checkpointed_above(self._storage, based_on + 1) and not self._checkpoints.names_any(adds):
            # This process slept so long that the commit which took this version has been cleaned up.
            raise self._conflict(based_on + 1)
        fault_point(Fault.AFTER_COMMIT)

    def checkpoint(self) -> None:
        """Write a log checkpoint and delete the commits before it that are older than the retention.

        Raises:
            IndexLogError: the newest log checkpoint, or a commit after it, cannot be read.
            StorageError: the storage refused; the commits themselves are unharmed.
        """
        self._checkpoints.write()

    def checkpoint_known(self, kinds: Kinds, version: Version, state: IndexState) -> None:
        """Write a log checkpoint of a version with the contents of `state`, in place of an unreadable one.

        It is not known any more which files were removed recently. Therefore every file in the folders that
        is not live becomes a tombstone, so that running queries can still read it. Cost: lists the folders of
        the kinds; nothing of the log is read.

        Raises:
            StorageError: the store refused.
        """
        lying = (
            IndexFile(f"kind={kind.name}/{entry.name}", entry.size, 0)
            for kind in kinds
            for entry in self._storage.list(f"kind={kind.name}")
            if not entry.name.startswith(("_", "."))
        )
        gone = _removes([file for file in lying if file.path not in state.files], False)
        live = _adds(list(state.files.values()), False)
        self._put_state(version, state.index_id, state.seq, [*self._heads(), *live, *gone])

    def _put_state(self, version: int, index_id: str, seq: int, state: Sequence[Action]) -> None:
        mark = {"appId": app_transaction(index_id), "version": seq, "lastUpdated": now_ms()}
        self._checkpoints.put(version, rows_of([{"txn": mark}, *map(storable, state)]))

    def _put(self, version: int, index_id: str, seq: int, actions: Sequence[Action]) -> None:
        mark = {"appId": app_transaction(index_id), "version": seq, "lastUpdated": now_ms()}
        # A unique txnId distinguishes this commit: after a lost reply, the store is asked whose commit it
        # holds.
        operation = "WRITE" if version else "CREATE TABLE"
        info = {"timestamp": now_ms(), "operation": operation, "txnId": str(uuid.uuid4())}
        lines = [orjson.dumps(action) for action in ({"commitInfo": info}, {"txn": mark}, *actions)]
        try:
            self._storage.put_if_absent(commit_name(version), b"\n".join(lines))
            fault_point(Fault.COMMIT_REPLY_LOST)
        except (OSError, StorageError) as wrong:
            # After a lost reply the commit may be ours: the caller reads the log again and finds it.
            if isinstance(wrong, FileExistsError) or self._storage.exists(commit_name(version)):
                raise self._conflict(version) from wrong
            raise

    def _transaction(self, version: int) -> int:
        """Return the app transaction's version in a commit, or in its log checkpoint if it is damaged."""
        try:
            lines = map(orjson.loads, self._storage.read(commit_name(version)).splitlines())
            return max(int(line["txn"]["version"]) for line in lines if "txn" in line)
        except FileNotFoundError:
            if last_checkpoint(self._storage) != version:
                raise self._conflict(version + 1) from None
        except (ValueError, KeyError, TypeError):
            pass
        return self._checkpoints.transaction(version)

    def _conflict(self, version: int) -> CommitConflictError:
        return CommitConflictError(version=version, path=self._path)


def _adds(files: Sequence[IndexFile], data_change: bool) -> list[Action]:
    now = now_ms()
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
    now = now_ms()
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
