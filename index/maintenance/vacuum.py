"""Deletion of the files of an index to which no state of it refers any more.

Such files are the inputs of merges, and files that a killed or losing writer wrote without committing them.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailbit.base.errors import (
    CommitGapError,
    IndexLogError,
    MalformedLogError,
    StorageError,
    VersionNotFoundError,
)
from tailbit.base.faults import Fault, fault_point
from tailbit.index.store.own_files import is_own
from tailbit.index.store.stored_checkpoints import log_checkpoints, read_log_checkpoint
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
