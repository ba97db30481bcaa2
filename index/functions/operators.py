"""Arithmetic in ANSI mode, where overflows and divisions by zero raise, and comparisons: NaN is greatest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.decimals import BY_ZERO, changed_sign, decimal
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
    within,
)
from tailbit.index.keys import key_type_of, ordered_ints
from tailbit.index.values.literals import WHOLE
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, numpy_of
from tailbit.tables.model import DataType

_LONG = WHOLE["long"]


def binary(call: Call, args: list[pa.Array]) -> Vector:
    """Compute `+ - * / % div` of two integers of one type, two floats of one type, or two decimals."""
    null = nulls_of(*args)
    kind = call.args[0].type.name
    if kind == "decimal":
        return decimal(call, args, null)
    a, b = numbers(args[0]), numbers(args[1])
    if kind in WHOLE:
        return _of_integers(call, a.astype(np.int64), b.astype(np.int64), null)
    return _floating(call, a, b, null)


def bitwise(call: Call, args: list[pa.Array]) -> Vector:
    """Compute `& | ^` of two integers of one type, and `~` of one."""
    null = nulls_of(*args)
    return Vector(array_of(_BITS[call.name](*map(numbers, args)), null, call.type))


_BITS: dict[str, Callable[..., npt.NDArray[Any]]] = {
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "~": np.invert,
}  # fmt: skip


def _floating(call: Call, a: npt.NDArray[Any], b: npt.NDArray[Any], null: Mask) -> Vector:
    with np.errstate(all="ignore"):
        if call.name in ("/", "%"):
            zero = ~null & (b == 0)
            divisor = np.where(b == 0, b.dtype.type(1), b)
            results = np.fmod(a, divisor) if call.name == "%" else a / divisor
            return Vector(
                array_of(results, null, call.type), code(BY_ZERO.get(call.name, "DIVIDE_BY_ZERO"), zero)
            )
        results = {"+": np.add, "-": np.subtract, "*": np.multiply}[call.name](a, b)
    return Vector(array_of(results, null, call.type))


def _of_integers(call: Call, a: Longs, b: Longs, null: Mask) -> Vector:
    with np.errstate(all="ignore"):
        if call.name in ("div", "%"):
            return _divided(call, a, b, null)
        results, beyond = _WHOLE[call.name](a, b)
    narrow = call.type.name in ("byte", "short")
    error = "BINARY_ARITHMETIC_OVERFLOW" if narrow else "ARITHMETIC_OVERFLOW"
    return within(results, null, call.type, error, beyond)


def _divided(call: Call, a: Longs, b: Longs, null: Mask) -> Vector:
    """Divide integers: the quotient rounds towards zero, the remainder has the sign of the dividend."""
    zero = ~null & (b == 0)
    beyond = ~null & (a == _LONG[0]) & (b == -1)
    divisor = np.where((b == 0) | beyond, 1, b)
    remainder = np.where(beyond, 0, np.fmod(a, divisor))
    if call.name == "%":
        return Vector(array_of(remainder, null, call.type), code("REMAINDER_BY_ZERO", zero))
    quotient = (a - remainder) // divisor
    raised = first_of([code("DIVIDE_BY_ZERO", zero), code("ARITHMETIC_OVERFLOW", beyond)])
    return Vector(array_of(quotient, null, call.type), raised)


def _plus(a: Longs, b: Longs) -> tuple[Longs, Mask]:
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


def _minus(a: Longs, b: Longs) -> tuple[Longs, Mask]:
    difference = a - b
    return difference, ((a ^ b) & (a ^ difference)) < 0


def _times(a: Longs, b: Longs) -> tuple[Longs, Mask]:
    """Multiply integers; products near the limits are computed once more, exactly, to find overflows."""
    near = np.flatnonzero(np.abs(a.astype(np.float64)) * np.abs(b.astype(np.float64)) > 9e18)
    beyond = np.zeros(len(a), dtype=np.bool_)
    exact = a[near].astype(object) * b[near].astype(object)
    beyond[near] = (exact < _LONG[0]) | (exact > _LONG[1])
    return a * b, beyond


_WHOLE: dict[str, Callable[[Longs, Longs], tuple[Longs, Mask]]] = {"+": _plus, "-": _minus, "*": _times}


def negative(call: Call, args: list[pa.Array]) -> Vector:
    """Return a number with its sign changed."""
    return _signed(call, args[0], np.negative)


def absolute(call: Call, args: list[pa.Array]) -> Vector:
    """Return a number without its sign."""
    return _signed(call, args[0], np.abs)


def _signed(call: Call, values: pa.Array, apply: Callable[..., npt.NDArray[Any]]) -> Vector:
    """Change the sign of numbers. The least integer of a type raises: its magnitude is beyond the type."""
    null, data = nulls_of(values), numbers(values)
    if call.type.name == "decimal":
        return changed_sign(call, values, null)
    if call.type.name not in WHOLE:
        return Vector(array_of(apply(data), null, call.type))
    least = data == WHOLE[call.type.name][0]
    return within(apply(data), null, call.type, "ARITHMETIC_OVERFLOW", least)


_TRIED = {"try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/", "try_mod": "%"}


def tried(call: Call, args: list[pa.Array]) -> Vector:
    """Compute an operator, with NULL where Spark's raises; rows that are unsupported keep NOT_READ."""
    vector = binary(Call(_TRIED[call.name], call.args, call.type), args)
    if vector.raised is None:
        return vector
    values = pc.if_else(
        arrow_array(vector.raised == 0), vector.values, arrow_scalar(None, vector.values.type)
    )
    return Vector(values, code(NOT_READ, vector.raised == ERRORS.index(NOT_READ)))


def positive_remainder(call: Call, args: list[pa.Array]) -> Vector:
    """Compute pmod of integers or floats: a negative remainder r becomes (r + divisor) % divisor.

    The sum wraps around at the end of its type, as in Java; bytes and shorts are added as integers.
    """
    remainder = binary(Call("%", call.args, call.type), args)
    null, rest, divisor = nulls_of(remainder.values), numbers(remainder.values), numbers(args[1])
    below = ~null & (rest < 0)
    wide = np.promote_types(rest.dtype, np.int32) if rest.dtype.kind == "i" else rest.dtype
    with np.errstate(all="ignore"):
        again = np.fmod(rest.astype(wide) + divisor.astype(wide), np.where(below, divisor, 1).astype(wide))
    out = np.where(below, again, rest).astype(rest.dtype)
    return Vector(array_of(out, null, call.type), remainder.raised)


def of_double(call: Call, args: list[pa.Array]) -> Vector:
    """Compute sign, sqrt and rint of doubles, whose results IEEE 754 defines to the last digit."""
    values = numbers(args[0])
    with np.errstate(all="ignore"):
        results = _OF_DOUBLE[call.name](values)
    return Vector(array_of(results, nulls_of(args[0]), call.type))


def _sign(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return 1 or -1 by the sign of each number, and NaN and zeros as they are."""
    return np.where(values == 0, values, np.sign(values))


_OF_DOUBLE: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "sign": _sign,
    "sqrt": np.sqrt,
    "rint": np.rint,
}


_OPERATORS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def compared(call: Call, args: list[pa.Array]) -> Vector:
    """Compute `= <> < <= > >= <=>` of two values of one type."""
    a, b = (ordered(arg, operand.type) for arg, operand in zip(args, call.args, strict=True))
    if call.name == "<=>":
        both = pc.and_(pc.is_null(a), pc.is_null(b))
        return Vector(pc.or_(both, filled(pc.equal(a, b), False)))
    return Vector(_OPERATORS[call.name](a, b))


def ordered(values: pa.Array, type_: DataType) -> pa.Array:
    """Convert values to an Arrow type whose order is Spark's."""
    if type_.name in ("float", "double", "boolean"):
        return arrow_array(ordered_ints(values, key_type_of(type_)), mask=numpy_of(pc.is_null(values)))
    return pc.cast(values, pa.binary()) if type_.name == "string" else values


def negated(call: Call, args: list[pa.Array]) -> Vector:
    """Compute NOT."""
    return Vector(pc.invert(args[0]))


def is_null(call: Call, args: list[pa.Array]) -> Vector:
    """Compute IS NULL."""
    return Vector(pc.is_null(args[0]))


def is_nan(call: Call, args: list[pa.Array]) -> Vector:
    """Compute isnan, which is never NULL."""
    return Vector(filled(pc.is_nan(args[0]), False))


def is_one_of(call: Call, args: list[pa.Array]) -> Vector:
    """Compute `x IN (constants)` of one type: the second argument is the array of those other than NULL.

    The setting of the call says whether the list contains NULL.
    """
    constants = pc.unique(ordered(args[1].flatten(), call.args[0].type))
    values = ordered(args[0], call.args[0].type)
    listed = pc.is_in(values, value_set=constants)
    null = pc.is_null(values)
    unknown = pc.or_(null, pc.invert(listed)) if call.setting[0] else null
    return Vector(pc.if_else(unknown, arrow_scalar(None, pa.bool_()), listed))


def extreme(call: Call, args: list[pa.Array]) -> Vector:
    """Compute greatest and least of values of one type; NULL if all are; the first of equal values."""
    operator = pc.greater if call.name == "greatest" else pc.less
    best = args[0]
    for operand, arg in zip(call.args[1:], args[1:], strict=True):
        a, b = ordered(arg, operand.type), ordered(best, operand.type)
        better = pc.or_(pc.and_(pc.is_null(b), pc.is_valid(a)), filled(operator(a, b), False))
        best = pc.if_else(better, arg, best)
    return Vector(best)
