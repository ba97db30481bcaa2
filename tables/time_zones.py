"""Time zones: the instant of a local time and back, for years of any size, as Spark has them."""

from __future__ import annotations

import datetime
import re
from zoneinfo import ZoneInfo

_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})|:(\d))?(?::?(\d{2}))?|Z|UTC|GMT|UT", re.ASCII
)
_FIRST_SECOND, _LAST_SECOND = -62_135_400_000, 253_402_000_000
"""A day inside the ends of Python's calendar, in seconds since 1970."""
_CYCLE = 146_097 * 86_400
"""Seconds after which calendar and weekdays repeat."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def check_zone(name: str) -> None:
    """Make sure that a session time zone is known.

    Raises:
        ValueError: it is not.
    """
    if fixed_offset(name) is None:
        _zone(name)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError) as unknown:
        raise ValueError(f"time zone {name} is unknown") from unknown


def is_offset(name: str) -> bool:
    """Whether a zone's name is an offset, or a name of UTC."""
    return _OFFSET.fullmatch(name) is not None


def fixed_offset(zone: str) -> int | None:
    """The offset in microseconds of a zone that never changes; None for others."""
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    sign, hours, minutes, minute, seconds = found.groups()
    total = int(hours or 0) * 3600 + int(minutes or minute or 0) * 60 + int(seconds or 0)
    if total > 18 * 3600 or int(minutes or 0) > 59 or int(seconds or 0) > 59:
        raise ValueError(f"time zone offset {zone} is out of range")
    return (-total if sign == "-" else total) * 1_000_000


def to_instant(local: int, zone: str) -> int:
    """The instant of a local time: the earlier where clocks went back, moved on where they jumped ahead."""
    fixed = fixed_offset(zone)
    if fixed is not None:
        return local - fixed
    seconds, part = divmod(local, 1_000_000)
    shift = _into_calendar(seconds)
    moment = _EPOCH + datetime.timedelta(seconds=seconds - shift)
    ahead = moment.replace(tzinfo=_zone(zone), fold=0).utcoffset() or datetime.timedelta()
    return (seconds - round(ahead.total_seconds())) * 1_000_000 + part


def to_local(instant: int, zone: str) -> int:
    """The local time of an instant."""
    fixed = fixed_offset(zone)
    if fixed is not None:
        return instant + fixed
    seconds, part = divmod(instant, 1_000_000)
    moment = datetime.datetime.fromtimestamp(seconds - _into_calendar(seconds), _zone(zone))
    ahead = moment.utcoffset() or datetime.timedelta()
    return (seconds + round(ahead.total_seconds())) * 1_000_000 + part


def _into_calendar(seconds: int) -> int:
    """What to subtract so that Python's calendar holds a time: whole cycles, or all before it."""
    if seconds > _LAST_SECOND:
        return -(-(seconds - _LAST_SECOND) // _CYCLE) * _CYCLE
    return seconds - _FIRST_SECOND if seconds < _FIRST_SECOND else 0
