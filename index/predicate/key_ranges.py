"""A value set as ranges of the keys stored in a segment, whose key type may be narrower than the column's.

A key of more than `MAX_KEY` bytes is truncated and stands for every value with its prefix: some ranges are
sure, others only possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.index.keys import (
    MAX_KEY,
    KeyRange,
    encode_value,
    integer_keys,
    is_textual,
    is_truncated,
    part_types,
    scale_of,
    widening_factor,
)
from tailbit.index.ordered import SIGN, Value
from tailbit.index.predicate.value_sets import Interval, ValueSet
from tailbit.tables.arrow import arrow_array

if TYPE_CHECKING:
    from tailbit.index.predicate import tuple_sets
else:
    tuple_sets = lazy("tailbit.index.predicate.tuple_sets")

_HASHES = b"\xff" * 17
"""Greater than any hash that follows a prefix."""


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Ranges of the keys stored in a segment, for the intervals of a value set.

    Every value stored under a `sure` key lies in the intervals. A `maybe` key is truncated: its values may
    lie in the intervals. The complement and NULL of the set are left to the caller.
    """

    sure: tuple[KeyRange, ...]
    maybe: tuple[KeyRange, ...]
    points: pa.BinaryArray | None = None
    """The `sure` ranges as keys, ascending, if each is a single key; else None."""

    @classmethod
    def of(cls, sure: Sequence[KeyRange], maybe: Sequence[KeyRange]) -> KeyRanges:
        """Return the ranges, which ascend, with their `points`."""
        listed = [low for low, _, high, _ in sure if low is not None and low == high]
        single = bool(listed) and len(listed) == len(sure)
        return cls(tuple(sure), tuple(maybe), arrow_array(listed, pa.binary()) if single else None)


def key_ranges(values: ValueSet, current: str, stored: str) -> KeyRanges:
    """Return the stored keys of a value set as ranges, cached in the set.

    Args:
        values: canonical values of key type `current`.
        current: the column's key type today.
        stored: the key type of the segment, the same or one that widens to `current`.

    Raises:
        ColumnTypeError: `stored` does not widen to `current`.
    """
    known: KeyRanges | None = values.prepared.keys.get((current, stored))
    if known is None:
        known = values.prepared.keys[current, stored] = _ranges(values, current, stored)
    return known


def _ranges(values: ValueSet, current: str, stored: str) -> KeyRanges:
    if part_types(current) is not None:
        ranges, truncated = tuple_sets.stored_keys(values, current)
        return KeyRanges.of(ranges, truncated)
    if stored == current and (points := _points(values, stored)) is not None:
        return points
    factor = widening_factor(stored, current)
    intervals: tuple[Interval | None, ...] = values.intervals
    if stored != current:
        intervals = tuple(_narrowed(i, factor, stored) for i in values.intervals)
    sure: list[KeyRange] = []
    maybe: list[KeyRange] = []
    for interval in intervals:
        if interval is not None:
            _add(interval, stored, sure, maybe)
    return KeyRanges.of(sure, maybe)


def _points(values: ValueSet, key_type: str) -> KeyRanges | None:
    """Return the keys of a set that lists single values, all encoded together; None for other sets.

    None too where a key is truncated, or a value is beyond the keys of eight bytes.
    """
    points = [i.lo for i in values.intervals if i.lo is not None and i.lo == i.hi]
    texts = [point for point in points if isinstance(point, bytes)]
    whole = [point for point in points if isinstance(point, int)]
    if not points or len(points) < len(values.intervals):
        return None
    if is_textual(key_type) and len(texts) == len(points) and max(map(len, texts)) <= MAX_KEY:
        keys = arrow_array(texts, pa.binary())
    elif key_type in _WORDS and len(whole) == len(points) and -SIGN <= min(whole) <= max(whole) < SIGN:
        keys = integer_keys(np.array(whole, dtype=np.int64))
    else:
        return None
    return KeyRanges(tuple((key, True, key, True) for key in keys.to_pylist()), (), keys)


_WORDS = ("integer", "date", "timestamp", "timestamp_ntz")
"""Key types whose values are integers and their keys eight bytes."""


def _add(interval: Interval, stored: str, sure: list[KeyRange], maybe: list[KeyRange]) -> None:
    lo = None if interval.lo is None else encode_value(interval.lo, stored)
    hi = None if interval.hi is None else encode_value(interval.hi, stored)
    lo_closed, hi_closed = interval.lo_closed, interval.hi_closed
    if lo is not None and lo == hi and is_truncated(lo):
        maybe.append((lo, True, lo, True))
        return
    if lo is not None and is_truncated(lo):
        maybe.append(_beyond(lo))
        lo, lo_closed = lo[:MAX_KEY] + _HASHES, False
    if hi is not None and is_truncated(hi):
        if not maybe or maybe[-1] != _beyond(hi):
            maybe.append(_beyond(hi))
        hi, hi_closed = hi[:MAX_KEY], True
    if lo is None or hi is None or lo < hi or (lo == hi and lo_closed and hi_closed):
        sure.append((lo, lo_closed, hi, hi_closed))


def _beyond(key: bytes) -> KeyRange:
    """Return the range of truncated keys with the prefix of a key."""
    return key[:MAX_KEY], False, key[:MAX_KEY] + _HASHES, False


def _narrowed(interval: Interval, factor: int, stored: str) -> Interval | None:
    """Return the stored integers whose product with `factor` lies in an interval; None if there are none."""
    most = (1 << 127) - 1 if scale_of(stored) is not None else (1 << 63) - 1
    low, high = -most - 1, most
    if interval.lo is not None:
        whole, exact = _floor(interval.lo, factor)
        low = max(low, whole if exact and interval.lo_closed else whole + 1)
    if interval.hi is not None:
        whole, exact = _floor(interval.hi, factor)
        high = min(high, whole - 1 if exact and not interval.hi_closed else whole)
    return Interval(low, True, high, True) if low <= high else None


_BEYOND = 1 << 200
"""Greater than every stored integer."""


def _floor(bound: Value, factor: int) -> tuple[int, bool]:
    """Return the greatest integer whose product with `factor` is at most a bound.

    Also return whether the product equals the bound.
    """
    assert not isinstance(bound, bytes)
    if isinstance(bound, float) and not math.isfinite(bound):
        return (-_BEYOND if bound < 0 else _BEYOND), False
    quotient = Fraction(bound) / factor
    return math.floor(quotient), quotient.denominator == 1
