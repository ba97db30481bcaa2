"""The type that Spark compares two values in, ANSI mode on.

Source: Spark 4.2, AnsiTypeCoercion and DecimalPrecisionTypeCoercion; asked of Spark itself by the tests.
"""

from __future__ import annotations

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


def compared_type(left: DataType | Literal, right: DataType | Literal) -> DataType | None:
    """The type of `left op right`; None where Spark has none and raises. A literal is given as such."""
    a, b = _type(left), _type(right)
    if a.name == "decimal" and b.name in WHOLE:
        return _wider_decimal(a, _as_decimal(right))
    if b.name == "decimal" and a.name in WHOLE:
        return _wider_decimal(_as_decimal(left), b)
    return common_type(a, b)


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
    return _wider_decimal(_as_decimal(a), _as_decimal(b))


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


def _as_decimal(side: DataType | Literal) -> DataType:
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
