"""Conversions between local times and instants, single and as arrays, for years of any size, as in Spark.

A zone is an offset such as +01:00, or a name that Java knows; names are case-sensitive. The rules of named
zones are those of a JDK and come with the package (`tailbit.tables.zone_rules`): neither a JVM nor the
machine's time zone data is used, since their rules differ, above all before 1970. Source: Spark 4.2,
SparkDateTimeUtils.getZoneId; Java 17, ZoneId.of and ZonedDateTime.ofLocal. Each function raises ValueError
for a zone that neither knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tailbit.base.arrays import Longs

_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})(?::(\d\d)(?::(\d\d))?|:(\d))?|(\d\d)(\d\d)(\d\d)?)|Z|UTC|GMT|UT",
    re.ASCII,
)
_US = 1_000_000
_CYCLE = 146_097 * 86_400 * _US
"""Microseconds of 400 years, after which calendar and weekdays repeat, and so do the changes of a zone."""
_REPEATED_FROM, _FIRST_YEAR, _LAST_YEAR = 4_102_444_800 * _US, 1900, 2501
"""2100-01-01, after which a zone has only yearly changes; the years for which these are expanded."""
_FAR = 1 << 62
"""A time after every change of any zone; negated, or minus the time of a change, it still fits 64 bits."""


def check_zone(name: str) -> None:
    """Raise ValueError unless a time zone is known."""
    fixed_offset(name)


@lru_cache(maxsize=1024)
def fixed_offset(zone: str) -> int | None:
    """Return the offset in microseconds of a zone whose clocks never change; None for other zones."""
    match = _OFFSET.fullmatch(zone)
    if match is None:
        # Imported on first use, since UTC does not need the rules.
        from tailbit.tables.zone_rules import zone_rules

        rules = zone_rules(zone)
        return rules.first * _US if rules.fixed else None
    sign, hour, minute, second, short, hours, minutes, seconds = match.groups()
    parts = (hour or hours, minute or short or minutes, second or seconds)
    h, m, s = (int(part or 0) for part in parts)
    total = h * 3600 + m * 60 + s
    if total > 18 * 3600 or m > 59 or s > 59:
        raise ValueError(f"time zone offset {zone} is out of range")
    return (-total if sign == "-" else total) * _US


@lru_cache(maxsize=1024)
def same_zone(zone: str) -> str:
    """Return a common name of all zones of one fixed offset, UTC or +05:30; other zones keep their name.

    >>> same_zone("Etc/UTC"), same_zone("UTC+5:30"), same_zone("EST"), same_zone("Europe/Paris")
    ('UTC', '+05:30', '-05:00', 'Europe/Paris')
    """
    offset = fixed_offset(zone)
    if offset is None:
        return zone
    minutes, seconds = divmod(abs(offset) // _US, 60)
    text = f"{'-' if offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}" + f":{seconds:02}" * bool(
        seconds
    )
    return text if offset else "UTC"


class _Changes(NamedTuple):
    """The changes of a zone in microseconds, ascending; `offsets[n]` holds before change n.

    The last offset holds after all changes, which end before the year `_LAST_YEAR` if there are yearly ones.

    For example, a zone at +1 h that goes to +2 h at instant 100 h has `instants` [100 h], `local_ends` [102
    h] and `offsets` [+1 h, +2 h].
    """

    instants: Longs
    local_ends: Longs
    offsets: Longs


@lru_cache(maxsize=16)
def _changes(zone: str) -> _Changes:
    """Expand the changes of a zone into arrays.

    Cost: some milliseconds, and 30 kB for a zone whose clocks keep changing for ever.
    """
    from tailbit.tables.zone_rules import zone_rules

    rules = zone_rules(zone)
    last = rules.changes[-1].instant if rules.changes else 0
    yearly = [rule.in_year(year) for year in range(_FIRST_YEAR, _LAST_YEAR) for rule in rules.yearly]
    later = (change for change in yearly if change.instant > last)
    listed = [*rules.changes, *sorted(later, key=lambda change: change.instant)]
    return _Changes(
        np.array([change.instant for change in listed], dtype=np.int64) * _US,
        np.array([change.local_end for change in listed], dtype=np.int64) * _US,
        np.array([*(change.before for change in listed), listed[-1].after], dtype=np.int64) * _US,
    )


def _looked_up(times: Longs, zone: str, offsets: Callable[[_Changes, Longs], Longs]) -> Longs:
    """Return the offset of each time: the fixed one of the zone, or what `offsets` finds in its changes.

    Times from 2100 on are moved by whole cycles into the first cycle, and times of the far past are bounded.
    """
    fixed = fixed_offset(zone)
    if fixed is not None:
        return np.full(len(times), fixed)
    near = np.maximum(times, -_FAR)
    repeated = near >= _REPEATED_FROM
    if repeated.any():
        near = np.where(repeated, _REPEATED_FROM + (near - _REPEATED_FROM) % _CYCLE, near)
    return offsets(_changes(zone), near)


def offsets_of_instants(instants: Longs, zone: str) -> Longs:
    """Return how far ahead of UTC the clocks of a zone are at each instant, in microseconds."""
    return _looked_up(
        instants,
        zone,
        lambda changes, near: changes.offsets[np.searchsorted(changes.instants, near, side="right")],
    )


def offsets_of_local(local: Longs, zone: str) -> Longs:
    """Return what to subtract from each local time to get its instant, as `to_instant` does; microseconds."""
    return _looked_up(
        local,
        zone,
        lambda changes, near: changes.offsets[np.searchsorted(changes.local_ends, near, side="right")],
    )


def offsets_kept(local: Longs, offsets: Longs, zone: str) -> Longs:
    """Return what to subtract from each local time to get its instant, preferring `offsets`; microseconds.

    A preferred offset is used if it is valid for its local time, else the one of `offsets_of_local`.
    Source: Java 17, ZonedDateTime.ofLocal with a preferred offset.
    """
    if fixed_offset(zone) is not None:
        return offsets
    same = offsets_of_instants(local - offsets, zone) == offsets
    return np.where(same, offsets, offsets_of_local(local, zone))


def offsets_of_starts(local: Longs, zone: str) -> Longs:
    """Return what to subtract from each local time to get the `first_instant` of it; microseconds.

    For a time that the clocks skip, the first instant is that of the jump.
    """

    def of_starts(changes: _Changes, near: Longs) -> Longs:
        at = np.searchsorted(changes.local_ends, near, side="right")
        offsets: Longs = np.maximum(changes.offsets[at], near - np.append(changes.instants, _FAR)[at])
        return offsets

    return _looked_up(local, zone, of_starts)


def changes_between(low: int, high: int, zone: str) -> list[int]:
    """Return the instants from `low` to `high`, less than a hundred years apart, at which clocks change."""
    if fixed_offset(zone) is not None:
        return []
    cycles = (low - _REPEATED_FROM) // _CYCLE * _CYCLE if low >= _REPEATED_FROM else 0
    near = [max(-_FAR, min(at - cycles, _FAR)) for at in (low, high)]
    instants = _changes(zone).instants
    start, stop = np.searchsorted(instants, near[0]), np.searchsorted(instants, near[1], side="right")
    return [at + cycles for at in instants[start:stop].tolist()]


def to_instant(local: int, zone: str) -> int:
    """Return the instant of a local time.

    A time that clocks show twice is the earlier instant; a time that they skip is moved forward by the gap.

    Example: clocks jump from 02:00 to 03:00; 02:30 is the instant at which they show 03:30.
    """
    return local - _offset_of_one(offsets_of_local, local, zone)


def first_instant(local: int, zone: str) -> int:
    """Return the instant of a local time, or of the first later local time that the clocks show.

    For a time that the clocks skip, this is the instant of the jump; `to_instant` is later than that by as
    much as the time is after the beginning of the gap.
    """
    return local - _offset_of_one(offsets_of_starts, local, zone)


def to_local(instant: int, zone: str) -> int:
    """Return the local time of an instant."""
    return instant + _offset_of_one(offsets_of_instants, instant, zone)


def _offset_of_one(offsets: Callable[[Longs, str], Longs], time: int, zone: str) -> int:
    """Return the offset of a single time, of any size."""
    fixed = fixed_offset(zone)
    if fixed is not None:
        return fixed
    near = time if time < _REPEATED_FROM else _REPEATED_FROM + (time - _REPEATED_FROM) % _CYCLE
    return int(offsets(np.array([max(near, -_FAR)]), zone)[0])
