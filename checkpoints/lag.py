"""The lag of the index behind the source in versions, files, bytes and seconds, always together.

The lag is counted from the version that the index covers, not from Spark's checkpoint: queries see the
covered version, and it is known while the indexer is down.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitGapError
from tailbit.tables.model import CommitInfo, Version, after
from tailbit.tables.storage import one_look
from tailbit.tables.table import Table


@dataclass(frozen=True, slots=True)
class Lag:
    """The part of the source log that the index does not cover yet.

    `seconds`: age of the oldest uncovered commit; 0 if every commit is covered, so a quiet table has no lag.
    `files`: files added or removed, and `bytes`: size of the files added, in the `counted` oldest uncovered
    versions.
    """

    covered: Version
    head: Version
    versions: int = 0
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    counted: int = 0

    @property
    def text(self) -> str:
        """Return the lag as the job description shows it."""
        if not self.versions:
            return "up to date"
        return (
            f"{_count(self.versions, 'version')}, {_count(self.files, 'file')}, {self.seconds:.1f} s behind"
        )

    def account(self) -> dict[str, Any]:
        """Return versions, files, bytes and seconds, JSON-able."""
        seconds = round(self.seconds, 3)
        return {"versions": self.versions, "files": self.files, "bytes": self.bytes, "seconds": seconds}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def lag_of_nothing(table: Table, head: Version, clock: Callable[[], float] = time.time) -> Lag:
    """Return the lag of an index that covers nothing: all versions, every live file and its bytes.

    `seconds`: age of the oldest commit that the log still holds. Cost: reads a snapshot and one commit.
    """
    snapshot = table.snapshot(head)
    files, size = len(snapshot.files), sum(slice_.size for slice_ in snapshot.files)
    try:
        oldest = table.commit_timestamp(table.earliest()) / 1000
    except CommitGapError:
        oldest = clock()
    versions = table.count(0, head)
    return Lag(-1, head, versions, files, size, max(0.0, clock() - oldest), versions)


class Backlog:
    """The commits that an index does not cover yet, each read once.

    Cost: a call reads at most `budget` commits, so that a distant head never delays a batch. A snapshot is
    read only if nothing is covered and the first commits were cleaned up.
    """

    def __init__(self, table: Table, clock: Callable[[], float] = time.time, budget: int = 200) -> None:
        self._table, self._clock, self._budget = table, clock, budget
        self._commits: deque[CommitInfo] = deque()
        self._first: Version = 0
        self._files = self._bytes = 0

    def lag(self, covered: Version, head: Version) -> Lag:
        """Return the lag of an index that covers `covered` behind `head`. Cost: one look at the log."""
        with one_look():
            return self._lag(covered, head)

    def _lag(self, covered: Version, head: Version) -> Lag:
        self._forget(covered, head)
        self._extend(covered, head)
        versions = self._table.count(after(covered), head)
        if not versions:
            return Lag(covered, max(covered, head))
        if covered < 0 and not self._commits:
            # The first commits were cleaned up: the files of the head are left to index.
            return lag_of_nothing(self._table, head, self._clock)
        oldest = self._commits[0].timestamp_ms / 1000 if self._commits else self._clock()
        seconds = max(0.0, self._clock() - oldest)
        return Lag(covered, head, versions, self._files, self._bytes, seconds, len(self._commits))

    def _forget(self, covered: Version, head: Version) -> None:
        """Drop the cached commits that are covered by now, or all of them if the log went back or jumped."""
        if self._commits and not (self._first <= after(covered) and self._commits[-1].version <= head):
            self._commits.clear()
            self._files = self._bytes = 0
        self._first = after(covered)
        while self._commits and self._commits[0].version <= covered:
            gone = self._commits.popleft()
            self._files -= gone.files_added + gone.files_removed
            self._bytes -= gone.bytes_added

    def _extend(self, covered: Version, head: Version) -> None:
        first = after(self._commits[-1].version if self._commits else covered)
        try:
            versions = self._table.versions(first, head, self._budget)
            if not versions:
                return
            commits = self._table.changes(first, versions[-1]).commits
        except CommitGapError:
            return
        self._commits.extend(commits)
        self._files += sum(c.files_added + c.files_removed for c in commits)
        self._bytes += sum(c.bytes_added for c in commits)
