"""Comparisons of two arrays of one type, as Spark orders values: NaN equals NaN and is the greatest."""

from __future__ import annotations

import pyarrow as pa

from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Vector
from tailbit.index.keys import key_type_of
from tailbit.index.ordered import ordered_ints
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, numpy_of
from tailbit.tables.model import DataType

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
    a, b = (ordered(arg, part.type) for arg, part in zip(args, call.args, strict=True))
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
    """Compute `x IN (constants)` of one type: all arguments but the first are constants other than NULL.

    The setting of the call says whether the list contains NULL.
    """
    wanted = pc.unique(pa.concat_arrays([ordered(a.slice(0, 1), call.args[0].type) for a in args[1:]]))
    values = ordered(args[0], call.args[0].type)
    listed = pc.is_in(values, value_set=wanted)
    null = pc.is_null(values)
    unknown = pc.or_(null, pc.invert(listed)) if call.setting[0] else null
    return Vector(pc.if_else(unknown, arrow_scalar(None, pa.bool_()), listed))


def extreme(call: Call, args: list[pa.Array]) -> Vector:
    """Compute greatest and least of values of one type; NULL if all are; the first of equal values."""
    operator = pc.greater if call.name == "greatest" else pc.less
    best = args[0]
    for part, arg in zip(call.args[1:], args[1:], strict=True):
        a, b = ordered(arg, part.type), ordered(best, part.type)
        better = pc.or_(pc.and_(pc.is_null(b), pc.is_valid(a)), filled(operator(a, b), False))
        best = pc.if_else(better, arg, best)
    return Vector(best)
