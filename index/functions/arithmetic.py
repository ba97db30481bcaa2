"""Arithmetic as Spark does it in ANSI mode: integers that overflow and divisions by zero raise.

Decimals are reckoned in Python integers of any size, and rounded half up to the type of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.arrays import Longs, Mask
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import (
    Vector,
    array_of,
    code,
    decimals,
    first_of,
    nulls_of,
    numbers,
    unscaled,
)
from tailbit.index.values.literals import WHOLE
from tailbit.tables.model import DataType

_LONG = WHOLE["long"]


def binary(call: Call, args: list[pa.Array]) -> Vector:
    """`+ - * / % div` of two values of one kind: integers of one type, floats of one type, or decimals."""
    null = nulls_of(args[0]) | nulls_of(args[1])
    kind = call.args[0].type.name
    if kind == "decimal":
        return _decimal(call, args, null)
    a, b = numbers(args[0]), numbers(args[1])
    if kind in WHOLE:
        return _of_integers(call, a.astype(np.int64), b.astype(np.int64), null)
    return _floating(call, a, b, null)


_BY_ZERO = {"%": "REMAINDER_BY_ZERO"}


def _floating(call: Call, a: npt.NDArray[Any], b: npt.NDArray[Any], null: Mask) -> Vector:
    with np.errstate(all="ignore"):
        if call.name in ("/", "%"):
            zero = ~null & (b == 0)
            divisor = np.where(b == 0, b.dtype.type(1), b)
            found = np.fmod(a, divisor) if call.name == "%" else a / divisor
            return Vector(
                array_of(found, null, call.type), code(_BY_ZERO.get(call.name, "DIVIDE_BY_ZERO"), zero)
            )
        found = {"+": np.add, "-": np.subtract, "*": np.multiply}[call.name](a, b)
    return Vector(array_of(found, null, call.type))


def _of_integers(call: Call, a: Longs, b: Longs, null: Mask) -> Vector:
    with np.errstate(all="ignore"):
        if call.name in ("div", "%"):
            return _divided(call, a, b, null)
        found, beyond = _WHOLE[call.name](a, b)
    low, high = WHOLE[call.type.name]
    beyond = ~null & (beyond | (found < low) | (found > high))
    found = np.where(beyond, 0, found)
    narrow = call.type.name in ("byte", "short")
    error = "BINARY_ARITHMETIC_OVERFLOW" if narrow else "ARITHMETIC_OVERFLOW"
    return Vector(array_of(found.astype(_width(call.type)), null, call.type), code(error, beyond))


def _width(type_: DataType) -> Any:
    return {"byte": np.int8, "short": np.int16, "integer": np.int32, "long": np.int64}[type_.name]


def _divided(call: Call, a: Longs, b: Longs, null: Mask) -> Vector:
    """Integer quotient towards zero, and remainder with the sign of the dividend."""
    zero = ~null & (b == 0)
    beyond = ~null & (a == _LONG[0]) & (b == -1)
    divisor = np.where((b == 0) | beyond, 1, b)
    remainder = np.where(beyond, 0, np.fmod(a, divisor))
    if call.name == "%":
        found = array_of(remainder.astype(_width(call.type)), null, call.type)
        return Vector(found, code("REMAINDER_BY_ZERO", zero))
    quotient = (a - remainder) // divisor
    raised = first_of([code("DIVIDE_BY_ZERO", zero), code("ARITHMETIC_OVERFLOW", beyond)])
    return Vector(array_of(quotient, null, call.type), raised)


def _plus(a: Longs, b: Longs) -> tuple[Longs, Mask]:
    found = a + b
    return found, ((a ^ found) & (b ^ found)) < 0


def _minus(a: Longs, b: Longs) -> tuple[Longs, Mask]:
    found = a - b
    return found, ((a ^ b) & (a ^ found)) < 0


def _times(a: Longs, b: Longs) -> tuple[Longs, Mask]:
    """Products near the limits are reckoned once more, exactly."""
    near = np.flatnonzero(np.abs(a.astype(np.float64)) * np.abs(b.astype(np.float64)) > 9e18)
    beyond = np.zeros(len(a), dtype=np.bool_)
    exact = a[near].astype(object) * b[near].astype(object)
    beyond[near] = (exact < _LONG[0]) | (exact > _LONG[1])
    return a * b, beyond


_WHOLE: dict[str, Callable[[Longs, Longs], tuple[Longs, Mask]]] = {"+": _plus, "-": _minus, "*": _times}


def negative(call: Call, args: list[pa.Array]) -> Vector:
    """A number with its sign changed."""
    null = nulls_of(args[0])
    if call.type.name == "decimal":
        return Vector(decimals(_mapped(unscaled(args[0]), lambda v: -v), call.type))
    data = numbers(args[0])
    if call.type.name not in WHOLE:
        return Vector(array_of(-data, null, call.type))
    least = ~null & (data == WHOLE[call.type.name][0])
    return Vector(array_of(np.where(least, 0, -data), null, call.type), code("ARITHMETIC_OVERFLOW", least))


def absolute(call: Call, args: list[pa.Array]) -> Vector:
    """A number without its sign."""
    null = nulls_of(args[0])
    if call.type.name == "decimal":
        return Vector(decimals(_mapped(unscaled(args[0]), abs), call.type))
    data = numbers(args[0])
    if call.type.name not in WHOLE:
        return Vector(array_of(np.abs(data), null, call.type))
    least = ~null & (data == WHOLE[call.type.name][0])
    found = np.where(least, 0, np.abs(data))
    return Vector(array_of(found, null, call.type), code("ARITHMETIC_OVERFLOW", least))


def _mapped(data: npt.NDArray[np.object_], apply: Callable[[Any], Any]) -> npt.NDArray[np.object_]:
    out = np.empty(len(data), dtype=object)
    out[:] = [None if v is None else apply(v) for v in data]
    return out


def half_up(value: int, divisor: int) -> int:
    """A quotient rounded to a whole number, ties away from zero; the divisor is above zero."""
    found = (2 * abs(value) + divisor) // (2 * divisor)
    return -found if value < 0 else found


def fitted(data: npt.NDArray[np.object_], type_: DataType) -> Vector:
    """Unscaled integers as decimals of a type; those of too many digits raise."""
    most = 10**type_.precision
    beyond = np.array([v is not None and abs(v) >= most for v in data], dtype=np.bool_)
    kept = data.copy()
    kept[beyond] = None
    return Vector(decimals(kept, type_), code("NUMERIC_VALUE_OUT_OF_RANGE", beyond))


def _decimal(call: Call, args: list[pa.Array], null: Mask) -> Vector:
    left, right = call.args[0].type, call.args[1].type
    a, b = (np.where(null, 0, unscaled(arg)) for arg in args)
    if call.name in ("/", "%"):
        zero = ~null & (b == 0)
        found = _by_scale(call, left, right, a, np.where(b == 0, 1, b))
        found[null | zero] = None
        got = fitted(found, call.type)
        error = code(_BY_ZERO.get(call.name, "DIVIDE_BY_ZERO"), zero)
        return Vector(got.values, first_of([error, got.raised]))
    found = _by_scale(call, left, right, a, b)
    found[null] = None
    return fitted(found, call.type)


def _by_scale(
    call: Call, left: DataType, right: DataType, a: npt.NDArray[np.object_], b: npt.NDArray[np.object_]
) -> npt.NDArray[np.object_]:
    """The unscaled results at the scale of the type of the result."""
    to = call.type.scale
    if call.name == "/":
        return _quotients(a * 10 ** (right.scale + 39), b * 10**left.scale, to)
    if call.name == "*":
        return _rescaled(a * b, left.scale + right.scale, to)
    scale = max(left.scale, right.scale)
    a, b = a * 10 ** (scale - left.scale), b * 10 ** (scale - right.scale)
    if call.name == "%":
        return _rescaled(_mapped2(a, b, lambda x, y: int(math.copysign(1, x)) * (abs(x) % abs(y))), scale, to)
    return _rescaled(a + b if call.name == "+" else a - b, scale, to)


def _quotients(a: npt.NDArray[np.object_], b: npt.NDArray[np.object_], to: int) -> npt.NDArray[np.object_]:
    """Quotients at 39 digits behind the point, as Spark reckons them, and then at the wanted scale."""
    fine = _mapped2(a, b, lambda x, y: half_up(x if y > 0 else -x, abs(y)))
    return _rescaled(fine, 39, to)


def _mapped2(
    a: npt.NDArray[np.object_], b: npt.NDArray[np.object_], apply: Callable[[int, int], int]
) -> npt.NDArray[np.object_]:
    out = np.empty(len(a), dtype=object)
    out[:] = [apply(x, y) for x, y in zip(a, b, strict=True)]
    return out


def _rescaled(data: npt.NDArray[np.object_], scale: int, to: int) -> npt.NDArray[np.object_]:
    if to >= scale:
        return np.asarray(data * 10 ** (to - scale), dtype=object)
    return _mapped(data, lambda v: half_up(v, 10 ** (scale - to)))
