"""Sums and averages, exact, in Spark's result types.

The sum of integers is a BIGINT, and the sum of decimals has ten more digits; Spark raises for a larger sum,
and so does this module. Spark adds row by row, so Spark may raise for an intermediate sum although the total
fits, and rounds doubles at each step; here only the total is checked, and a double is rounded once.

Source: Spark 4.2, Sum.scala, Average.scala and DecimalAggregates of Optimizer.scala.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import AggregateError, ColumnTypeError
from tailbit.index.values.literals import FLOATING, NUMERIC, WHOLE
from tailbit.tables import compute as pc
from tailbit.tables.arrow import numpy_of
from tailbit.tables.model import Column, DataType

_LONG = 1 << 63
_MOST_DIGITS = 38
_EXACT = 1 << 53
"""Largest bound below which every integer is exactly a double."""

_BY_DOUBLE = 11
"""Spark averages decimals of up to this many digits as doubles."""


@dataclass(frozen=True)
class Totals:
    """The number of values of a column that are not NULL, and their exact sum.

    `sum`: an int for integers; the unscaled int for decimals; for floats a Fraction, or the infinity or NaN
    that the sum is if a value is not finite.
    """

    column: Column
    rows: int
    sum: int | Fraction | float

    @classmethod
    def of(cls, column: Column, values: pa.Array, counts: Longs | None = None) -> Totals:
        """Return the totals of non-NULL values, each repeated `counts` times (once if None)."""
        times = np.ones(len(values), dtype=np.int64) if counts is None else counts
        floating = column.type.name in FLOATING
        exact_sum = _float_sum(values, times) if floating else _whole_sum(values, times)
        return cls(column, int(times.sum()), exact_sum)

    def __add__(self, other: Totals) -> Totals:
        sums = (self.sum, other.sum)
        # A sum is a float where a value is infinite or NaN: finite values no longer matter.
        floats = [of for of in sums if isinstance(of, float)]
        return Totals(self.column, self.rows + other.rows, sum(floats) if floats else sum(sums))


def check_numeric(column: Column, function: str) -> None:
    """Check that a column is numeric.

    Raises:
        ColumnTypeError: the column is of no numeric type.
    """
    if column.type.name not in NUMERIC:
        reason = f"{function} takes integers, floats and decimals"
        hint = "Ask for min, max or the facets."
        raise ColumnTypeError(column=column.label, type=column.type.sql, reason=reason, hint=hint)


def total(column_totals: Totals) -> int | float | Decimal | None:
    """Return the sum of a column; None if all values are NULL.

    Raises:
        AggregateError: the sum is beyond the type that Spark gives it.
    """
    type_, whole = column_totals.column.type, column_totals.sum
    if not column_totals.rows:
        return None
    if not isinstance(whole, int):
        return _rounded(whole, 1)
    if type_.name in WHOLE:
        if not -_LONG <= whole < _LONG:
            raise _overflow(column_totals, "sum", f"{whole} is beyond BIGINT")
        return whole
    _check_digits(column_totals, "sum", whole, type_)
    return Decimal(whole).scaleb(-type_.scale, _WIDE)


def mean(column_totals: Totals) -> float | Decimal | None:
    """Return the average of a column; None if all values are NULL.

    Raises:
        AggregateError: the average, or the sum, is beyond the type that Spark gives it.
    """
    type_, whole = column_totals.column.type, column_totals.sum
    if not column_totals.rows:
        return None
    if not isinstance(whole, int):
        return _rounded(whole, column_totals.rows)
    if type_.name in WHOLE:
        return _rounded(Fraction(whole), column_totals.rows)
    _check_digits(column_totals, "avg", whole, type_)
    return _decimal_mean(column_totals, whole, column_totals.rows, type_)


def _decimal_mean(column_totals: Totals, whole: int, rows: int, type_: DataType) -> Decimal:
    """Return the average as a decimal with four more fractional digits, rounded half up as Spark does.

    Source: DecimalType.bounded cuts precision and scale at 38; adjustPrecisionScale does not apply here.
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
        raise _overflow(column_totals, "avg", f"{out} has too many digits")
    return out


_WIDE = Context(prec=200)


def _overflow(column_totals: Totals, function: str, reason: str) -> AggregateError:
    return AggregateError(function=function, column=column_totals.column.label, reason=reason)


def _check_digits(column_totals: Totals, function: str, whole: int, type_: DataType) -> None:
    digits = min(type_.precision + 10, _MOST_DIGITS)
    if abs(whole) >= 10**digits:
        raise _overflow(column_totals, function, f"the sum has more than {digits} digits")


def _whole_sum(values: pa.Array, counts: Longs) -> int:
    """Return the sum of integers, or of the unscaled integers of decimals."""
    if pa.types.is_decimal128(values.type):
        if not len(values):
            return 0
        words = np.frombuffer(values.buffers()[1], dtype=np.uint64)
        words = words[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)
        return (_dot(words[:, 1].view(np.int64), counts) << 64) + _dot(words[:, 0], counts)
    return _dot(numpy_of(pc.cast(values, pa.int64())), counts)


_FEW = 1 << 31
"""Products of fewer rows than this with half a number fit into 64 bits together."""


def _dot(numbers: npt.NDArray[Any], counts: Longs) -> int:
    """Return the exact sum of products of integers of 64 bits, signed or not, with counts of rows."""
    if int(counts.sum()) >= _FEW:
        return sum(n * count for n, count in zip(numbers.tolist(), counts.tolist(), strict=True))
    low = (numbers & numbers.dtype.type(0xFFFFFFFF)).astype(np.int64) @ counts
    high = (numbers >> numbers.dtype.type(32)).astype(np.int64) @ counts
    return (int(high) << 32) + int(low)


def _float_sum(values: pa.Array, counts: Longs) -> Fraction | float:
    """Return the exact sum of doubles; the infinity or NaN of the sum if a value is not finite."""
    numbers = numpy_of(pc.cast(values, pa.float64()))
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
    """Return the double nearest to `exact / rows`; an infinity beyond the range of doubles."""
    if isinstance(exact, float):
        return exact
    try:
        return float(exact / rows)
    except OverflowError:
        return math.copysign(math.inf, exact)
