"""Deletion of files that no state of an index refers to: at once, or pass by pass beside an indexer.

Such files are the inputs of merges, and files that a killed or losing writer wrote without committing them.

Beside an indexer that works, a file may be deleted once no
reader can need it. A file that a merge or a commit removed from the index is kept for `KEPT_S`, because a
running query may still read it; nobody time-travels through the index, which holds every version of the
source by itself. A file that was never in the index may belong to a running batch, so it is kept for
`UNCOMMITTED_HOURS`, which is longer than any batch. The clock of the store gives the age of a file. If that
clock has jumped, as clocks do after a sleep of the machine, no such file is deleted until those hours have
really passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    CommitGapError,
    IndexLogError,
    MalformedLogError,
    StorageError,
    VersionNotFoundError,
)
from tailbit.base.faults import Fault, fault_point
from tailbit.index.store.state import is_own
from tailbit.index.store.stored_log import log_checkpoints, read_log_checkpoint
from tailbit.index.store.table import MetadataTable

_MILLIS_PER_HOUR = 3_600_000

_ATTEMPTS = 5
"""Attempts to read the log while other writers clean it up."""


def vacuum(
    index: MetadataTable, older_than_hours: float = 1.0, dry_run: bool = False, now_ms: int | None = None
) -> list[str]:
    """Delete unreferenced index files; return their paths, sorted.

    These files are spared: every file to which the index refers or has referred in the last ten minutes, so
    that running queries go on; every file younger than `older_than_hours`, since a running batch may have
    written the file without having committed it yet (use more hours than the longest batch takes); and
    everything outside the folders of the record kinds, such as the Spark checkpoint and the heartbeat.
    `dry_run` deletes nothing and only returns the paths.

    Cost: lists the folders of the kinds and reads the commits that the log holds.

    Raises:
        StorageError: the storage refused; the files deleted so far were not referenced.
    """
    index.refresh()
    if dry_run:
        return unreferenced(index, older_than_hours, now_ms)
    gone: list[str] = []
    try:
        index.checkpoint_log()
    except StorageError:
        # On a full disk there is room for the log checkpoint once something is deleted.
        gone = unreferenced(index, older_than_hours, now_ms)
        delete(index, gone)
        index.checkpoint_log()
    more = unreferenced(index, older_than_hours, now_ms)
    delete(index, more)
    return sorted([*gone, *more])


def unreferenced(index: MetadataTable, older_than_hours: float, now_ms: int | None = None) -> list[str]:
    """Return the old files that no state of the index and no tombstone in its log names, sorted.

    Cost: lists the folders of the kinds and reads the commits that the log holds.
    """
    now_ms = index.storage.clock_ms() if now_ms is None else now_ms
    return sorted(set(_older_than(index, now_ms - older_than_hours * _MILLIS_PER_HOUR)) - referenced(index))


def delete(index: MetadataTable, paths: Iterable[str]) -> None:
    """Delete files of an index, one by one."""
    for path in paths:
        index.storage.delete(path)
        fault_point(Fault.VACUUM_HALF_DONE)


def referenced(index: MetadataTable) -> set[str]:
    """Return the files to which the index refers now, or at a version or by a tombstone still in its log.

    A removal is in the newest log checkpoint for as long as tombstones are kept, or in a commit after the
    checkpoint, so damaged commits before the checkpoint do not matter. Paths in the log outside the folders
    of the index are not its files; they are never deleted. If another writer deletes a commit below its log
    checkpoint meanwhile, the log is read again.

    Raises:
        IndexLogError: the newest log checkpoint, or a commit after it, cannot be read.
        CommitGapError, VersionNotFoundError: a commit was missing in each of the attempts.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _referenced(index)
        except (CommitGapError, VersionNotFoundError):
            continue
    return _referenced(index)


def _referenced(index: MetadataTable) -> set[str]:
    """Return what `referenced` does, by reading the log once."""
    since, paths = _tombstones(index)
    paths |= set(index.state.files)
    first = index.log.earliest()
    for version in range(first, index.log.head() + 1):
        try:
            # Commit by commit: over a range, a file that was added and removed would be missed.
            paths |= _named(index, version, whole=version == first)
        except MalformedLogError as damage:
            if version > since:
                raise IndexLogError(file=index.path, reason=str(damage)) from damage
    return set(filter(is_own, paths))


def _named(index: MetadataTable, version: int, *, whole: bool) -> set[str]:
    """Return the files that a version of the index holds; unless `whole`, only those its commit names."""
    if whole:
        return {slice_.path for slice_ in index.log.snapshot(version).files}
    return {change.path for change in index.log.changes(version, version).slices}


def _tombstones(index: MetadataTable) -> tuple[int, set[str]]:
    """Return the version of the newest log checkpoint, and the files of its tombstones."""
    since = max(log_checkpoints(index.storage), default=-1)
    if since < 0:
        return since, set()
    try:
        removed = read_log_checkpoint(index.storage, since, ["remove.path"])["remove"].to_pylist()
    except FileNotFoundError:
        # Another writer has cleaned it up since, below a newer one.
        return _tombstones(index)
    except MalformedLogError as damage:
        raise IndexLogError(file=index.path, reason=str(damage)) from damage
    return since, {row["path"] for row in removed if row is not None}


def _older_than(index: MetadataTable, oldest_ms: float) -> list[str]:
    return [
        f"kind={kind.name}/{entry.name}"
        for kind in index.kinds
        for entry in index.storage.list(f"kind={kind.name}")
        if entry.mtime_ms < oldest_ms
    ]


KEPT_S = 600.0
"""Seconds for which removed files are kept for running queries."""

UNCOMMITTED_HOURS = 6.0
"""Files that no commit ever named, such as those of a killed writer, are deleted when they are older than
this."""

LIST_EVERY_S = 3600.0
"""Seconds between listings of the folders for uncommitted files; the first pass lists them too."""

JUMP_S = 60.0
"""A clock has jumped if it advanced by 60 s more than have passed."""


@dataclass
class Swept:
    """The memory of the passes over one index, which a later sweeper can take over.

    `gone_since`: for each file that waits for its deletion, when a pass first saw that it had left the index.
    `list_at`: when folders are listed next; None before the first pass. `ahead_s`: seconds by which the clock
    of the store was ahead at the last listing.
    """

    gone_since: dict[str, float] = field(default_factory=dict)
    list_at: float | None = None
    ahead_s: float = 0.0


class Sweeper:
    """Deleter of files that left an index long enough ago, with an index object of its own.

    `memory`: one per indexer, with the files seen to leave the index. Only tombstones show such files,
    so a pass is needed at least every `stored_checkpoints.TOMBSTONE_RETENTION`. Cost of a pass: the commits
    that the log holds, and the files deleted; every `LIST_EVERY_S`, folders are listed too.
    """

    def __init__(
        self,
        index: MetadataTable,
        kept_s: float = KEPT_S,
        clock: Callable[[], float] = time.monotonic,
        memory: Swept | None = None,
    ) -> None:
        self._index, self._kept_s, self._clock = index, kept_s, clock
        self._memory = memory or Swept()
        if self._memory.list_at is None:
            self._memory.list_at, self._memory.ahead_s = clock(), self._ahead()

    @property
    def has_waiting(self) -> bool:
        """Return whether files have left the index that are not old enough to be deleted."""
        return bool(self._memory.gone_since)

    def sweep(self) -> list[str]:
        """Delete the files that are due by now; return their paths, sorted."""
        # The order matters: a file that another commit adds in between is live, and was not referenced
        # before.
        was = self._referenced()
        self._index.refresh()
        now, live = self._clock(), self._index.state.files
        # An index restored from a backup may name files again that had left it.
        memory = self._memory
        waiting = {path: since for path, since in memory.gone_since.items() if path not in live}
        memory.gone_since = dict.fromkeys(was.difference(live), now) | waiting
        due = {path for path, since in memory.gone_since.items() if now - since >= self._kept_s}
        if memory.list_at is None or now >= memory.list_at:
            before, memory.ahead_s = memory.ahead_s, self._ahead()
            if memory.ahead_s - before > JUMP_S:
                memory.list_at = now + UNCOMMITTED_HOURS * 3600
            else:
                memory.list_at = now + LIST_EVERY_S
                due |= set(unreferenced(self._index, UNCOMMITTED_HOURS)).difference(memory.gone_since)
        delete(self._index, sorted(due))
        for path in due:
            memory.gone_since.pop(path, None)
        return sorted(due)

    def _referenced(self) -> set[str]:
        """Return the files that the index or a tombstone names; first repair an unreadable log checkpoint."""
        try:
            return referenced(self._index)
        except IndexLogError:
            self._index.refresh()
            self._index.checkpoint_log()
            return referenced(self._index)

    def _ahead(self) -> float:
        """Return by how many seconds the clock of the store is ahead of one that never jumps."""
        return self._index.storage.clock_ms() / 1000 - self._clock()
