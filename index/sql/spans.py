"""Lengths of time: the constants that `INTERVAL '1' DAY` and `INTERVAL 2 HOURS 30 MINUTES` write.

Source: Spark 4.2, `AstBuilder.visitInterval` and `IntervalUtils.stringToInterval`, of which whole numbers of
units are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tailbit.tables.date_text import DAY_US

_MONTHS = {"MONTH": 1, "YEAR": 12}
_MICROS = {
    "WEEK": 7 * DAY_US, "DAY": DAY_US, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000,
    "MILLISECOND": 1000, "MICROSECOND": 1,
}  # fmt: skip
_DAYS = ("WEEK", "DAY")
UNITS = frozenset(unit + end for unit in (*_MONTHS, *_MICROS) for end in ("", "S"))
"""The names of units, in capitals."""

_PART = re.compile(r"([+-]?\d+)\s+([A-Z]+)", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(rf"\s*{_PART.pattern}(?:\s+{_PART.pattern})*\s*", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time: whole months, whole days, or microseconds."""

    unit: Literal["months", "days", "micros"]
    count: int

    @property
    def micros(self) -> int | None:
        """The microseconds of this span; None for months, which have no fixed length."""
        return None if self.unit == "months" else self.count * (DAY_US if self.unit == "days" else 1)

    def negative(self) -> Span:
        """Return the span of the same length in the other direction."""
        return Span(self.unit, -self.count)


def length_of(unit: str, count: int) -> Span | None:
    """Return a number of units, as `dateadd(DAY, 7, dt)` names them; None where there is no such unit."""
    if unit in _MONTHS or unit == "QUARTER":
        return Span("months", count * _MONTHS.get(unit, 3))
    if unit not in _MICROS and unit != "DAYOFYEAR":
        return None
    micros = count * _MICROS.get(unit, DAY_US)
    return Span("days", micros // DAY_US) if unit in (*_DAYS, "DAYOFYEAR") else Span("micros", micros)


def span(text: str) -> Span:
    """Read a length of time from numbers of units, such as "1 DAY 6 HOURS".

    Raises:
        ValueError: it is written otherwise, mixes months with other units, or is too long.
    """
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"an INTERVAL of {text!r} is not read")
    parts = [(int(count), name.upper().removesuffix("S")) for count, name in _PART.findall(text)]
    months = [count * _MONTHS[unit] for count, unit in parts if unit in _MONTHS]
    micros = [count * _MICROS[unit] for count, unit in parts if unit in _MICROS]
    if len(months) + len(micros) < len(parts):
        raise ValueError(f"an INTERVAL of {text!r} is not read")
    if months and micros:
        raise ValueError("an INTERVAL of months and days is not read, nor by Spark")
    if abs(sum(months)) >= 1 << 31 or abs(sum(micros)) >= 1 << 63:
        raise ValueError(f"an INTERVAL of {text} is too long")
    if months:
        return Span("months", sum(months))
    if all(unit in _DAYS for _, unit in parts):
        return Span("days", sum(micros) // DAY_US)
    return Span("micros", sum(micros))
