"""A value set as ranges of the keys stored in a segment, whose key type may be narrower than the column's.

A key of more than `MAX_KEY` bytes is truncated and stands for every value with its prefix: some ranges are
sure, others only possible.

Sets of tuples: conditions on the first parts of a tuple as one value set, and the stored keys of that set.

The canonical value of a tuple is its key as if no part were truncated: such bytes sort as the tuples do. Each
part with a condition has few values, except the last of these parts, which may have any.

Worked example: tuples of type (integer, string, boolean), 7 for the key of the integer.

    a = 7                          all tuples from 02 7 on, below 02 7 03
    a = 7 AND b = 'x'              from 02 7 02 x 00 on, below 02 7 02 x 00 03
    a IN (7, 8) AND b > 'x'        from 02 7 02 x 00 03 on, below 02 7 03; and the same with 8
    a = 7 AND b IS NULL            from 02 7 01 on, below 02 7 02
    a = 7 AND b = 'x' AND c        the tuple 02 7 02 x 00 02 01
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.index.keys import (
    MAX_KEY,
    SIGN,
    KeyRange,
    Value,
    encode_value,
    integer_keys,
    is_textual,
    is_truncated,
    part_types,
    scale_of,
    widening_factor,
)
from tailbit.index.predicate.value_sets import Interval, ValueSet
from tailbit.index.tuple_keys import (
    BEHIND,
    END,
    NULL_PART,
    VALUE_MARK,
    escaped,
    join_part,
    part_width,
    types_of,
    unescaped,
)
from tailbit.tables.arrow import arrow_array

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
    """
    ranges: KeyRanges | None = values.prepared.keys.get((current, stored))
    if ranges is None:
        ranges = values.prepared.keys[current, stored] = _ranges(values, current, stored)
    return ranges


def _ranges(values: ValueSet, current: str, stored: str) -> KeyRanges:
    if part_types(current) is not None:
        ranges, truncated = stored_keys(values, current)
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


_MOST = 1 << 12
"""Limit of the combinations of values that a set of tuples lists."""

_EVERY = ValueSet((Interval(None, False, None, False),))
"""Every value but NULL, as an interval."""

_TEXT_END = re.compile(rb"\x00(?!\xff)")
_ESCAPED_HASHES = b"\xff" * 33
"""Greater than what follows the first bytes of a truncated part: a hash of 16 bytes, escaped or not."""


def tuple_set(conditions: Sequence[ValueSet], key_type: str) -> tuple[ValueSet, int]:
    """Return the tuples whose first parts lie in some value sets, and how many of the sets are used.

    A set is not used if it follows a set with ranges, or too many combinations of values.
    """
    listed: list[list[bytes]] = []
    used, combinations = len(conditions), 1
    for place, values in enumerate(conditions[:-1]):
        points = _listed_parts(values, place, key_type)
        combinations *= len(points or ())
        if points is None or combinations > _MOST:
            used = place + 1
            break
        listed.append(points)
    firsts = [b"".join(components) for components in product(*listed)]
    last = list(_intervals(conditions[used - 1], used - 1, key_type))
    if used > 1 and len(firsts) * len(last) > _MOST:
        return tuple_set(conditions[: used - 1], key_type)
    return ValueSet.of(_behind(first, interval) for first in firsts for interval in last), used


def _listed_parts(values: ValueSet, place: int, key_type: str) -> list[bytes] | None:
    """Return the bytes of a part for each value of a set; None if the set does not list its values."""
    type_ = types_of(key_type)[place]
    ends = [(_whole(i.lo, type_), _whole(i.hi, type_)) for i in values.intervals]
    if values.complement or any(low is None or low != high for low, high in ends):
        return None
    keys = [low for low, _ in ends] + [None] * values.nulls
    return [join_part(key, place, key_type) for key in keys]


def _whole(value: Value | None, key_type: str) -> bytes | None:
    """Return the key of a value, never truncated."""
    return value if value is None or isinstance(value, bytes) else encode_value(value, key_type)


def _intervals(values: ValueSet, place: int, key_type: str) -> Iterator[Interval]:
    """Yield the intervals of the bytes from a part to the end of the tuple, for the values of a set."""
    types = types_of(key_type)
    type_, last = types[place], place + 1 == len(types)
    for interval in (values.intersect(_EVERY) if values.complement else values).intervals:
        low, high = _whole(interval.lo, type_), _whole(interval.hi, type_)
        first = VALUE_MARK if low is None else join_part(low, place, key_type)
        end = BEHIND if high is None else join_part(high, place, key_type)
        from_first, to_end = low is None or interval.lo_closed, high is not None and interval.hi_closed
        if not last:
            first, from_first = first if from_first else first + BEHIND, True
            end, to_end = end + BEHIND if to_end else end, False
        yield Interval(first, from_first, end, to_end)
    if values.nulls:
        yield Interval(NULL_PART, True, NULL_PART if last else VALUE_MARK, last)


def _behind(first: bytes, interval: Interval) -> Interval:
    """Return an interval with `first` put before the bytes of both bounds."""
    assert isinstance(interval.lo, bytes)
    assert isinstance(interval.hi, bytes)
    return Interval(first + interval.lo, interval.lo_closed, first + interval.hi, interval.hi_closed)


def stored_keys(values: ValueSet, key_type: str) -> tuple[list[KeyRange], list[KeyRange]]:
    """Return the keys that a segment has for the intervals of a set: those surely and those possibly inside.

    A value is possibly inside if a part of its key is truncated. Complement and NULL are left to the caller.
    """
    sure: list[KeyRange] = []
    maybe: list[KeyRange] = []
    for interval in values.intervals:
        assert isinstance(interval.lo, bytes)
        assert isinstance(interval.hi, bytes)
        bounds = interval.lo, interval.lo_closed, interval.hi, interval.hi_closed
        _add_tuples(bounds, types_of(key_type), 0, sure, maybe)
    return sure, maybe


_Bounds = tuple[bytes, bool, bytes, bool]


def _add_tuples(
    bounds: _Bounds, types: Sequence[str], begin: int, sure: list[KeyRange], maybe: list[KeyRange]
) -> None:
    """Add the stored keys of an interval.

    `begin`: the number of leading bytes of both bounds that are already as stored.
    """
    low, low_closed, high, high_closed = bounds
    if max(len(low), len(high)) <= MAX_KEY:
        sure.append(bounds)
        return
    first, last = _long_part(low, types, begin), _long_part(high, types, begin)
    if first is not None and first == last:
        # All tuples in the interval have this part, and share its stored key with some others.
        key = first.stored(types)
        bounds = key + low[first.end :], low_closed, key + high[last.end :], high_closed
        _add_tuples(bounds, types, len(key), maybe, maybe)
        return
    if first is not None:
        maybe.append(first.truncated)
        low, low_closed = first.cut + _ESCAPED_HASHES, False
    if last is not None:
        if first is None or first.truncated != last.truncated:
            maybe.append(last.truncated)
        high, from_there, _, _ = last.truncated
        high_closed = not from_there
    if low < high or (low == high and low_closed and high_closed):
        sure.append((low, low_closed, high, high_closed))


@dataclass(frozen=True)
class _LongPart:
    """The first part of a tuple's bytes that is stored truncated.

    `before`: the bytes before the part. `value`: the whole value of the part. `end`: where the next part
    begins. `place`: the number of the part, from 0. `last`: whether no other part follows.
    """

    before: bytes
    value: bytes
    end: int
    place: int
    last: bool

    @property
    def cut(self) -> bytes:
        """Return the bytes that begin the key of this value, and of each value with the same first bytes."""
        return (
            self.before + VALUE_MARK + (self.value[:MAX_KEY] if self.last else escaped(self.value[:MAX_KEY]))
        )

    @property
    def truncated(self) -> _Bounds:
        """Return the range of truncated keys that begin with `cut`; the key of exactly `cut` lies below."""
        low = (self.cut, False) if self.last else (self.cut + END + BEHIND, True)
        return (*low, self.cut + _ESCAPED_HASHES, False)

    def stored(self, types: Sequence[str]) -> bytes:
        """Return the bytes up to the end of this part as keys store them."""
        key = encode_value(self.value, types[self.place])
        return self.before + VALUE_MARK + (key if self.last else escaped(key) + END)


def _long_part(bound: bytes, types: Sequence[str], begin: int) -> _LongPart | None:
    """Return the first part behind `begin` bytes that is stored truncated, if there is one."""
    start = 0
    for place, type_ in enumerate(types):
        mark, last = bound[start : start + 1], place + 1 == len(types)
        start += 1
        if mark != VALUE_MARK:
            if mark == NULL_PART:
                continue
            return None
        if not is_textual(type_):
            start += part_width(type_)
            continue
        ending = None if last else _TEXT_END.search(bound, start)
        if ending is None and not last:
            return None
        end = len(bound) if ending is None else ending.end()
        value = bound[start:] if ending is None else unescaped(bound[start : ending.start()])
        if start > begin and len(value) > MAX_KEY:
            return _LongPart(bound[: start - 1], value, end, place, last)
        start = end
    return None
