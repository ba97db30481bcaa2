"""The commits and log checkpoints of a Delta log by version, and the actions of each commit.

Only names and file stats are read to list them. `_last_checkpoint` is not read: it is a hint for stores where
listing is expensive, and may be stale or corrupt. Ignored are log compaction files (which repeat commits that
must exist anyway), `.crc` files and staged commits. An incomplete multi-part checkpoint does not count.

Commits are read at the cost of their own bytes: no snapshot is built. The folder is listed once; after that
the head is found by probing names, as long as the last known commit is still the same file. If that file has
changed (the table was dropped and re-created, or restored from a backup), all cached state is dropped.
Source: Delta protocol, Delta Log Entries and Checkpoints.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from typing import NamedTuple, TypeAlias

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitGapError, MalformedLogError, NotATableError
from tailbit.tables.cache import Cache
from tailbit.tables.delta.actions import Actions, parse_actions
from tailbit.tables.delta.protocol import check_configuration, check_protocol
from tailbit.tables.delta.words import LOG
from tailbit.tables.model import Version
from tailbit.tables.storage import WHOLE, Entry, Stat, Storage, at_once

NEWEST = (1 << 63) - 1
"""The largest version: Delta versions are signed 64-bit numbers."""


def longs() -> array[int]:
    """Return an empty array of 64-bit integers."""
    return array("q")


@dataclass
class CommitTimes:
    """Ascending versions, and the modification times of their files in ms since 1970; both int64.

    A log that is followed for months has millions of commits: they take sixteen bytes each here.

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
        index = len(self.versions) if version > self.latest else bisect_left(self.versions, version)
        if index < len(self.versions) and self.versions[index] == version:
            self.times[index] = time
        else:
            self.versions.insert(index, version)
            self.times.insert(index, time)

    def __len__(self) -> int:
        return len(self.versions)

    def __contains__(self, version: Version) -> bool:
        return self.place(version) is not None

    def time(self, version: Version) -> int | None:
        """Return the modification time of a commit's file; None if the commit is not there."""
        index = self.place(version)
        return None if index is None else self.times[index]

    def place(self, version: Version) -> int | None:
        """Return the index of a commit in `versions` and `times`; None if the commit is not there."""
        index = bisect_left(self.versions, version)
        return index if index < len(self.versions) and self.versions[index] == version else None

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
        start, end = bisect_left(self.versions, first), bisect_left(self.versions, last + 1)
        if end - start == last + 1 - first:
            return None
        there = set(self.versions[start:end])
        return next((version for version in range(first, last + 1) if version not in there), None)


_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_OF_SEVERAL = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
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
        names_by_number: dict[tuple[int, int], dict[int, str]] = {}
        for entry in entries:
            if match := _COMMIT.fullmatch(entry.name):
                times[int(match.group(1))] = entry.mtime_ms
            elif match := _OF_SEVERAL.fullmatch(entry.name):
                version, number, total = (int(g) for g in match.groups())
                names_by_number.setdefault((version, total), {})[number] = f"{LOG}/{entry.name}"
            elif match := _CLASSIC.fullmatch(entry.name) or _NAMED.fullmatch(entry.name):
                out.checkpoints.append(LogCheckpoint(int(match.group(1)), (f"{LOG}/{entry.name}",)))
        for (version, total), found_parts in names_by_number.items():
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


_FIRST_LINE = 1 << 16
_LISTED_AFTER = 4
"""Number of commits probed by name before the rest is listed: a thousand new commits may follow."""
_KEPT_COMMITS, _KEPT_STAMPS = 16, 128
_KEPT_COMMIT_BYTES = 1 << 20
"""Size in bytes up to which parsed commits are cached: planner, batch and snapshot read the same few."""
_READ_AHEAD = 4 << 20
"""Size in bytes up to which commits are read beside others in an object store: many are in memory at once."""

_Read: TypeAlias = tuple[bytes | Actions, Stat | None] | None
"""The bytes of a commit, or its actions as they were in the cache, and its stat; None if it was not read."""


def _look_at_cached(storage: Storage, name: str, cached: tuple[Stat | None, Actions]) -> _Read:
    """Return a commit that was in the cache, and request its stat if the look lacks it."""
    storage.look_at((name,))
    return cached[1], cached[0]


def _read_ahead(storage: Storage, name: str) -> _Read:
    """Read a commit that others follow; None if it is missing or too large to be held beside them."""
    try:
        return storage.read_stated(name, _READ_AHEAD if storage.remote else WHOLE)
    except (FileNotFoundError, MalformedLogError):
        return None


@dataclass
class DeltaLog:
    """The log of one table. Not thread-safe: the table that threads share holds a lock around each call."""

    storage: Storage
    on_reset: Callable[[], None] = field(default=lambda: None, repr=False)
    _listing: Listing | None = field(default=None, repr=False)
    _head: Version = -1
    _head_stat: Stat | None = None
    _commits: Cache[Version, tuple[Stat | None, Actions]] = field(
        default_factory=lambda: Cache(_KEPT_COMMITS), repr=False
    )
    _stamps: Cache[Version, tuple[Stat | None, int | None]] = field(
        default_factory=lambda: Cache(_KEPT_STAMPS), repr=False
    )
    _hashes: Cache[tuple[Version, Stat | None], str] = field(
        default_factory=lambda: Cache(_KEPT_COMMITS), repr=False
    )

    def head(self) -> Version:
        """Return the newest version. Cost: two stats by name once the log has been listed."""
        if self._listing is not None and self.storage.remote:
            self.storage.look_at((commit_name(self._head), commit_name(self._head + 1)))
        if self._listing is None or self._head_stat is None or self._stat(self._head) != self._head_stat:
            self._list()
        self._probe()
        return self._head

    def moved_on(self, since: Version) -> bool:
        """Return whether there is a commit after `since`, a head as the caller saw it. Cost: one stat.

        Another user of this object may have seen a later head meanwhile.
        """
        return self._listing is None or self._head != since or self._stat(since + 1) is not None

    def _list(self) -> None:
        listing = self._listed()
        if listing.latest < 0:
            raise NotATableError(
                path=self.storage.root, reason=f"{LOG} holds no commit", kind="Delta table", log=LOG
            )
        if self._listing is not None:
            self._commits.clear()
            self._stamps.clear()
            self._hashes.clear()
            self.on_reset()
        self._listing, self._head = listing, listing.latest
        self._head_stat = self._stat(self._head)

    def _listed(self) -> Listing:
        """List the folder; once more if a commit between others is missing.

        A listing that is made while commits come may hold one of them and not the one before it.
        """
        listing = Listing.of(self.storage.list(LOG))
        if listing.commits and listing.commits.since > listing.commits.versions[0]:
            listing = Listing.of(self.storage.list(LOG))
        return listing

    def _probe(self) -> None:
        """Advance the head from the last known commit: one stat per new commit, then one of a missing file.

        In an object store, many new commits are listed at once.
        """
        for steps in itertools.count(1):
            stat = self._stat(self._head + 1)
            if stat is None:
                return
            if steps == _LISTED_AFTER and self.storage.remote:
                self._list_on()
                continue
            self._head, self._head_stat = self._head + 1, stat
            self.listing.commits.add(self._head, stat.mtime_ns // 1_000_000)

    def _list_on(self) -> None:
        """Add the commits that follow the last known one without a gap."""
        last = commit_name(self._head).rpartition("/")[2]
        listed = Listing.of(self.storage.list_after(LOG, last)).commits
        while (time := listed.time(self._head + 1)) is not None:
            self._head += 1
            self.listing.commits.add(self._head, time)
        self._head_stat = self._stat(self._head)

    def _stat(self, version: Version) -> Stat | None:
        return self.storage.stat(commit_name(version))

    @property
    def listing(self) -> Listing:
        """Commits and checkpoints as last listed; commits that `head` discovers are added."""
        if self._listing is None:
            self.head()
        assert self._listing is not None
        return self._listing

    def relist(self) -> Listing:
        """List the folder again: checkpoints may have appeared, or listed files may have been cleaned up."""
        self._listing = self._listed()
        return self._listing

    def reads(self, first: Version, last: Version) -> Iterator[Callable[[], _Read]]:
        """Yield a read of each commit from `first` to `last`, for `commit`.

        A commit that is missing, or too large to be read beside others, is read by `commit` itself.
        """
        for version in range(first, last + 1):
            cached, name = self._commits.cached(version), commit_name(version)
            if cached is None:
                yield partial(_read_ahead, self.storage, name)
            else:
                yield partial(_look_at_cached, self.storage, name, cached)

    def commits(self, first: Version, last: Version) -> Iterator[Actions]:
        """Yield the actions of the commits from `first` to `last`, which a store is asked for at once."""
        reads = at_once(self.storage, self.reads(first, last))
        for version, read in zip(range(first, last + 1), reads, strict=True):
            yield self.commit(version, read)

    def commit(self, version: Version, read: _Read = None) -> Actions:
        """Return the actions of one commit; its protocol and properties are checked. Cost: reads the commit.

        `read`: what a read of the commit has returned.
        """
        cached = self._commits.cached(version)
        data, stat = (None, None) if read is None else read
        if isinstance(data, Actions):
            cached, data = (stat, data), None
        if cached is not None and cached[0] == self._stat(version):
            return cached[1]
        if data is None:
            data, stat = self._read(version)
        actions = parse_actions(data, commit_name(version))
        if actions.protocol is not None:
            check_protocol(actions.protocol, self.storage.root, version)
        if actions.metadata is not None:
            check_configuration(actions.metadata.configuration, self.storage.root, version)
        if len(data) <= _KEPT_COMMIT_BYTES:
            self._commits.hold(version, (stat, actions))
        self._stamps.hold(version, (stat, actions.in_commit_timestamp))
        if version == self._head:
            # Planner and batch ask for its fingerprint next.
            self._hashes.hold((version, stat), hashlib.sha256(data).hexdigest())
        return actions

    def in_commit_timestamp(self, version: Version) -> int | None:
        """Return the in-commit timestamp of a commit in ms, or None if the commit carries none.

        Cost: reads the first line, where the protocol puts the timestamp; the whole commit if that line has
        no commitInfo.
        """
        cached = self._stamps.cached(version)
        if cached is not None and cached[0] == self._stat(version):
            return cached[1]
        first_line = self._first_line(version)
        if first_line is not None and first_line.info:
            return first_line.in_commit_timestamp
        return self.commit(version).in_commit_timestamp

    def _first_line(self, version: Version) -> Actions | None:
        """Return the actions of a commit's first line; None if the line is unusually long or damaged."""
        name = commit_name(version)
        try:
            line, end, _ = self.storage.read_range(name, 0, _FIRST_LINE).partition(b"\n")
            return parse_actions(line, name) if end else None
        except (FileNotFoundError, MalformedLogError):
            return None

    def _read(self, version: Version) -> tuple[bytes, Stat | None]:
        try:
            return self.storage.read_stated(commit_name(version))
        except FileNotFoundError as gone:
            raise self.gap(version) from gone

    def gap(self, version: Version) -> CommitGapError:
        """Return the error for a missing commit; the log is listed to say which commits there are."""
        commits = Listing.of(self.storage.list(LOG)).commits.versions
        present = f"{commits[0]} to {commits[-1]}" if commits else "none"
        return CommitGapError(version=version, path=self.storage.root, found=present)

    def sha256(self, version: Version) -> str | None:
        """Return the SHA-256 of a commit's bytes; None if the commit is gone.

        Cost: one stat if the hash is cached, else reads the commit.
        """
        key = (version, self._stat(version))
        if key[1] is None:
            return None
        try:
            return self._hashes.get(key, lambda: (self._read_hash(version), 1))
        except FileNotFoundError:
            return None

    def _read_hash(self, version: Version) -> str:
        return hashlib.sha256(self.storage.read(commit_name(version))).hexdigest()
