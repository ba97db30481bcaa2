"""Lengths of time: the constants that `INTERVAL '1' DAY` and `INTERVAL 2 HOURS 30 MINUTES` write.

Source: Spark 4.2, `AstBuilder.visitInterval` and `IntervalUtils.stringToInterval`, of which whole numbers of
units are read.
"""

from __future__ import annotations

import re
from typing import Literal

from tailbit.base.dataclass import dataclass
from tailbit.index.values.datetimes import MICROS, MONTHS
from tailbit.tables.date_text import DAY_US

_DAYS = ("WEEK", "DAY")
UNITS = frozenset(unit + end for unit in ("MONTH", "YEAR", *MICROS) for end in ("", "S"))
"""The names of units that an INTERVAL takes, in capitals."""

_PART = re.compile(r"([+-]?\d+)\s+([A-Z]+)", re.IGNORECASE | re.ASCII)
_WHOLE = re.compile(rf"\s*{_PART.pattern}(?:\s+{_PART.pattern})*\s*", re.IGNORECASE | re.ASCII)


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
    """Parse a length of time written as numbers of units, such as "1 DAY 6 HOURS".

    Raises:
        ValueError: the text is no such length, mixes months with other units, or is too long.
    """
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"an INTERVAL of {text!r} is not read")
    parts = [(int(count), name.upper().removesuffix("S")) for count, name in _PART.findall(text)]
    months = [count * MONTHS[unit] for count, unit in parts if unit in MONTHS]
    micros = [count * MICROS[unit] for count, unit in parts if unit in MICROS]
    if len(months) + len(micros) < len(parts) or any(unit == "QUARTER" for _, unit in parts):
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
