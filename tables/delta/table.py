"""A Delta table: head, snapshots, changes, time travel, proof of commits.

One object a process and table; it keeps the last few snapshots and what it has listed of the log. Threads may
share it: whoever asks holds its lock for as long as it looks at the log.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Concatenate, ParamSpec, TypeVar

from tailbit.errors import CommitGapError
from tailbit.tables.cache import Cache
from tailbit.tables.delta.changes import read_changes
from tailbit.tables.delta.log.actions import Metadata
from tailbit.tables.delta.log.commits import DeltaLog
from tailbit.tables.delta.log.listing import commit_name
from tailbit.tables.delta.snapshot import (
    DeltaSnapshot,
    build_metadata,
    build_snapshot,
    extend_snapshot,
    not_found,
)
from tailbit.tables.delta.time_travel import Clock, commit_time_or
from tailbit.tables.model import Changes, Fingerprint, Version
from tailbit.tables.storage import Stat, Storage
from tailbit.tables.table import Table

_KEPT_SNAPSHOTS = 4
_KEPT_IDS = 128
_NEAR = 100
"""A snapshot at most this many commits newer than a kept one is extended from it."""


P = ParamSpec("P")
R = TypeVar("R")


def _alone(method: Callable[Concatenate[DeltaTable, P], R]) -> Callable[Concatenate[DeltaTable, P], R]:
    """One thread at a time, of all that share the table."""

    @functools.wraps(method)
    def locked(table: DeltaTable, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with table._lock:
            return method(table, *args, **kwargs)

    return locked


@dataclass
class DeltaTable(Table):
    """A Delta table. Reads only; nothing here ever writes below its root. Safe to share between threads."""

    storage: Storage
    log: DeltaLog = field(init=False, repr=False)
    _clock: Clock = field(init=False, repr=False)
    _snapshots: Cache[Version, tuple[Stat | None, DeltaSnapshot]] = field(
        default_factory=lambda: Cache(_KEPT_SNAPSHOTS), repr=False
    )
    _ids: Cache[tuple[Version, str], str] = field(default_factory=lambda: Cache(_KEPT_IDS), repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.log = DeltaLog(self.storage, on_reset=self._forget)
        self._clock = Clock(self.log)

    @classmethod
    def open(cls, storage: Storage) -> DeltaTable:
        """The Delta table below a root.

        Raises:
            NotATableError: its log holds no commit and no checkpoint.
        """
        table = cls(storage)
        table.head()
        return table

    def _forget(self) -> None:
        self._snapshots.clear()
        self._ids.clear()

    @_alone
    def head(self) -> Version:
        """The newest version. Cost: two stats by name after the first call.

        Raises:
            NotATableError: there is no log any more.
        """
        return self.log.head()

    @_alone
    def moved_on(self) -> bool:
        """Whether there is a commit after the newest one that this object has seen. Cost: one stat."""
        return self.log.moved_on()

    @_alone
    def earliest(self) -> Version:
        """The oldest version that can be rebuilt, and from which every later one can.

        Raises:
            CommitGapError: not even the head can be rebuilt.
        """
        head, found = self.log.head(), self.log.relist().earliest
        if found is None:
            raise self.log.gap(head)
        return found

    @_alone
    def snapshot(self, version: Version | None = None) -> DeltaSnapshot:
        """The state at a version, else at the head. Cost: see `build_snapshot`; the newest few are kept.

        Raises:
            VersionNotFoundError: the version is gone or not yet there.
            CommitGapError: a commit that it needs is missing.
            MalformedLogError: the log is damaged.
            UnsupportedFeatureError: the table demands a feature that is not understood.
        """
        head = self.log.head()
        wanted = head if version is None else version
        if not 0 <= wanted <= head:
            raise not_found(
                self.log, wanted, "it is not there yet" if wanted > head else "there is no such version"
            )
        kept = self._kept(wanted)
        if kept is not None:
            return kept
        found = self._nearest(wanted) or build_snapshot(self.log, wanted)
        time = commit_time_or(self._clock, wanted, default=0)
        return self._keep(replace(found, timestamp_ms=time))

    def _kept(self, version: Version) -> DeltaSnapshot | None:
        kept = self._snapshots.held(version)
        if kept is None:
            return None
        stat, snapshot = kept
        if self._stat(version) != stat:
            self._snapshots.forget(lambda other: other == version)
            return None
        return snapshot

    def _keep(self, snapshot: DeltaSnapshot) -> DeltaSnapshot:
        self._snapshots.hold(snapshot.version, (self._stat(snapshot.version), snapshot))
        return snapshot

    def _nearest(self, version: Version) -> DeltaSnapshot | None:
        """The snapshot of a version from a kept one shortly before it; None where that cannot be."""
        near = [v for v, _ in self._snapshots.items() if version - _NEAR <= v < version]
        before = self._kept(max(near)) if near else None
        if before is None:
            return None
        try:
            return extend_snapshot(self.log, before, version)
        except CommitGapError:
            return None

    def _stat(self, version: Version) -> Stat | None:
        return self.storage.stat(commit_name(version))

    @_alone
    def changes(self, first: Version, last: Version) -> Changes:
        """The net effect of the commits `first` to `last` per path. Cost: their bytes, however big the table.

        Raises:
            CommitGapError: one of them is missing.
            MalformedLogError: one of them is damaged.
            UnsupportedFeatureError: one of them demands a feature that is not understood.
        """
        return read_changes(self._clock, first, last)

    @_alone
    def commit_timestamp(self, version: Version) -> int:
        """The time of a commit in ms since 1970: its own stamp, else its file's time made increasing.

        Raises:
            CommitGapError: the commit is not in the log.
        """
        return self._clock.timestamp(version)

    @_alone
    def version_at(self, timestamp_ms: int) -> Version:
        """The newest version committed at or before a time.

        Raises:
            VersionNotFoundError: the time is before the first readable commit or after the last.
        """
        return self._clock.version_at(timestamp_ms, self._metadata(self.head()).configuration)

    def fingerprint_stat(self, version: Version) -> Stat | None:
        """What changes at once when a commit's file is another; None where it is gone. Cost: one stat."""
        return self._stat(version)

    @_alone
    def fingerprint(self, version: Version) -> Fingerprint | None:
        """Proof of what a commit is; None where its file is gone.

        Cost: reads that commit; the table's id comes from what is known already, else from the metadata
        columns of the newest checkpoint.
        """
        digest = self.log.sha256(version)
        if digest is None:
            return None
        table_id = self._ids.get((version, digest), lambda: (self._table_id(version), 1))
        return Fingerprint(version, digest, table_id)

    def _table_id(self, version: Version) -> str:
        """The metaData id at a version: from a near version whose id is known, else from the log."""
        known = {v: snapshot.table_id for v, (_, snapshot) in self._snapshots.items()} | {
            v: i for (v, _), i in self._ids.items()
        }
        near = min(known, key=lambda v: abs(v - version), default=None)
        if near is not None and abs(near - version) <= _NEAR:
            found = self._carried(near, known[near], version)
            if found is not None:
                return found
        return self._metadata(version).id

    def _carried(self, near: Version, table_id: str, version: Version) -> str | None:
        """The id of `version` from that of `near`; None where a commit in between decides otherwise."""
        try:
            between = range(version, near, -1) if near < version else range(near, version, -1)
            for at in between:
                metadata = self.log.commit(at).metadata
                if metadata is not None:
                    return metadata.id if near < version else None
        except CommitGapError:
            return None
        return table_id

    def _metadata(self, version: Version) -> Metadata:
        """The metadata of a version, its files left unread where no snapshot is kept."""
        kept = self._kept(version)
        return build_metadata(self.log, version) if kept is None else kept.metadata
