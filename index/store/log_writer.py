"""Commits to the index table's own Delta log by delta-rs: one per change, exactly one winner per version.

delta-rs serves the stores that it can reach by a URI. deltalake is imported only when something is written,
so a query never pays for the import.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tailbit.errors import CommitConflictError, IndexLogError, MalformedLogError, StorageError
from tailbit.faults import Fault, fault_point
from tailbit.index.kinds.rows import kind_of
from tailbit.index.model import IndexFile
from tailbit.tables.parquet.file import ParquetFile, open_parquet
from tailbit.tables.storage import SMALL, Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable

_HINT = "_delta_log/_last_checkpoint"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")

LOG_CHECKPOINT_EVERY = 20
"""Commits between two log checkpoints.

deltalake reads every commit since the last log checkpoint twice per commit: 4 ms with 20 commits, 17 ms with
100. A log checkpoint costs about 20 ms. Opening the index reads at most this many commits.
"""

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


def app_transaction(index_id: str) -> str:
    """Return the id of an index's one app transaction; its version is the ledger's seq and only grows."""
    return f"tailbit:{index_id}"


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
    matches = (_CHECKPOINT.fullmatch(entry.name) for entry in storage.list("_delta_log"))
    return [int(name[1]) for name in matches if name]


def read_log_checkpoint(storage: Storage, version: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of a log checkpoint of an index, all columns or some.

    Raises:
        MalformedLogError: the log checkpoint cannot be read.
        FileNotFoundError: the log checkpoint has been cleaned up.
    """
    name = f"_delta_log/{version:020}.checkpoint.parquet"
    try:
        with open_parquet(storage.open(name), ParquetFile) as file:
            return file.read(columns=columns)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as damage:
        raise MalformedLogError(file=name, reason=f"the log checkpoint cannot be read: {damage}") from damage


class LogWriter:
    """Writer of commits on top of a version that the caller has read, never on top of another version.

    The writer holds one handle of the table between commits, so that a commit costs what it adds.
    """

    def __init__(self, storage: Storage, path: str, schema: pa.Schema) -> None:
        self._storage = storage
        self._path = path
        self._schema = schema
        self._handle: DeltaTable | None = None

    def create(self, index_id: str, files: Sequence[IndexFile]) -> None:
        """Create the table with its first files in one commit.

        Raises:
            CommitConflictError: the table exists already.
        """
        from deltalake import Schema
        from deltalake.exceptions import DeltaError
        from deltalake.transaction import create_table_with_add_actions

        try:
            create_table_with_add_actions(
                self._storage.uri,
                Schema.from_arrow(self._schema),
                [_add(file, True) for file in files],
                mode="error",
                partition_by=["kind"],
                name="tailbit index",
                configuration=CONFIGURATION,
                commit_properties=_properties(index_id, 0),
                post_commithook_properties=_no_hooks(),
            )
        except (DeltaError, OSError) as wrong:
            raise self._failure(0, wrong) from wrong

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
        than any committed `seq`. Cost: about 6 ms, whatever the length of the history.

        Raises:
            CommitConflictError: another writer was first.
            StorageError: the storage refused.
        """
        from deltalake import Schema
        from deltalake.exceptions import DeltaError

        handle = self._handle_at(based_on, index_id, seq)
        fault_point(Fault.BEFORE_COMMIT)
        try:
            handle.create_write_transaction(
                [*(_add(f, data_change) for f in adds), *(_remove(f, data_change) for f in removes)],
                "append",
                Schema.from_arrow(self._schema),
                partition_by=["kind"],
                commit_properties=_properties(index_id, seq),
                post_commithook_properties=_no_hooks(),
            )
            fault_point(Fault.COMMIT_REPLY_LOST)
        except (DeltaError, OSError) as wrong:
            self._handle = None
            raise self._failure(based_on + 1, wrong) from wrong
        self._refuse_cleaned_up(based_on + 1)
        fault_point(Fault.AFTER_COMMIT)

    def checkpoint(self) -> None:
        """Write a log checkpoint and delete the commits before it that are older than the retention.

        Raises:
            StorageError: the storage refused; the commits themselves are unharmed.
        """
        from deltalake.exceptions import DeltaError

        try:
            handle = self._opened()
            handle.create_checkpoint()
            fault_point(Fault.LOG_CHECKPOINT_HALF_WRITTEN)
            handle.cleanup_metadata()
        except (DeltaError, OSError) as wrong:
            self._handle = None
            raise StorageError(path=self._path, reason=str(wrong)) from wrong

    def _handle_at(self, version: int, index_id: str, seq: int) -> DeltaTable:
        """Return the handle if it stands at this version and no change of `seq` or higher is committed."""
        handle = self._opened()
        if handle.version() != version:
            raise self._conflict(version + 1)
        # A refreshed handle accepts a lower transaction version, so the handle that commits is checked.
        if (handle.transaction_version(app_transaction(index_id)) or 0) >= seq:
            raise self._conflict(version + 1)
        return handle

    def _opened(self) -> DeltaTable:
        """Return the handle of the table, updated to the head of the log."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        if self._handle is not None:
            try:
                self._handle.update_incremental()
                return self._handle
            except DeltaError:
                # The commits after the handle's version have been cleaned up.
                self._handle = None
        try:
            self._handle = DeltaTable(self._storage.uri)
        except (DeltaError, OSError) as wrong:
            if self._was_misled():
                return self._opened()
            self._refuse_damaged()
            raise StorageError(path=self._path, reason=str(wrong)) from wrong
        return self._handle

    def _was_misled(self) -> bool:
        """Return whether the hint named a log checkpoint that does not exist; such a hint is deleted."""
        if last_checkpoint(self._storage) in [-1, *log_checkpoints(self._storage)]:
            return False
        self._storage.delete(_HINT)
        return True

    def _refuse_damaged(self) -> None:
        """Raise if the newest log checkpoint cannot be read; return if it can or if there is none.

        Raises:
            IndexLogError: the log checkpoint cannot be read; readers may still use older commits, if any.
        """
        try:
            newest = max(log_checkpoints(self._storage), default=-1)
            if newest >= 0:
                read_log_checkpoint(self._storage, newest)
        except (MalformedLogError, FileNotFoundError) as damage:
            raise IndexLogError(file=self._path, reason=str(damage)) from damage

    def _refuse_cleaned_up(self, version: int) -> None:
        """Raise CommitConflictError if the version just written had already been taken by another commit.

        That happens if this process slept so long that the other commit has been cleaned up meanwhile.
        """
        if is_checkpointed_above(self._storage, version):
            raise self._conflict(version)

    def _failure(self, version: int, wrong: Exception) -> CommitConflictError | StorageError:
        if self._storage.exists(f"_delta_log/{version:020}.json"):
            return self._conflict(version)
        return StorageError(path=self._path, reason=str(wrong))

    def _conflict(self, version: int) -> CommitConflictError:
        return CommitConflictError(version=version, path=self._path)


def _add(file: IndexFile, data_change: bool) -> Any:
    from deltalake.transaction import AddAction

    now = int(time.time() * 1000)
    stats = json.dumps({"numRecords": file.rows})
    return AddAction(file.path, file.size, {"kind": kind_of(file.path)}, now, data_change, stats)


def _remove(file: IndexFile, data_change: bool) -> Any:
    from deltalake.transaction import RemoveAction

    now = int(time.time() * 1000)
    return RemoveAction(file.path, data_change, now, file.size, {"kind": kind_of(file.path)})


def _properties(index_id: str, seq: int) -> Any:
    from deltalake.transaction import CommitProperties, Transaction

    mark = Transaction(app_transaction(index_id), seq, int(time.time() * 1000))
    return CommitProperties(max_commit_retries=0, app_transactions=[mark])


def _no_hooks() -> Any:
    """Disable deltalake's hooks: `LogWriter.checkpoint` does their work outside the time of a commit."""
    from deltalake.transaction import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
