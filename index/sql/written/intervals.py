"""Constants of type interval, as `INTERVAL '1' DAY` and `INTERVAL 2 HOURS 30 MINUTES` write them.

Source: Spark 4.2, `AstBuilder.visitInterval` and `IntervalUtils.stringToInterval`, of which whole numbers of
units are read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
        """Its microseconds; None for months, which have no fixed length."""
        return None if self.unit == "months" else self.count * (DAY_US if self.unit == "days" else 1)

    def negative(self) -> Span:
        """As far in the other direction."""
        return Span(self.unit, -self.count)


def written_lengths(tokens: Sequence[Any], kinds: Any) -> tuple[str, int]:
    """What stands behind the word INTERVAL as one text, and how many tokens that takes; 0 if it is not read.

    It is numbers with their units, which are plain words, or one string that holds them and nothing behind
    it. A sign belongs to it only where a unit follows its number: else it is an operator.
    """
    quoted = (kinds.STRING, kinds.RAW_STRING, kinds.IDENTIFIER)
    parts, at = [], 0
    while at < len(tokens):
        sign = tokens[at].token_type in (kinds.DASH, kinds.PLUS)
        number, unit = ([*tokens[at + sign : at + sign + 2], None, None])[:2]
        kind = None if number is None else number.token_type
        named = unit is not None and unit.token_type not in quoted and unit.text.upper() in UNITS
        if named and kind in (kinds.NUMBER, kinds.STRING):
            parts.append(f"{tokens[at].text if sign else ''}{number.text} {unit.text}")
            at += 2 + sign
        elif kind == kinds.STRING and not sign and not parts:
            return str(number.text), 0 if _goes_on(tokens[1:2], kinds) else 1
        else:
            break
    return " ".join(parts), 0 if _goes_on(tokens[at : at + 1], kinds) else at


def _goes_on(ahead: Sequence[Any], kinds: Any) -> bool:
    """Whether more of an interval seems to follow, which is not read."""
    return any(
        token.token_type in (kinds.STRING, kinds.NUMBER) or token.text.upper() == "TO" for token in ahead
    )


def length_of(unit: str, count: int) -> Span | None:
    """A number of units, as `dateadd(DAY, 7, dt)` names them; None where there is no such unit."""
    if unit in _MONTHS or unit == "QUARTER":
        return Span("months", count * _MONTHS.get(unit, 3))
    if unit not in _MICROS and unit != "DAYOFYEAR":
        return None
    micros = count * _MICROS.get(unit, DAY_US)
    return Span("days", micros // DAY_US) if unit in (*_DAYS, "DAYOFYEAR") else Span("micros", micros)


def span(text: str) -> Span:
    """The length of time that numbers of units are.

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
