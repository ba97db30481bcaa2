"""Dates, times and lengths of time in constants, parsed as Spark does, and their meaning in a time zone.

Days and microseconds since 1970 in the proleptic Gregorian calendar, years of any size.
Source: Spark 4.2, SparkDateTimeUtils.parseTimestampString and stringToDate.

Lengths of time: the constants that `INTERVAL '1' DAY` and `INTERVAL 2 HOURS 30 MINUTES` write.

Source: Spark 4.2, `AstBuilder.visitInterval` and `IntervalUtils.stringToInterval`, of which whole numbers of
units are read.
"""

from __future__ import annotations

import re
from typing import Literal

from tailbit.base.dataclass import dataclass
from tailbit.tables.date_text import DAY_US
from tailbit.tables.partition_values import days_of
from tailbit.tables.zones import check_zone, first_instant, to_instant

MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
"""The units of whole months."""
MICROS = {
    "WEEK": 7 * DAY_US, "DAY": DAY_US, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000,
    "MILLISECOND": 1000, "MICROSECOND": 1,
}  # fmt: skip
"""The microseconds of each unit by the clock."""

_BLANK = "".join(map(chr, [*range(33), 127]))
_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL | re.ASCII)
_TIMESTAMP = re.compile(
    r"([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?([^\d.].*)?)?)?)?)?)?",
    re.DOTALL | re.ASCII,
)
_LIMIT = 1 << 63
_WORD = re.compile(r"(epoch|now|today|tomorrow|yesterday)(?![A-Z])[ \t]*(.*)", re.IGNORECASE | re.ASCII)


def trimmed(text: str) -> str:
    """Strip the blanks and control characters that Spark's casts strip from both ends of a text."""
    return text.strip(_BLANK)


def parse_date(text: str) -> int:
    """Parse a date into days since 1970."""
    match = _DATE.fullmatch(trimmed(text))
    if match is None:
        raise ValueError(text)
    sign, year, month, day = match.groups()
    return days_of(_signed(sign, year), int(month or 1), int(day or 1))


def parse_timestamp(text: str, zone: str | None) -> int:
    """Parse a timestamp into microseconds since 1970; `zone` is the default zone, None: zones are ignored."""
    match = _TIMESTAMP.fullmatch(trimmed(text))
    if match is None:
        raise ValueError(text)
    sign, year, month, day = match.groups()[:4]
    hour, minute, second = (int(digits or 0) for digits in match.groups()[4:7])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    fraction = int((match.group(8) or "").ljust(6, "0")[:6])
    days = days_of(_signed(sign, year), int(month or 1), int(day or 1))
    local = days * DAY_US + (hour * 3600 + minute * 60 + second) * 1_000_000 + fraction
    named = match.group(9)
    own = None if named is None else named.strip(_BLANK[:-1])
    if own is not None:
        check_zone(own)
    micros = local if zone is None else to_instant(local, own or zone)
    if not -_LIMIT <= micros < _LIMIT:
        raise ValueError(text)
    return micros


def special_word(text: str) -> str | None:
    """Return a word such as `epoch` or `today`, which Spark reads as a time in a constant, in lower case.

    None for other texts.
    """
    match = _WORD.fullmatch(text.strip(_BLANK[:-1]))
    if match is None:
        return None
    word, zone = match.group(1).lower(), match.group(2)
    if zone and word == "now":
        return None
    try:
        check_zone(zone or "UTC")
    except ValueError:
        return None
    return word


def _signed(sign: str, year: str) -> int:
    return -int(year) if sign == "-" else int(year)


def start_of_day(days: int, zone: str) -> int:
    """Return the first instant of a day in a zone: after the gap, if clocks jumped over midnight."""
    return first_instant(days * DAY_US, zone)


_DAYS = ("WEEK", "DAY")
UNITS = frozenset(unit + end for unit in ("MONTH", "YEAR", *MICROS) for end in ("", "S"))
"""The names of units that an INTERVAL takes, in capitals."""

_COUNT_AND_UNIT = re.compile(r"([+-]?\d+)\s+([A-Z]+)", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(
    rf"\s*{_COUNT_AND_UNIT.pattern}(?:\s+{_COUNT_AND_UNIT.pattern})*\s*", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time: whole months, whole days, or microseconds."""

    unit: Literal["months", "days", "micros"]
    count: int

    @property
    def micros(self) -> int | None:
        """Return the microseconds of this span; None for months, which have no fixed length."""
        return None if self.unit == "months" else self.count * (DAY_US if self.unit == "days" else 1)

    def negative(self) -> Span:
        """Return the span of the same length in the other direction."""
        return Span(self.unit, -self.count)


def length_of(unit: str, count: int) -> Span | None:
    """Return `count` units as a span, named as in `dateadd(DAY, 7, dt)`; None if there is no such unit."""
    if unit in MONTHS:
        return Span("months", count * MONTHS[unit])
    if unit not in MICROS and unit != "DAYOFYEAR":
        return None
    micros = count * MICROS.get(unit, DAY_US)
    return Span("days", micros // DAY_US) if unit in (*_DAYS, "DAYOFYEAR") else Span("micros", micros)


def span(text: str) -> Span:
    """Parse a length of time written as numbers of units, such as "1 DAY 6 HOURS"."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"an INTERVAL of {text!r} is not read")
    terms = [(int(count), name.upper().removesuffix("S")) for count, name in _COUNT_AND_UNIT.findall(text)]
    months = [count * MONTHS[unit] for count, unit in terms if unit in MONTHS]
    micros = [count * MICROS[unit] for count, unit in terms if unit in MICROS]
    if len(months) + len(micros) < len(terms) or any(unit == "QUARTER" for _, unit in terms):
        raise ValueError(f"an INTERVAL of {text!r} is not read")
    if months and micros:
        raise ValueError("an INTERVAL of months and days is not read, nor by Spark")
    if abs(sum(months)) >= 1 << 31 or abs(sum(micros)) >= 1 << 63:
        raise ValueError(f"an INTERVAL of {text} is too long")
    if months:
        return Span("months", sum(months))
    if all(unit in _DAYS for _, unit in terms):
        return Span("days", sum(micros) // DAY_US)
    return Span("micros", sum(micros))
