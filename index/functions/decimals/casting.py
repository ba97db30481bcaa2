"""Casts from and to decimals, and their rounding."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.index.functions.decimals import small
from tailbit.index.functions.decimals.exact import fitted, half_up, mapped
from tailbit.index.functions.decimals.small import Small
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Vector, array_of, nulls_of, unscaled, within
from tailbit.index.values.literals import WHOLE
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.model import DataType


def whole_as_decimal(values: pa.Array, to: DataType) -> Vector:
    """Cast integers to decimals; integers with too many digits raise."""
    null, small_values = nulls_of(values), small.small(values)
    fits = None if small_values is None else small_values.times(to.scale)
    if fits is not None:
        return small.fitted(fits, null, to)
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
    small_values, null = small.small(values), nulls_of(values)
    if small_values is None:
        return None
    if to.name == "decimal":
        rescaled = small_values.rescaled(from_.scale, to.scale)
        return None if rescaled is None else small.fitted(rescaled, null, to)
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
    small_values = small.small(values)
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
    return small.fitted(Small.of(results * np.int64(keep)), null, call.type)
