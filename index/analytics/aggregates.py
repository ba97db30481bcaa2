"""Extremes, sums and averages from counts by key, exact, in Spark's result types.

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
from tailbit.tables.model import DataType

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


def summary(found: KeyCounts) -> Summary:
    """All that counts by key tell.

    Raises:
        AggregateError: the sum or the average is beyond its type.
    """
    number = found.column.type.name in NUMERIC
    least, most = extremes(found)
    return Summary(
        rows=int(found.counts.sum()),
        nulls=found.nulls,
        distinct=len(found.keys) - (found.nulls > 0),
        min=least,
        max=most,
        sum=total(found) if number else None,
        avg=mean(found) if number else None,
    )


def extremes(found: KeyCounts) -> tuple[Any, Any]:
    """The least and the greatest value; None where there is none. Cost: two values are decoded."""
    first = int(found.nulls > 0)
    if len(found.keys) <= first:
        return None, None
    ends = found.keys.take(pa.array([first, len(found.keys) - 1]))
    least, most = python_values(ends, found.key_type, found.column)
    return least, most


def total(found: KeyCounts) -> int | float | Decimal | None:
    """The sum of a column over counted rows; None where all are NULL.

    Raises:
        AggregateError: it is beyond the type that Spark gives it.
        ColumnTypeError: the column is of no numeric type.
    """
    type_ = _numeric(found, "sum")
    if not _rows(found):
        return None
    if type_.name in FLOATING:
        return _rounded(_float_sum(found), 1)
    whole = _whole_sum(found)
    if type_.name in WHOLE:
        if not -_LONG <= whole < _LONG:
            raise _overflow(found, "sum", f"{whole} is beyond BIGINT")
        return whole
    _check_digits(found, "sum", whole, type_)
    return Decimal(whole).scaleb(-type_.scale, _WIDE)


def mean(found: KeyCounts) -> float | Decimal | None:
    """The average of a column over counted rows; None where all are NULL.

    Raises:
        AggregateError: it, or the sum, is beyond the type that Spark gives it.
        ColumnTypeError: the column is of no numeric type.
    """
    type_ = _numeric(found, "avg")
    rows = _rows(found)
    if not rows:
        return None
    if type_.name in FLOATING:
        return _rounded(_float_sum(found), rows)
    whole = _whole_sum(found)
    if type_.name in WHOLE:
        return _rounded(Fraction(whole), rows)
    _check_digits(found, "avg", whole, type_)
    return _decimal_mean(found, whole, rows, type_)


def _decimal_mean(found: KeyCounts, whole: int, rows: int, type_: DataType) -> Decimal:
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


def _numeric(found: KeyCounts, function: str) -> DataType:
    type_ = found.column.type
    if type_.name in NUMERIC:
        return type_
    reason = f"{function} takes integers, floats and decimals"
    raise ColumnTypeError(
        column=found.column.label, type=str(type_), reason=reason, hint="Ask for min, max or the facets."
    )


def _rows(found: KeyCounts) -> int:
    return int(found.counts.sum()) - found.nulls


def _overflow(found: KeyCounts, function: str, reason: str) -> AggregateError:
    return AggregateError(function=function, column=found.column.label, reason=reason)


def _check_digits(found: KeyCounts, function: str, whole: int, type_: DataType) -> None:
    digits = min(type_.precision + 10, _MOST_DIGITS)
    if abs(whole) >= 10**digits:
        raise _overflow(found, function, f"the sum has more than {digits} digits")


def _present(found: KeyCounts) -> tuple[pa.Array, Longs]:
    """The values that are not NULL, distinct and in order, and their counts."""
    first = int(found.nulls > 0)
    keys = found.keys.slice(first)
    values = decode_keys(keys, found.key_type, found.column.type)
    return values, found.counts[first:]


def _whole_sum(found: KeyCounts) -> int:
    """The sum of integers, or of the unscaled integers of decimals."""
    values, counts = _present(found)
    if pa.types.is_decimal128(values.type):
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


def _float_sum(found: KeyCounts) -> Fraction | float:
    """The exact sum of doubles; an infinity or NaN where one of them makes it so."""
    values, counts = _present(found)
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
