"""Functions of dates and times that take a unit or a format: what makes each call."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.index.expression.build import Builder
from tailbit.index.expression.folded import NotRead, call
from tailbit.index.functions.dates import FORMATS, UNITS
from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import DATE, LONG, STRING, TIMESTAMP, Literal
from tailbit.index.values.refusals import mismatch
from tailbit.tables.model import DataType

_INTEGER = DataType("integer")


def later(b: Builder, value: Expression, unit: str, count: int) -> Expression:
    """A date or time and an interval of months, days or microseconds; a date and microseconds are a time.

    Source: Spark 4.2, BinaryArithmeticWithDatetimeResolver.
    """
    name = value.type.name
    if name == "date" and unit != "micros":
        return call("add_months" if unit == "months" else "date_add", [value, Literal(_INTEGER, count)], DATE)
    if name == "date":
        value = b.cast(value, TIMESTAMP)
    elif name not in ("timestamp", "timestamp_ntz"):
        reason = f"an INTERVAL added to a {value.type} is not read"
        raise NotRead(reason if name in ("string", "void") else mismatch(reason), "CAST it AS TIMESTAMP.")
    return call("later", [value], value.type, (unit, count, b.zone))


def difference(b: Builder, left: Expression, right: Expression) -> Expression:
    """The microseconds from one date or time to another, by the clock; dates are days of 24 hours.

    Source: Spark 4.2, SubtractDates and SubtractTimestamps.
    """
    kinds = {left.type.name, right.type.name}
    if not kinds <= {"date", "timestamp", "timestamp_ntz"}:
        reason = f"{left.type} - {right.type} is not read beside an INTERVAL"
        raise NotRead(reason, "CAST both AS TIMESTAMP.")
    if len(kinds) > 1:
        wide = DataType("timestamp_ntz") if kinds == {"date", "timestamp_ntz"} else TIMESTAMP
        left, right = b.cast(left, wide), b.cast(right, wide)
    return call("difference", [left, right], LONG, (b.zone,))


def units_between(b: Builder, unit: str, start: Expression, end: Expression) -> Expression:
    """The whole units of time from a first time to a second, by the clock."""
    start, end = (b.implicit(side, TIMESTAMP, "datediff of a unit") for side in (start, end))
    return call("timestampdiff", [start, end], LONG, (unit, b.zone))


def _unit(arg: Expression, known: Sequence[str]) -> str:
    text = arg.value.decode().upper() if isinstance(arg, Literal) and isinstance(arg.value, bytes) else ""
    if UNITS.get(text) not in known:
        raise NotRead(
            f"a date cut to {text or 'what is no constant'} is not read", f"Units: {', '.join(known)}."
        )
    return UNITS[text]


def truncated_time(b: Builder, args: Sequence[Expression]) -> Expression:
    """date_trunc."""
    unit = _unit(args[0], sorted(set(UNITS.values())))
    return call("date_trunc", [b.implicit(args[1], TIMESTAMP, "date_trunc")], TIMESTAMP, (unit, b.zone))


def truncated_date(b: Builder, args: Sequence[Expression]) -> Expression:
    """Trunc of a date."""
    unit = _unit(args[1], ("year", "quarter", "month", "week"))
    return call("trunc", [b.implicit(args[0], DATE, "trunc")], DATE, (unit,))


def formatted(b: Builder, args: Sequence[Expression]) -> Expression:
    """date_format."""
    pattern = args[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, bytes):
        raise NotRead("date_format takes a format that is a constant")
    text, parts, at = pattern.value.decode(), [], 0
    while at < len(text):
        run = len(text[at:]) - len(text[at:].lstrip(text[at]))
        part = text[at : at + run]
        if part not in FORMATS and (text[at].isalpha() or text[at] in "'[]{}#"):
            hint = f"A format is made of {', '.join(FORMATS)} and signs such as - / : . and blanks."
            raise NotRead(f"{part} in the format {text!r} is not read", hint)
        parts.append(part)
        at += run
    value = b.implicit(args[0], TIMESTAMP, "date_format")
    return call("date_format", [value], STRING, (*parts, b.zone))
