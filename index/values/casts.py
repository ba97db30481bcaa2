"""Casts of constants as in Spark's ANSI mode: exact, or an error; a malformed text is never NULL.

Source: Spark 4.2, Cast.scala, AnsiCast rules.

In comparisons, casts are unwrapped: a value is compared uncast, with a constant that is cast instead. Spark's
optimiser does so with all casts that keep order. Some casts do not keep order when clocks change, and
then answers differ: a local time or day that clocks jump over is cast to the instant of another local time,
and where clocks go back over midnight, a day ends and begins again. This module does what Spark does.
Source: Spark 4.2, UnwrapCastInBinaryComparison; checked against Spark itself by the tests.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tailbit.base.lazy import lazy
from tailbit.base.wording import with_article
from tailbit.index.keys import Value
from tailbit.index.values.literals import (
    DATE,
    DOUBLE,
    FLOATING,
    NUMERIC,
    TIMESTAMP,
    WHOLE,
    Constants,
    Literal,
    Unsupported,
    cut,
    malformed,
    nearest_float32,
    out_of_range,
    range_of,
    refused,
    unread,
)
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import DataType
from tailbit.tables.zones import fixed_offset, to_instant, to_local

if TYPE_CHECKING:
    from tailbit.index.values import datetimes
else:
    datetimes = lazy("tailbit.index.values.datetimes")


_INTEGER = r"([+-]?)(\d+)"
_FLOAT = r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,6})?)[dDfF]?"
_DECIMAL = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,6})?"
_BLANK = "".join(map(chr, range(33)))
"""Characters that Java strips from the text of a fractional number; `trimmed` strips one character more."""
_HEXADECIMAL = r"[+-]?0[xX][0-9a-fA-F.]+[pP][+-]?\d+[dDfF]?"
_LONG_EXPONENT = r"[+-]?[\d.]+[eE][+-]?\d{7,}[dDfF]?"
_LONGEST = 4000
"""Limit of characters of a parsed number; Python parses no more than 4300 digits at once."""
_MOST_DIGITS = 19
"""Digits of the greatest integer that a cast returns."""
_TIME_OF_DAY = r"[+-]?(?:T\d|\d{1,2}:)"
_NAMED = {"nan": math.nan}
_NAMED |= {f"{sign}{name}": math.inf for sign in ("", "+") for name in ("inf", "infinity")}
_NAMED |= {f"-{name}": -math.inf for name in ("inf", "infinity")}
_WORDS = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(
    ("f", "false", "n", "no", "0"), False
)
_SHORT = 15
"""Up to this many digits, Java and Python print a double alike."""


def cast(literal: Literal, to: DataType, zone: str) -> Literal:
    """Cast a constant to another type.

    Spark reads some words as dates and times in constants only. Source: Spark 4.2, SpecialDatetimeValues.
    """
    word = (
        datetimes.special_word(_text(literal) or "")
        if to.name in ("date", "timestamp", "timestamp_ntz")
        else None
    )
    if word == "epoch":
        return Literal(to, 0)
    if word is not None:
        raise Unsupported(f"{word!r} as {with_article(to.sql)} depends on the moment it is asked")
    return cast_value(literal, to, zone)


def cast_all(constants: Constants, to: DataType, zone: str) -> Sequence[Value | None]:
    """Cast constants of one type to another type, each as `cast` does."""
    from_, values, *_ = constants
    scale = 0 if from_.name in WHOLE else from_.scale if from_.name == "decimal" else None
    limits = range_of(to) if to.name in WHOLE or to.name == "decimal" else None
    if from_ == to:
        return values
    if scale is not None and limits is not None and scale <= to.scale:
        factor = 10 ** (to.scale - scale)
        exact = [None if value is None else int(value) * factor for value in values]
        present = [value for value in exact if value is not None]
        if not present or limits[0] <= min(present) <= max(present) <= limits[1]:
            return exact
    return [cast(Literal(from_, value), to, zone).value for value in values]


def cast_value(literal: Literal, to: DataType, zone: str) -> Literal:
    """Cast the value of a row to another type."""
    if literal.value is None or literal.type == to:
        return Literal(to, literal.value)
    cast_to = _CASTS.get(to.name)
    if cast_to is None:
        raise Unsupported(f"a cast to {to.sql} is not supported")
    return Literal(to, cast_to(literal, to, zone))


def _text(literal: Literal) -> str | None:
    if literal.type.name != "string" or literal.value is None:
        return None
    assert isinstance(literal.value, bytes)
    return literal.value.decode()


def _has_other_digits(text: str) -> bool:
    """Return whether a text has digits of other scripts, which Java reads in decimals."""
    return any(char.isdecimal() and not char.isascii() for char in text)


def _to_whole(literal: Literal, to: DataType, zone: str) -> Value:
    text = _text(literal)
    if text is not None:
        match = re.fullmatch(_INTEGER, datetimes.trimmed(text), re.ASCII)
        if match is None:
            raise malformed(text, to)
        digits = match.group(2).lstrip("0") or "0"
        if len(digits) > _MOST_DIGITS:
            raise out_of_range(cut(text), to, "CAST_INVALID_INPUT")
        value = int(match.group(1) + digits)
    elif isinstance(literal.value, float) and not math.isfinite(literal.value):
        raise out_of_range(literal.value, to, "CAST_OVERFLOW")
    elif _is_number(literal) or literal.type.name == "boolean":
        value = math.trunc(literal.number)
    else:
        raise refused(literal, to)
    low, high = WHOLE[to.name]
    if to.name == "long" and literal.value == 2.0**63 and literal.type.name in FLOATING:
        value = high  # Spark compares with the range as a double, whose upper end is one more
    if not low <= value <= high:
        raise out_of_range(value, to, "CAST_OVERFLOW" if text is None else "CAST_INVALID_INPUT")
    return value


def _is_number(literal: Literal) -> bool:
    return literal.type.name in NUMERIC


def _to_double(literal: Literal, to: DataType, zone: str) -> Value:
    text = _text(literal)
    if text is not None:
        return _parsed_float(text, to)
    if isinstance(literal.value, float) and not math.isfinite(literal.value):
        return literal.value
    if not _is_number(literal) and literal.type.name != "boolean":
        raise refused(literal, to)
    return _rounded(literal.number, to) + 0.0


def _parsed_float(text: str, to: DataType) -> float:
    clean = text.strip(_BLANK)
    if clean.lower() in _NAMED:
        return _NAMED[clean.lower()]
    if clean in ("+NaN", "-NaN"):
        return math.nan
    match = re.fullmatch(_FLOAT, clean, re.ASCII)
    if match is None:
        if re.fullmatch(_HEXADECIMAL, clean, re.ASCII) or re.fullmatch(_LONG_EXPONENT, clean):
            raise unread(text, to)
        raise malformed(text, to)
    if len(clean) > _LONGEST:
        raise unread(text, to)
    return _rounded(Fraction(match.group(1)), to) + 0.0


def _rounded(exact: Fraction, to: DataType) -> float:
    if to.name == "float":
        return nearest_float32(exact)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _to_decimal(literal: Literal, to: DataType, zone: str) -> Value:
    text = _text(literal)
    if text is not None:
        clean = text.strip(_BLANK)
        if not re.fullmatch(_DECIMAL, clean, re.ASCII):
            if re.fullmatch(_LONG_EXPONENT, clean) or _has_other_digits(clean):
                raise unread(text, to)
            raise malformed(text, to)
        if len(clean) > _LONGEST:
            raise unread(text, to)
        exact = Fraction(clean)
    elif literal.type.name in FLOATING:
        exact = _as_printed(literal, to)
    elif _is_number(literal) or literal.type.name == "boolean":
        exact = literal.number
    else:
        raise refused(literal, to)
    unscaled = round_half_up(exact * 10**to.scale)
    if abs(unscaled) >= 10**to.precision:
        shown = repr(_rounded(exact, DOUBLE)) if text is None else cut(text)
        raise out_of_range(shown, to, "NUMERIC_VALUE_OUT_OF_RANGE")
    return unscaled


def _as_printed(literal: Literal, to: DataType) -> Fraction:
    """Return the exact value of a double's shortest text, which Spark converts to a decimal."""
    try:
        printed = Decimal(repr(literal.value))
        if literal.type.name == "double" and len(printed.as_tuple().digits) <= _SHORT:
            return Fraction(printed)
    except (InvalidOperation, ValueError, OverflowError):
        pass
    raise refused(literal, to)


def round_half_up(exact: Fraction) -> int:
    """Round to the nearest integer, ties away from zero."""
    half = math.floor(abs(exact) + Fraction(1, 2))
    return -half if exact < 0 else half


def _to_boolean(literal: Literal, to: DataType, zone: str) -> Value:
    text = _text(literal)
    if text is not None:
        word = datetimes.trimmed(text).lower()
        if word not in _WORDS:
            raise malformed(text, to)
        return _WORDS[word]
    if _is_number(literal):
        return literal.value != 0
    raise refused(literal, to)


def _to_string(literal: Literal, to: DataType, zone: str) -> Value:
    value, name = literal.value, literal.type.name
    if name in WHOLE:
        return str(value).encode()
    if name == "boolean":
        return b"true" if value else b"false"
    raise refused(literal, to)


def _to_binary(literal: Literal, to: DataType, zone: str) -> Value:
    if isinstance(literal.value, bytes):
        return literal.value
    raise refused(literal, to)


def _to_date(literal: Literal, to: DataType, zone: str) -> Value:
    text, value = _text(literal), literal.value
    if text is not None:
        return _parsed(datetimes.parse_date, text, to)
    assert isinstance(value, (int, float, bytes))
    if literal.type.name == "timestamp" and isinstance(value, int):
        return to_local(value, zone) // DAY_US
    if literal.type.name == "timestamp_ntz" and isinstance(value, int):
        return value // DAY_US
    raise refused(literal, to)


def _to_timestamp(literal: Literal, to: DataType, zone: str) -> Value:
    text, value = _text(literal), literal.value
    if text is not None:
        # Spark reads such a text as a time of the current day.
        if re.match(_TIME_OF_DAY, datetimes.trimmed(text), re.ASCII):
            raise unread(text, to)
        return _parsed(lambda t: datetimes.parse_timestamp(t, zone), text, to)
    if literal.type.name == "date" and isinstance(value, int):
        return _within(datetimes.start_of_day(value, zone), to)
    if literal.type.name == "timestamp_ntz" and isinstance(value, int):
        return _within(to_instant(value, zone), to)
    raise refused(literal, to)


def _within(micros: int, to: DataType) -> int:
    """Check that a time fits into 64 bits, and return it."""
    low, high = WHOLE["long"]
    if not low <= micros <= high:
        raise Unsupported(f"{micros} microseconds as {with_article(to.sql)} is not supported")
    return micros


def _to_timestamp_ntz(literal: Literal, to: DataType, zone: str) -> Value:
    text, value = _text(literal), literal.value
    if text is not None:
        return _parsed(lambda t: datetimes.parse_timestamp(t, None), text, to)
    if literal.type.name == "date" and isinstance(value, int):
        return _within(value * DAY_US, to)
    if literal.type.name == "timestamp" and isinstance(value, int):
        return _within(to_local(value, zone), to)
    raise refused(literal, to)


def _parsed(parse: Callable[[str], int], text: str, to: DataType) -> int:
    try:
        return parse(text)
    except (ValueError, OverflowError) as wrong:
        if str(wrong).startswith("time zone"):
            raise
        raise malformed(text, to) from wrong


_CASTS: dict[str, Callable[[Literal, DataType, str], Value]] = {
    **dict.fromkeys(WHOLE, _to_whole),
    "float": _to_double,
    "double": _to_double,
    "decimal": _to_decimal,
    "boolean": _to_boolean,
    "string": _to_string,
    "binary": _to_binary,
    "date": _to_date,
    "timestamp": _to_timestamp,
    "timestamp_ntz": _to_timestamp_ntz,
}


def is_since_1970(from_: DataType, to: DataType) -> bool:
    """Return whether a cast converts an instant to seconds, or seconds to an instant."""
    numeric = (*WHOLE, *FLOATING)
    return (from_.name == "timestamp" and to.name in numeric) or (
        from_.name in numeric and to.name == "timestamp"
    )


RisingCast = Callable[[int], Any]
"""A cast, on canonical integers, that never changes the order of values."""


def rising_cast(from_: DataType, to: DataType, zone: str) -> RisingCast | None:
    """Return a cast that never changes the order of values; None for other casts.

    So a comparison of what is cast with a constant holds for a range of the values that are cast.
    """
    kinds, unit = (from_.name, to.name), 10 ** max(from_.scale - to.scale, 0)
    if from_.name in (*WHOLE, "decimal"):
        if to.name == "double":
            return lambda value: value / unit
        if to.name == "decimal":
            factor = 10 ** max(to.scale - from_.scale, 0)
            return lambda value: round_half_up(Fraction(value, unit)) if unit > 1 else value * factor
        return (lambda value: abs(value) // unit * (-1 if value < 0 else 1)) if to.name in WHOLE else None
    if kinds == ("date", "timestamp_ntz"):
        return lambda value: value * DAY_US
    if kinds == ("date", "timestamp"):
        return lambda value: datetimes.start_of_day(value, zone)
    if kinds == ("timestamp_ntz", "date"):
        return lambda value: value // DAY_US
    offset = fixed_offset(zone)
    if offset is None or kinds not in _BY_OFFSET:
        return None
    shift = _BY_OFFSET[kinds] * offset
    return lambda value: (value + shift) // DAY_US if to.name == "date" else value + shift


_BY_OFFSET = {("timestamp", "date"): 1, ("timestamp", "timestamp_ntz"): 1, ("timestamp_ntz", "timestamp"): -1}
"""Casts that shift times by the offset of a time zone, and in which direction."""

CAST_TO_INSTANTS = ("timestamp_ntz", "date")
"""Types that Spark casts to TIMESTAMP in the session's time zone."""


def as_given(instant: Literal, type_: DataType, zone: str) -> Literal | None:
    """Return the local time or day to compare a value with in place of an instant; None if Spark casts.

    Spark casts the value if the cast of the constant does not round-trip: for the second of two instants with
    one local time, or an instant within a day.
    """
    try:
        given = cast(instant, type_, zone)
        back = cast(given, TIMESTAMP, zone)
    except Unsupported:
        return None
    return given if instant.value is not None and back.value == instant.value else None


def by_day(op: str, day: Literal, zone: str) -> list[tuple[str, Literal]] | None:
    """Return the TIMESTAMP comparisons equal to `CAST(time AS DATE) op day`; None if Spark casts."""
    if not isinstance(day.value, int) or op not in _BY_DAY:
        return None
    try:
        days = {0: day, 1: Literal(DATE, day.value + 1)}
        return [(sign, cast(days[more], TIMESTAMP, zone)) for sign, more in _BY_DAY[op]]
    except Unsupported:
        return None


_BY_DAY = {
    "=": ((">=", 0), ("<", 1)),
    "<": (("<", 0),),
    "<=": (("<", 1),),
    ">": ((">=", 1),),
    ">=": ((">=", 0),),
}
"""Comparisons with the first instant of the day (0) or of the next one (1), all of which must be TRUE."""
