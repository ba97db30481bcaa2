"""Changes between two versions of a Delta table: commits folded into one change per path, with their times.

A range is read at the cost of its commits' bytes, whatever the size of the table: no snapshot is built.
"""

from __future__ import annotations

from tailbit.tables.delta.log.actions import Actions
from tailbit.tables.delta.time_travel import Clock
from tailbit.tables.model import Changes, CommitInfo, FileSlice, SliceChange, Version


def read_changes(clock: Clock, first: Version, last: Version) -> Changes:
    """Return the net effect of the commits `first` to `last` per path; the clock carries the log to read.

    The `old` slice of a change comes from the first remove action of its path: its hidden rows are certain,
    its statistics are absent.

    Raises:
        CommitGapError: a commit of the range is missing.
        MalformedLogError: a commit of the range cannot be parsed.
        UnsupportedFeatureError: a commit of the range demands a feature that this reader does not support.
    """
    net: dict[str, SliceChange] = {}
    infos = []
    schema_changed = False
    for version in range(first, last + 1):
        actions = clock.log.commit(version)
        _fold(net, actions)
        schema_changed |= actions.metadata is not None
        infos.append(_info(version, clock.timestamp(version), actions))
    slices = tuple(net[path] for path in sorted(net))
    return Changes(first, last, slices, tuple(infos), schema_changed)


def _fold(net: dict[str, SliceChange], actions: Actions) -> None:
    """Fold one more commit into the net changes."""
    for path, new in actions.outcome().items():
        old: FileSlice | None = net[path].old if path in net else actions.removes.get(path)
        net[path] = SliceChange(path, old, new)


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
