"""Which rows of a column belong to a set of values, in vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailbit.index.value_sets import Interval, ValueSet
from tailbit.index.values import (
    Value,
    encode_array,
    encode_value,
    is_textual,
    key_type_of,
    ordered_int,
    ordered_ints,
    scale_of,
)
from tailbit.tables.model import DataType

Mask = npt.NDArray[np.bool_]


def in_values(values: pa.Array, wanted: ValueSet, type_: DataType) -> Mask:
    """Rows whose value, or NULL, belongs to a set.

    Cost: for types of up to 8 bytes one binary search per row over the intervals; for text and decimals one
    hash lookup for all single values, and two comparisons per wider interval.
    """
    null = np.asarray(values.is_null())
    if not wanted.intervals:
        return np.where(null, wanted.nulls, wanted.complement)
    inside = _inside(values, wanted.intervals, key_type_of(type_))
    return np.where(null, wanted.nulls, inside != wanted.complement)


def _inside(values: pa.Array, intervals: tuple[Interval, ...], key_type: str) -> Mask:
    """Rows within the intervals; anything where NULL."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if is_textual(key_type):
        return _compared(values.cast(pa.binary()), intervals, bytes)
    if scale_of(key_type) is not None:
        return _compared(
            encode_array(values, key_type), intervals, lambda value: encode_value(value, key_type)
        )
    return _searched(ordered_ints(values, key_type), intervals, key_type)


def _searched(numbers: npt.NDArray[np.int64], intervals: tuple[Interval, ...], key_type: str) -> Mask:
    """Rows within sorted disjoint intervals: only the one that begins last before a number is asked."""
    bounds = [(_low(i, key_type), _high(i, key_type)) for i in intervals]
    bounds = [(max(lo, _LEAST), min(hi, _MOST)) for lo, hi in bounds if lo <= min(hi, _MOST) and hi >= _LEAST]
    if not bounds:
        return np.zeros(len(numbers), dtype=np.bool_)
    if len(bounds) == 1:
        return np.logical_and(numbers >= bounds[0][0], numbers <= bounds[0][1])
    low, high = np.array(bounds, dtype=np.int64).T
    at = np.searchsorted(low, numbers, side="right") - 1
    found: Mask = np.logical_and(at >= 0, numbers <= high[at])
    return found


_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def _low(interval: Interval, key_type: str) -> int:
    return _LEAST if interval.lo is None else _order(interval.lo, key_type) + (not interval.lo_closed)


def _high(interval: Interval, key_type: str) -> int:
    return _MOST if interval.hi is None else _order(interval.hi, key_type) - (not interval.hi_closed)


def _order(bound: Value, key_type: str) -> int:
    """A bound as an integer, of any size where the column holds integers."""
    return ordered_int(bound, key_type) if key_type == "double" else int(bound)


def _compared(values: pa.Array, intervals: tuple[Interval, ...], key: Callable[[Any], bytes]) -> Mask:
    """Rows of a binary array within intervals whose bounds become bytes by `key`."""
    points = [key(i.lo) for i in intervals if i.lo is not None and i.lo == i.hi]
    out = np.zeros(len(values), dtype=np.bool_)
    if points:
        out |= _true(pc.is_in(values, value_set=pa.array(points, pa.binary())))
    for interval in intervals:
        if interval.lo is None or interval.lo != interval.hi:
            out |= _between(values, interval, key)
    return out


def _between(values: pa.Array, interval: Interval, key: Callable[[Any], bytes]) -> Mask:
    inside = np.ones(len(values), dtype=np.bool_)
    if interval.lo is not None:
        above = pc.greater_equal if interval.lo_closed else pc.greater
        inside &= _true(above(values, pa.scalar(key(interval.lo), pa.binary())))
    if interval.hi is not None:
        below = pc.less_equal if interval.hi_closed else pc.less
        inside &= _true(below(values, pa.scalar(key(interval.hi), pa.binary())))
    return inside


def _true(found: pa.Array) -> Mask:
    return np.asarray(found.fill_null(False))
