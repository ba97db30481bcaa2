"""What changed between two versions of a Delta table, and when: commits folded into one change per path.

Reading a range costs the bytes of its commits, however big the table: no snapshot is built for it.
"""

from __future__ import annotations

from tailbit.tables.delta.log.actions import Actions
from tailbit.tables.delta.time_travel import Clock
from tailbit.tables.model import Changes, CommitInfo, FileSlice, SliceChange, Version


def read_changes(clock: Clock, first: Version, last: Version) -> Changes:
    """The net effect of the commits `first` to `last` per path, by a log and the clock on it.

    `old` of a change comes from the first remove action: its hidden rows are sure, its statistics absent.

    Raises:
        CommitGapError: one of them is missing.
        MalformedLogError: one of them cannot be parsed.
        UnsupportedFeatureError: one of them demands a feature that is not understood.
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
    """Extend net changes by one commit."""
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
