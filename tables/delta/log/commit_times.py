"""The versions of the commits in a log and the modification times of their files, sixteen bytes per commit.

A log that is followed for months has millions of commits; a dictionary of listed files would take some four
hundred bytes per commit.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.tables.model import Version

NEWEST = (1 << 63) - 1
"""The largest version: Delta versions are signed 64-bit numbers."""


def longs() -> array[int]:
    """Return an empty array of 64-bit integers."""
    return array("q")


@dataclass
class CommitTimes:
    """Ascending versions, and the modification times of their files in ms since 1970; both int64.

    >>> times = CommitTimes.of({1: 10, 4: 40, 5: 45})
    >>> times.since, times.missing(4, 5), times.missing(1, 5), 4 in times, times.time(4), times.time(3)
    (4, None, 2, True, 40, None)
    """

    versions: array[int] = field(default_factory=longs)
    times: array[int] = field(default_factory=longs)

    @classmethod
    def of(cls, times: Mapping[Version, int]) -> CommitTimes:
        """Build commit times from a mapping of versions to times in ms, in any order."""
        versions = sorted(times)
        return cls(array("q", versions), array("q", (times[version] for version in versions)))

    def add(self, version: Version, time: int) -> None:
        """Add a commit. Cost: constant if the commit is newer than all others."""
        at = len(self.versions) if version > self.latest else bisect_left(self.versions, version)
        if at < len(self.versions) and self.versions[at] == version:
            self.times[at] = time
        else:
            self.versions.insert(at, version)
            self.times.insert(at, time)

    def __len__(self) -> int:
        return len(self.versions)

    def __contains__(self, version: Version) -> bool:
        return self.place(version) is not None

    def time(self, version: Version) -> int | None:
        """Return the modification time of a commit's file; None if the commit is not there."""
        at = self.place(version)
        return None if at is None else self.times[at]

    def place(self, version: Version) -> int | None:
        """Return the index of a commit in `versions` and `times`; None if the commit is not there."""
        at = bisect_left(self.versions, version)
        return at if at < len(self.versions) and self.versions[at] == version else None

    @property
    def latest(self) -> Version:
        """The newest version; -1 if there is no commit."""
        return self.versions[-1] if self.versions else -1

    @property
    def since(self) -> Version:
        """The oldest version from which no commit is missing up to the newest. Cost: a binary search."""
        low, high = 0, max(len(self.versions) - 1, 0)
        while low < high:
            middle = (low + high) // 2
            if self.versions[-1] - self.versions[middle] == len(self.versions) - 1 - middle:
                high = middle
            else:
                low = middle + 1
        return self.versions[low] if self.versions else 0

    def missing(self, first: Version, last: Version) -> Version | None:
        """Return the first missing version from `first` to `last`; None if all are there."""
        at, end = bisect_left(self.versions, first), bisect_left(self.versions, last + 1)
        if end - at == last + 1 - first:
            return None
        there = set(self.versions[at:end])
        return next((version for version in range(first, last + 1) if version not in there), None)
