"""Builders of the calls of functions of dates and times that take a unit or a format."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tailbit.base.wording import with_article
from tailbit.index.expression.build import Builder, call
from tailbit.index.functions.dates import PARSED, QUOTE, UNITS, WRITTEN
from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import (
    DATE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    WHOLE,
    Literal,
    NotRead,
    mismatch,
)
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import DataType


def later(b: Builder, value: Expression, unit: str, count: int) -> Expression:
    """Build a date or time plus an interval of months, days or microseconds.

    A date plus microseconds is a timestamp.

    Source: Spark 4.2, BinaryArithmeticWithDatetimeResolver.
    """
    name = value.type.name
    if name == "date" and unit != "micros":
        return call("add_months" if unit == "months" else "date_add", [value, Literal(INTEGER, count)], DATE)
    if name == "date":
        value = b.cast(value, TIMESTAMP)
    elif name not in ("timestamp", "timestamp_ntz"):
        reason = f"an INTERVAL added to {with_article(value.type.sql)} is not read"
        raise NotRead(reason if name in ("string", "void") else mismatch(reason), "CAST it AS TIMESTAMP.")
    return call("later", [value], value.type, (unit, count, b.zone))


def later_by_unit(b: Builder, value: Expression, unit: str, count: int) -> Expression:
    """Build a time moved by a number of months, days or microseconds, as in `dateadd(DAY, 7, ts)`.

    Microseconds are elapsed time; in an interval, whole days of microseconds are calendar days. Source: Spark
    4.2, DateTimeUtils.timestampAdd.
    """
    most = (1 << 31 if unit == "months" else 1 << 63) // (DAY_US if unit == "days" else 1)
    if not -most <= count < most:
        raise NotRead(f"a time moved by {count} {unit} is not read")
    if value.type.name != "timestamp_ntz":
        value = b.implicit(value, TIMESTAMP, "dateadd")
    return call("later", [value], value.type, ("elapsed" if unit == "micros" else unit, count, b.zone))


def difference(b: Builder, lhs: Expression, rhs: Expression) -> Expression:
    """Build `left - right` in microseconds, for dates or local times; each day has 24 hours.

    Source: Spark 4.2, SubtractDates and SubtractTimestamps.
    """
    kinds = {lhs.type.name, rhs.type.name}
    if not kinds <= {"date", "timestamp", "timestamp_ntz"}:
        reason = f"{lhs.type.sql} - {rhs.type.sql} is not read beside an INTERVAL"
        raise NotRead(reason, "CAST both AS TIMESTAMP.")
    if len(kinds) > 1:
        wide = DataType("timestamp_ntz") if kinds == {"date", "timestamp_ntz"} else TIMESTAMP
        lhs, rhs = b.cast(lhs, wide), b.cast(rhs, wide)
    return call("difference", [lhs, rhs], LONG, (b.zone,))


def units_between(b: Builder, unit: str, start: Expression, end: Expression) -> Expression:
    """Build the number of whole units of time from a start to an end, both taken as local times."""
    start, end = (b.implicit(side, TIMESTAMP, "datediff of a unit") for side in (start, end))
    return call("timestampdiff", [start, end], LONG, (unit, b.zone))


def _unit(arg: Expression, units: Sequence[str]) -> str:
    text = arg.value.decode().upper() if isinstance(arg, Literal) and isinstance(arg.value, bytes) else ""
    if UNITS.get(text) not in units:
        raise NotRead(
            f"a date cut to {text or 'what is no constant'} is not read", f"Units: {', '.join(units)}."
        )
    return UNITS[text]


def truncated_time(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build date_trunc: a time cut to the start of a unit."""
    unit = _unit(args[0], sorted(set(UNITS.values())))
    return call("date_trunc", [b.implicit(args[1], TIMESTAMP, "date_trunc")], TIMESTAMP, (unit, b.zone))


def truncated_date(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build trunc: the first day of the unit that contains a date."""
    unit = _unit(args[1], ("year", "quarter", "month", "week"))
    return call("trunc", [b.implicit(args[0], DATE, "trunc")], DATE, (unit,))


def formatted(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build date_format: the text of a date or time in a format."""
    value = b.implicit(args[0], TIMESTAMP, "date_format")
    return call("date_format", [value], STRING, (*_fields_of(args[1], WRITTEN), b.zone))


def _fields_of(pattern: Expression, fields: Sequence[str]) -> list[str]:
    """Return the fields of a format, and the literal text between fields after a quote."""
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, bytes):
        raise NotRead("a format is a constant here")
    text, pieces, start = pattern.value.decode(), list[str](), 0
    while start < len(text):
        if text[start] == QUOTE:
            end = text.find(QUOTE, start + 1)
            piece, size = text[start + 1 : end], end + 1 - start
            if end < start + 2 or text[end + 1 : end + 2] == QUOTE or not piece.isascii():
                raise NotRead(f"{text[start:]} in the format {text!r} is not read")
            pieces.append(QUOTE + piece)
        else:
            size = len(text[start:]) - len(text[start:].lstrip(text[start]))
            piece = text[start : start + size]
            sign = not text[start].isalnum() and text[start].isascii() and text[start] not in "[]{}#"
            if piece not in fields and not sign:
                hint = f"A format is made of {', '.join(fields)} and signs such as - / : . and blanks."
                raise NotRead(f"{piece} in the format {text!r} is not read", hint)
            pieces.append(QUOTE + piece if sign else piece)
        start += size
    return pieces


def parsed(
    b: Builder, value: Expression, pattern: Expression, *, tried: bool = False, spelled: bool = False
) -> Expression:
    """Build the parsing of a text in a format; a date or timestamp is cast to TIMESTAMP, without the format.

    `tried`: NULL in place of an error. `spelled`: values of other types are cast to text first.
    """
    if value.type.name in ("date", "timestamp"):
        return b.cast(value, TIMESTAMP)
    if value.type.name == "timestamp_ntz":
        raise NotRead("a timestamp_ntz and a format are not read", "Leave the format out.")
    if value.type.name not in ("string", "void") and not spelled:
        reason = f"{with_article(value.type.sql)} and a format are not read"
        raise NotRead(mismatch(reason, "UNEXPECTED_INPUT_TYPE"), "CAST it AS STRING.")
    pieces = _fields_of(pattern, PARSED)
    fields = [piece[0] for piece in pieces if piece[0] != QUOTE]
    clock = [field for field in "Hms" if field in fields]
    beside = any(
        a[0] != QUOTE and b[0] != QUOTE and (len(b) == 1 or "yy" in (a, b) or "S" in a + b)
        for a, b in itertools.pairwise(pieces)
    )
    if len(set(fields)) < len(fields) or beside or clock != list("Hms")[: len(clock)]:
        hint = "A format names each field once, and signs part what has no fixed length."
        raise NotRead("such a format is not read where texts are taken by it", hint)
    if "S" in fields and "s" not in fields:
        raise NotRead("a format with a fraction and no seconds is not read")
    text = b.implicit(value, STRING, "a format")
    return call("parsed time", [text], TIMESTAMP, ("try" if tried else "", b.zone, *pieces))


_SECONDS_FORMAT = Literal(STRING, b"yyyy-MM-dd HH:mm:ss", True)


def to_date(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build to_date: a cast, or the parsing of a text in a format."""
    return b.cast(args[0] if len(args) == 1 else parsed(b, args[0], args[1], spelled=True), DATE)


def to_timestamp(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build to_timestamp: a cast, or the parsing of a text in a format."""
    return b.cast(args[0], TIMESTAMP) if len(args) == 1 else parsed(b, args[0], args[1])


def try_to_timestamp(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build try_to_timestamp: NULL where to_timestamp raises."""
    return (
        b.cast(args[0], TIMESTAMP, tried=True) if len(args) == 1 else parsed(b, args[0], args[1], tried=True)
    )


def try_to_date(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build try_to_date: NULL where to_date raises."""
    value = args[0] if len(args) == 1 else parsed(b, args[0], args[1], tried=True, spelled=True)
    return b.cast(value, DATE, tried=True)


def unix_timestamp(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build unix_timestamp or to_unix_timestamp: whole seconds of a time, or of a text in a format."""
    value = (
        Literal(TIMESTAMP, b.now)
        if not args
        else parsed(b, args[0], args[1] if len(args) > 1 else _SECONDS_FORMAT)
    )
    return call("seconds since 1970", [value], LONG)


def from_unixtime(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build from_unixtime: the text of an instant given in seconds."""
    seconds = b.implicit(args[0], LONG, "from_unixtime")
    instant = call("time since 1970", [seconds], TIMESTAMP, (1_000_000, "wraps"))
    return formatted(b, [instant, args[1] if len(args) > 1 else _SECONDS_FORMAT])


def since_1970(name: str, unit: int, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build timestamp_seconds or the like, for integers."""
    if args[0].type.name not in (*WHOLE, "void"):
        raise NotRead(f"{name} of {with_article(args[0].type.sql)} is not read", "CAST it AS BIGINT.")
    return call("time since 1970", [b.cast(args[0], LONG)], TIMESTAMP, (unit, ""))
