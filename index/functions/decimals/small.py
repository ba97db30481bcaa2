"""Decimals whose digits fit in 64 bits, computed in vectors with the same results as Python's integers.

Functions return None if an operand or a result may not fit; `exact` then computes with integers of any size.
The bounds are those of the present values, not of their types.

Example: 7.00 / 3.00 with 6 digits after the point: 700 // 300 = 2, rest 100; 100 * 10**6 // 300 = 333333,
rest 100, which is less than half of 300: 2333333.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Vector, code, decimals_of_words, nulls_of
from tailbit.index.ordered import WORD_DIGITS
from tailbit.tables.arrow import filled, numpy_of
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
    words = np.frombuffer(values.buffers()[1], dtype="<i8").reshape(-1, 2)
    words = words[values.offset : values.offset + len(values)]
    low, high = np.ascontiguousarray(words[:, 0]), words[:, 1]
    if values.null_count:
        null = nulls_of(values)
        low, high = np.where(null, 0, low), np.where(null, 0, high)
    if not (high == low >> 63).all():
        return None
    held = Small.of(low)
    return held if held.most < _LIMIT else None


def fitted(values: Small, null: Mask, type_: DataType) -> Vector:
    """Convert to decimals of a type; those with too many digits raise."""
    if type_.precision > WORD_DIGITS or values.most < 10**type_.precision:
        return Vector(decimals_of_words(values.data, values.data >> 63, null, type_))
    beyond = ~null & (np.abs(values.data) >= 10**type_.precision)
    kept = np.where(beyond, 0, values.data)
    held = decimals_of_words(kept, kept >> 63, null | beyond, type_)
    return Vector(held, code("NUMERIC_VALUE_OUT_OF_RANGE", beyond))


def binary(call: Call, args: list[pa.Array], null: Mask) -> Vector | None:
    """Compute `+ - * / %` of decimals; the caller has checked that no divisor is zero."""
    left, right = call.args[0].type, call.args[1].type
    a, b = small(args[0]), small(args[1])
    if a is None or b is None:
        return None
    if call.name == "/":
        return _divided(call, a, b, null)
    if call.name == "*":
        if a.most * b.most >= _LIMIT:
            return None
        product = Small(a.data * b.data, a.most * b.most).rescaled(left.scale + right.scale, call.type.scale)
        return None if product is None else fitted(product, null, call.type)
    scale = max(left.scale, right.scale)
    a, b = a.times(scale - left.scale), b.times(scale - right.scale)
    if a is None or b is None or a.most + b.most >= _LIMIT:
        return None
    if call.name == "%":
        result = Small(np.fmod(a.data, np.where(null, 1, b.data)), a.most)
    else:
        result = Small(a.data + b.data if call.name == "+" else a.data - b.data, a.most + b.most)
    end = result.rescaled(scale, call.type.scale)
    return None if end is None else fitted(end, null, call.type)


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
    fraction, left = np.zeros(len(whole), dtype=np.int64), digits
    while left:
        some = min(step, left)
        quotients, rest = np.divmod(rest * np.int64(10**some), divisor)
        fraction = fraction * np.int64(10**some) + quotients
        left -= some
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
    left, plus = a.view(np.uint64), more.view(np.uint64)
    upper, lower = np.uint64(factor >> 32), np.uint64(factor & ((1 << 32) - 1))
    a1, a0 = left >> shift, left & mask
    low = a0 * lower
    middle = a1 * lower + (low >> shift)
    cross = a0 * upper + (middle & mask)
    high = a1 * upper + (middle >> shift) + (cross >> shift)
    low = (cross << shift) | (low & mask)
    total = low + plus
    return total.view(np.int64), (high + (total < low)).view(np.int64)
