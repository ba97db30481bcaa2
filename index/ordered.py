"""Canonical values as 64-bit integers in the order of the values, as Spark orders them.

NaN equals NaN and is the greatest; -0.0 equals 0.0. Keys of eight bytes are built from these integers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.tables import compute as pc
from tailbit.tables.arrow import filled, numpy_of

Value = bool | int | float | bytes
"""A canonical value."""

SIGN = 1 << 63
"""The sign bit of a 64-bit integer."""

WORD_DIGITS = 18
"""Decimal digits that 64 bits always hold."""


def ordered_ints(values: pa.Array, key_type: str) -> Longs:
    """Map each value to an int64 such that integers compare as Spark compares the values; NULL becomes 0.

    The array keeps its order. `key_type`: boolean, an integer, a date or time type, or double. The caller
    masks the NULL entries, which look like a real 0.
    """
    if key_type == "double":
        floats = numpy_of(filled(pc.cast(values, pa.float64()), 0.0)) + 0.0
        floats[np.isnan(floats)] = np.nan
        bits = floats.view(np.int64)
        return np.where(bits < 0, bits ^ np.int64(SIGN - 1), bits)
    if key_type == "boolean":
        return numpy_of(filled(values, False)).astype(np.int64)
    if key_type in ("timestamp", "timestamp_ntz"):
        zone = "UTC" if key_type == "timestamp" else None
        values = pc.cast(values, pa.timestamp("us", zone), safe=False)
    elif key_type == "date":
        values = pc.cast(values, pa.int32())
    return numpy_of(filled(pc.cast(values, pa.int64()), 0)).astype(np.int64)


def ordered_int(value: Value, key_type: str) -> int:
    """Map one value to the integer that `ordered_ints` gives it; integers beyond 64 bits are clamped.

    `value`: not NULL; a float, a bool, or the integer of a whole number, of days or of microseconds.
    """
    if key_type == "double":
        number = math.nan if value != value else float(value) + 0.0
        (bits,) = struct.unpack(">q", struct.pack(">d", number))
        return int(bits ^ (SIGN - 1) if bits < 0 else bits)
    return max(-SIGN, min(SIGN - 1, int(value)))


def float_at(place: int) -> float:
    """Return the double that `ordered_int` maps to an integer."""
    (number,) = struct.unpack(">d", struct.pack(">q", place ^ (SIGN - 1) if place < 0 else place))
    return float(number)


def first_reached(reached: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least integer from `low` to `high` for which `reached` is true; `high` + 1 if there is none.

    `reached`: a monotone condition: where it is true, it is true for all greater integers.

    >>> first_reached(lambda n: n * n >= 10, 0, 5)
    4
    """
    end = high + 1
    while low < end:
        middle = (low + end) // 2
        if reached(middle):
            end = middle
        else:
            low = middle + 1
    return low
