"""A table format of the tests: commits are lists of slices in memory, the rows lie in real Parquet files.

It has what a format may have: hidden rows, partition values, statistics, several versions, times of commits.
Nothing of it is Delta's, so that what stands above `tailbit.tables` shows that it needs nothing of Delta's.
"""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap

from tailbit.errors import CommitGapError, HiddenRowsError, VersionNotFoundError
from tailbit.tables import Table
from tailbit.tables.file_list import FileList, stored_columns, stored_schema
from tailbit.tables.model import (
    Changes,
    Column,
    CommitInfo,
    DataType,
    FileBounds,
    FileSlice,
    Fingerprint,
    SliceChange,
    Version,
)
from tailbit.tables.schema import Schema
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import LocalStorage, Storage
from tailbit.tables.table import FormatWords

COLUMNS = (
    Column(("k",), ("k",), DataType("long")),
    Column(("v",), ("v",), DataType("string")),
    Column(("part",), ("part",), DataType("string"), partition=True),
)
"""The columns of every such table; the last one is no column of the files."""

STORED = stored_schema(pa.string())


@dataclass(frozen=True, slots=True)
class ListedRows:
    """Hidden rows, listed by number: "1,4"."""

    id: str

    @property
    def cardinality(self) -> int:
        """The number of hidden rows."""
        return self.id.count(",") + 1

    def concerns(self, file: str, offset: object) -> bool:
        """They are in no file: errors name them by their numbers."""
        return (file, offset) == (self.id, 0)

    def read(self, storage: Storage) -> BitMap:
        """The hidden rows."""
        try:
            return BitMap(map(int, self.id.split(",")))
        except ValueError as wrong:
            raise HiddenRowsError(file=self.id, offset=0, reason="they are no numbers") from wrong


@dataclass(frozen=True, slots=True)
class ListedStatistics:
    """Least and greatest k of a file and its rows, as "0 9 10"; of other columns nothing is known."""

    text: str

    def bounds(self, column: Column) -> FileBounds | None:
        """The bounds of k."""
        low, high, rows = map(int, self.text.split())
        return FileBounds(low, high, 0, rows) if column.id == "k" else None


class ListedFiles(FileList):
    """The live files: hidden rows are stored as their listing, statistics as their text."""

    @classmethod
    def stored(cls, slices: Sequence[FileSlice]) -> pa.Table:
        """Slices as a table of schema STORED."""
        hidden = [slice_.hidden.id if slice_.hidden else None for slice_ in slices]
        stats = [
            slice_.stats.text if isinstance(slice_.stats, ListedStatistics) else None for slice_ in slices
        ]
        return stored_columns(slices, STORED, hidden, stats)

    def _hidden_ids(self, stored: pa.ChunkedArray) -> pa.ChunkedArray:
        return stored

    def _hidden(self, stored: Any) -> ListedRows | None:
        return None if stored is None else ListedRows(stored)

    def _statistics(self, text: str | None) -> ListedStatistics | None:
        return None if text is None else ListedStatistics(text)


@dataclass(frozen=True, slots=True)
class Commit:
    """What one commit changed: path to its slice, None where it is gone."""

    changes: Mapping[str, FileSlice | None]
    timestamp_ms: int

    @property
    def digest(self) -> str:
        """Tells this commit from any other."""
        return hashlib.sha256(repr((sorted(self.changes.items()), self.timestamp_ms)).encode()).hexdigest()


class ListedTable(Table):
    """A table whose log is a list of commits in memory. Commit n, from 0, is made at n + 1 seconds.

    The version of commit n is (n + 1) * `step` - 1: with a step of 1 the versions are those of Delta, with
    another one they begin late and are not contiguous.
    """

    words = FormatWords("listed table", "_listed", "the sweeper", {"DataFileError": "List the file anew."})

    def __init__(self, root: str | Path, name: str = "listed", step: int = 1) -> None:
        self.storage, self._name, self.step = LocalStorage(str(root)), name, step
        self._commits: list[Commit] = []
        self._snapshots: list[Snapshot] = []

    def write(self, path: str, rows: pa.Table, part: str | None) -> FileSlice:
        """Write a data file; the slice of it with no row hidden."""
        target = Path(self.root, path)
        pq.write_table(rows, target, row_group_size=4)
        found, bounds = os.stat(target), pc.min_max(rows["k"]).as_py()
        stats = ListedStatistics(f"{bounds['min']} {bounds['max']} {len(rows)}")
        times = found.st_mtime_ns // 1_000_000
        return FileSlice(path, found.st_size, times, len(rows), {"part": part}, stats=stats)

    def commit(self, changes: Mapping[str, FileSlice | None]) -> None:
        """Add a version: slices by path, None for a file that goes."""
        before = self._snapshots[-1].files if self._snapshots else ListedFiles.of([], self._name)
        version = self.number(len(self._commits))
        time = 1000 * (len(self._commits) + 1)
        self._commits.append(Commit(dict(changes), time))
        files = before.overlaid(changes)
        self._snapshots.append(Snapshot(self.root, version, time, files, lambda: Schema(COLUMNS)))

    def number(self, commit: int) -> Version:
        """The version of a commit, from 0."""
        return (commit + 1) * self.step - 1

    def _place(self, version: Version) -> int | None:
        """Which commit a version is; None where it is none."""
        commit, rest = divmod(version + 1, self.step)
        return commit - 1 if not rest and 0 < commit <= len(self._commits) else None

    def head(self) -> Version:
        """The newest version."""
        return self.number(len(self._commits) - 1)

    def earliest(self) -> Version:
        """Every version can be rebuilt."""
        return self.number(0)

    def versions(self, first: Version, last: Version, most: int | None = None) -> Sequence[Version]:
        """The versions of a range."""
        return [v for v in map(self.number, range(len(self._commits))) if first <= v <= last][:most]

    def follows(self, version: Version) -> bool:
        """Every commit is kept."""
        return version < self.head()

    def snapshot(self, version: Version | None = None) -> Snapshot:
        """The state at a version."""
        wanted = self.head() if version is None else version
        at = self._place(wanted)
        if at is None:
            raise self._not_found(wanted)
        return self._snapshots[at]

    def changes(self, first: Version, last: Version) -> Changes:
        """The net effect of commits."""
        net: dict[str, SliceChange] = {}
        commits = []
        for version in self._every(first, last):
            for path, new in self._commit(version).changes.items():
                old = net[path].old if path in net else self._before(version, path)
                net[path] = SliceChange(path, old, new)
            commits.append(self._info(version))
        return Changes(
            first, last, tuple(net[path] for path in sorted(net)), tuple(commits), first <= self.number(0)
        )

    def _every(self, first: Version, last: Version) -> Sequence[Version]:
        if last > self.head():
            raise self._gap(last)
        return self.versions(first, last)

    def _before(self, version: Version, path: str) -> FileSlice | None:
        at = self._place(version)
        return self._snapshots[at - 1].files.get(path) if at else None

    def _info(self, version: Version) -> CommitInfo:
        commit = self._commit(version)
        added = [slice_ for slice_ in commit.changes.values() if slice_ is not None]
        removed, size = len(commit.changes) - len(added), sum(slice_.size for slice_ in added)
        return CommitInfo(version, commit.timestamp_ms, "LIST", len(added), removed, size)

    def _commit(self, version: Version) -> Commit:
        at = self._place(version)
        if at is None:
            raise self._gap(version)
        return self._commits[at]

    def _gap(self, version: Version) -> CommitGapError:
        return CommitGapError(version=version, path=self.root, found=f"{self.earliest()} to {self.head()}")

    def commit_timestamp(self, version: Version) -> int:
        """The time of a commit."""
        return self._commit(version).timestamp_ms

    def version_at(self, timestamp_ms: int) -> Version:
        """The newest version at or before a time."""
        times = [commit.timestamp_ms for commit in self._commits]
        assert all(a < b for a, b in pairwise(times))
        if not times[0] <= timestamp_ms <= times[-1]:
            raise self._not_found(f"at {timestamp_ms}")
        return self.number(bisect_right(times, timestamp_ms) - 1)

    def fingerprint(self, version: Version) -> Fingerprint | None:
        """Proof of a commit: a hash of what it changed."""
        stat = self.fingerprint_stat(version)
        return None if stat is None else Fingerprint(version, str(stat), self._name)

    def fingerprint_stat(self, version: Version) -> object:
        """The hash again: nothing is cheaper here."""
        at = self._place(version)
        return None if at is None else self._commits[at].digest

    def _not_found(self, version: object) -> VersionNotFoundError:
        return VersionNotFoundError(
            version=version,
            path=self.root,
            reason="it is not listed",
            earliest=self.earliest(),
            latest=self.head(),
        )
