"""Deletes the files of an index that no state of it refers to any more.

Left over are the inputs of merges, and what a killed or losing writer wrote without committing it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tailbit.errors import IndexLogError, MalformedLogError, StorageError
from tailbit.faults import Fault, fault_point
from tailbit.index.store.log_writer import log_checkpoints, read_log_checkpoint
from tailbit.index.store.own_files import is_own
from tailbit.index.store.table import MetadataTable

_MILLIS_PER_HOUR = 3_600_000


def vacuum(
    index: MetadataTable, older_than_hours: float = 1.0, dry_run: bool = False, now_ms: int | None = None
) -> list[str]:
    """Delete unreferenced index files; their paths, sorted.

    Spared are: every file that the index refers to or has referred to in the last ten minutes, so that open
    answers go on; every file younger than `older_than_hours`, since a batch in flight has written it and not
    yet committed (give more than its oldest batch lasts); and all that is not in a folder of a record kind,
    such as the Spark checkpoint and the heartbeat. `dry_run` only says what would go.

    Cost: lists the folders of the kinds and reads the commits that the log holds.

    Raises:
        StorageError: the storage refused; what is deleted so far is unreferenced all the same.
    """
    index.refresh()
    if dry_run:
        return unreferenced(index, older_than_hours, now_ms)
    gone: list[str] = []
    try:
        index.checkpoint_log()
    except StorageError:
        # A full disk has room for it once something has gone.
        gone = unreferenced(index, older_than_hours, now_ms)
        delete(index, gone)
        index.checkpoint_log()
    more = unreferenced(index, older_than_hours, now_ms)
    delete(index, more)
    return sorted([*gone, *more])


def unreferenced(index: MetadataTable, older_than_hours: float, now_ms: int | None = None) -> list[str]:
    """Files older than this that no state of the index names, nor a tombstone of its log; sorted.

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
    """Files that the index refers to, or did at a version or by a tombstone that its log still holds.

    A removal is in the newest log checkpoint for as long as tombstones are kept, or in a commit after it: a
    damaged commit before it tells nothing more. What a log names elsewhere is no file of an index, and nobody
    deletes it.

    Raises:
        IndexLogError: the newest log checkpoint, or a commit after it, cannot be read.
    """
    since, paths = _tombstones(index)
    paths |= set(index.state.files)
    first = index.log.earliest()
    for version in range(first, index.log.head() + 1):
        try:
            # Commit by commit: over a range, a file that came and went would not be named.
            paths |= _named(index, version, whole=version == first)
        except MalformedLogError as damage:
            if version > since:
                raise IndexLogError(file=index.path, reason=str(damage)) from damage
    return set(filter(is_own, paths))


def _named(index: MetadataTable, version: int, *, whole: bool) -> set[str]:
    """The files that a version has, or those that its commit names."""
    if whole:
        return {slice_.path for slice_ in index.log.snapshot(version).files}
    return {change.path for change in index.log.changes(version, version).slices}


def _tombstones(index: MetadataTable) -> tuple[int, set[str]]:
    """The version of the newest log checkpoint, and the files that it remembers as removed."""
    since = max(log_checkpoints(index.storage), default=-1)
    if since < 0:
        return since, set()
    try:
        removed = read_log_checkpoint(index.storage, since, ["remove.path"])["remove"].to_pylist()
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
