"""Conversions between local times and instants, for years of any size, as in Spark.

A zone is an offset such as +01:00, or a name that Java knows; names are case-sensitive. The rules of named
zones are those of a JDK and come with the package (`tailbit.tables.zones.rules`): neither a JVM nor the
machine's time zone data is used, since their rules differ, above all before 1970. Source: Spark 4.2,
SparkDateTimeUtils.getZoneId; Java 17, ZoneId.of and ZonedDateTime.ofLocal.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailbit.tables.zones.rules import ZoneRules


_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:(\d{1,2})(?::(\d\d)(?::(\d\d))?|:(\d))?|(\d\d)(\d\d)(\d\d)?)|Z|UTC|GMT|UT",
    re.ASCII,
)
_US = 1_000_000


def check_zone(name: str) -> None:
    """Check that a time zone is known.

    Raises:
        ValueError: the zone is unknown.
    """
    fixed_offset(name)


@lru_cache(maxsize=1024)
def fixed_offset(zone: str) -> int | None:
    """Return the offset in microseconds of a zone whose clocks never change; None for other zones.

    Raises:
        ValueError: Spark knows no such zone.
    """
    match = _OFFSET.fullmatch(zone)
    if match is None:
        rules = _rules(zone)
        return rules.first * _US if rules.fixed else None
    sign, hour, minute, second, short, hours, minutes, seconds = match.groups()
    parts = (hour or hours, minute or short or minutes, second or seconds)
    h, m, s = (int(part or 0) for part in parts)
    total = h * 3600 + m * 60 + s
    if total > 18 * 3600 or m > 59 or s > 59:
        raise ValueError(f"time zone offset {zone} is out of range")
    return (-total if sign == "-" else total) * _US


def _rules(zone: str) -> ZoneRules:
    """Return the rules of a named zone; imported on first use, since UTC does not need them."""
    from tailbit.tables.zones.rules import zone_rules

    return zone_rules(zone)


def to_instant(local: int, zone: str) -> int:
    """Return the instant of a local time.

    A time that clocks show twice is the earlier instant; a time that they skip is moved forward by the gap.

    Example: clocks jump from 02:00 to 03:00; 02:30 is the instant at which they show 03:30.
    """
    fixed = fixed_offset(zone)
    if fixed is not None:
        return local - fixed
    change = _rules(zone).next_change(local // _US)
    return local - (_rules(zone).last if change is None else change.before) * _US


def first_instant(local: int, zone: str) -> int:
    """Return the instant of a local time, or of the first later local time that the clocks show.

    For a time that the clocks skip, this is the instant of the jump; `to_instant` is later than that by as
    much as the time is after the beginning of the gap.
    """
    instant = to_instant(local, zone)
    if fixed_offset(zone) is not None:
        return instant
    change = _rules(zone).next_change(local // _US)
    return instant if change is None else min(instant, change.instant * _US)


def to_local(instant: int, zone: str) -> int:
    """Return the local time of an instant."""
    fixed = fixed_offset(zone)
    if fixed is not None:
        return instant + fixed
    return instant + _rules(zone).offset_at(instant // _US) * _US
