"""The index table: open it, look whether it has moved, ask what it records, commit a change.

One Delta table holds everything: what was indexed and the record of it become visible in one commit or not at
all. Nothing here reads the source. Reading imports neither deltalake nor Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from tailbit.errors import (
    CommitConflictError,
    CommitGapError,
    ForeignIndexError,
    NoIndexError,
    NotATableError,
    UnsupportedFeatureError,
)
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.files.recorded import RecordedFiles
from tailbit.index.kinds.files.rows import QUERY_COLUMNS, files_to_arrow, stamped, stamped_rows
from tailbit.index.kinds.hidden_rows import HIDDEN_ROWS
from tailbit.index.kinds.kind import Kind
from tailbit.index.kinds.ledger import LEDGER, ledger_to_arrow
from tailbit.index.kinds.schemas import KINDS, Kinds
from tailbit.index.kinds.settings import SETTINGS, settings_to_arrow
from tailbit.index.kinds.value_counts import VALUE_COUNTS, Counts, stored_counts
from tailbit.index.model import FileRecord, IndexFile, Ledger, Settings
from tailbit.index.store.commit_log import commit_log
from tailbit.index.store.log_writer import LOG_CHECKPOINT_EVERY
from tailbit.index.store.state import IndexState
from tailbit.index.store.statistics import IndexStatistics, statistics_of
from tailbit.tables import open_table
from tailbit.tables.model import FileSlice
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage, open_storage
from tailbit.tables.table import Table


class MetadataTable:
    """One version of an index, as this process knows it.

    Invariant: after `commit` the state is what a fresh `open` would read; it is extended, never read again.
    Threads may share it for questions: whoever needs several of its answers to be of one version, or lets it
    move, holds `lock` meanwhile. `hidden_rows` and `value_counts` hold it themselves. Whoever commits has one
    of its own.
    """

    def __init__(self, path: str, storage: Storage, log: Table, kinds: Kinds = KINDS) -> None:
        self.path = path
        self.storage = storage
        self.log = log
        self.lock = threading.RLock()
        self.kinds = kinds
        self._writer = commit_log(storage, path, kinds.table_schema())
        self._load()

    @classmethod
    def create(cls, path: str, settings: Settings, kinds: Kinds = KINDS) -> MetadataTable:
        """Make an empty index that remembers `settings`, in one commit; `kinds`: what it is made of.

        Raises:
            CommitConflictError: there is an index already, or another process makes it at this moment.
            ForeignIndexError: the path holds something else.
        """
        storage = open_storage(path)
        _refuse_foreign(path, storage)
        if storage.list("_delta_log"):
            raise CommitConflictError(version=0, path=path)
        file = SETTINGS.write(storage, settings_to_arrow(settings, 0))
        commit_log(storage, path, kinds.table_schema()).create(settings.index_id, [file])
        return cls.open(path, kinds)

    @classmethod
    def open(cls, path: str, kinds: Kinds = KINDS) -> MetadataTable:
        """The index at its newest version. Files of a kind that is not among `kinds` are left alone.

        Cost: one log listing, the settings and ledger records; the rest is read when asked.

        Raises:
            NoIndexError: there is nothing at the path.
            ForeignIndexError: the path holds something else.
            IndexFormatError: another release wrote it.
        """
        storage = open_storage(path)
        try:
            return cls(path, storage, open_table(path), kinds)
        except NotATableError as nothing:
            _refuse_foreign(path, storage)
            raise NoIndexError(path=path) from nothing

    def refresh(self) -> bool:
        """Take in what others have committed; say whether there was anything.

        Cost: a few probes by name where nothing is new; else the new commits and the records they added.

        Raises:
            NoIndexError: the index has been deleted.
        """
        with self.lock:
            return self._refresh()

    def _refresh(self) -> bool:
        if self.log.fingerprint_stat(self.version) != self._seen:
            # Deleted, put back from a backup, built anew, or so far ahead that our commit was cleaned up.
            fresh = MetadataTable.open(self.path, self.kinds)
            self.__dict__.update(fresh.__dict__ | {"lock": self.lock})
            return True
        head = self.log.head()
        if head == self.version:
            return False
        try:
            changes = self.log.changes(self.version + 1, head)
        except CommitGapError:
            self._load()
            return True
        added = [_index_file(c.new) for c in changes.slices if c.new is not None]
        self._state.extend(added, [c.path for c in changes.slices if c.new is None])
        self._at(head)
        return True

    @property
    def state(self) -> IndexState:
        """What this version says, to be read."""
        return self._state

    @property
    def files(self) -> Mapping[str, IndexFile]:
        """The live index files by path."""
        return self._state.files

    @property
    def ledger(self) -> Ledger | None:
        """How far the index is; None before the first batch."""
        return self._state.ledger

    @property
    def settings(self) -> Settings:
        """Columns and options."""
        return self._state.settings

    @property
    def seq(self) -> int:
        """The number of the last change; each commit makes it one higher."""
        return self._state.seq

    @property
    def index_id(self) -> str:
        """The identity of this index, of which its app transaction is named."""
        return self.settings.index_id

    @property
    def recorded(self) -> RecordedFiles:
        """What is recorded of every source file; read at the first use."""
        return self._state.recorded

    def files_of(self, kind: Kind[Any]) -> list[IndexFile]:
        """The live index files of one kind."""
        return self._state.files_of(kind)

    def record(self, path: str) -> FileRecord | None:
        """The newest record of a source file; None where there is none."""
        return self.recorded.get(path)

    def live_records(self) -> Iterator[FileRecord]:
        """The newest records of the files that have not left the source."""
        return (record for record in self.recorded.records() if record.left is None)

    def files_table(self) -> pa.Table:
        """The newest record per path, columnar, without a Python step per file."""
        return self.recorded.table().select(QUERY_COLUMNS)

    def spaces(self) -> Mapping[str, list[Segment]]:
        """Row space to its segments."""
        return self._state.spaces

    def segments_of(self, space: str) -> list[Segment]:
        """The segments of one row space; their footers are read when asked."""
        return self._state.spaces.get(space, [])

    def hidden_rows(self, identity: str) -> BitMap | None:
        """The rows hidden under a deletion vector identity; None where the index does not know it."""
        with self.lock:
            return self._state.reader(HIDDEN_ROWS).get(identity)

    def value_counts(self, column: str, key_type: str | None = None) -> Counts:
        """Keys of an indexed column, in its settings' key type or a wider one, and their visible rows."""
        with self.lock:
            key_type = key_type or next(c.key_type for c in self.settings.columns if c.id == column)
            return self._state.reader(VALUE_COUNTS).of(column, key_type)

    def stored_counts(self, column: str) -> Iterator[tuple[str, Counts]]:
        """Per key type in which a column has been counted, its keys and visible rows as they are stored."""
        return stored_counts(self.storage, self._state.paths_of(VALUE_COUNTS), column)

    def statistics(self) -> IndexStatistics:
        """Sizes by the log alone: nothing is read."""
        return statistics_of(self.version, self._state)

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
        """Make all of it visible in one commit, or nothing.

        `records` may be rows of kind `files`, where there are very many. `files` are written already;
        `ledger` None carries the present one forward. Every record and the ledger get the next `seq`,
        whatever they carry. The ledger is replaced, not piled up: one file of it is live.

        Raises:
            CommitConflictError: another writer was first, or a file to remove is no longer live.
            StorageError: the storage refused; nothing is visible.
        """
        if any(path not in self.files for path in removes):
            raise CommitConflictError(version=self.version + 1, path=self.path)
        seq = self.seq + 1
        ledger = ledger or self.ledger
        ledger = None if ledger is None else replace(ledger, seq=seq)
        if ledger is None and settings is None:
            settings = self.settings
        mine: Sequence[FileRecord] | pa.Table
        mine = stamped_rows(records, seq) if isinstance(records, pa.Table) else stamped(records, seq)
        heads, replaced = self._write_heads(ledger, settings, seq)
        added = [*files, *self._write_files(mine), *heads]
        gone = [*removes, *replaced]
        self._writer.commit(
            self.version,
            self.index_id,
            seq,
            added,
            [self.files[path] for path in gone],
            data_change=data_change,
        )
        self._state.note(added, gone, mine, ledger, settings or self.settings, seq)
        self._at(self.version + 1)
        if self.version % LOG_CHECKPOINT_EVERY == 0:
            self._writer.checkpoint()

    def checkpoint_log(self) -> None:
        """Write a log checkpoint now and clean up older commits; `commit` does it by itself, now and then."""
        self._writer.checkpoint()

    def _load(self) -> None:
        try:
            snapshot = self._snapshot()
        except UnsupportedFeatureError as foreign:
            raise ForeignIndexError(path=self.path, reason=str(foreign)) from foreign
        self._state = IndexState(self.storage, self.path, map(_index_file, snapshot.files))
        self._at(snapshot.version)

    def _snapshot(self) -> Snapshot:
        """The newest snapshot; listed once more where a writer cleaned the log up between list and read."""
        try:
            return self.log.snapshot()
        except CommitGapError:
            self.log = open_table(self.path)
            return self.log.snapshot()

    def _at(self, version: int) -> None:
        self.version = version
        self._seen = self.log.fingerprint_stat(version)

    def _write_files(self, records: Sequence[FileRecord] | pa.Table) -> list[IndexFile]:
        if not len(records):
            return []
        rows = records if isinstance(records, pa.Table) else files_to_arrow(records)
        return [FILES.write(self.storage, rows)]

    def _write_heads(
        self, ledger: Ledger | None, settings: Settings | None, seq: int
    ) -> tuple[list[IndexFile], list[str]]:
        """Write the new ledger and settings; return them and the files that they replace."""
        rows: dict[Kind[Any], pa.Table] = {}
        if ledger is not None:
            rows[LEDGER] = ledger_to_arrow(ledger)
        if settings is not None:
            rows[SETTINGS] = settings_to_arrow(settings, seq)
        written = [kind.write(self.storage, table) for kind, table in rows.items()]
        return written, [file.path for kind in rows for file in self.files_of(kind)]


def _index_file(slice_: FileSlice) -> IndexFile:
    return IndexFile(slice_.path, slice_.size, slice_.rows or 0)


def _refuse_foreign(path: str, storage: Storage) -> None:
    """Refuse a file, or a folder with anything in it that an index would not have put there.

    What a killed creation left (folders `kind=...`), the Spark checkpoint and heartbeats are our own.
    """
    contents = storage.contents()
    if contents is None:
        raise ForeignIndexError(path=path, reason="it is a file")
    for name in contents:
        if not name.startswith(("_", ".", "kind=")):
            raise ForeignIndexError(path=path, reason=f"it holds {name}")
