"""Sums and averages of values in the types that Spark gives them, and where Spark refuses them.

DuckDB does not judge these: its sum of BIGINT and of decimals goes on where Spark's ANSI mode refuses, its
average of decimals is a double, and its sum of doubles depends on the order of the rows. So DuckDB says which
rows there are, and Python's exact fractions add their values up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from support.analytics.answers import REFUSED

_WIDE = Context(prec=300)
_BY_DOUBLE = 11
"""Up to this many digits Spark averages decimals as doubles: their last digit may be another."""


def total(values: Sequence[Any], type_: pa.DataType) -> Any:
    """The sum of values that are not NULL; None of none."""
    if not values:
        return None
    if pa.types.is_floating(type_):
        return _of_doubles(values, 1)
    if pa.types.is_integer(type_):
        whole = sum(values)
        return whole if -(2**63) <= whole < 2**63 else REFUSED
    exact = sum(map(Fraction, values), Fraction(0))
    if abs(exact) >= _least_beyond(type_.precision + 10, type_.scale):
        return REFUSED
    return _rounded(exact, type_.scale)


def average(values: Sequence[Any], type_: pa.DataType) -> Any:
    """The average of values that are not NULL; None of none."""
    if not values:
        return None
    if pa.types.is_floating(type_):
        return _of_doubles(values, len(values))
    exact = sum(map(Fraction, values), Fraction(0))
    if pa.types.is_integer(type_):
        return float(exact / len(values))
    if abs(exact) >= _least_beyond(type_.precision + 10, type_.scale):
        return REFUSED
    scale = min(type_.scale + 4, 38)
    found = _rounded(exact / len(values), scale)
    return REFUSED if abs(found) >= _least_beyond(type_.precision + 4, scale) else found


def is_near(found: str, expected: Any, type_: pa.DataType) -> bool:
    """Whether an average of decimals is the expected one but for the last digit, where Spark uses doubles."""
    if not (pa.types.is_decimal(type_) and type_.precision <= _BY_DOUBLE and isinstance(expected, Decimal)):
        return False
    if not found.startswith("Decimal('"):
        return False
    mine = Decimal(found[9:-2])
    same_scale = mine.as_tuple().exponent == expected.as_tuple().exponent
    return same_scale and abs(mine - expected) <= Decimal(1).scaleb(-type_.scale - 4)


def _least_beyond(precision: int, scale: int) -> Fraction:
    return Fraction(10) ** (min(precision, 38) - scale)


def _rounded(exact: Fraction, scale: int) -> Decimal:
    """Rounded half away from zero to a scale."""
    scaled = abs(exact) * 10**scale
    whole = (2 * scaled.numerator + scaled.denominator) // (2 * scaled.denominator)
    found = Decimal(-whole if exact < 0 else whole).scaleb(-scale, _WIDE)
    return found.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)


def _of_doubles(values: Sequence[float], rows: int) -> float:
    odd = [value for value in values if not math.isfinite(value)]
    if odd:
        return sum(odd)
    exact = sum(map(Fraction, values), Fraction(0)) / rows
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
