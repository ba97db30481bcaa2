"""Dates and times in string constants, as Spark's casts read them, and what a zone makes of them.

Days and microseconds since 1970 in the proleptic Gregorian calendar, years of any size.
Source: Spark 4.2, SparkDateTimeUtils.parseTimestampString and stringToDate.
"""

from __future__ import annotations

import datetime
import re
from zoneinfo import ZoneInfo

from tailbit.tables.partition_values import days_of

DAY = 86_400_000_000
_BLANK = "".join(map(chr, [*range(33), 127]))
_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL | re.ASCII)
_TIMESTAMP = re.compile(
    r"([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?([^\d.].*)?)?)?)?)?)?",
    re.DOTALL | re.ASCII,
)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})|:(\d))?(?::?(\d{2}))?|Z|UTC|GMT|UT", re.ASCII
)
_FIRST_SECOND, _LAST_SECOND = -62_135_400_000, 253_402_000_000
_CYCLE = 146_097 * 86_400
"""Seconds after which calendar and weekdays repeat."""
_LIMIT = 1 << 63
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def trimmed(text: str) -> str:
    """A text without the blanks and control characters that Spark's casts drop at both ends."""
    return text.strip(_BLANK)


def parse_date(text: str) -> int:
    """Days since 1970.

    Raises:
        ValueError: not a date.
    """
    found = _DATE.fullmatch(trimmed(text))
    if found is None:
        raise ValueError(text)
    sign, year, month, day = found.groups()
    return days_of(_signed(sign, year), int(month or 1), int(day or 1))


def parse_timestamp(text: str, zone: str | None) -> int:
    """Microseconds since 1970; a text without a zone is in `zone`. Without that, zones are dropped.

    Raises:
        ValueError: not a timestamp.
    """
    found = _TIMESTAMP.fullmatch(trimmed(text))
    if found is None:
        raise ValueError(text)
    sign, year, month, day = found.groups()[:4]
    hour, minute, second = (int(part or 0) for part in found.groups()[4:7])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    fraction = int((found.group(8) or "").ljust(6, "0")[:6])
    days = days_of(_signed(sign, year), int(month or 1), int(day or 1))
    local = days * DAY + (hour * 3600 + minute * 60 + second) * 1_000_000 + fraction
    named = found.group(9)
    own = None if named is None else _known_zone(named.strip())
    micros = local if zone is None else to_instant(local, own or zone)
    if not -_LIMIT <= micros < _LIMIT:
        raise ValueError(text)
    return micros


def _signed(sign: str, year: str) -> int:
    return -int(year) if sign == "-" else int(year)


def _known_zone(name: str) -> str:
    if _OFFSET.fullmatch(name):
        return name
    if "/" not in name:
        raise ValueError(f"time zone {name}: write an offset such as +01:00")
    _zone(name)
    return name


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


def start_of_day(days: int, zone: str) -> int:
    """The first instant of a day in a zone."""
    return to_instant(days * DAY, zone)


def _into_calendar(seconds: int) -> int:
    """What to subtract so that Python's calendar holds a time: whole cycles, or all before it."""
    if seconds > _LAST_SECOND:
        return -(-(seconds - _LAST_SECOND) // _CYCLE) * _CYCLE
    return seconds - _FIRST_SECOND if seconds < _FIRST_SECOND else 0
