"""The type that Spark compares two values in, ANSI mode on.

Source: Spark 4.2, AnsiTypeCoercion and DecimalPrecisionTypeCoercion; asked of Spark itself by the tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from tailbit.index.values.literals import (
    DIGITS,
    DOUBLE,
    FLOATING,
    LONG,
    MAX_DIGITS,
    NUMERIC,
    STRING,
    WHOLE,
    Literal,
    decimal_type,
)
from tailbit.tables.model import DataType

_ORDER = [*WHOLE]
_TIMES = ("date", "timestamp_ntz", "timestamp")
"""Narrow to wide."""
_ATOMIC = ("boolean", "binary", *_TIMES)

MIRRORED = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""A comparison seen from its other side."""


def compared_type(left: DataType | Literal, right: DataType | Literal) -> DataType | None:
    """The type of `left op right`; None where Spark has none and raises. A literal is given as such."""
    a, b = _type(left), _type(right)
    if a.name == "decimal" and b.name in WHOLE:
        return _wider_decimal(a, as_decimal(right))
    if b.name == "decimal" and a.name in WHOLE:
        return _wider_decimal(as_decimal(left), b)
    return common_type(a, b)


def is_rounded(type_: DataType, op: str, literal: Literal) -> bool:
    """Whether Spark rounds a constant to a whole number before it compares an integer with it."""
    decimal = literal.type.name == "decimal" and literal.written
    return decimal and op in ("<", "<=", ">", ">=") and type_.name in WHOLE


def rounded(op: str, literal: Literal) -> Literal | bool:
    """The whole number that an integer is compared with in place of a decimal as written.

    For a decimal beyond every long it is what `integer op literal` is outright, for NULL too.
    """
    exact = literal.number
    low, high = WHOLE["long"]
    if not low <= exact <= high:
        return (exact > high) == (op in ("<", "<="))
    return Literal(LONG, math.floor(exact) if op in ("<=", ">") else math.ceil(exact))


def membership_type(types: Sequence[DataType]) -> DataType | None:
    """The one type of `x IN (a, b, ...)`."""
    first: DataType | None = types[0]
    return reduce(lambda found, t: None if found is None else common_type(found, t), types[1:], first)


def common_type(a: DataType, b: DataType) -> DataType | None:
    """The narrowest type that both become; None where there is none. CHAR is a string here."""
    a, b = _plain(a), _plain(b)
    if a == b or b.name == "void":
        return a
    if a.name == "void":
        return b
    if "string" in (a.name, b.name):
        return _with_string(b if a.name == "string" else a)
    if a.name in WHOLE and b.name in WHOLE:
        return max(a, b, key=lambda t: _ORDER.index(t.name))
    if a.name in _TIMES and b.name in _TIMES:
        return max(a, b, key=lambda t: _TIMES.index(t.name))
    if a.name not in NUMERIC or b.name not in NUMERIC:
        return None
    if a.name in FLOATING or b.name in FLOATING:
        return DOUBLE
    return _wider_decimal(as_decimal(a), as_decimal(b))


def _plain(type_: DataType) -> DataType:
    return STRING if type_.char_length else type_


def _type(side: DataType | Literal) -> DataType:
    return side.type if isinstance(side, Literal) else side


def _with_string(other: DataType) -> DataType | None:
    """What a string is compared as."""
    if other.name in WHOLE:
        return LONG
    if other.name in (*FLOATING, "decimal"):
        return DOUBLE
    return other if other.name in _ATOMIC else None


def as_decimal(side: DataType | Literal) -> DataType:
    """A decimal, or an integer as the decimal that Spark makes of it beside one.

    An integer as written has as many digits as it has; a TINYINT always has those of its type.
    """
    type_ = _type(side)
    if type_.name == "decimal":
        return type_
    if isinstance(side, Literal) and side.written and type_.name != "byte" and side.value is not None:
        return decimal_type(len(str(abs(int(side.value)))), 0)
    return decimal_type(DIGITS[type_.name], 0)


def _wider_decimal(a: DataType, b: DataType) -> DataType:
    """A type with the digits of both, before and after the point; beyond 38, digits after it are cut."""
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    over = max(whole + scale - MAX_DIGITS, 0)
    return decimal_type(whole + scale - over, max(scale - over, 0))
