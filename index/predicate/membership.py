"""Membership of a column's rows in a value set, by vector operations."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.keys import decimal_words, encode_array, encode_value, is_textual, key_type_of, scale_of
from tailbit.index.ordered import Value, ordered_int, ordered_ints
from tailbit.index.predicate.value_sets import Interval, ValueSet
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, decoded, filled, numpy_of
from tailbit.tables.model import DataType


def in_values(values: pa.Array, wanted: ValueSet, type_: DataType) -> Mask:
    """Return the mask of the rows whose value, or NULL, belongs to the set `wanted`.

    Cost: for types of up to 8 bytes, and for decimals that fit in 8 bytes, one binary search per row over the
    intervals; for text and wide decimals one hash lookup for all single values, and two comparisons per wider
    interval, or, where wider intervals are many, one binary search per distinct value. The intervals are
    prepared once per set, not per call.
    """
    null = numpy_of(pc.is_null(values))
    if not wanted.intervals:
        return np.where(null, wanted.nulls, wanted.complement)
    inside = _inside(values, wanted, key_type_of(type_))
    return np.where(null, wanted.nulls, inside != wanted.complement)


def _inside(values: pa.Array, wanted: ValueSet, key_type: str) -> Mask:
    """Return the mask of the rows within the intervals of `wanted`; NULL rows may have any outcome."""
    values = decoded(values)
    if is_textual(key_type):
        return _compared(pc.cast(values, pa.binary()), _ready(wanted, key_type, _texts))
    scale = scale_of(key_type)
    if scale is not None:
        words = decimal_words(values, scale)
        if words is None:
            return _compared(encode_array(values, key_type), _ready(wanted, key_type, _texts))
        return _searched(words, _ready(wanted, key_type, _numbers))
    return _searched(ordered_ints(values, key_type), _ready(wanted, key_type, _numbers))


def has_numbers(type_: DataType) -> bool:
    """Return whether values of a type are compared as 64-bit integers."""
    key_type = key_type_of(type_)
    return not is_textual(key_type) and scale_of(key_type) is None


def ends_of(wanted: ValueSet, type_: DataType) -> tuple[Longs, Longs]:
    """Return the closed ends of the intervals of a set, for a type that `has_numbers`."""
    ends: tuple[Longs, Longs] = _ready(wanted, key_type_of(type_), _numbers)
    return ends


def distinct_numbers(values: pa.ChunkedArray, type_: DataType) -> Longs:
    """Return the sorted distinct values of a column, for a type that `has_numbers`; 0 for NULL."""
    parts = [ordered_ints(decoded(chunk), key_type_of(type_)) for chunk in values.chunks]
    return np.unique(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)


def _ready(wanted: ValueSet, key_type: str, make: Callable[[tuple[Interval, ...], str], Any]) -> Any:
    """Return the intervals of a set, prepared once for searching rows of a key type."""
    known, form = wanted.prepared.rows, (key_type, make)
    if form not in known:
        known[form] = make(wanted.intervals, key_type)
    return known[form]


def _numbers(intervals: tuple[Interval, ...], key_type: str) -> tuple[Longs, Longs]:
    """Return the closed ends of sorted disjoint intervals."""
    bounds = [(_low(i, key_type), _high(i, key_type)) for i in intervals]
    bounds = [(max(lo, _LEAST), min(hi, _MOST)) for lo, hi in bounds if lo <= min(hi, _MOST) and hi >= _LEAST]
    low, high = np.array(bounds, dtype=np.int64).reshape(-1, 2).T
    return low, high


def _searched(numbers: Longs, bounds: tuple[Longs, Longs]) -> Mask:
    """Return the rows within sorted disjoint intervals, by binary search for each row's interval."""
    low, high = bounds
    if not len(low):
        return np.zeros(len(numbers), dtype=np.bool_)
    if len(low) == 1:
        return np.asarray((numbers >= low[0]) & (numbers <= high[0]), dtype=np.bool_)
    at = np.searchsorted(low, numbers, side="right") - 1
    within: Mask = np.logical_and(at >= 0, numbers <= high[at])
    return within


_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def _low(interval: Interval, key_type: str) -> int:
    return _LEAST if interval.lo is None else _order(interval.lo, key_type) + (not interval.lo_closed)


def _high(interval: Interval, key_type: str) -> int:
    return _MOST if interval.hi is None else _order(interval.hi, key_type) - (not interval.hi_closed)


def _order(bound: Value, key_type: str) -> int:
    """Return a bound as an integer, of any size if the column holds integers."""
    return ordered_int(bound, key_type) if key_type == "double" else int(bound)


Ends = tuple[bytes | None, bool, bytes | None, bool]
"""lo, lo_closed, hi, hi_closed of an interval of keys; None is unbounded."""


class _Texts(NamedTuple):
    """Intervals of keys: single keys, and the wider intervals in order."""

    points: pa.Array
    known: frozenset[bytes | None]
    wider: list[Ends]


def _texts(intervals: tuple[Interval, ...], key_type: str) -> _Texts:
    def key(value: Value | None) -> bytes | None:
        if value is None or is_textual(key_type):
            return value  # type: ignore[return-value]
        return encode_value(value, key_type)

    single = [i.lo is not None and i.lo == i.hi for i in intervals]
    points = [key(i.lo) for i, is_point in zip(intervals, single, strict=True) if is_point]
    wider = [i for i, is_point in zip(intervals, single, strict=True) if not is_point]
    ends = [(key(i.lo), i.lo_closed, key(i.hi), i.hi_closed) for i in wider]
    return _Texts(arrow_array(points, pa.binary()), frozenset(points), ends)


def _compared(values: pa.Array, texts: _Texts) -> Mask:
    """Return the rows of a binary array within intervals of keys."""
    out = np.zeros(len(values), dtype=np.bool_)
    if len(texts.points) > len(values):  # hashing all points would cost more than hashing the rows
        out |= np.array([value in texts.known for value in values.to_pylist()], dtype=np.bool_)
    elif len(texts.points):
        out |= true_mask(pc.is_in(values, value_set=texts.points))
    if len(texts.wider) > _MANY:
        out |= _bisected(values, texts.wider)
        return out
    for ends in texts.wider:
        out |= _between(values, ends)
    return out


_MANY = 8
"""From this many wider intervals on, each distinct value is sought among them by binary search."""


def _bisected(values: pa.Array, wider: list[Ends]) -> Mask:
    coded = pc.dictionary_encode(values)
    within = [_is_within(value, wider) for value in coded.dictionary.to_pylist()]
    return true_mask(pc.take(arrow_array(within, pa.bool_()), coded.indices))


def _is_within(value: bytes, wider: list[Ends]) -> bool:
    """Return whether a key lies in one of sorted disjoint intervals, by binary search."""
    at = bisect_right(wider, value, key=lambda ends: ends[0] or b"") - 1
    return any(_holds(wider[n], value) for n in (at - 1, at) if n >= 0)


def _holds(ends: Ends, value: bytes) -> bool:
    lo, lo_closed, hi, hi_closed = ends
    above = lo is None or value > lo or (lo_closed and value == lo)
    return above and (hi is None or value < hi or (hi_closed and value == hi))


def _between(values: pa.Array, ends: Ends) -> Mask:
    lo, lo_closed, hi, hi_closed = ends
    inside = np.ones(len(values), dtype=np.bool_)
    if lo is not None:
        above = pc.greater_equal if lo_closed else pc.greater
        inside &= true_mask(above(values, arrow_scalar(lo, pa.binary())))
    if hi is not None:
        below = pc.less_equal if hi_closed else pc.less
        inside &= true_mask(below(values, arrow_scalar(hi, pa.binary())))
    return inside


def true_mask(truths: pa.Array) -> Mask:
    """Return where a comparison is TRUE; unknown counts as not TRUE."""
    return numpy_of(filled(truths, False))
