"""Changes between two versions of a Delta table: commits folded by logical file, one change per path.

A range is read at the cost of its commits' bytes, whatever the size of the table: no snapshot is built.
"""

from __future__ import annotations

from tailbit.tables.delta.log.actions import Actions, LogicalFile
from tailbit.tables.delta.time_travel import Clock
from tailbit.tables.model import Changes, CommitInfo, FileSlice, SliceChange, Version


def read_changes(clock: Clock, first: Version, last: Version) -> Changes:
    """Return the net effect of the commits `first` to `last` per path; the clock carries the log to read.

    The `old` slice of a change comes from the first remove action of its path, and is live before the range
    unless a writer removed what was not live; its statistics are absent. A change is not `settled` if the
    commits add its path with two deletion vectors and remove neither.

    Raises:
        CommitGapError: a commit of the range is missing.
        MalformedLogError: a commit of the range cannot be parsed.
        UnsupportedFeatureError: a commit of the range demands a feature that this reader does not support.
    """
    outcomes: dict[LogicalFile, FileSlice | None] = {}
    old: dict[str, FileSlice | None] = {}
    infos = []
    schema_changed = False
    commits = clock.log.commits(first, last)
    for version, actions in zip(range(first, last + 1), commits, strict=True):
        outcomes.update(actions.outcome())
        for slice_ in actions.removes.values():
            old.setdefault(slice_.path, slice_)
        for slice_ in actions.adds.values():
            old.setdefault(slice_.path, None)
        schema_changed |= actions.metadata is not None
        infos.append(_info(version, clock.timestamp(version), actions))
    new: dict[str, FileSlice] = {}
    unsettled = set()
    for live in outcomes.values():
        if live is not None and new.setdefault(live.path, live) is not live:
            unsettled.add(live.path)
    slices = (SliceChange(path, old[path], new.get(path), path not in unsettled) for path in sorted(old))
    return Changes(first, last, tuple(slices), tuple(infos), schema_changed)


def _info(version: Version, timestamp_ms: int, actions: Actions) -> CommitInfo:
    return CommitInfo(
        version=version,
        timestamp_ms=timestamp_ms,
        operation=actions.operation,
        files_added=len(actions.adds),
        files_removed=len(actions.removes),
        bytes_added=sum(a.size for a in actions.adds.values()),
        blank=actions.blank,
    )
