"""Local times and instants of whole arrays, in any zone: what `times` does for one.

The changes of a zone are written out as arrays up to a year that is far enough; times beyond it, of zones
whose clocks go on changing for ever, are asked for one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tailbit.arrays import Longs, Mask
from tailbit.tables.zones.rules import zone_rules
from tailbit.tables.zones.times import first_instant, fixed_offset, to_instant, to_local

_One = Callable[[int], int]
_US = 1_000_000
_LAST_YEAR = 2500
_FAR_PAST = -(1 << 62)
"""Before every change of any zone by so much that no sum with one leaves 64 bits."""


@dataclass(frozen=True)
class _Changes:
    """The changes of a zone in microseconds, ascending; `offsets[n]` holds before change n, the last after.

    `endless`: there are more changes, so that what holds after those listed is not known here.
    """

    instants: Longs
    local_ends: Longs
    offsets: Longs
    endless: bool


def offsets_of_instants(instants: Longs, zone: str) -> Longs:
    """How far ahead of UTC the clocks of a zone are at each instant; microseconds.

    Raises:
        ValueError: there is no such zone.
    """
    return _offsets(
        instants, zone, lambda changes: changes.instants, lambda time: to_local(time, zone) - time
    )


def offsets_of_local(local: Longs, zone: str) -> Longs:
    """What is taken off each local time to give its instant, as `to_instant` does; microseconds.

    Raises:
        ValueError: there is no such zone.
    """
    return _offsets(
        local, zone, lambda changes: changes.local_ends, lambda time: time - to_instant(time, zone)
    )


def offsets_kept(local: Longs, offsets: Longs, zone: str) -> Longs:
    """What is taken off local times that were made of times with these offsets: the same, where it can be.

    Else it is as `offsets_of_local` says. Source: Java 17, ZonedDateTime.ofLocal with a preferred offset.

    Raises:
        ValueError: there is no such zone.
    """
    if fixed_offset(zone) is not None:
        return offsets
    same = offsets_of_instants(local - offsets, zone) == offsets
    return np.where(same, offsets, offsets_of_local(local, zone))


def _offsets(times: Longs, zone: str, ends: Callable[[_Changes], Longs], offset_of: _One) -> Longs:
    """The offset that holds before the first change whose end is after each time."""
    fixed = fixed_offset(zone)
    if fixed is not None:
        return np.full(len(times), fixed)
    changes = _changes(zone)
    at = np.searchsorted(ends(changes), times, side="right")
    return _beyond(times, changes.offsets[at], at, changes, offset_of)


def offsets_of_starts(local: Longs, zone: str) -> Longs:
    """What is taken off each local time, or the first one after it that clocks show, as `first_instant` does.

    Raises:
        ValueError: there is no such zone.
    """
    offsets = offsets_of_local(local, zone)
    if fixed_offset(zone) is not None:
        return offsets
    changes = _changes(zone)
    at = np.searchsorted(changes.local_ends, local, side="right")
    ahead = np.append(changes.instants, 0)[at]
    first = np.maximum(offsets, np.maximum(local, _FAR_PAST) - ahead)
    first = np.where(at < len(changes.instants), first, offsets)
    return _beyond(local, first, at, changes, lambda time: time - first_instant(time, zone))


def _beyond(times: Longs, offsets: Longs, at: Longs, changes: _Changes, offset_of: _One) -> Longs:
    """What was found, but one by one for times after the last change that is listed, where more come."""
    beyond: Mask = at == len(changes.instants)
    if not changes.endless or not beyond.any():
        return offsets
    offsets = offsets.copy()
    distinct, back = np.unique(times[beyond], return_inverse=True)
    offsets[beyond] = np.array([offset_of(time) for time in distinct.tolist()], dtype=np.int64)[back]
    return offsets


@lru_cache(maxsize=16)
def _changes(zone: str) -> _Changes:
    """Cost: some milliseconds, and 30 kB for a zone whose clocks change for ever."""
    rules = zone_rules(zone)
    listed = list(rules.changes)
    last = listed[-1].instant if listed else 0
    yearly = [rule.in_year(year) for year in range(1900, _LAST_YEAR) for rule in rules.yearly]
    later = (change for change in yearly if change.instant > last)
    listed += sorted(later, key=lambda change: change.instant)
    return _Changes(
        np.array([change.instant for change in listed], dtype=np.int64) * _US,
        np.array([change.local_end for change in listed], dtype=np.int64) * _US,
        np.array([*(change.before for change in listed), listed[-1].after], dtype=np.int64) * _US,
        bool(rules.yearly),
    )
