"""The index table: open it, refresh it, commit a change. `IndexState` holds what it records.

One Delta table holds everything: the index data and the record of what was indexed become visible in one
commit or not at all. Nothing here reads the source. Reading imports neither deltalake nor Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from tailbit.base.errors import (
    CommitConflictError,
    CommitGapError,
    ForeignIndexError,
    IndexLogError,
    MalformedLogError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tailbit.base.system import check_system
from tailbit.index.kinds.files import FILES, files_to_arrow, stamped, stamped_rows
from tailbit.index.kinds.kind import Kind
from tailbit.index.kinds.ledger import LEDGER, ledger_to_arrow
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.kinds.settings import SETTINGS, settings_to_arrow
from tailbit.index.model import FileRecord, IndexFile, Ledger, Settings
from tailbit.index.store.place import is_made, log_of, refuse_foreign
from tailbit.index.store.state import IndexState, MovingState
from tailbit.index.store.stored_log import LOG_CHECKPOINT_EVERY, StoredLog, commit_name
from tailbit.tables.model import FileSlice, Version
from tailbit.tables.open import open_index_log
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import NO_OPTIONS, Storage, StorageOptions, open_storage
from tailbit.tables.table import Table


class _Loaded(NamedTuple):
    """A version of an index that this process has loaded; `seen`: stat of the version's commit file."""

    version: Version
    log: Table
    state: MovingState
    seen: object

    @classmethod
    def of_version(cls, version: Version, log: Table, state: MovingState) -> _Loaded:
        return cls(version, log, state, log.fingerprint_stat(version))


class MetadataTable:
    """An index as this process has loaded it, at one version of its log.

    Invariant: after `commit` the state is what a fresh `open` would read; the state is extended, never read
    again. Threads may share the object for queries: it changes only under `lock`, which is also the lock of
    `state`. If the index was replaced meanwhile, a `state` obtained before keeps its old contents. A process
    that commits needs a table of its own.
    """

    def __init__(self, path: str, storage: Storage, log: Table, kinds: Kinds = KINDS) -> None:
        self.path = path
        self.storage = storage
        self.lock = threading.RLock()
        self.kinds = kinds
        self._mended: list[str] = []
        self._now: _Loaded
        self._load(log)

    @classmethod
    def create(
        cls, path: str, settings: Settings, kinds: Kinds = KINDS, options: StorageOptions = NO_OPTIONS
    ) -> MetadataTable:
        """Create an empty index with these settings and record kinds, in one commit.

        `options`: of the index's store, which is first checked for conditional puts.

        Raises:
            CommitConflictError: an index exists already, or another process is creating it.
            ForeignIndexError: the path holds something else.
            RequirementError: this system is not Linux.
            NoConditionalPutError: two concurrent writers there could both believe that they committed first.
        """
        check_system()
        storage = open_storage(path, options)
        refuse_foreign(path, storage)
        if is_made(storage):
            raise CommitConflictError(version=0, path=path)
        storage.make_root()
        storage.check_commits()
        file = SETTINGS.write(storage, settings_to_arrow(settings, 0))
        StoredLog(storage, path, kinds.table_schema()).create(settings.index_id, [file])
        return cls.open(path, kinds, options)

    @classmethod
    def open(cls, path: str, kinds: Kinds = KINDS, options: StorageOptions = NO_OPTIONS) -> MetadataTable:
        """Open the index at its newest version. Files of a kind outside `kinds` are ignored.

        Cost: one log listing, the settings and ledger records; the rest is read on first use.

        Raises:
            NoIndexError: the path is empty.
            ForeignIndexError: the path holds something else.
            IndexFormatError: another release wrote the index.
            IndexLogError: the index's log is damaged, or a writer is in the middle of a commit.
        """
        storage = open_storage(path, options)
        with _its_own_log(path):
            return cls(path, storage, log_of(path, storage), kinds)

    def moved_on(self, since: Version) -> bool:
        """Return whether there may be a commit after `since`, a version as the caller saw it.

        Cost: one probe by name.
        """
        with self.lock:
            return self._now.version != since or self._now.log.moved_on(since)

    def refresh(self) -> bool:
        """Apply what other processes have committed; return whether there was anything.

        Cost: a few probes by name if nothing is new; else the new commits and the records that they added.

        Raises:
            NoIndexError: the index has been deleted.
            IndexLogError: the index's log is damaged, or a writer is in the middle of a commit.
        """
        with self.lock, _its_own_log(self.path):
            return self._refresh()

    def _refresh(self) -> bool:
        now = self._now
        if self.storage.remote:
            self.storage.look_at([commit_name(version) for version in (now.version, now.version + 1)])
        if now.log.fingerprint_stat(now.version) != now.seen:
            # The index was deleted, restored from a backup, built again, or is so far ahead that our commit
            # was cleaned up.
            self._load(log_of(self.path, self.storage))
            return True
        head = now.log.head()
        if head == now.version:
            return False
        try:
            changes = now.log.changes(now.version + 1, head)
            _refuse_blank([commit.version for commit in changes.commits if commit.blank])
        except (CommitGapError, MalformedLogError):
            # A commit was cleaned up, or is damaged; damage does not matter if a later log checkpoint exists.
            self._load(now.log)
            return True
        added = [_index_file(c.new) for c in changes.slices if c.new is not None]
        self._moving().extend(added, [c.path for c in changes.slices if c.new is None])
        self._now = _Loaded.of_version(head, now.log, now.state)
        return True

    @property
    def state(self) -> IndexState:
        """Return the contents of this version, for readers."""
        return self._now.state

    @property
    def bytes_held(self) -> int:
        """Return about how many bytes of memory this object takes: 64 KiB, and the records of all files.

        Records are in memory as a whole, at some four times their size in files of the index.
        """
        return (1 << 16) + 4 * sum(file.size for file in self.state.files_of(FILES))

    @property
    def version(self) -> Version:
        """Return the version of the index's own log that this process knows."""
        return self._now.version

    @property
    def log(self) -> Table:
        """Return the index as a table, through its own log."""
        return self._now.log

    def commit(
        self,
        records: Sequence[FileRecord] | pa.Table,
        files: Sequence[IndexFile],
        ledger: Ledger | None,
        removes: Sequence[str] = (),
        settings: Settings | None = None,
        *,
        data_change: bool = True,
    ) -> None:
        """Commit index files and records together, or none of them.

        Effect and record of effect are one commit. Bitmaps, file records and the covered version become
        visible together or not at all.

        `records`: of data files, or a table of rows of kind `files`. `files`: index files, already written.
        `ledger`: None keeps the present one. Every record and the ledger get the next `seq`, whatever `seq`
        they carry. The new ledger file replaces the previous one: one ledger file is live.

        Raises:
            CommitConflictError: another writer was first, or a file to remove is no longer live.
            StorageError: the storage refused; if the commit has landed after all, the next refresh finds it.
            RequirementError: this system is not Linux.
        """
        check_system()
        state = self._now.state
        if any(path not in state.files for path in removes):
            raise CommitConflictError(version=self.version + 1, path=self.path)
        seq = state.seq + 1
        ledger = ledger or state.ledger
        if ledger is None and settings is None:
            settings = state.settings
        own_records: Sequence[FileRecord] | pa.Table
        own_records = stamped_rows(records, seq) if isinstance(records, pa.Table) else stamped(records, seq)
        written = [*files, *self._write_files(own_records)]
        ledger = None if ledger is None else replace(ledger, seq=seq, held=state.held_after(written, removes))
        heads, replaced = self._write_heads(ledger, settings, seq)
        added, gone = [*written, *heads], [*removes, *replaced]
        arguments = self.version, state.index_id, seq, added, [state.files[path] for path in gone]
        self._write(partial(self._writer.commit, *arguments, data_change=data_change))
        self._moving().note(added, gone, own_records, ledger, settings or state.settings, seq)
        self._stand_at_next()

    def _moving(self) -> MovingState:
        """Return the state for changing it.

        If the change fails half-way, the next refresh reads the whole state again.
        """
        self._now = self._now._replace(seen=object())
        return self._now.state

    def _stand_at_next(self) -> None:
        """Move to the version just committed.

        Every `LOG_CHECKPOINT_EVERY`-th version gets a log checkpoint.
        """
        self._now = _Loaded.of_version(self.version + 1, self.log, self._now.state)
        if self.version % LOG_CHECKPOINT_EVERY == 0:
            self.checkpoint_log()

    def checkpoint_log(self) -> None:
        """Write a log checkpoint now and clean up older commits; every 20th commit does so by itself."""
        self._write(self._writer.checkpoint)

    def _write(self, write: Callable[[], None]) -> None:
        """Write to the log; if the log is damaged, write a checkpoint of the known state and retry."""
        try:
            write()
        except IndexLogError as damage:
            now = self._now
            if now.log.fingerprint_stat(now.version) != now.seen:
                raise
            self._writer.checkpoint_known(self.kinds, now.version, now.state)
            self._mended.append(f"{damage}; a log checkpoint was made anew")
            write()

    def take_mended(self) -> list[str]:
        """Return a line for each damage of the log that was repaired since the last call."""
        mended, self._mended = self._mended, []
        return mended

    def _load(self, log: Table) -> None:
        """Load the newest version of a log, with a new state and a new writer."""
        log, snapshot = self._newest(log)
        _refuse_blank(snapshot.blank_commits)
        state = MovingState(self.storage, self.path, map(_index_file, snapshot.files), self.kinds, self.lock)
        self._writer = StoredLog(self.storage, self.path, self.kinds.table_schema())
        self._now = _Loaded.of_version(snapshot.version, log, state)

    def _newest(self, log: Table) -> tuple[Table, Snapshot]:
        """Return the newest snapshot.

        The log is listed once more if a writer cleaned it up between list and read.
        """
        try:
            try:
                return log, log.snapshot()
            except CommitGapError:
                log = open_index_log(self.path, self.storage.options)
                return log, log.snapshot()
        except UnsupportedFeatureError as foreign:
            raise ForeignIndexError(path=self.path, reason=str(foreign)) from foreign

    def _write_files(self, records: Sequence[FileRecord] | pa.Table) -> list[IndexFile]:
        if not len(records):
            return []
        rows = records if isinstance(records, pa.Table) else files_to_arrow(records)
        return [FILES.write(self.storage, rows)]

    def _write_heads(
        self, ledger: Ledger | None, settings: Settings | None, seq: int
    ) -> tuple[list[IndexFile], list[str]]:
        """Write the new ledger and settings; return their files and the files that they replace."""
        rows: dict[Kind[Any], pa.Table] = {}
        if ledger is not None:
            rows[LEDGER] = ledger_to_arrow(ledger)
        if settings is not None:
            rows[SETTINGS] = settings_to_arrow(settings, seq)
        written = [kind.write(self.storage, table) for kind, table in rows.items()]
        return written, [file.path for kind in rows for file in self.state.files_of(kind)]


@contextmanager
def _its_own_log(path: str) -> Iterator[None]:
    """Turn damage of the index's own log into IndexLogError, to tell it from damage of the source's log."""
    try:
        yield
    except (MalformedLogError, CommitGapError, VersionNotFoundError) as damage:
        raise IndexLogError(file=path, reason=str(damage)) from damage


def _refuse_blank(versions: Sequence[int]) -> None:
    """Refuse a log of an index with empty commits: the index's writers write none, so actions were lost."""
    if versions:
        raise MalformedLogError(file=f"commit {versions[0]}", reason="it holds no action")


def _index_file(slice_: FileSlice) -> IndexFile:
    return IndexFile(slice_.path, slice_.size, slice_.rows or 0)
