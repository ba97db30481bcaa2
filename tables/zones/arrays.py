"""Conversions between local times and instants for whole arrays, in any zone: as `times` does for one time.

The changes of a zone are expanded into arrays up to a distant year; later times, in zones whose clocks keep
changing for ever, are converted one by one.
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
"""A time before every change of any zone; its sum with any change still fits 64 bits."""


@dataclass(frozen=True)
class _Changes:
    """The changes of a zone in microseconds, ascending; `offsets[n]` holds before change n.

    The last offset holds after all changes. `endless`: more changes follow, so that the offset after those
    listed is not known here.

    For example, a zone at +1 h that goes to +2 h at instant 100 h has `instants` [100 h], `local_ends` [102
    h] and `offsets` [+1 h, +2 h].
    """

    instants: Longs
    local_ends: Longs
    offsets: Longs
    endless: bool


def offsets_of_instants(instants: Longs, zone: str) -> Longs:
    """Return how far ahead of UTC the clocks of a zone are at each instant, in microseconds.

    Raises:
        ValueError: there is no such zone.
    """
    return _offsets(
        instants, zone, lambda changes: changes.instants, lambda time: to_local(time, zone) - time
    )


def offsets_of_local(local: Longs, zone: str) -> Longs:
    """Return what to subtract from each local time to get its instant, as `to_instant` does; microseconds.

    Raises:
        ValueError: there is no such zone.
    """
    return _offsets(
        local, zone, lambda changes: changes.local_ends, lambda time: time - to_instant(time, zone)
    )


def offsets_kept(local: Longs, offsets: Longs, zone: str) -> Longs:
    """Return what to subtract from local times that were derived from times with `offsets`.

    The offset of a time is kept if it is valid for the new local time, else it is that of `offsets_of_local`.
    Source: Java 17, ZonedDateTime.ofLocal with a preferred offset.

    Raises:
        ValueError: there is no such zone.
    """
    if fixed_offset(zone) is not None:
        return offsets
    same = offsets_of_instants(local - offsets, zone) == offsets
    return np.where(same, offsets, offsets_of_local(local, zone))


def _offsets(times: Longs, zone: str, ends: Callable[[_Changes], Longs], offset_of: _One) -> Longs:
    """Return the offset that holds before the first change whose end is after each time."""
    fixed = fixed_offset(zone)
    if fixed is not None:
        return np.full(len(times), fixed)
    changes = _changes(zone)
    at = np.searchsorted(ends(changes), times, side="right")
    return _beyond(times, changes.offsets[at], at, changes, offset_of)


def offsets_of_starts(local: Longs, zone: str) -> Longs:
    """Return what to subtract from each local time to get the `first_instant` of it; microseconds.

    For a time that the clocks skip, the first instant is that of the jump.

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
    """Replace the offsets of times after the last listed change, one by one, if more changes follow."""
    beyond: Mask = at == len(changes.instants)
    if not changes.endless or not beyond.any():
        return offsets
    offsets = offsets.copy()
    distinct, back = np.unique(times[beyond], return_inverse=True)
    offsets[beyond] = np.array([offset_of(time) for time in distinct.tolist()], dtype=np.int64)[back]
    return offsets


@lru_cache(maxsize=16)
def _changes(zone: str) -> _Changes:
    """Expand the changes of a zone into arrays.

    Cost: some milliseconds, and 30 kB for a zone whose clocks keep changing for ever.
    """
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
