"""The changes between two snapshots of an Iceberg table: the difference of their live files.

No status of an entry is trusted, since a manifest may be rewritten without any change of rows: what is live
in the later snapshot alone came, and what is live in the earlier one alone went.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tailbit.tables import compute as pc
from tailbit.tables.iceberg.metadata import SnapshotEntry
from tailbit.tables.iceberg.snapshot import IcebergSnapshot
from tailbit.tables.model import Changes, CommitInfo, SliceChange, Version


def changes_between(
    before: IcebergSnapshot,
    after: IcebergSnapshot,
    range_: tuple[Version, Version],
    commits: Sequence[CommitInfo],
    mapping_changed: bool = False,
) -> Changes:
    """Return the net effect of the commits after `before` up to `after`. Cost: a pass over both lists."""
    old, new = (_rows(snapshot) for snapshot in (before, after))
    paths = [
        *_without(new, old)["path"].to_pylist(),
        *_without(old, new)["path"].to_pylist(),
    ]
    slices = tuple(
        SliceChange(path, before.files.get(path), after.files.get(path)) for path in sorted(set(paths))
    )
    changed = mapping_changed or before.schema_id != after.schema_id
    return Changes(*range_, slices, tuple(commits), changed)


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
