"""The commits and log checkpoints in `_delta_log` by version, and the base from which a version is rebuilt.

Only names and file stats are read. `_last_checkpoint` is not read: it is a hint for stores where listing is
expensive, and may be stale or corrupt. Ignored are log compaction files (which repeat commits that must exist
anyway), `.crc` files and staged commits. An incomplete multi-part checkpoint does not count. Source: Delta
protocol, Delta Log Entries and Checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import NamedTuple

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError
from tailbit.tables.delta.log.commit_times import NEWEST, CommitTimes
from tailbit.tables.model import Version
from tailbit.tables.storage import Entry

LOG = "_delta_log"

_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_NAMED = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)")


class LogCheckpoint(NamedTuple):
    """A complete log checkpoint: its version, and its files relative to the table's root."""

    version: Version
    files: tuple[str, ...]


def commit_name(version: Version) -> str:
    """Return the name of a commit, relative to the table's root."""
    return f"{LOG}/{version:020d}.json"


@dataclass
class Listing:
    """Commits (with the modification times of their files) and complete checkpoints, both by version."""

    commits: CommitTimes = field(default_factory=CommitTimes)
    checkpoints: list[LogCheckpoint] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Listing:
        """Return the listing of a log folder's entries.

        Raises:
            MalformedLogError: a commit has a version of more than 64 bits.
        """
        out, times = cls(), dict[Version, int]()
        parts: dict[tuple[int, int], dict[int, str]] = {}
        for entry in entries:
            if match := _COMMIT.fullmatch(entry.name):
                times[int(match.group(1))] = entry.mtime_ms
            elif match := _PART.fullmatch(entry.name):
                version, part, total = (int(g) for g in match.groups())
                parts.setdefault((version, total), {})[part] = f"{LOG}/{entry.name}"
            elif match := _CLASSIC.fullmatch(entry.name) or _NAMED.fullmatch(entry.name):
                out.checkpoints.append(LogCheckpoint(int(match.group(1)), (f"{LOG}/{entry.name}",)))
        for (version, total), found_parts in parts.items():
            if total and sorted(found_parts) == list(range(1, total + 1)):
                names = tuple(name for _, name in sorted(found_parts.items()))
                out.checkpoints.append(LogCheckpoint(version, names))
        out.checkpoints.sort()
        if max(times, default=-1) > NEWEST:
            raise MalformedLogError(file=commit_name(max(times)), reason="its version has more than 64 bits")
        out.commits = CommitTimes.of(times)
        return out

    @property
    def latest(self) -> Version:
        """The newest version of all commits and checkpoints; -1 if there are none."""
        newest = self.checkpoints[-1].version if self.checkpoints else -1
        return max(self.commits.latest, newest)

    def bases(self, version: Version) -> Iterator[LogCheckpoint | None]:
        """Yield the bases from which a version can be rebuilt, newest first.

        The last base is None: the empty table before commit 0.
        """
        for checkpoint in reversed(self.checkpoints):
            if checkpoint.version <= version:
                yield checkpoint
        yield None

    def gap(self, base: LogCheckpoint | None, version: Version) -> Version | None:
        """Return the first commit missing between a base and a version; None if all are there."""
        return self.commits.missing(0 if base is None else base.version + 1, version)

    @property
    def earliest(self) -> Version | None:
        """The oldest version from which every later one up to the head can be rebuilt; None if there is none.

        Commits before that version may remain after a cleanup, but cannot be replayed without a base.
        """
        low = self.commits.since if self.latest in self.commits else self.latest + 1
        if low == 0 and self.commits:
            return 0
        return next((c.version for c in self.checkpoints if c.version >= low - 1), None)
