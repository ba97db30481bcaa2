"""Extremes, sums and averages, from counts by key or value by value, exact, in Spark's result types.

An integer's sum is a long and a decimal's has ten more digits: beyond that Spark raises, and so do we. Spark
adds row by row, so it may raise for a sum on the way that ends within bounds, and rounds doubles at each
step; here only the total counts, and a double is rounded once.
Source: Spark 4.2, Sum.scala, Average.scala and DecimalAggregates of Optimizer.scala.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.errors import AggregateError, ColumnTypeError
from tailbit.index.grouping.dictionary import python_values
from tailbit.index.grouping.key_counts import KeyCounts
from tailbit.index.keys import decode_keys
from tailbit.index.values.literals import FLOATING, NUMERIC, WHOLE
from tailbit.tables.model import Column, DataType

_LONG = 1 << 63
_MOST_DIGITS = 38
_EXACT = 1 << 53
"""Up to here every whole number is a double."""

_BY_DOUBLE = 11
"""Spark averages decimals of up to this many digits as doubles."""


@dataclass(frozen=True)
class Summary:
    """What is told of a column in some rows; `sum` and `avg` are None where it is no number."""

    rows: int
    nulls: int
    distinct: int
    min: Any
    max: Any
    sum: int | float | Decimal | None
    avg: float | Decimal | None


@dataclass(frozen=True)
class Totals:
    """The values of a column in some rows: how many are not NULL, and their exact sum.

    `sum`: an int of integers, or of the unscaled integers of decimals; of floats a fraction, or an infinity
    or NaN where one of them makes it so.
    """

    column: Column
    rows: int
    sum: int | Fraction | float

    @classmethod
    def of(cls, column: Column, values: pa.Array, counts: Longs | None = None) -> Totals:
        """Of values that are not NULL, each as often as `counts` says, else once."""
        times = np.ones(len(values), dtype=np.int64) if counts is None else counts
        floating = column.type.name in FLOATING
        found = _float_sum(values, times) if floating else _whole_sum(values, times)
        return cls(column, int(times.sum()), found)

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.column, self.rows + other.rows, self.sum + other.sum)


def totals(found: KeyCounts) -> Totals:
    """The sum of counted rows of a numeric column."""
    first = int(found.nulls > 0)
    values = decode_keys(found.keys.slice(first), found.key_type, found.column.type)
    return Totals.of(found.column, values, found.counts[first:])


def check_numeric(column: Column, function: str) -> None:
    """Let numbers pass.

    Raises:
        ColumnTypeError: the column is of no numeric type.
    """
    if column.type.name not in NUMERIC:
        reason = f"{function} takes integers, floats and decimals"
        hint = "Ask for min, max or the facets."
        raise ColumnTypeError(column=column.label, type=str(column.type), reason=reason, hint=hint)


def summary(found: KeyCounts) -> Summary:
    """All that counts by key tell.

    Raises:
        AggregateError: the sum or the average is beyond its type.
    """
    its = totals(found) if found.column.type.name in NUMERIC else None
    least, most = extremes(found)
    return Summary(
        rows=int(found.counts.sum()),
        nulls=found.nulls,
        distinct=len(found.keys) - (found.nulls > 0),
        min=least,
        max=most,
        sum=None if its is None else total(its),
        avg=None if its is None else mean(its),
    )


def extremes(found: KeyCounts) -> tuple[Any, Any]:
    """The least and the greatest value; None where there is none. Cost: two values are decoded."""
    first = int(found.nulls > 0)
    if len(found.keys) <= first:
        return None, None
    ends = found.keys.take(pa.array([first, len(found.keys) - 1]))
    least, most = python_values(ends, found.key_type, found.column)
    return least, most


def total(found: Totals) -> int | float | Decimal | None:
    """The sum of a column; None where all are NULL.

    Raises:
        AggregateError: it is beyond the type that Spark gives it.
    """
    type_, whole = found.column.type, found.sum
    if not found.rows:
        return None
    if not isinstance(whole, int):
        return _rounded(whole, 1)
    if type_.name in WHOLE:
        if not -_LONG <= whole < _LONG:
            raise _overflow(found, "sum", f"{whole} is beyond BIGINT")
        return whole
    _check_digits(found, "sum", whole, type_)
    return Decimal(whole).scaleb(-type_.scale, _WIDE)


def mean(found: Totals) -> float | Decimal | None:
    """The average of a column; None where all are NULL.

    Raises:
        AggregateError: it, or the sum, is beyond the type that Spark gives it.
    """
    type_, whole = found.column.type, found.sum
    if not found.rows:
        return None
    if not isinstance(whole, int):
        return _rounded(whole, found.rows)
    if type_.name in WHOLE:
        return _rounded(Fraction(whole), found.rows)
    _check_digits(found, "avg", whole, type_)
    return _decimal_mean(found, whole, found.rows, type_)


def _decimal_mean(found: Totals, whole: int, rows: int, type_: DataType) -> Decimal:
    """A decimal with four more digits behind the point, rounded half up where Spark rounds.

    Source: DecimalType.adjustPrecisionScale is not asked here: `bounded` cuts both at 38.
    """
    scale = min(type_.scale + 4, _MOST_DIGITS)
    if type_.precision <= _BY_DOUBLE and abs(whole) < _EXACT:
        exact = Decimal(repr(float(whole) / rows / math.pow(10.0, type_.scale)))
    else:
        digits = abs(whole) * 10 ** (_MOST_DIGITS - type_.scale)
        quotient, rest = divmod(digits, rows)
        quotient += 2 * rest >= rows
        exact = Decimal(-quotient if whole < 0 else quotient).scaleb(-_MOST_DIGITS, _WIDE)
    out = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)
    if len(out.as_tuple().digits) > min(type_.precision + 4, _MOST_DIGITS):
        raise _overflow(found, "avg", f"{out} has too many digits")
    return out


_WIDE = Context(prec=200)


def _overflow(found: Totals, function: str, reason: str) -> AggregateError:
    return AggregateError(function=function, column=found.column.label, reason=reason)


def _check_digits(found: Totals, function: str, whole: int, type_: DataType) -> None:
    digits = min(type_.precision + 10, _MOST_DIGITS)
    if abs(whole) >= 10**digits:
        raise _overflow(found, function, f"the sum has more than {digits} digits")


def _whole_sum(values: pa.Array, counts: Longs) -> int:
    """The sum of integers, or of the unscaled integers of decimals."""
    if pa.types.is_decimal128(values.type):
        if not len(values):
            return 0
        words = np.frombuffer(values.buffers()[1], dtype=np.uint64)
        words = words[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)
        return (_dot(words[:, 1].view(np.int64), counts) << 64) + _dot_unsigned(words[:, 0], counts)
    return _dot(np.asarray(values.cast(pa.int64())), counts)


def _dot(numbers: Longs, counts: Longs) -> int:
    """The exact sum of products, by halves of 32 bits, since neither sum of halves overflows."""
    low = (numbers & 0xFFFFFFFF) @ counts
    return (int((numbers >> 32) @ counts) << 32) + int(low)


def _dot_unsigned(numbers: npt.NDArray[np.uint64], counts: Longs) -> int:
    low = (numbers & np.uint64(0xFFFFFFFF)).astype(np.int64) @ counts
    return (int((numbers >> np.uint64(32)).astype(np.int64) @ counts) << 32) + int(low)


def _float_sum(values: pa.Array, counts: Longs) -> Fraction | float:
    """The exact sum of doubles; an infinity or NaN where one of them makes it so."""
    numbers = np.asarray(values.cast(pa.float64()))
    finite = np.isfinite(numbers)
    if not finite.all():
        return float(sum(numbers[~finite].tolist()))
    mantissas, exponents = np.frexp(numbers)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    sums = Fraction(0)
    for exponent in np.unique(exponents).tolist():
        mine = exponents == exponent
        sums += Fraction(_dot(whole[mine], counts[mine])) * Fraction(2) ** (exponent - 53)
    return sums


def _rounded(exact: Fraction | float, rows: int) -> float:
    """The double nearest to a sum divided by a number of rows; infinite beyond the range of doubles."""
    if isinstance(exact, float):
        return exact
    try:
        return float(exact / rows)
    except OverflowError:
        return math.copysign(math.inf, exact)
