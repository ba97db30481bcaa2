"""The changes between two snapshots of an Iceberg table: the difference of their live files.

No status of an entry is trusted, since a manifest may be rewritten without any change of rows: what is live
in the later snapshot alone came, and what is live in the earlier one alone went.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pyarrow as pa

from tailbit.tables import compute as pc
from tailbit.tables.file_list import FileList
from tailbit.tables.iceberg.manifests import Manifest
from tailbit.tables.iceberg.metadata import SnapshotEntry
from tailbit.tables.iceberg.snapshot import IcebergSnapshot
from tailbit.tables.model import Changes, CommitInfo, SliceChange, Version

_FEW = 100


def changes_between(
    before: IcebergSnapshot,
    after: IcebergSnapshot,
    range_: tuple[Version, Version],
    commits: Sequence[CommitInfo],
    paths_of: Callable[[Collection[Manifest]], Sequence[str]],
) -> Changes:
    """Return the net effect of the commits after `before` up to `after`.

    `paths_of`: returns the paths in manifests. Cost: that of the manifests that differ; where manifests of
    deletes differ, or many of them, a pass over both lists.
    """
    different = before.manifests ^ after.manifests
    if len(different) <= _FEW and not any(manifest.has_deletes for manifest in different):
        paths = {path for path in paths_of(different) if _differs(before.files, after.files, path)}
    else:
        paths = _different(before, after)
    slices = tuple(SliceChange(path, before.files.get(path), after.files.get(path)) for path in sorted(paths))
    return Changes(*range_, slices, tuple(commits), before.schema_id != after.schema_id)


def _differs(old: FileList, new: FileList, path: str) -> bool:
    """Return whether a path came or went; with the same deletes, it hides the same rows otherwise."""
    return (old.get(path) is None) != (new.get(path) is None)


def _different(before: IcebergSnapshot, after: IcebergSnapshot) -> set[str]:
    """Return the paths that came or went, or of which other rows are hidden."""
    old, new = (_rows(snapshot) for snapshot in (before, after))
    return {*_without(new, old)["path"].to_pylist(), *_without(old, new)["path"].to_pylist()}


def _rows(snapshot: IcebergSnapshot) -> pa.Table:
    """Return paths, and paths with the identity of the hidden rows."""
    paths = snapshot.files.core["path"]
    whole = pc.binary_join_element_wise(paths, snapshot.files.hidden_ids, pa.scalar("\0"))
    return pa.table({"path": paths, "whole": whole})


def _without(rows: pa.Table, others: pa.Table) -> pa.Table:
    is_in_both = pc.is_in(
        rows["whole"], value_set=pa.concat_arrays(others["whole"].chunks or [pa.nulls(0, pa.string())])
    )
    return pc.filter(rows, pc.invert(is_in_both))


def commit_info(version: Version, time_ms: int, entry: SnapshotEntry) -> CommitInfo:
    """Return the numbers of a commit from the summary of its snapshot, which may lack any of them."""

    def number(name: str) -> int:
        text = entry.summary.get(name, "")
        return int(text) if text.isdecimal() else 0

    return CommitInfo(
        version,
        time_ms,
        entry.summary.get("operation", ""),
        number("added-data-files"),
        number("deleted-data-files"),
        number("added-files-size"),
    )
