"""The interface `Table`, implemented for Delta: head, snapshots, changes and time travel.

A commit's time is the in-commit timestamp if the table records such timestamps, else the modification time of
the commit's file, raised so that times strictly increase with versions. Source: Delta protocol, In-Commit
Timestamps; and Delta's history manager, for the search of a version by time.

A range of changes is read at the cost of its commits' bytes, whatever the size of the table. A process has
one object per table, which caches the last few snapshots and the listing of the log. Threads may share the
object: each call holds the object's lock while it reads the log.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import field, replace

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitGapError, VersionNotFoundError
from tailbit.tables.cache import Cache
from tailbit.tables.date_text import show_time
from tailbit.tables.delta.actions import Actions, LogicalFile, Metadata
from tailbit.tables.delta.log import DeltaLog, Listing, commit_name, longs
from tailbit.tables.delta.snapshot import (
    DeltaSnapshot,
    build_metadata,
    build_snapshot,
    extend_snapshot,
    not_found,
)
from tailbit.tables.delta.words import WORDS
from tailbit.tables.model import Changes, CommitInfo, FileSlice, Fingerprint, SliceChange, Version
from tailbit.tables.storage import Stat
from tailbit.tables.table import SharedTable, settled


@dataclass
class Clock:
    """The commit times of one log. Only the times of new commits are computed; the others are kept."""

    log: DeltaLog
    _of: Listing | None = field(default=None, repr=False)
    _last: Version = -1
    _times: array[int] = field(default_factory=longs, repr=False)
    """Raised times of the commits up to `_last`, in version order, in ms since 1970, int64."""

    def timestamp(self, version: Version) -> int:
        """Return the time of a commit in ms since 1970."""
        stamp = self.log.in_commit_timestamp(version)
        return stamp if stamp is not None else self.file_time(version)

    def file_time(self, version: Version) -> int:
        """Return the modification time of a commit's file in ms since 1970, raised above all earlier times.

        Raises:
            CommitGapError: the commit is not in the log.
        """
        if version not in self.log.listing.commits:
            self.log.head()
        self._extend()
        index = self.log.listing.commits.place(version)
        if index is None:
            raise self.log.gap(version)
        return self._times[index]

    def _extend(self) -> None:
        """Add the times of newly listed commits; each time is at least 1 ms after the time before."""
        listing = self.log.listing
        commits, count = listing.commits, len(self._times)
        if self._of is not listing or (count and commits.versions[count - 1] != self._last):
            self._of, self._times, count = listing, longs(), 0
        for written in commits.times[count:]:
            self._times.append(max(written, self._times[-1] + 1) if self._times else written)
        self._last = commits.latest

    def version_at(self, timestamp_ms: int, configuration: Mapping[str, str | None]) -> Version:
        """Return the newest version committed at or before a time.

        `configuration` holds the table properties of the head. Cost: a bisection; with in-commit timestamps,
        each step reads one commit.

        Raises:
            VersionNotFoundError: the time is before the first readable commit or after the last.
        """
        head = self.log.head()
        earliest = self.log.listing.earliest
        oldest = next(iter(self.log.listing.commits.versions), head)
        first = max(head if earliest is None else earliest, oldest)
        first, last, stamped = self._window(timestamp_ms, configuration, first, head)
        time_of = self.timestamp if stamped else self.file_time
        if last == head and timestamp_ms > time_of(head):
            raise self._outside(timestamp_ms, "it is after the last commit", first, head)
        if timestamp_ms < time_of(first):
            raise self._outside(timestamp_ms, "it is before the first readable commit", first, head)
        while first < last:
            middle = (first + last + 1) // 2
            if time_of(middle) <= timestamp_ms:
                first = middle
            else:
                last = middle - 1
        return first

    def _window(
        self, timestamp_ms: int, configuration: Mapping[str, str | None], first: Version, last: Version
    ) -> tuple[Version, Version, bool]:
        """Return the versions to search, and whether to search by in-commit timestamps.

        In-commit timestamps are never compared with file times, and count only while the head's properties
        enable them: the timestamps of an earlier period, since disabled, do not count.
        """
        if not _are_stamped(configuration):
            return first, last, False
        since = configuration.get("delta.inCommitTimestampEnablementVersion") or ""
        enabled = configuration.get("delta.inCommitTimestampEnablementTimestamp") or ""
        if not since.isdigit() or not enabled.lstrip("-").isdigit() or not first < int(since) <= last:
            return first, last, True
        if timestamp_ms >= int(enabled):
            return int(since), last, True
        return first, int(since) - 1, False

    def _outside(self, timestamp_ms: int, reason: str, first: Version, last: Version) -> VersionNotFoundError:
        return VersionNotFoundError(
            version=f"at {show_time(timestamp_ms)}",
            path=self.log.storage.root,
            reason=reason,
            earliest=f"{first}, {show_time(self.timestamp(first))},",
            latest=f"{last}, {show_time(self.timestamp(last))}",
        )


def _are_stamped(configuration: Mapping[str, str | None]) -> bool:
    return (configuration.get("delta.enableInCommitTimestamps") or "").lower() == "true"


def commit_time_or(
    clock: Clock, version: Version, configuration: Mapping[str, str | None], default: int
) -> int:
    """Return the time of a commit, or `default` if only a checkpoint of that version is left.

    `configuration` holds the table properties of the version: a commit is read only if the table records
    in-commit timestamps.
    """
    try:
        return clock.timestamp(version) if _are_stamped(configuration) else clock.file_time(version)
    except CommitGapError:
        return default


def read_changes(clock: Clock, first: Version, last: Version) -> Changes:
    """Return the net effect of the commits `first` to `last` per path; the clock carries the log to read.

    The `old` slice of a change comes from the first remove action of its path, and is live before the range
    unless a writer removed what was not live; its statistics are absent. A change is not `settled` if the
    commits add its path with two deletion vectors and remove neither.
    """
    outcomes: dict[LogicalFile, FileSlice | None] = {}
    old: dict[str, FileSlice | None] = {}
    infos = []
    schema_changed = False
    commits = clock.log.commits(first, last)
    for version, actions in zip(range(first, last + 1), commits, strict=True):
        outcomes.update(actions.outcome())
        for slice_ in actions.removes.values():
            old.setdefault(slice_.path, slice_)
        for slice_ in actions.adds.values():
            old.setdefault(slice_.path, None)
        schema_changed |= actions.metadata is not None
        infos.append(_info(version, clock.timestamp(version), actions))
    new: dict[str, FileSlice] = {}
    unsettled = set()
    for live in outcomes.values():
        if live is not None and new.setdefault(live.path, live) is not live:
            unsettled.add(live.path)
    slices = (SliceChange(path, old[path], new.get(path), path not in unsettled) for path in sorted(old))
    return Changes(first, last, tuple(slices), tuple(infos), schema_changed)


def _info(version: Version, timestamp_ms: int, actions: Actions) -> CommitInfo:
    return CommitInfo(
        version=version,
        timestamp_ms=timestamp_ms,
        operation=actions.operation,
        files_added=len(actions.adds),
        files_removed=len(actions.removes),
        bytes_added=sum(a.size for a in actions.adds.values()),
        blank=actions.blank,
    )


_KEPT_SNAPSHOTS = 4
_KEPT_IDS = 128
_NEAR = 100
"""A snapshot at most this many commits newer than a cached one is extended from the cached one."""


@dataclass
class DeltaTable(SharedTable):
    """A Delta table, read-only: nothing is ever written below the table's root."""

    words = WORDS

    log: DeltaLog = field(init=False, repr=False)
    _clock: Clock = field(init=False, repr=False)
    _snapshots: Cache[Version, tuple[Stat | None, DeltaSnapshot]] = field(
        default_factory=lambda: Cache(_KEPT_SNAPSHOTS), repr=False
    )
    _ids: Cache[tuple[Version, str], str] = field(default_factory=lambda: Cache(_KEPT_IDS), repr=False)

    def __post_init__(self) -> None:
        self.log = DeltaLog(self.storage, on_reset=self._forget)
        self._clock = Clock(self.log)

    def _forget(self) -> None:
        self._snapshots.clear()
        self._ids.clear()

    @settled
    def head(self) -> Version:
        """Return the newest version. Cost: two stats by name after the first call."""
        return self.log.head()

    @settled
    def moved_on(self, since: Version) -> bool:
        """Return whether a commit follows the head as the caller saw it. Cost: one stat."""
        return self.log.moved_on(since)

    @settled
    def earliest(self) -> Version:
        """Return the oldest version from which every version up to the head can be rebuilt."""
        head, oldest = self.log.head(), self.log.relist().earliest
        if oldest is None:
            raise self.log.gap(head)
        return oldest

    @settled
    def snapshot(self, version: Version | None = None) -> DeltaSnapshot:
        """Return the snapshot of a version, or of the head.

        Cost: see `build_snapshot`; the last few snapshots are cached.
        """
        head = self.log.head()
        asked_version = head if version is None else version
        if not 0 <= asked_version <= head:
            raise not_found(
                self.log,
                asked_version,
                "it is not there yet" if asked_version > head else "there is no such version",
            )
        cached = self._cached_snapshot(asked_version)
        if cached is not None:
            return cached
        snapshot = self._nearest(asked_version) or build_snapshot(self.log, asked_version)
        time = commit_time_or(self._clock, asked_version, snapshot.metadata.configuration, default=0)
        return self._keep(replace(snapshot, timestamp_ms=time))

    def _cached_snapshot(self, version: Version) -> DeltaSnapshot | None:
        entry = self._snapshots.cached(version)
        if entry is None:
            return None
        stat, snapshot = entry
        if self._stat(version) != stat:
            self._snapshots.forget(lambda other: other == version)
            return None
        return snapshot

    def _keep(self, snapshot: DeltaSnapshot) -> DeltaSnapshot:
        self._snapshots.hold(snapshot.version, (self._stat(snapshot.version), snapshot))
        return snapshot

    def _nearest(self, version: Version) -> DeltaSnapshot | None:
        """Extend the nearest cached snapshot to a version; None without such a snapshot or with a gap."""
        near = [v for v, _ in self._snapshots.items() if version - _NEAR <= v < version]
        before = self._cached_snapshot(max(near)) if near else None
        if before is None:
            return None
        try:
            return extend_snapshot(self.log, before, version)
        except CommitGapError:
            return None

    def _stat(self, version: Version) -> Stat | None:
        return self.storage.stat(commit_name(version))

    def versions(self, first: Version, last: Version, most: int | None = None) -> range:
        """Return the versions from `first` to `last`, which are contiguous in Delta. Cost: none."""
        every = range(max(first, 0), last + 1)
        return every if most is None else every[:most]

    @settled
    def follows(self, version: Version) -> bool:
        """Return whether the log still holds the commit after a version. Cost: as `DeltaLog.sha256`."""
        return self.log.sha256(version + 1) is not None

    @settled
    def changes(self, first: Version, last: Version) -> Changes:
        """Return the net effect of the commits `first` to `last` per path.

        Cost: the bytes of the commits, whatever the size of the table.
        """
        return read_changes(self._clock, first, last)

    @settled
    def commit_timestamp(self, version: Version) -> int:
        """Return the time of a commit in ms since 1970.

        The time is the in-commit timestamp, else the modification time of the commit's file, raised so that
        times strictly increase with versions.
        """
        return self._clock.timestamp(version)

    @settled
    def version_at(self, timestamp_ms: int) -> Version:
        """Return the newest version committed at or before a time."""
        return self._clock.version_at(timestamp_ms, self._metadata(self.head()).configuration)

    def fingerprint_stat(self, version: Version) -> Stat | None:
        """Return a file stat that changes as soon as a commit's file is replaced; None if the file is gone.

        Cost: one stat.
        """
        return self._stat(version)

    @settled
    def fingerprint(self, version: Version) -> Fingerprint | None:
        """Return the fingerprint of a commit; None if the commit's file is gone.

        Cost: reads the commit; the table's id comes from a near snapshot or fingerprint in the cache, else
        from the metadata columns of the newest checkpoint.
        """
        digest = self.log.sha256(version)
        if digest is None:
            return None
        table_id = self._ids.get((version, digest), lambda: (self._table_id(version), 1))
        return Fingerprint(version, digest, table_id)

    def _table_id(self, version: Version) -> str:
        """Return the metaData id at a version: from a cached id of a near version, else from the log.

        Cost: first a look for the head, which drops the cached ids if the table was created again.
        """
        self.log.head()
        ids = {v: snapshot.table_id for v, (_, snapshot) in self._snapshots.items()} | {
            v: i for (v, _), i in self._ids.items()
        }
        near = min(ids, key=lambda v: abs(v - version), default=None)
        if near is not None and abs(near - version) <= _NEAR:
            derived = self._carried(near, ids[near], version)
            if derived is not None:
                return derived
        return self._metadata(version).id

    def _carried(self, near: Version, table_id: str, version: Version) -> str | None:
        """Derive the id at `version` from the id at `near`; None if the commits between do not tell it."""
        first, last = sorted((near, version))
        try:
            for actions in self.log.commits(first + 1, last):
                if actions.metadata is not None and near > version:
                    return None
                table_id = table_id if actions.metadata is None else actions.metadata.id
        except CommitGapError:
            return None
        return table_id

    def _metadata(self, version: Version) -> Metadata:
        """Return the metadata of a version; without a cached snapshot, no file action is read."""
        cached = self._cached_snapshot(version)
        return build_metadata(self.log, version) if cached is None else cached.metadata
