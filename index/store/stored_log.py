"""The index's own Delta log, in every store: commits, log checkpoints, and what is kept for how long.

A commit is a `put_if_absent` of its JSON. Exactly one writer wins a version. deltalake is imported only to
create an index. Source: Delta protocol, Delta Log Entries, Checkpoints, Action Reconciliation.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from tailbit.base.errors import CommitConflictError, IndexLogError, MalformedLogError, StorageError
from tailbit.base.faults import Fault, fault_point
from tailbit.base.lazy import lazy
from tailbit.index.kinds.kind import kind_of
from tailbit.index.kinds.schemas import Kinds
from tailbit.index.model import IndexFile
from tailbit.index.store.place import OF_A_VERSION
from tailbit.index.store.state import IndexState
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, in_one
from tailbit.tables.model import Version
from tailbit.tables.parquet.file import open_parquet
from tailbit.tables.storage import SMALL, Entry, Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = lazy("pyarrow.parquet")


LOG = "_delta_log"
_HINT = f"{LOG}/_last_checkpoint"
_COMMIT, _CHECKPOINT = re.compile(r"(\d{20})\.json"), re.compile(r"(\d{20})\.checkpoint\.parquet")
_UNFINISHED = re.compile(r"\.(\d{20}\.(json|checkpoint\.parquet)|_last_checkpoint)\.[0-9a-f]{8}\.tmp")
"""The name of a file of the log on local disk before it is published; a killed writer leaves it behind."""
_UNFINISHED_MS = 3_600_000
"""Age at which an unfinished file of the log counts as one of a killed writer."""
_MILLIS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}

_MAP = pa.map_(pa.string(), pa.string())
_FILE = [("path", pa.string()), ("partitionValues", _MAP), ("size", pa.int64()), ("dataChange", pa.bool_())]
_SCHEMA = pa.schema(
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

LOG_CHECKPOINT_EVERY = 20
"""Commits between two log checkpoints. Opening the index reads at most this many commits."""

LOG_RETENTION = "interval 30 seconds"
"""How long commits below the last log checkpoint are kept: as long as a reader may take between listing the
log and reading it.

Nobody time-travels through the index: it holds every version of the source by itself. A reader or writer that
slept longer starts from the newest checkpoint. Each commit lists the log, so with Delta's default of 30 days
every commit would make later commits more expensive.
"""

TOMBSTONE_RETENTION = "interval 10 minutes"
"""How long the log keeps tombstones. `vacuum` spares their files, because an answer may hold them open.

Delta's default of a week would copy millions of tombstones into each log checkpoint.
"""

CONFIGURATION = {
    "delta.logRetentionDuration": LOG_RETENTION,
    "delta.deletedFileRetentionDuration": TOMBSTONE_RETENTION,
    "delta.checkpointInterval": str(LOG_CHECKPOINT_EVERY),
    "delta.enableExpiredLogCleanup": "true",
    # Statistics of index files are never used for pruning, so no commit should spend time on them.
    "delta.dataSkippingNumIndexedCols": "0",
}


def last_checkpoint(storage: Storage) -> int:
    """Return the version of the newest log checkpoint of an index, or -1 if there is none.

    Cost: one small read of the hint `_last_checkpoint`. If the hint is damaged, the log is listed.
    """
    try:
        return int(json.loads(storage.read(_HINT, SMALL))["version"])
    except FileNotFoundError:
        return -1
    except (ValueError, KeyError, TypeError):
        return max(log_checkpoints(storage), default=-1)


def is_checkpointed_above(storage: Storage, version: int) -> bool:
    """Return whether an index has a log checkpoint above a version. Cost: one small read if it has none."""
    # A damaged hint may hold any number.
    return last_checkpoint(storage) > version and max(log_checkpoints(storage), default=-1) > version


def log_checkpoints(storage: Storage) -> list[int]:
    """Return the versions of an index's log checkpoints, by listing its log."""
    matches = (_CHECKPOINT.fullmatch(entry.name) for entry in storage.list(LOG))
    return [int(name[1]) for name in matches if name]


def read_log_checkpoint(storage: Storage, version: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a log checkpoint of an index, all columns or some.

    Raises:
        MalformedLogError: the log checkpoint cannot be read.
        FileNotFoundError: the log checkpoint has been cleaned up.
    """
    name = _name(version)
    try:
        with open_parquet(storage.open(name)) as file:
            return file.read(columns=columns)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as damage:
        raise MalformedLogError(file=name, reason=f"the log checkpoint cannot be read: {damage}") from damage


class StoredCheckpoints:
    """Reader and writer of the log checkpoints of one index; error messages call the index `path`."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage, self._path = storage, path

    def write(self) -> None:
        """Write a log checkpoint of the newest version; delete commits and checkpoints past the retention.

        What killed writers left unfinished in the log is deleted too. The previous log checkpoint stays, for
        readers that have just listed the log.
        """
        entries = self._storage.list(LOG)
        commits, checkpoints = _times(entries, _COMMIT), _times(entries, _CHECKPOINT)
        since = max(checkpoints, default=-1)
        version = max([since, *commits])
        older, newer = self._older(since), self._newer(since, version)
        is_file = pc.is_valid(_paths(older))
        others = _actions(pc.filter(older, pc.invert(is_file)))
        state = {_subject(action): action for action in others} | newer
        properties = self._properties(state)
        retained_since = now_ms() - _interval(properties["delta.deletedFileRetentionDuration"])
        actions = [
            a
            for a in state.values()
            if "remove" not in a or a["remove"]["deletionTimestamp"] > retained_since
        ]
        files = _still_named(pc.filter(older, is_file), newer, retained_since)
        self.put(version, pa.concat_tables([files, rows_of(actions)]))
        fault_point(Fault.LOG_CHECKPOINT_HALF_WRITTEN)
        clock_ms = self._storage.clock_ms()
        oldest = clock_ms - _interval(properties["delta.logRetentionDuration"])
        for name in (commit_name(n) for n, mtime_ms in commits.items() if n < version and mtime_ms <= oldest):
            self._storage.delete(name)
        for name in (_name(n) for n, mtime_ms in checkpoints.items() if n < since and mtime_ms <= oldest):
            self._storage.delete(name)
        for entry in entries:
            if _UNFINISHED.fullmatch(entry.name) and entry.mtime_ms <= clock_ms - _UNFINISHED_MS:
                self._storage.delete(f"{LOG}/{entry.name}")

    def put(self, version: int, rows: pa.Table) -> None:
        """Write the log checkpoint of a version, of rows as `rows_of` makes them, and the hint to it.

        The hint stays where another writer has written a newer log checkpoint meanwhile.
        """
        out = pa.BufferOutputStream()
        pq.write_table(rows, out)
        self._storage.put(_name(version), out.getvalue().to_pybytes())
        if not is_checkpointed_above(self._storage, version):
            self._storage.put(_HINT, orjson.dumps({"version": version, "size": len(rows)}))

    def names_any(self, files: Sequence[IndexFile]) -> bool:
        """Return whether the newest log checkpoint names any of some files, as live or as removed.

        Cost: reads the paths of a log checkpoint. False if it cannot be read.
        """
        version = max(log_checkpoints(self._storage), default=-1)
        try:
            rows = read_log_checkpoint(self._storage, version, ["add.path", "remove.path"])
        except (MalformedLogError, FileNotFoundError, KeyError):
            return False
        return not set(_paths(rows).to_pylist()).isdisjoint(file.path for file in files)

    def transaction(self, version: int) -> int:
        """Return the app transaction's version in the log checkpoint of a version.

        Raises:
            IndexLogError: the log checkpoint is missing or cannot be read.
        """
        try:
            transactions = read_log_checkpoint(self._storage, version, ["txn.version"])["txn"].to_pylist()
        except (MalformedLogError, FileNotFoundError) as damage:
            raise self._damaged(f"commit {version} is damaged, and its log checkpoint: {damage}") from damage
        return max((int(row["version"]) for row in transactions if row is not None), default=-1)

    def _newer(self, since: int, version: int) -> dict[tuple[str, str], Action]:
        """Return the newest action per protocol, metadata, transaction and file of commits after `since`."""
        state: dict[tuple[str, str], Action] = {}
        for number in range(since + 1, version + 1):
            try:
                actions = [orjson.loads(line) for line in self._commit(number).splitlines()]
                state |= {_subject(a): storable(a) for a in actions if "commitInfo" not in a}
            except (ValueError, KeyError, TypeError, AttributeError) as damage:
                raise self._damaged(f"commit {number} is damaged: {damage}") from damage
        return state

    def _properties(self, state: dict[tuple[str, str], Action]) -> dict[str, str]:
        if ("metaData", "") not in state:
            raise self._damaged("nothing in it has metaData")
        return dict(state["metaData", ""]["metaData"]["configuration"])

    def _commit(self, version: int) -> bytes:
        try:
            return self._storage.read(commit_name(version))
        except FileNotFoundError as gone:
            reason = f"another process cleaned up commit {version} meanwhile"
            raise StorageError(path=self._path, reason=reason) from gone

    def _older(self, version: int) -> pa.Table:
        """Return the rows of a version's log checkpoint, as `rows_of` makes them; none for version -1."""
        if version < 0:
            return rows_of([])
        try:
            rows = read_log_checkpoint(self._storage, version)
        except FileNotFoundError as gone:
            reason = f"another process cleaned up log checkpoint {version} meanwhile"
            raise StorageError(path=self._path, reason=reason) from gone
        except MalformedLogError as damage:
            raise self._damaged(str(damage)) from damage
        # Another program may have written the log checkpoint, with columns that `_SCHEMA` does not have.
        return rows if rows.schema == _SCHEMA else rows_of(_actions(rows))

    def _damaged(self, reason: str) -> IndexLogError:
        return IndexLogError(file=self._path, reason=reason)


def rows_of(actions: Sequence[Action]) -> pa.Table:
    """Return actions, converted by `storable`, as rows of a log checkpoint."""
    return pa.Table.from_pylist(actions, schema=_SCHEMA)


def _actions(rows: pa.Table) -> list[Action]:
    return [{name: value for name, value in row.items() if value is not None} for row in rows.to_pylist()]


def _paths(rows: pa.Table) -> pa.Array:
    """Return the path of the file that each row adds or removes; NULL for a row of another action."""
    return pc.coalesce(*(in_one(rows[name]).field("path") for name in ("add", "remove")))


def _still_named(rows: pa.Table, newer: Mapping[tuple[str, str], Action], retained_since: int) -> pa.Table:
    """Return the rows of files that no newer action names, without tombstones past the retention.

    Cost: vectorised, since a log keeps thousands of tombstones.
    """
    named = arrow_array([key for name, key in newer if name == "file"], pa.string())
    removed = in_one(rows["remove"]).field("deletionTimestamp")
    fresh = filled(pc.greater(removed, arrow_scalar(retained_since, pa.int64())), True)
    return pc.filter(rows, pc.and_(fresh, pc.invert(pc.is_in(_paths(rows), value_set=named))))


def storable(action: Action) -> Action:
    """Convert an action of a commit to a row of a log checkpoint, where a map is a list of pairs."""
    [(name, value)] = action.items()
    maps: Action = {
        key: list(value[key].items()) for key in ("partitionValues", "configuration") if key in value
    }
    if "format" in value:
        maps["format"] = {**value["format"], "options": list(value["format"]["options"].items())}
    return {name: {**value, **maps}}


def commit_name(version: int) -> str:
    """Return the name of a commit, relative to the index."""
    return f"{LOG}/{version:020}.json"


def now_ms() -> int:
    """Return the time by the clock of this machine, in ms since 1970."""
    return time.time_ns() // 1_000_000


def _times(entries: Sequence[Entry], named: re.Pattern[str]) -> dict[int, int]:
    """Map version to modification time of the log files whose names match the pattern."""
    matches = ((named.fullmatch(entry.name), entry.mtime_ms) for entry in entries)
    return {int(name[1]): mtime_ms for name, mtime_ms in matches if name}


def _name(version: int) -> str:
    return f"{LOG}/{version:020}.checkpoint.parquet"


def _subject(action: Action) -> tuple[str, str]:
    """Return the reconciliation key of an action.

    A newer action replaces an older one of the same key; the add and the remove of a path have one key.
    """
    [(name, value)] = action.items()
    if name in ("add", "remove"):
        return "file", value["path"]
    return name, value.get("appId", "")


def _interval(text: str) -> int:
    """Return the milliseconds of a Delta interval of one unit, such as `interval 10 minutes`."""
    _, number, unit = text.split()
    return int(number) * _MILLIS[unit.removesuffix("s")]


def app_transaction(index_id: str) -> str:
    """Return the id of an index's only app transaction, whose version is the `seq` of the latest commit."""
    return f"tailbit:{index_id}"


class StoredLog:
    """Writer of commits on top of a version that the caller has read, never on top of another version."""

    def __init__(self, storage: Storage, path: str, schema: pa.Schema) -> None:
        self._storage, self._path, self._schema = storage, path, schema
        self._checkpoints = StoredCheckpoints(storage, path)

    def create(self, index_id: str, files: Sequence[IndexFile]) -> None:
        """Create the table with its first files in one commit."""
        self._put(0, index_id, 0, [*self._heads(), *_adds(files, True)])

    def make_anew(self, index_id: str, files: Sequence[IndexFile], gone: Sequence[IndexFile]) -> None:
        """Create the table again above any old contents of its log, by a commit and a log checkpoint.

        Nothing below the new commit is read, and all of it is deleted once the log checkpoint exists. `gone`:
        files that the old log may have named; they become tombstones. If the process is killed at any moment,
        the log holds the old state, or the new state, or is as unreadable as before.
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
        """Write a log checkpoint and delete the commits before it that are older than the retention."""
        self._checkpoints.write()

    def checkpoint_known(self, kinds: Kinds, version: Version, state: IndexState) -> None:
        """Write a log checkpoint of a version with the contents of `state`, in place of an unreadable one.

        It is not known any more which files were removed recently. Therefore every file in the folders that
        is not live becomes a tombstone, so that running queries can still read it. Cost: lists the folders of
        the kinds; nothing of the log is read.
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
