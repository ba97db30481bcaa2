"""The type in which Spark compares two values, ANSI mode on.

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
    mismatch,
)
from tailbit.tables.model import DataType

_ORDER = [*WHOLE]
_TIMES = ("date", "timestamp_ntz", "timestamp")
"""Narrow to wide."""
_ATOMIC = ("boolean", "binary", *_TIMES)

MIRRORED = {"=": "=", "<>": "<>", "<=>": "<=>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""Comparison operators with both sides swapped."""


def compared_type(lhs: DataType | Literal, rhs: DataType | Literal) -> DataType | None:
    """Return the type in which `left op right` is compared; None if Spark raises.

    A constant is passed as a `Literal`, since its digits may decide.
    """
    a, b = _type(lhs), _type(rhs)
    if a.name == "decimal" and b.name in WHOLE:
        return _wider_decimal(a, as_decimal(rhs))
    if b.name == "decimal" and a.name in WHOLE:
        return _wider_decimal(as_decimal(lhs), b)
    return common_type(a, b)


def is_rounded(type_: DataType, op: str, literal: Literal) -> bool:
    """Return whether Spark rounds a constant to an integer before comparing an integer with it."""
    decimal = literal.type.name == "decimal" and literal.written
    return decimal and op in ("<", "<=", ">", ">=") and type_.name in WHOLE


def rounded(op: str, literal: Literal) -> Literal | bool:
    """Return the integer that replaces a written decimal in a comparison with an integer.

    For a decimal beyond every long, return the outcome of `integer op literal`, which holds for NULL too.
    """
    exact = literal.number
    low, high = WHOLE["long"]
    if not low <= exact <= high:
        return (exact > high) == (op in ("<", "<="))
    return Literal(LONG, math.floor(exact) if op in ("<=", ">") else math.ceil(exact))


def membership_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type in which `x IN (a, b, ...)` compares values of these types; None if there is none."""
    first: DataType | None = types[0]
    return reduce(lambda common, t: None if common is None else common_type(common, t), types[1:], first)


def not_of_one_type(subject: str, listed: Sequence[DataType]) -> str:
    """Return the reason for refusing IN of a list whose types have no common type."""
    kinds = ", ".join(dict.fromkeys(type_.sql for type_ in listed))
    return mismatch(f"{subject} does not compare with {kinds} in one list", "DATA_DIFF_TYPES")


def common_type(a: DataType, b: DataType) -> DataType | None:
    """Return the narrowest type that both types widen to, or None. CHAR counts as a string here."""
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
    """Return the type in which a string is compared with another type."""
    if other.name in WHOLE:
        return LONG
    if other.name in (*FLOATING, "decimal"):
        return DOUBLE
    return other if other.name in _ATOMIC else None


def as_decimal(side: DataType | Literal) -> DataType:
    """Return a decimal type, or the decimal type that Spark gives an integer compared with a decimal.

    A written integer gets as many digits as it has; a TINYINT always gets those of its type.
    """
    type_ = _type(side)
    if type_.name == "decimal":
        return type_
    if isinstance(side, Literal) and side.written and type_.name != "byte" and side.value is not None:
        return decimal_type(len(str(abs(int(side.value)))), 0)
    return decimal_type(DIGITS[type_.name], 0)


def _wider_decimal(a: DataType, b: DataType) -> DataType:
    """Return a type with the digits of both, before and after the point; beyond 38, the scale is cut."""
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    over = max(whole + scale - MAX_DIGITS, 0)
    return decimal_type(whole + scale - over, max(scale - over, 0))
