"""Arithmetic as Spark does it in ANSI mode: integers that overflow and divisions by zero raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailbit.arrays import Longs, Mask
from tailbit.index.functions.decimals.exact import BY_ZERO, changed_sign, decimal
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import (
    ERRORS,
    NOT_READ,
    Vector,
    array_of,
    code,
    first_of,
    nulls_of,
    numbers,
)
from tailbit.index.values.literals import WHOLE
from tailbit.tables.arrow import arrow_array, arrow_scalar
from tailbit.tables.model import DataType

_LONG = WHOLE["long"]


def binary(call: Call, args: list[pa.Array]) -> Vector:
    """`+ - * / % div` of two values of one kind: integers of one type, floats of one type, or decimals."""
    null = nulls_of(args[0]) | nulls_of(args[1])
    kind = call.args[0].type.name
    if kind == "decimal":
        return decimal(call, args, null)
    a, b = numbers(args[0]), numbers(args[1])
    if kind in WHOLE:
        return _of_integers(call, a.astype(np.int64), b.astype(np.int64), null)
    return _floating(call, a, b, null)


def bitwise(call: Call, args: list[pa.Array]) -> Vector:
    """`& | ^` of two whole numbers of one type, and `~` of one."""
    null = np.logical_or.reduce([nulls_of(arg) for arg in args])
    return Vector(array_of(_BITS[call.name](*map(numbers, args)), null, call.type))


_BITS: dict[str, Callable[..., npt.NDArray[Any]]] = {
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "~": np.invert,
}  # fmt: skip


def _floating(call: Call, a: npt.NDArray[Any], b: npt.NDArray[Any], null: Mask) -> Vector:
    with np.errstate(all="ignore"):
        if call.name in ("/", "%"):
            zero = ~null & (b == 0)
            divisor = np.where(b == 0, b.dtype.type(1), b)
            found = np.fmod(a, divisor) if call.name == "%" else a / divisor
            return Vector(
                array_of(found, null, call.type), code(BY_ZERO.get(call.name, "DIVIDE_BY_ZERO"), zero)
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
        return changed_sign(call, args[0], null)
    data = numbers(args[0])
    if call.type.name not in WHOLE:
        return Vector(array_of(-data, null, call.type))
    least = ~null & (data == WHOLE[call.type.name][0])
    return Vector(array_of(np.where(least, 0, -data), null, call.type), code("ARITHMETIC_OVERFLOW", least))


def absolute(call: Call, args: list[pa.Array]) -> Vector:
    """A number without its sign."""
    null = nulls_of(args[0])
    if call.type.name == "decimal":
        return changed_sign(call, args[0], null)
    data = numbers(args[0])
    if call.type.name not in WHOLE:
        return Vector(array_of(np.abs(data), null, call.type))
    least = ~null & (data == WHOLE[call.type.name][0])
    found = np.where(least, 0, np.abs(data))
    return Vector(array_of(found, null, call.type), code("ARITHMETIC_OVERFLOW", least))


_TRIED = {"try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/", "try_mod": "%"}


def tried(call: Call, args: list[pa.Array]) -> Vector:
    """As the operator, but NULL where it raises; what is not read exactly stays open."""
    found = binary(Call(_TRIED[call.name], call.args, call.type), args)
    if found.raised is None:
        return found
    values = pc.if_else(arrow_array(found.raised == 0), found.values, arrow_scalar(None, found.values.type))
    return Vector(values, code(NOT_READ, found.raised == ERRORS.index(NOT_READ)))


def positive_remainder(call: Call, args: list[pa.Array]) -> Vector:
    """Pmod of integers or floats: a remainder below 0 is added to the divisor, and divided again.

    The sum begins again at the other end of its type, as in Java; bytes and shorts are added as integers.
    """
    found = binary(Call("%", call.args, call.type), args)
    null, rest, divisor = nulls_of(found.values), numbers(found.values), numbers(args[1])
    below = ~null & (rest < 0)
    wide = np.promote_types(rest.dtype, np.int32) if rest.dtype.kind == "i" else rest.dtype
    with np.errstate(all="ignore"):
        again = np.fmod(rest.astype(wide) + divisor.astype(wide), np.where(below, divisor, 1).astype(wide))
    out = np.where(below, again, rest).astype(rest.dtype)
    return Vector(array_of(out, null, call.type), found.raised)


def of_double(call: Call, args: list[pa.Array]) -> Vector:
    """Sign, sqrt and rint of doubles: what IEEE 754 has, or Java reckons with no other digit."""
    values = numbers(args[0])
    with np.errstate(all="ignore"):
        found = _OF_DOUBLE[call.name](values)
    return Vector(array_of(found, nulls_of(args[0]), call.type))


def _sign(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """1, -1, NaN, or the zero that it is the sign of."""
    return np.where(values == 0, values, np.sign(values))


_OF_DOUBLE: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "sign": _sign,
    "sqrt": np.sqrt,
    "rint": np.rint,
}
