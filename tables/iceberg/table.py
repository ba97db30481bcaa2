"""An Iceberg table: head, snapshots, changes, time travel, fingerprints of snapshots.

A process has one object per table, which caches the last few snapshots and the newest metadata. Threads may
share the object: each call holds the object's lock while it reads the metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitGapError, MalformedLogError, VersionNotFoundError
from tailbit.tables.cache import Cache
from tailbit.tables.date_text import show_time
from tailbit.tables.iceberg.metadata import EMPTY, Pointer, Versions
from tailbit.tables.iceberg.snapshot import (
    IcebergSnapshot,
    build_snapshot,
    changes_between,
    commit_info,
    paths_in,
)
from tailbit.tables.iceberg.words import CATALOG, WORDS
from tailbit.tables.model import Changes, CommitInfo, FileSlice, Fingerprint, Version
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import forget
from tailbit.tables.storage.store import METADATA_FILE
from tailbit.tables.table import NO_PARTITION, GroupOfFile, SharedTable, settled

_KEPT_SNAPSHOTS = 4


@dataclass
class IcebergTable(SharedTable):
    """An Iceberg table, read-only: nothing is ever written below the table's root."""

    words = WORDS
    looks = 3

    _pointer: Pointer = field(init=False, repr=False)
    _versions: Versions | None = field(default=None, repr=False)
    _snapshots: Cache[tuple[object, ...], IcebergSnapshot] = field(
        default_factory=lambda: Cache(_KEPT_SNAPSHOTS), repr=False
    )

    def __post_init__(self) -> None:
        self._pointer = Pointer(self.storage, self._given)

    def look_anew(self) -> None:
        """Drop what this look has seen, since a file of the metadata is gone."""
        forget()

    def gone(self, file: FileNotFoundError) -> Exception:
        """Return the error for a file that the newest metadata name, and that is gone."""
        reason, hint = (
            "it is missing, though the newest metadata names it",
            WORDS.remedies["MalformedLogError"],
        )
        return MalformedLogError(file=str(file), reason=reason, hint=hint)

    @property
    def polled_by_requests(self) -> bool:
        """Whether a look is a request to an object store or a catalog."""
        return self.storage.remote or self._given.startswith(CATALOG)

    @property
    def address(self) -> str:
        """The URI of the table in its catalog, the path of the metadata file that was given, or the root."""
        return self._given if self._given.startswith(CATALOG) else f"{self.root}/{self._given}".rstrip("/")

    @property
    def _given(self) -> str:
        """What was given in place of a folder: a URI or a metadata file; else empty."""
        return dict(self.storage.options).get(METADATA_FILE, "")

    def _look(self) -> Versions:
        """Return the versions as they are now."""
        metadata, versions = self._pointer.look(), self._versions
        if versions is None or versions.metadata is not metadata:
            versions = self._versions = Versions(metadata)
        return versions

    @settled
    def head(self) -> Version:
        """Return the newest version. Cost: a few stats if nothing has changed, else one file is read."""
        return self._look().head

    def moved_on(self, since: Version) -> bool:
        """Return whether the head is not `since`, or the metadata has changed. Cost: as `head`."""
        before = self._versions
        return self.head() != since or self._versions is not before

    @settled
    def earliest(self) -> Version:
        """Return the oldest ancestor of the head that is not expired."""
        return self._look().earliest

    @settled
    def snapshot(self, version: Version | None = None) -> IcebergSnapshot:
        """Return the snapshot of a version, or of the head. Cost: see `build_snapshot`."""
        versions = self._look()
        return self._snapshot(versions, versions.head if version is None else version)

    def _snapshot(self, versions: Versions, version: Version) -> IcebergSnapshot:
        entry = versions.entry(version)
        if entry is None and not versions.is_empty(version):
            raise self._not_found(versions, version, "it is expired, or was never there")
        key = (
            version,
            versions.metadata.uuid,
            entry and entry.id,
            versions.schema_of(version),
            versions.metadata.name_mapping,
        )
        cached = self._snapshots.cached(key)
        if cached is not None:
            return cached
        near = [snapshot for (_, uuid, *_), snapshot in self._snapshots.items() if uuid == key[1]]
        return self._snapshots.hold(key, build_snapshot(self.storage, versions, version, near))

    def _not_found(self, versions: Versions, version: object, reason: str) -> VersionNotFoundError:
        return VersionNotFoundError(
            version=version,
            path=self.root,
            reason=reason,
            earliest=self._name(versions, versions.earliest),
            latest=self._name(versions, versions.head),
            hint="Give the id of a snapshot, a branch or a tag (in Spark: t.snapshots and t.refs).",
        )

    @settled
    def versions(self, first: Version, last: Version, most: int | None = None) -> Sequence[Version]:
        """Return the ancestors of the head from `first` to `last`, which are bounds. Cost: two bisections."""
        return self._look().between(first, last)[:most]

    @settled
    def name_of(self, version: Version) -> str:
        """Return the id of a version's snapshot as text."""
        return self._name(self._look(), version)

    def _name(self, versions: Versions, version: Version) -> str:
        entry = versions.entry(version)
        return str(version) if entry is None else str(entry.id)

    @settled
    def version_named(self, name: str) -> Version:
        """Return the version of a snapshot by its id, or of a branch or a tag."""
        versions = self._look()
        version = versions.named(name.strip())
        if version is None:
            reason = "the table has no snapshot of that id, unless it is expired, and no such branch or tag"
            raise self._not_found(versions, repr(name), reason)
        return version

    @settled
    def version_numbered(self, number: int) -> Version:
        """Return the version of a snapshot by its id; any other number is a version of its own."""
        version = self._look().of_id(number)
        return number if version is None else version

    @settled
    def follows(self, version: Version) -> bool:
        """Return whether a version is an ancestor of the head that is not expired. Cost: none."""
        versions = self._look()
        return versions.place(version) is not None or versions.is_empty(version)

    @settled
    def changes(self, first: Version, last: Version) -> Changes:
        """Return the net effect of the versions from `first` to `last`, which are bounds.

        Cost: reads the manifests of the version before and of the last one that the process has not read.
        """
        versions = self._look()
        if last > versions.head:
            raise self._gap(versions, last)
        numbers, earlier = versions.between(first, last), versions.between(EMPTY, first - 1)
        if not earlier and not versions.from_start:
            raise self._gap(versions, first)
        before = self._snapshot(versions, earlier[-1]) if earlier else self._snapshot(versions, EMPTY)
        after = self._snapshot(versions, numbers[-1]) if numbers else before
        commits = [self._commit(versions, number, earlier) for number in numbers]
        paths_of = partial(paths_in, self.storage, versions.metadata)
        return changes_between(before, after, (first, last), commits, paths_of)

    def _commit(self, versions: Versions, version: Version, earlier: Sequence[Version]) -> CommitInfo:
        """Return the numbers of a commit; a change of the schema alone has none."""
        entry = versions.entry(version)
        time = versions.time_of(version) or 0
        is_schema_alone = bool(version % 2 and earlier and earlier[-1] == version - 1)
        if entry is None or is_schema_alone:
            return CommitInfo(version, time, "", 0, 0, 0)
        return commit_info(version, time, entry)

    def _gap(self, versions: Versions, version: Version) -> CommitGapError:
        ends = (self._name(versions, versions.earliest), self._name(versions, versions.head))
        return CommitGapError(
            version=self._name(versions, version), path=self.root, found=f"{ends[0]} to {ends[1]}"
        )

    @settled
    def commit_timestamp(self, version: Version) -> int:
        """Return the time of a snapshot in ms since 1970; along the line of the head times strictly rise."""
        versions = self._look()
        time = versions.time_of(version)
        if time is None:
            raise self._gap(versions, version)
        return time

    @settled
    def version_at(self, timestamp_ms: int) -> Version:
        """Return the version that was current at a time: after the last commit, that is the newest."""
        versions = self._look()
        version = versions.current_at(timestamp_ms)
        if version is None:
            reason = "it is before the first snapshot that the table still knows"
            raise self._not_found(versions, f"at {show_time(timestamp_ms)}", reason)
        return version

    @settled
    def fingerprint(self, version: Version) -> Fingerprint | None:
        """Return the fingerprint of a snapshot; None if it is no ancestor of the head any more."""
        versions = self._look()
        digest = versions.digest(version)
        return None if digest is None else Fingerprint(version, digest, versions.metadata.uuid)

    @settled
    def fingerprint_stat(self, version: Version) -> object:
        """Return a value that changes if a version leaves the line of the head. Cost: as `head`."""
        versions = self._look()
        digest = versions.digest(version)
        return None if digest is None else (versions.metadata.uuid, digest)

    @settled
    def took_back(self, covered: Fingerprint) -> bool:
        """Return whether a snapshot was rolled back or expired: a path never gets other contents."""
        versions = self._look()
        is_same = covered.table_id == versions.metadata.uuid
        return is_same and versions.took_back(covered.version, covered.sha256)

    def group_of(self, snapshot: Snapshot, slice_: FileSlice) -> GroupOfFile:
        """Return the folder of a data file, relative to the root, and its path."""
        return GroupOfFile(slice_.path.rpartition("/")[0] or NO_PARTITION, slice_.path, None)
