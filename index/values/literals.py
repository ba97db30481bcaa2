"""Constants of a predicate: their text in Spark's grammar, their Spark type and canonical value.

Source: Spark 4.2, SqlBaseLexer.g4 and SparkParserUtils.unescapeSQLString.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import field
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.base.wording import with_article
from tailbit.index.keys import Value
from tailbit.tables.model import Column, DataType

if TYPE_CHECKING:
    import fractions
else:
    fractions = lazy("fractions")


VOID = DataType("void")
BOOLEAN = DataType("boolean")
STRING = DataType("string")
BINARY = DataType("binary")
DATE = DataType("date")
TIMESTAMP = DataType("timestamp")
DOUBLE = DataType("double")
FLOAT = DataType("float")
INTEGER = DataType("integer")
LONG = DataType("long")

WHOLE = {
    "byte": (-(1 << 7), (1 << 7) - 1),
    "short": (-(1 << 15), (1 << 15) - 1),
    "integer": (-(1 << 31), (1 << 31) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
}
"""The integer types and their ranges, narrow to wide."""

TIMES = {"date": WHOLE["integer"], "timestamp": WHOLE["long"], "timestamp_ntz": WHOLE["long"]}
"""Ranges of stored days and microseconds."""
DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""Digits of the decimal type that Spark gives an integer type in an operation with a decimal."""

FLOATING = ("float", "double")
NUMERIC = (*WHOLE, *FLOATING, "decimal")
"""All numeric types."""

_SUFFIXES = {"L": "long", "S": "short", "Y": "byte"}
_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d+))?(BD|[LSYFD])?", re.IGNORECASE)
_ESCAPE = r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))"
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_MAX_FLOAT = float(np.finfo(np.float32).max)
MAX_DIGITS = 38
_RANGE = "INVALID_NUMERIC_LITERAL_RANGE in Spark"
_PRECISION = "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION in Spark"


@dataclass(frozen=True, slots=True)
class Literal:
    """A typed constant; `value` None is NULL.

    `written`: the constant stands in the text as it is, not as the result of a cast or a sign; Spark then
    gives an integer only as many decimal digits as it has. `late`: a NULL that CASE, `nullif` or the like
    return, which Spark knows only after constant folding. `of_columns`: a late NULL whose conditions read
    columns, so that constants beside it are folded apart. `folded`: a function of constants gave the value.
    """

    type: DataType
    value: Value | None
    written: bool = False
    late: bool = field(default=False, compare=False)
    of_columns: bool = field(default=False, compare=False)
    folded: bool = field(default=False, compare=False)

    @property
    def number(self) -> fractions.Fraction:
        """Return the exact value of a finite number."""
        assert isinstance(self.value, (int, float))
        return fractions.Fraction(self.value) / fractions.Fraction(10**self.type.scale)


class Constants(NamedTuple):
    """Constants of one type, by their canonical values; None is NULL.

    `folded`, `of_columns`: as of a `Literal`, of any of the constants.
    """

    type: DataType
    values: Sequence[Value | None]
    folded: bool = False
    of_columns: bool = False


def alike(literals: Iterable[Literal]) -> list[Constants]:
    """Return constants by their types, in the order in which each type comes first."""
    by_type = dict[DataType, list[Literal]]()
    for literal in literals:
        by_type.setdefault(literal.type, []).append(literal)
    return [
        Constants(
            type_, [k.value for k in same], any(k.folded for k in same), any(k.of_columns for k in same)
        )
        for type_, same in by_type.items()
    ]


def range_of(type_: DataType) -> tuple[int, int] | None:
    """Return the least and greatest canonical value of a type with integer values; None for other types."""
    if type_.name == "decimal":
        return 1 - 10**type_.precision, 10**type_.precision - 1
    return WHOLE.get(type_.name) or TIMES.get(type_.name)


def decimal_type(precision: int, scale: int) -> DataType:
    """Return a decimal type."""
    return DataType("decimal", precision, scale)


def array_of_type(element: DataType) -> DataType:
    """Return the array type of an element type."""
    return DataType("array", fields=(Column(("element",), ("element",), element),))


def number(text: str, negative: bool = False) -> Literal:
    """Parse a number of Spark's grammar, written without a sign, into a literal.

    `negative`: a minus sign stands before the text; the literal is then the negative number.
    """
    plain = _plain(text, negative)
    if plain is not None:
        return Literal(*plain, True)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is not a number")
    digits, exponent, suffix = match.group(1), match.group(2), (match.group(3) or "").upper()
    if suffix in _SUFFIXES:
        if not digits.isdigit() or exponent is not None:
            raise ValueError(f"{text}: {suffix} follows whole numbers only")
        return _integer(digits.lstrip("0") or "0", negative, _SUFFIXES[suffix], text)
    if exponent is not None and len(exponent) > 6:
        raise ValueError(f"the exponent of {text} is out of range")
    exact = Decimal(f"{'-' if negative else ''}{digits}E{exponent or 0}")
    if suffix == "F":
        _check_range(exact, _MAX_FLOAT, text)
        return Literal(FLOAT, nearest_float32(fractions.Fraction(exact)) + 0.0, True)
    if suffix == "D" or (exponent is not None and not suffix):
        _check_range(exact, sys.float_info.max, text)
        return Literal(DOUBLE, float(exact) + 0.0, True)
    return _decimal(exact, text)


def numbers(texts: Sequence[str], negative: bool = False) -> list[Constants]:
    """Parse numbers of Spark's grammar, written without signs, by their types.

    `negative`: a minus sign stands before each.

    >>> numbers(["1", "30"])[0].values, numbers(["0.50"], negative=True)[0].values
    ([1, 30], [-50])
    """
    by_type = dict[DataType, list[Value | None]]()
    for text in texts:
        plain = _plain(text, negative)
        if plain is None:
            read = number(text, negative)
            by_type.setdefault(read.type, []).append(read.value)
        else:
            by_type.setdefault(plain[0], []).append(plain[1])
    return [Constants(type_, values) for type_, values in by_type.items()]


def _plain(text: str, negative: bool) -> tuple[DataType, int] | None:
    """Return the type and value of digits that may have a point; None for any other number."""
    whole, point, fraction = text.partition(".")
    digits = (whole + fraction).lstrip("0") or "0"
    precision = max(len(digits), len(fraction))
    if precision > MAX_DIGITS or not (whole + fraction).isdecimal():
        return None
    value = -int(digits) if negative else int(digits)
    if point:
        return decimal_type(precision, len(fraction)), value
    if -1 << 31 <= value < 1 << 31:
        return INTEGER, value
    return LONG if -1 << 63 <= value < 1 << 63 else decimal_type(precision, 0), value


def _integer(digits: str, negative: bool, name: str, text: str) -> Literal:
    low, high = WHOLE[name]
    # Python reads no number of thousands of digits; the first ones show that it is too large.
    value = int(digits[: MAX_DIGITS + 1]) * (-1 if negative else 1)
    if not low <= value <= high:
        raise ValueError(f"{text} is out of the range of {DataType(name).sql} ({_RANGE})")
    return Literal(DataType(name), value, True)


def _check_range(exact: Decimal, limit: float, text: str) -> None:
    """Check that the number as written, before rounding, is in the range of its type, as Spark does."""
    if abs(exact) > Decimal(limit):
        raise ValueError(f"{text} is out of range ({_RANGE})")


def _decimal(exact: Decimal, text: str) -> Literal:
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale)
    if precision > MAX_DIGITS:
        raise ValueError(f"{text} has more than {MAX_DIGITS} digits ({_PRECISION})")
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    return Literal(decimal_type(precision, scale), -unscaled if sign else unscaled, True)


def nearest_float32(exact: fractions.Fraction) -> float:
    """Return the 32-bit float nearest to a number, ties to even; infinite if out of range."""
    try:
        with np.errstate(over="ignore"):
            guess = np.float32(float(exact))
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
    if not np.isfinite(guess):
        limit = fractions.Fraction(float(np.finfo(np.float32).max)) + fractions.Fraction(2) ** 103
        if abs(exact) >= limit:
            return float(guess)
        guess = np.float32(np.copysign(np.finfo(np.float32).max, guess))
    with np.errstate(over="ignore"):
        near = [guess, np.nextafter(guess, np.float32("inf")), np.nextafter(guess, np.float32("-inf"))]
    return float(
        min(filter(np.isfinite, near), key=lambda f: (abs(fractions.Fraction(float(f)) - exact), _odd(f)))
    )


def _odd(value: np.float32) -> int:
    return int(value.view(np.int32)) & 1


def string(raw: str) -> str:
    """Parse a string literal, quotes included; `''` inside stands for one quote."""
    is_raw = raw[0] in "rR"
    body = raw[1:] if is_raw else raw
    quote, inner = body[0], body[1:-1]
    if quote not in "'\"" or body[-1] != quote or len(body) < 2:
        raise ValueError(f"{raw} is not a string")
    if is_raw:
        if quote in inner:
            raise ValueError(f"{raw} is not a raw string")
        return inner
    pieces = re.split(r"(\\.)", inner, flags=re.DOTALL)
    plain = "".join(p if p.startswith("\\") and len(p) == 2 else p.replace(quote * 2, quote) for p in pieces)
    return _joined(re.sub(_ESCAPE, _unescape, plain, flags=re.DOTALL))


def _unescape(match: re.Match[str]) -> str:
    short, long, octal, other = match.groups()
    if short or long:
        return chr(int(short or long, 16))
    return chr(int(octal, 8)) if octal else _ESCAPED.get(other, other)


def _joined(text: str) -> str:
    """Join surrogate pairs that were written as two escapes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def hexadecimal(raw: str) -> bytes:
    """Parse X'..'; an odd number of digits gets a leading zero."""
    digits = raw[2:-1]
    if raw[:1] not in "xX" or not re.fullmatch(r"[0-9a-fA-F]*", digits):
        raise ValueError(f"{raw} is not a hexadecimal literal (INVALID_TYPED_LITERAL in Spark); write X'1F'")
    return bytes.fromhex("0" * (len(digits) % 2) + digits)


_SHOWN = 80
"""Limit of characters of a text in an error."""


class NotRead(Exception):
    """An expression that Spark refuses, or that is unsupported here.

    Carries the reason and what to write instead.
    """

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


class Unsupported(ValueError):
    """A value that Spark may read but is unsupported here: it is neither malformed nor NULL in TRY_CAST."""


class SparkRaises(ValueError):
    """An error that Spark raises, too, with its error class."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(f"{reason} ({error} in Spark)")
        self.reason, self.error = reason, error


def mismatch(reason: str, kind: str = "") -> str:
    """Return a reason with Spark's error class for mismatched types; `kind`: its subclass."""
    return f"{reason} (DATATYPE_MISMATCH{'.' if kind else ''}{kind} in Spark)"


def instead_of_numbers(op: str, kinds: set[str]) -> str:
    """Return the hint for arithmetic with operands that are no numbers, given the names of their types."""
    if not kinds & {"date", "timestamp", "timestamp_ntz"}:
        return "CAST both to numbers."
    if kinds == {"timestamp"} and op == "-":
        return "Write unix_micros(a) - unix_micros(b), or compare it with an interval."
    if kinds <= {"timestamp", "timestamp_ntz"} and op == "-":
        return "Compare it with an interval: a - b > INTERVAL 1 HOUR."
    return "Write x + INTERVAL 1 DAY; unix_date of a date and unix_micros of a timestamp are numbers."


def cut(text: str) -> str:
    """Shorten a text for an error."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def refused(literal: Literal, to: DataType) -> Unsupported:
    """Return the error of an unsupported cast between two types."""
    return Unsupported(f"a cast from {literal.type.sql} to {to.sql} is not supported")


def unread(text: str, to: DataType) -> Unsupported:
    """Return the error for a text that Spark may read but is unsupported here."""
    return Unsupported(f"{cut(text)!r} as {with_article(to.sql)} is not supported")


def malformed(text: str, to: DataType) -> SparkRaises:
    """Return the error for a text that Spark cannot parse either."""
    return SparkRaises(f"{cut(text)!r} is not {with_article(to.sql)}", "CAST_INVALID_INPUT")


def out_of_range(shown: object, to: DataType, error: str) -> SparkRaises:
    """Return the error for a value that a type cannot hold."""
    return SparkRaises(f"{shown} is out of the range of {to.sql}", error)
