"""A Hudi table: head, snapshots, changes, time travel, fingerprints of instants.

A process has one object per table, which caches the last few snapshots and the timeline. Threads may share
the object: each call holds the object's lock while it reads the timeline.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitGapError, LogBlockError, NotATableError, VersionNotFoundError
from tailbit.tables.cache import Cache
from tailbit.tables.date_text import show_time
from tailbit.tables.hudi.changes import Folds
from tailbit.tables.hudi.files import HudiFiles, ListedFiles, list_files
from tailbit.tables.hudi.gate import check_readable
from tailbit.tables.hudi.groups import group_named, log_file, requested_of
from tailbit.tables.hudi.instants import DELETIONS
from tailbit.tables.hudi.properties import NEWEST
from tailbit.tables.hudi.retention import (
    digest_of,
    earliest_readable,
    is_saved,
    is_taken_back,
    lineage,
    why_missing,
)
from tailbit.tables.hudi.snapshot import HudiSnapshot, build_snapshot
from tailbit.tables.hudi.timeline import Timeline, TimelineReader
from tailbit.tables.hudi.versions import Versions
from tailbit.tables.hudi.words import LOG, WORDS
from tailbit.tables.model import Changes, FileSlice, Fingerprint, Version
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.table import NO_PARTITION, GroupOfFile, SharedTable, settled

_KEPT_SNAPSHOTS = 4
_NEAR = 100
"""A snapshot at most this many commits newer than a cached one is extended from the cached one."""
_PATIENCE_S, _PAUSE_S = 1.0, 0.05
"""Seconds to wait for a pending rollback, in all and at a time: it deletes an instant before it says so."""
_CLEANED = "the cleaner has deleted files of it"
_FIND_LOG = (
    "Restore the file from a backup, or take back the instant that wrote it (CALL rollback_to_instant)."
)


@dataclass
class HudiTable(SharedTable):
    """A Hudi table of either type, read-only: nothing is ever written below the table's root."""

    words = WORDS
    looks = 5

    _reader: TimelineReader = field(init=False, repr=False)
    _versions: Versions | None = field(default=None, repr=False)
    _listed: tuple[Versions, ListedFiles] | None = field(default=None, repr=False)
    _readable: tuple[Versions, Version] | None = field(default=None, repr=False)
    _snapshots: Cache[Version, HudiSnapshot] = field(
        default_factory=lambda: Cache(_KEPT_SNAPSHOTS), repr=False
    )
    _folds: Folds = field(default_factory=Folds, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._reader = TimelineReader(self.storage)

    def look_anew(self) -> None:
        """Drop the timeline, since the file of an instant was archived, cleaned or rolled back."""
        self._reader = TimelineReader(self.storage)

    def gone(self, file: FileNotFoundError) -> Exception:
        """Return the error for the file of an instant that is gone at every look."""
        return CommitGapError(version="of an instant", path=self.root, found=f"all but {file}")

    def _look(self) -> Versions:
        """Return the versions as they are now; drop cached snapshots if known instants have changed."""
        timeline, before = self._reader.look(), self._versions
        if before is not None and before.timeline is timeline:
            return before
        newest = timeline.completed[-1].requested if timeline.completed else NEWEST
        check_readable(timeline.properties, self.root, newest)
        versions = Versions.of(timeline, before)
        if not versions.numbers:
            reason, hint = "no write has completed", "Try again when the first write has completed."
            raise NotATableError(path=self.root, reason=reason, kind=WORDS.kind, log=LOG, hint=hint)
        if before is not None and not before.begins(timeline) and not _goes_on(before, versions):
            self._snapshots.clear()
        self._versions, self._listed = versions, None
        return versions

    @settled
    def head(self) -> Version:
        """Return the newest version. Cost: one stat, and a listing of the active timeline."""
        return self._look().head

    def moved_on(self, since: Version) -> bool:
        """Return whether the head is not `since`, or the timeline has changed. Cost: as `head`."""
        before = self._versions
        return self.head() != since or self._versions is not before

    @settled
    def earliest(self) -> Version:
        """Return the oldest version from which every version up to the head can be rebuilt.

        Cost: a listing of all folders and the metadata of a few cleans; once per state of the timeline.
        """
        return self._earliest(self._look())

    def _earliest(self, versions: Versions) -> Version:
        if self._readable is None or self._readable[0] is not versions:
            self._readable = (versions, earliest_readable(versions, self._files(versions)))
        return self._readable[1]

    def _files(self, versions: Versions) -> ListedFiles:
        """Return the data files of a state of the timeline, after a check that none was deleted meanwhile."""
        if self._listed is None or self._listed[0] is not versions:
            files = list_files(self.storage)
            if not _deleted_nothing(versions.timeline, self._reader.look(anew=True)):
                raise FileNotFoundError("a time without deletions in which the folders can be listed")
            self._listed = (versions, files)
        return self._listed[1]

    def snapshot(self, version: Version | None = None) -> HudiSnapshot:
        """Return the snapshot of a version, or of the head.

        Cost: the first snapshot lists all folders; a later one reads the commits since a cached snapshot.

        Raises:
            LogBlockError: a log file that the version shows is gone, and no cleaner took it.
        """
        try:
            return self._snapshot_now(version)
        except CommitGapError as gap:
            path = str(gap.__cause__)
            if log_file("", path.rpartition("/")[2]) is None:
                raise
            reason = "the file is missing, though no instant has superseded it"
            raise LogBlockError(file=path, offset=0, reason=reason, hint=_FIND_LOG) from gap

    @settled
    def _snapshot_now(self, version: Version | None) -> HudiSnapshot:
        versions = self._look()
        return self._snapshot(versions, versions.head if version is None else version)

    def _snapshot(self, versions: Versions, version: Version) -> HudiSnapshot:
        index = versions.place(version)
        cached = None if index is None else self._snapshots.cached(version)
        if cached is not None:
            return cached
        if index is None:
            raise self._not_found(versions, version, versions.why_unknown(version))
        time = versions.times[index]
        near = [v for v, _ in self._snapshots.items() if v < version]
        if near and len(versions.between(max(near), version)) <= _NEAR:
            before = self._snapshots.cached(max(near))
            if before is not None:
                try:
                    return self._keep(self._folds.extended(versions, before, version, time))
                except FileNotFoundError:
                    # A log file that the cleaner deleted is reported below; other missing files are retried.
                    if version >= self._earliest(versions):
                        raise
        cleaned = version != versions.head and version < self._earliest(versions)
        try:
            snapshot = build_snapshot(versions, version, time, self._files(versions))
        except FileNotFoundError:
            if cleaned:
                raise self._not_found(versions, versions.name_of(version), _CLEANED) from None
            raise
        if cleaned and not is_saved(versions.timeline, versions.instants[index], snapshot):
            raise self._not_found(versions, versions.name_of(version), _CLEANED)
        return self._keep(snapshot)

    def _keep(self, snapshot: HudiSnapshot) -> HudiSnapshot:
        self._snapshots.hold(snapshot.version, snapshot)
        return snapshot

    def _not_found(self, versions: Versions, version: object, reason: str) -> VersionNotFoundError:
        return versions.not_found(version, reason, self._earliest(versions), self.root)

    @settled
    def versions(self, first: Version, last: Version, most: int | None = None) -> Sequence[Version]:
        """Return the versions from `first` to `last`, which are bounds. Cost: two bisections."""
        versions = self._look()
        indexes = versions.between(first, last)
        return versions.numbers[indexes.start : indexes.stop][:most]

    @settled
    def name_of(self, version: Version) -> str:
        """Return the requested time of a version's instant, by which people know it. Cost: a look."""
        return self._look().name_of(version)

    @settled
    def version_named(self, name: str) -> Version:
        """Return the version whose instant was requested, or else completed, at a time of 17 digits.

        In table version 6, the number of a version is accepted as a name too.
        """
        versions = self._look()
        version = versions.named(name.strip())
        if version is None:
            raise self._not_found(versions, name, why_missing(versions.timeline, name.strip()))
        return version

    @settled
    def follows(self, version: Version) -> bool:
        """Return whether the changes after a version can be read: its instant and all its files are there.

        Cost: as `snapshot`, which `changes` needs too.
        """
        versions = self._look()
        if versions.place(version) is None:
            return False
        try:
            self._snapshot(versions, version)
        except VersionNotFoundError:
            return False
        return True

    @settled
    def changes(self, first: Version, last: Version) -> Changes:
        """Return the net effect of the versions from `first` to `last`, which are bounds.

        Cost: reads the metadata of the commits; builds the snapshot before them unless it is cached.
        """
        versions = self._look()
        if last > versions.head:
            raise self._gap(versions, last)
        return self._folds.changes(versions, self._before(versions, first), first, last)

    def _before(self, versions: Versions, first: Version) -> HudiSnapshot:
        """Return the snapshot of the newest version before a bound."""
        index = versions.between(0, first - 1).stop - 1
        if index < 0:
            if self._earliest(versions) > versions.numbers[0]:
                raise self._gap(versions, first)
            return build_snapshot(versions, first - 1, 0, self._files(versions))
        try:
            return self._snapshot(versions, versions.numbers[index])
        except VersionNotFoundError as gone:
            raise self._gap(versions, versions.numbers[index]) from gone

    def _gap(self, versions: Versions, version: Version) -> CommitGapError:
        ends = (versions.name_of(self._earliest(versions)), versions.name_of(versions.head))
        return CommitGapError(
            version=versions.name_of(version), path=self.root, found=f"{ends[0]} to {ends[1]}"
        )

    @settled
    def commit_timestamp(self, version: Version) -> int:
        """Return the time of a version in ms since 1970; see `Versions.times`."""
        versions = self._look()
        index = versions.place(version)
        if index is None:
            raise self._gap(versions, version)
        return versions.times[index]

    @settled
    def version_at(self, timestamp_ms: int) -> Version:
        """Return the newest version committed at or before a time."""
        versions = self._look()
        earliest = self._earliest(versions)
        index = bisect_right(versions.times, timestamp_ms) - 1
        if timestamp_ms > versions.times[-1] or index < 0 or versions.numbers[index] < earliest:
            late = timestamp_ms > versions.times[-1]
            reason = "it is after the last commit" if late else "it is before the first readable commit"
            raise self._not_found(versions, f"at {show_time(timestamp_ms)}", reason)
        return versions.numbers[index]

    @settled
    def fingerprint(self, version: Version) -> Fingerprint | None:
        """Return the fingerprint of an instant and of the keys of those before; None if the instant is gone.

        None also for an instant in the archive of table version 6. Cost: reads the instant.
        """
        versions = self._look()
        index = versions.place(version)
        content = None if index is None else versions.timeline.content(versions.instants[index])
        if index is None or content is None:
            return None
        return Fingerprint(version, digest_of(versions, index, content), _table_name(versions))

    def took_back(self, known: Fingerprint) -> bool:
        """Return whether rollbacks or restores removed a version. Cost: reads their metadata.

        A rollback deletes the instant before it completes itself: a pending rollback is awaited for a second.
        """
        until = time.monotonic() + _PATIENCE_S
        while True:
            proven, may_come = self._took_back(known)
            if proven or not may_come or time.monotonic() >= until:
                return proven
            time.sleep(_PAUSE_S)

    @settled
    def _took_back(self, known: Fingerprint) -> tuple[bool, bool]:
        """Return whether a version is known to be rolled back, and whether that may become known soon."""
        versions = self._look()
        if known.table_id != _table_name(versions):
            return False, False
        is_gone = versions.place(known.version) is None
        return is_taken_back(versions, known), is_gone and bool(versions.timeline.deleting)

    @settled
    def fingerprint_stat(self, version: Version) -> object:
        """Return a value that changes if an instant is replaced; None if it is gone. Cost: a look."""
        versions = self._look()
        index = versions.place(version)
        if index is None:
            return None
        instant = versions.instants[index]
        stat = self.storage.stat(instant.file) if instant.row < 0 else None
        return stat, instant.file, lineage(versions, index)

    def group_of(self, snapshot: Snapshot, slice_: FileSlice) -> GroupOfFile:
        """Return the folder and the file group of a base file or a log block. Cost: a bisection."""
        assert isinstance(snapshot.files, HudiFiles)
        group = group_named(slice_.path)
        base = snapshot.files.of_group(group)
        return GroupOfFile(group.folder or NO_PARTITION, group.file_id, base and requested_of(base))


def _table_name(versions: Versions) -> str:
    return versions.timeline.properties.values.get("hoodie.table.name", "")


def _goes_on(earlier: Versions, now: Versions) -> bool:
    """Return whether all known versions are unchanged; the oldest of them may be missing by now."""
    before = now.between(0, earlier.head)
    shared = min(len(before), len(earlier.numbers))
    if not shared or now.numbers[before.stop - 1] != earlier.head:
        return False
    start = before.stop - shared
    past = zip(now.numbers[start : before.stop], now.instants[start : before.stop], strict=True)
    old = zip(earlier.numbers[-shared:], earlier.instants[-shared:], strict=True)
    return all((a, i.key) == (b, j.key) for (a, i), (b, j) in zip(past, old, strict=True))


def _deleted_nothing(before: Timeline, now: Timeline) -> bool:
    """Return whether no data file can have been deleted between two looks; commits may have completed."""
    old = before.completed
    is_same = now.completed[: len(old)] == old and now.deleting <= before.deleting
    return is_same and all(instant.action not in DELETIONS for instant in now.completed[len(old) :])
