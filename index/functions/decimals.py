"""Arithmetic, casts and rounding of decimals: in vectors where 64 bits hold them, else by Python's integers.

Functions of `Small` return None if an operand or a result may not fit; the results are the same. The bounds
are those of the present values, not of their types.

Example: 7.00 / 3.00 with 6 digits after the point: 700 // 300 = 2, rest 100; 100 * 10**6 // 300 = 333333,
rest 100, which is less than half of 300: 2333333.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import (
    Vector,
    array_of,
    code,
    decimals,
    decimals_of_words,
    first_of,
    joined,
    nulls_of,
    unscaled,
    within,
)
from tailbit.index.keys import WORD_DIGITS, decimal_words
from tailbit.index.values.literals import WHOLE
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, numpy_of
from tailbit.tables.model import DataType

_LIMIT = 1 << 62


class Small(NamedTuple):
    """Unscaled decimals, 0 where NULL, and the largest of their magnitudes."""

    data: Longs
    most: int

    @classmethod
    def of(cls, data: Longs) -> Small:
        """Wrap integers; none of them may be the least 64-bit integer."""
        return cls(data, max(abs(int(data.min())), abs(int(data.max()))) if len(data) else 0)

    def times(self, power: int) -> Small | None:
        """Multiply by a power of ten; None if a result may not fit."""
        if power == 0:
            return self
        if power > WORD_DIGITS or self.most * 10**power >= _LIMIT:
            return None
        return Small(self.data * np.int64(10**power), self.most * 10**power)

    def rescaled(self, scale: int, to: int) -> Small | None:
        """Change the number of digits after the point; fewer digits are rounded half up, away from zero."""
        if to >= scale:
            return self.times(to - scale)
        unit = 10 ** (scale - to)
        if scale - to > WORD_DIGITS or 2 * self.most + unit >= _LIMIT:
            return None
        quotients = (2 * np.abs(self.data) + unit) // (2 * unit)
        return Small(np.where(self.data < 0, -quotients, quotients), self.most // unit + 1)


def small(values: pa.Array) -> Small | None:
    """Convert decimals of 128 bits, or integers; None if one may not fit."""
    if not pa.types.is_decimal128(values.type):
        data = numpy_of(filled(values, 0)).astype(np.int64)
        return Small.of(data) if not len(data) or int(data.min()) > -_LIMIT else None
    if not len(values):
        return Small(np.zeros(0, np.int64), 0)
    words = decimal_words(values).view(np.int64)
    low, high = np.ascontiguousarray(words[:, 0]), words[:, 1]
    if values.null_count:
        null = nulls_of(values)
        low, high = np.where(null, 0, low), np.where(null, 0, high)
    if not (high == low >> 63).all():
        return None
    integers = Small.of(low)
    return integers if integers.most < _LIMIT else None


def fitted_small(values: Small, null: Mask, type_: DataType) -> Vector:
    """Convert to decimals of a type; those with too many digits raise."""
    if type_.precision > WORD_DIGITS or values.most < 10**type_.precision:
        return Vector(decimals_of_words(values.data, values.data >> 63, null, type_))
    beyond = ~null & (np.abs(values.data) >= 10**type_.precision)
    low = np.where(beyond, 0, values.data)
    words = decimals_of_words(low, low >> 63, null | beyond, type_)
    return Vector(words, code("NUMERIC_VALUE_OUT_OF_RANGE", beyond))


def binary(call: Call, args: list[pa.Array], null: Mask) -> Vector | None:
    """Compute `+ - * / %` of decimals; the caller has checked that no divisor is zero."""
    a_type, b_type = call.args[0].type, call.args[1].type
    a, b = small(args[0]), small(args[1])
    if a is None or b is None:
        return None
    if call.name == "/":
        return _divided(call, a, b, null)
    if call.name == "*":
        if a.most * b.most >= _LIMIT:
            return None
        product = Small(a.data * b.data, a.most * b.most).rescaled(
            a_type.scale + b_type.scale, call.type.scale
        )
        return None if product is None else fitted_small(product, null, call.type)
    scale = max(a_type.scale, b_type.scale)
    a, b = a.times(scale - a_type.scale), b.times(scale - b_type.scale)
    if a is None or b is None or a.most + b.most >= _LIMIT:
        return None
    if call.name == "%":
        result = Small(np.fmod(a.data, np.where(null, 1, b.data)), a.most)
    else:
        result = Small(a.data + b.data if call.name == "+" else a.data - b.data, a.most + b.most)
    end = result.rescaled(scale, call.type.scale)
    return None if end is None else fitted_small(end, null, call.type)


def _divided(call: Call, a: Small, b: Small, null: Mask) -> Vector | None:
    """Divide, rounding half up at the scale of the result.

    Spark first rounds at 39 digits. With a divisor below 2**62 no fraction is so near to a half without being
    a half.
    """
    digits = call.type.scale + call.args[1].type.scale - call.args[0].type.scale
    step = len(str(_LIMIT // max(1, b.most))) - 1
    if not 0 <= digits <= WORD_DIGITS or step < 1 or call.type.scale > WORD_DIGITS:
        return None
    divisor = np.abs(np.where(null, 1, b.data))
    whole, rest = np.divmod(np.abs(a.data), divisor)
    fraction, remaining = np.zeros(len(whole), dtype=np.int64), digits
    while remaining:
        some = min(step, remaining)
        quotients, rest = np.divmod(rest * np.int64(10**some), divisor)
        fraction = fraction * np.int64(10**some) + quotients
        remaining -= some
    fraction += 2 * rest >= divisor
    most = (a.most + 1) * 10**digits + 1
    if most >= 10**call.type.precision:
        return None
    low, high = _product(whole, 10**digits, fraction)
    negative = (a.data < 0) != (b.data < 0)
    low, high = np.where(negative, -low, low), np.where(negative, ~high + (low == 0), high)
    return Vector(decimals_of_words(low, high, null, call.type))


def _product(a: Longs, factor: int, more: Longs) -> tuple[Longs, Longs]:
    """Return low and high words of a * factor + more, for numbers that are not negative."""
    mask, shift = np.uint64((1 << 32) - 1), np.uint64(32)
    factors, plus = a.view(np.uint64), more.view(np.uint64)
    upper, lower = np.uint64(factor >> 32), np.uint64(factor & ((1 << 32) - 1))
    a1, a0 = factors >> shift, factors & mask
    low = a0 * lower
    middle = a1 * lower + (low >> shift)
    cross = a0 * upper + (middle & mask)
    high = a1 * upper + (middle >> shift) + (cross >> shift)
    low = (cross << shift) | (low & mask)
    total = low + plus
    return total.view(np.int64), (high + (total < low)).view(np.int64)


BY_ZERO = {"%": "REMAINDER_BY_ZERO"}
"""The error of a division by zero, for the operators that do not raise DIVIDE_BY_ZERO."""


def changed_sign(call: Call, values: pa.Array, null: Mask) -> Vector:
    """Change the sign of decimals, or with `abs` remove it.

    Spark changes a sign through 34 digits (`java.math.MathContext.DECIMAL128`, ties to even), which rounds a
    longer number; a result with one digit more than the type then raises. `abs` does not round values without
    a minus sign.
    """
    without = call.name == "abs"
    small_values = small(values)
    if small_values is not None:
        data = np.abs(small_values.data) if without else -small_values.data
        return fitted_small(small_values._replace(data=data), null, call.type)
    return fitted(
        mapped(lambda v: v if without and v >= 0 else -_of_34_digits(v), unscaled(values)), call.type
    )


_KEPT_DIGITS = 34


def _of_34_digits(value: int) -> int:
    """Round an integer to its first 34 digits, ties to even.

    >>> _of_34_digits(-12345678901234567890123456789012345678)
    -12345678901234567890123456789012350000
    """
    unit: int = 10 ** max(len(str(abs(value))) - _KEPT_DIGITS, 0)
    whole, rest = divmod(abs(value), unit)
    whole += 2 * rest > unit or (2 * rest == unit and whole % 2)
    return -whole * unit if value < 0 else whole * unit


_CHUNK = 1 << 15
"""Rows computed together, so that intermediate arrays stay in the CPU cache."""


def decimal(call: Call, args: list[pa.Array], null: Mask) -> Vector:
    """Compute `+ - * / %` of two decimals."""
    if len(null) <= _CHUNK:
        return _decimal(call, args, null)
    starts = range(0, len(null), _CHUNK)
    return joined(
        [
            _decimal(call, [arg.slice(start, _CHUNK) for arg in args], null[start : start + _CHUNK])
            for start in starts
        ]
    )


def _decimal(call: Call, args: list[pa.Array], null: Mask) -> Vector:
    divides = call.name in ("/", "%")
    if not divides or not (_is_zero(args[1]) & ~null).any():
        found_small = binary(call, args, null)
        if found_small is not None:
            return found_small
    a_type, b_type = call.args[0].type, call.args[1].type
    a, b = (np.where(null, 0, unscaled(arg)) for arg in args)
    if divides:
        zero = ~null & (b == 0)
        results = _by_scale(call, a_type, b_type, a, np.where(b == 0, 1, b))
        results[null | zero] = None
        got = fitted(results, call.type)
        error = code(BY_ZERO.get(call.name, "DIVIDE_BY_ZERO"), zero)
        return Vector(got.values, first_of([error, got.raised]))
    results = _by_scale(call, a_type, b_type, a, b)
    results[null] = None
    return fitted(results, call.type)


def _is_zero(values: pa.Array) -> Mask:
    return numpy_of(filled(pc.equal(values, arrow_scalar(0, values.type)), False))


def _by_scale(
    call: Call, a_type: DataType, b_type: DataType, a: npt.NDArray[np.object_], b: npt.NDArray[np.object_]
) -> npt.NDArray[np.object_]:
    """Return the unscaled results at the scale of the result's type."""
    to = call.type.scale
    if call.name == "/":
        return _quotients(a * 10 ** (b_type.scale + 39), b * 10**a_type.scale, to)
    if call.name == "*":
        return _rescaled(a * b, a_type.scale + b_type.scale, to)
    scale = max(a_type.scale, b_type.scale)
    a, b = a * 10 ** (scale - a_type.scale), b * 10 ** (scale - b_type.scale)
    if call.name == "%":
        return _rescaled(_REMAINDERS(a, b), scale, to)
    return _rescaled(a + b if call.name == "+" else a - b, scale, to)


def _quotients(a: npt.NDArray[np.object_], b: npt.NDArray[np.object_], to: int) -> npt.NDArray[np.object_]:
    """Divide: cut at 39 digits after the point, as Spark does, then round to scale `to`."""
    return _rescaled(_QUOTIENTS(a, b), 39, to)


_QUOTIENTS = np.frompyfunc(lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1), 2, 1)
_REMAINDERS = np.frompyfunc(lambda x, y: int(math.copysign(1, x)) * (abs(x) % abs(y)), 2, 1)
"""Quotients towards zero, and remainders with the sign of the dividend, of integers of any size."""


def _rescaled(data: npt.NDArray[np.object_], scale: int, to: int) -> npt.NDArray[np.object_]:
    if to >= scale:
        return np.asarray(data * 10 ** (to - scale), dtype=object)
    return mapped(lambda v: half_up(v, 10 ** (scale - to)), data)


def mapped(apply: Callable[[Any], Any], data: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    """Return the result of a function for each integer; None stays None."""
    out = np.empty(len(data), dtype=object)
    out[:] = [None if v is None else apply(v) for v in data]
    return out


def half_up(value: int, divisor: int) -> int:
    """Divide and round to an integer, ties away from zero; the divisor is positive."""
    quotient = (2 * abs(value) + divisor) // (2 * divisor)
    return -quotient if value < 0 else quotient


def fitted(data: npt.NDArray[np.object_], type_: DataType) -> Vector:
    """Convert unscaled integers to decimals of a type; those with too many digits raise."""
    most = 10**type_.precision
    beyond = np.array([v is not None and abs(v) >= most for v in data], dtype=np.bool_)
    fitting = data.copy()
    fitting[beyond] = None
    return Vector(decimals(fitting, type_), code("NUMERIC_VALUE_OUT_OF_RANGE", beyond))


def whole_as_decimal(values: pa.Array, to: DataType) -> Vector:
    """Cast integers to decimals; integers with too many digits raise."""
    null, small_values = nulls_of(values), small(values)
    fits = None if small_values is None else small_values.times(to.scale)
    if fits is not None:
        return fitted_small(fits, null, to)
    whole = numpy_of(filled(values, 0)).astype(object) * 10**to.scale
    whole[null] = None
    return fitted(whole, to)


def cast_decimal(values: pa.Array, from_: DataType, to: DataType) -> Vector | None:
    """Cast decimals to another type; None if the cast must be done value by value."""
    small_result = _of_small_decimal(values, from_, to)
    if small_result is not None:
        return small_result
    null, data, unit = nulls_of(values), unscaled(values), 10**from_.scale
    if to.name == "decimal":
        factor = 10 ** abs(to.scale - from_.scale)
        wider = to.scale >= from_.scale
        return fitted(mapped(lambda v: v * factor if wider else half_up(v, factor), data), to)
    if to.name in WHOLE:
        whole = np.array([0 if v is None else abs(v) // unit * (-1 if v < 0 else 1) for v in data], object)
        return within(whole, null, to, "CAST_OVERFLOW")
    if to.name == "boolean":
        return Vector(arrow_array([None if v is None else v != 0 for v in data], pa.bool_()))
    if to.name == "double":
        return Vector(arrow_array([None if v is None else v / unit for v in data], pa.float64()))
    if to.name == "float":
        return None
    return Vector(arrow_array([None if v is None else _plain(v, from_.scale) for v in data], pa.string()))


def _of_small_decimal(values: pa.Array, from_: DataType, to: DataType) -> Vector | None:
    """Cast decimals by arithmetic of 64 bits; None if the cast or a value does not allow that."""
    small_values, null = small(values), nulls_of(values)
    if small_values is None:
        return None
    if to.name == "decimal":
        rescaled = small_values.rescaled(from_.scale, to.scale)
        return None if rescaled is None else fitted_small(rescaled, null, to)
    if to.name == "double" and small_values.most < _EXACT and from_.scale <= _EXACT_POWER:
        return Vector(array_of(small_values.data / np.float64(10**from_.scale), null, to))
    if to.name in WHOLE and from_.scale <= _EXACT_POWER:
        whole = np.abs(small_values.data) // np.int64(10**from_.scale) * np.sign(small_values.data)
        return within(whole, null, to, "CAST_OVERFLOW")
    return None


_EXACT, _EXACT_POWER = 1 << 53, 18
"""Integers below the first number, and powers of ten up to the second exponent, are exact as doubles."""


def _plain(value: int, scale: int) -> str:
    digits = str(abs(value)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if value < 0 else text


def rounded_decimal(call: Call, values: pa.Array, scale: int, digits: int) -> Vector:
    """Compute round, floor and ceil of decimals of a scale."""
    unit = 10 ** (scale - digits) if scale > digits else 1
    keep = 10 ** max(call.type.scale - min(digits, scale), 0)
    small_values = small(values)
    if (
        small_values is not None
        and max(2 * small_values.most + unit, 2 * unit, (small_values.most // unit + 1) * keep) < 1 << 62
    ):
        return _rounded_small(call, small_values, nulls_of(values), unit, keep)

    def apply(value: int) -> int:
        if call.name == "floor":
            return int(value // unit * keep)
        return int(-(-value // unit) * keep) if call.name == "ceil" else half_up(value, unit) * keep

    return fitted(mapped(apply, unscaled(values)), call.type)


def _rounded_small(call: Call, small_values: Small, null: Mask, unit: int, keep: int) -> Vector:
    data, by = small_values.data, np.int64(unit)
    if call.name == "round":
        results = np.sign(data) * ((2 * np.abs(data) + by) // (2 * by))
    else:
        results = data // by if call.name == "floor" else -(-data // by)
    return fitted_small(Small.of(results * np.int64(keep)), null, call.type)
