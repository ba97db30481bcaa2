"""Casts from and to decimals, and their rounding."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.arrays import Mask
from tailbit.index.functions.decimals import small
from tailbit.index.functions.decimals.exact import fitted, half_up
from tailbit.index.functions.decimals.small import Small
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Vector, array_of, code, nulls_of, unscaled
from tailbit.index.values.literals import WHOLE
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.model import DataType


def arrow_of_whole(to: DataType) -> pa.DataType:
    """The Arrow type of an integer type."""
    return {"byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64()}[to.name]


def whole_as_decimal(values: pa.Array, to: DataType) -> Vector:
    """Integers as decimals; those of too many digits raise."""
    null, its = nulls_of(values), small.small(values)
    fits = None if its is None else its.times(to.scale)
    if fits is not None:
        return small.fitted(fits, null, to)
    whole = numpy_of(filled(values, 0)).astype(object) * 10**to.scale
    whole[null] = None
    return fitted(whole, to)


def cast_decimal(values: pa.Array, from_: DataType, to: DataType) -> Vector | None:
    """Decimals as another type; None where that is to be asked value by value."""
    found = _of_small_decimal(values, from_, to)
    if found is not None:
        return found
    null, data, unit = nulls_of(values), unscaled(values), 10**from_.scale
    if to.name == "decimal":
        factor = 10 ** abs(to.scale - from_.scale)
        if to.scale >= from_.scale:
            return fitted(np.array([None if v is None else v * factor for v in data], dtype=object), to)
        return fitted(np.array([None if v is None else half_up(v, factor) for v in data], dtype=object), to)
    if to.name in WHOLE:
        low, high = WHOLE[to.name]
        whole = np.array([0 if v is None else abs(v) // unit * (-1 if v < 0 else 1) for v in data], object)
        beyond = ~null & np.asarray((whole < low) | (whole > high), dtype=np.bool_)
        kept = np.where(beyond, 0, whole).astype(np.int64)
        return Vector(arrow_array(kept, mask=null).cast(arrow_of_whole(to)), code("CAST_OVERFLOW", beyond))
    if to.name == "boolean":
        return Vector(arrow_array([None if v is None else v != 0 for v in data], pa.bool_()))
    if to.name == "double":
        return Vector(arrow_array([None if v is None else v / unit for v in data], pa.float64()))
    if to.name == "float":
        return None
    return Vector(arrow_array([None if v is None else _plain(v, from_.scale) for v in data], pa.string()))


def _of_small_decimal(values: pa.Array, from_: DataType, to: DataType) -> Vector | None:
    """The casts of decimals that can be done in 64 bits; None for others."""
    its, null = small.small(values), nulls_of(values)
    if its is None:
        return None
    if to.name == "decimal":
        found = its.rescaled(from_.scale, to.scale)
        return None if found is None else small.fitted(found, null, to)
    if to.name == "double" and its.most < _EXACT and from_.scale <= _EXACT_POWER:
        return Vector(array_of(its.data / np.float64(10**from_.scale), null, to))
    if to.name in WHOLE and from_.scale <= _EXACT_POWER:
        low, high = WHOLE[to.name]
        whole = np.abs(its.data) // np.int64(10**from_.scale) * np.sign(its.data)
        beyond = ~null & ((whole < low) | (whole > high))
        kept = np.where(beyond, 0, whole)
        return Vector(arrow_array(kept, mask=null).cast(arrow_of_whole(to)), code("CAST_OVERFLOW", beyond))
    return None


_EXACT, _EXACT_POWER = 1 << 53, 18
"""Integers below this one, and powers of ten up to that one, are floats of 64 bits as they stand."""


def _plain(value: int, scale: int) -> str:
    digits = str(abs(value)).rjust(scale + 1, "0")
    text = f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits
    return f"-{text}" if value < 0 else text


def rounded_decimal(call: Call, values: pa.Array, scale: int, digits: int) -> Vector:
    """round, floor and ceil of decimals of a scale."""
    unit = 10 ** (scale - digits) if scale > digits else 1
    keep = 10 ** max(call.type.scale - min(digits, scale), 0)
    its = small.small(values)
    if its is not None and max(2 * its.most + unit, 2 * unit, (its.most // unit + 1) * keep) < 1 << 62:
        return _rounded_small(call, its, nulls_of(values), unit, keep)

    def apply(value: int) -> int:
        if call.name == "floor":
            return int(value // unit * keep)
        return int(-(-value // unit) * keep) if call.name == "ceil" else half_up(value, unit) * keep

    found = np.array([None if v is None else apply(v) for v in unscaled(values)], dtype=object)
    return fitted(found, call.type)


def _rounded_small(call: Call, its: Small, null: Mask, unit: int, keep: int) -> Vector:
    data, by = its.data, np.int64(unit)
    if call.name == "round":
        found = np.sign(data) * ((2 * np.abs(data) + by) // (2 * by))
    else:
        found = data // by if call.name == "floor" else -(-data // by)
    return small.fitted(Small.of(found * np.int64(keep)), null, call.type)
