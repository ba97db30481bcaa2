"""Commit times, and the version that is in force at a point in time, by Delta's own rules.

A commit's time is the in-commit timestamp if the table records such timestamps, else the modification time of
the commit's file, raised so that times strictly increase with versions. Source: Delta protocol, In-Commit
Timestamps; and Delta's history manager, for the search.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitGapError, VersionNotFoundError
from tailbit.tables.date_text import show_time
from tailbit.tables.delta.log.commit_times import longs
from tailbit.tables.delta.log.commits import DeltaLog
from tailbit.tables.delta.log.listing import Listing
from tailbit.tables.model import Version


@dataclass
class Clock:
    """The commit times of one log. Only the times of new commits are computed; the others are kept."""

    log: DeltaLog
    _of: Listing | None = field(default=None, repr=False)
    _last: Version = -1
    _times: array[int] = field(default_factory=longs, repr=False)
    """Raised times of the commits up to `_last`, in version order, in ms since 1970, int64."""

    def timestamp(self, version: Version) -> int:
        """Return the time of a commit in ms since 1970.

        Raises:
            CommitGapError: the commit is not in the log.
        """
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
        at = self.log.listing.commits.place(version)
        if at is None:
            raise self.log.gap(version)
        return self._times[at]

    def _extend(self) -> None:
        """Add the times of newly listed commits; each time is at least 1 ms after the time before."""
        listing = self.log.listing
        commits, known = listing.commits, len(self._times)
        if self._of is not listing or (known and commits.versions[known - 1] != self._last):
            self._of, self._times, known = listing, longs(), 0
        for written in commits.times[known:]:
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
        at = configuration.get("delta.inCommitTimestampEnablementTimestamp") or ""
        if not since.isdigit() or not at.lstrip("-").isdigit() or not first < int(since) <= last:
            return first, last, True
        if timestamp_ms >= int(at):
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
