"""Arithmetic of decimals of any size, rounded half up to the type of the result.

Decimals that fit in 64 bits are computed in vectors (see `small`), all others with Python's integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.index.functions.decimals import small
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Vector, code, decimals, first_of, joined, unscaled
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_scalar, filled, numpy_of
from tailbit.tables.model import DataType

BY_ZERO = {"%": "REMAINDER_BY_ZERO"}
"""The error of a division by zero, for the operators that do not raise DIVIDE_BY_ZERO."""


def changed_sign(call: Call, values: pa.Array, null: Mask) -> Vector:
    """Change the sign of decimals, or with `abs` remove it.

    Spark changes a sign through 34 digits (`java.math.MathContext.DECIMAL128`, ties to even), which rounds a
    longer number; a result with one digit more than the type then raises. `abs` does not round values without
    a minus sign.
    """
    without = call.name == "abs"
    small_values = small.small(values)
    if small_values is not None:
        data = np.abs(small_values.data) if without else -small_values.data
        return small.fitted(small_values._replace(data=data), null, call.type)
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
        [_decimal(call, [arg.slice(at, _CHUNK) for arg in args], null[at : at + _CHUNK]) for at in starts]
    )


def _decimal(call: Call, args: list[pa.Array], null: Mask) -> Vector:
    divides = call.name in ("/", "%")
    if not divides or not (_is_zero(args[1]) & ~null).any():
        found_small = small.binary(call, args, null)
        if found_small is not None:
            return found_small
    left, right = call.args[0].type, call.args[1].type
    a, b = (np.where(null, 0, unscaled(arg)) for arg in args)
    if divides:
        zero = ~null & (b == 0)
        results = _by_scale(call, left, right, a, np.where(b == 0, 1, b))
        results[null | zero] = None
        got = fitted(results, call.type)
        error = code(BY_ZERO.get(call.name, "DIVIDE_BY_ZERO"), zero)
        return Vector(got.values, first_of([error, got.raised]))
    results = _by_scale(call, left, right, a, b)
    results[null] = None
    return fitted(results, call.type)


def _is_zero(values: pa.Array) -> Mask:
    return numpy_of(filled(pc.equal(values, arrow_scalar(0, values.type)), False))


def _by_scale(
    call: Call, left: DataType, right: DataType, a: npt.NDArray[np.object_], b: npt.NDArray[np.object_]
) -> npt.NDArray[np.object_]:
    """Return the unscaled results at the scale of the result's type."""
    to = call.type.scale
    if call.name == "/":
        return _quotients(a * 10 ** (right.scale + 39), b * 10**left.scale, to)
    if call.name == "*":
        return _rescaled(a * b, left.scale + right.scale, to)
    scale = max(left.scale, right.scale)
    a, b = a * 10 ** (scale - left.scale), b * 10 ** (scale - right.scale)
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
    kept = data.copy()
    kept[beyond] = None
    return Vector(decimals(kept, type_), code("NUMERIC_VALUE_OUT_OF_RANGE", beyond))
