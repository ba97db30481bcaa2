"""CAST and TRY_CAST of columns, ANSI mode on.

Casts that Arrow and numpy do as Spark does are vectorised. All others are done once for each distinct value,
by the casts of constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.decimals import cast_decimal, half_up, rounded_decimal, whole_as_decimal
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import (
    NOT_READ,
    Raised,
    Vector,
    array_of,
    by_parts,
    code,
    first_of,
    nulls_of,
    numbers,
    per_distinct,
    within,
)
from tailbit.index.values import casts
from tailbit.index.values.literals import FLOATING, TIMES, WHOLE, Literal, SparkRaises, Unsupported, mismatch
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.date_text import DAY_US, date_texts
from tailbit.tables.model import DataType
from tailbit.tables.schema import arrow_type
from tailbit.tables.zones import fixed_offset, offsets_of_instants, offsets_of_local, offsets_of_starts

_FROM: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(WHOLE, (*WHOLE, *FLOATING, "decimal", "string", "boolean", "timestamp")),
    **dict.fromkeys(FLOATING, (*WHOLE, *FLOATING, "boolean", "timestamp")),
    "decimal": (*WHOLE, *FLOATING, "decimal", "string", "boolean"),
    "boolean": (*WHOLE, *FLOATING, "string", "boolean"),
    "string": (*WHOLE, *FLOATING, "decimal", "string", "binary", "boolean", *TIMES),
    "binary": ("binary",),
    "date": ("date", "timestamp", "timestamp_ntz", "string"),
    "timestamp": ("date", "timestamp", "timestamp_ntz", "string", *WHOLE, "double"),
    "timestamp_ntz": ("date", "timestamp", "timestamp_ntz", "string"),
}


def is_castable(from_: DataType, to: DataType) -> bool:
    """Return whether a cast gives exactly Spark's results here."""
    return from_ == to or from_.name == "void" or to.name in _FROM.get(from_.name, ())


def why_not_cast(from_: DataType, to: DataType) -> tuple[str, str | None]:
    """Return why a cast is refused, and what to write instead or None."""
    reason, numeric = f"a cast from {from_.sql} to {to.sql} is not read", (*WHOLE, *FLOATING, "decimal")
    if (from_.name, to.name) == ("binary", "string"):
        return reason, "Compare bytes with X'6162' or 'ab', of which Spark makes bytes."
    if from_.name in FLOATING and to.name in ("string", "decimal"):
        return reason, "Compare the number itself."
    if (from_.name == "timestamp" and to.name in numeric) or (
        from_.name in numeric and to.name == "timestamp"
    ):
        return reason, "Compare a timestamp with a constant such as TIMESTAMP'2026-01-31 12:00:00'."
    return mismatch(reason), None


def cast(call: Call, args: list[pa.Array]) -> Vector:
    """Cast values to another type; the setting of the call is the time zone."""
    from_, to, values = call.args[0].type, call.type, args[0]
    if from_ == to:
        return Vector(values)
    if from_.name == "void":
        return Vector(pa.nulls(len(values), arrow_type(to, str(to))))
    if casts.is_since_1970(from_, to):
        return across_1970(values, from_, to)
    if from_.name in WHOLE or from_.name == "boolean":
        return _of_whole(values, to)
    if from_.name in FLOATING:
        return _of_float(values, from_, to)
    if from_.name == "decimal":
        return cast_decimal(values, from_, to) or per_distinct(
            [values], [from_], to, _cast_of_value(from_, to, "UTC")
        )
    if from_.name == "string" and to.name == "binary":
        return Vector(pc.cast(values, pa.binary()))
    if from_.name in TIMES and to.name == "string":
        return _times_as_text(values, str(call.setting[0]))
    if from_.name in TIMES:
        return cast_time(values, from_, to, str(call.setting[0]))
    return _of_text(values, from_, to, str(call.setting[0]))


def _of_text(values: pa.Array, from_: DataType, to: DataType, zone: str) -> Vector:
    def one_by_one(texts: pa.Array) -> Vector:
        return per_distinct([texts], [from_], to, _cast_of_value(from_, to, zone))

    pattern = usual(to, zone)
    if pattern is None:
        return one_by_one(values)
    plain = pc.match_substring_regex(values, pattern)
    return by_parts(values, plain, lambda texts: read(texts, to), one_by_one)


def _cast_of_value(from_: DataType, to: DataType, zone: str) -> Any:
    def apply(value: Any) -> Any:
        try:
            return casts.cast_value(Literal(from_, value), to, zone).value
        except (ValueError, OverflowError) as wrong:
            raise Raised(_error(wrong, from_, to)) from wrong

    return apply


def _error(wrong: Exception, from_: DataType, to: DataType) -> str:
    if isinstance(wrong, Unsupported):
        return NOT_READ
    if isinstance(wrong, SparkRaises):
        return wrong.error
    return "CAST_INVALID_INPUT" if from_.name == "string" else "CAST_OVERFLOW"


def _of_whole(values: pa.Array, to: DataType) -> Vector:
    null = nulls_of(values)
    if to.name == "string":
        return Vector(pc.cast(values, pa.string()))
    if pa.types.is_boolean(values.type):
        values = pc.cast(values, pa.int8())
    data = numbers(values)
    if to.name == "boolean":
        return Vector(arrow_array(data != 0, mask=null))
    if to.name in WHOLE:
        return within(data, null, to, "CAST_OVERFLOW")
    if to.name in FLOATING:
        return Vector(array_of(data, null, to))
    return whole_as_decimal(values, to)


def _of_float(values: pa.Array, from_: DataType, to: DataType) -> Vector:
    null, data = nulls_of(values), numbers(values)
    with np.errstate(all="ignore"):
        if to.name in FLOATING:
            return Vector(array_of(data, null, to))
        if to.name == "boolean":
            return Vector(arrow_array(data != 0, mask=null))
        low, high = WHOLE[to.name]
        wide = data.astype(np.float64)
        beyond = ~null & ~((np.floor(wide) <= high) & (np.ceil(wide) >= low))
        if to.name == "long":
            beyond = ~null & ~((wide <= 2.0**63) & (wide >= -(2.0**63)))
            wide = np.where(wide >= 2.0**63, 0.0, wide)
            whole = np.trunc(np.where(beyond, 0.0, wide)).astype(np.int64)
            whole = np.where(numbers(values) >= 2.0**63, high, whole)
        else:
            whole = np.trunc(np.where(beyond, 0.0, wide)).astype(np.int64)
    return Vector(array_of(whole, null, to), code("CAST_OVERFLOW", beyond))


def cast_time(values: pa.Array, from_: DataType, to: DataType, zone: str) -> Vector:
    """Cast dates and times to other types of dates and times; `zone`: the session's time zone."""
    null, micros = nulls_of(values), numbers(values).astype(np.int64)
    beyond: Mask = np.zeros(len(null), dtype=bool)
    if from_.name == "date":
        beyond = np.abs(micros) > _MOST_DAYS
        micros = np.where(beyond, 0, micros) * DAY_US
    if from_.name == "timestamp":
        micros, outside = shifted(micros, offsets_of_instants(micros, zone))
    elif to.name == "timestamp":
        offsets_of = offsets_of_starts if from_.name == "date" else offsets_of_local
        micros, outside = shifted(micros, -offsets_of(micros, zone))
    else:
        outside = beyond
    beyond |= outside
    inside = np.where(beyond, 0, micros)
    return Vector(
        array_of(inside // DAY_US if to.name == "date" else inside, null, to), code(NOT_READ, beyond & ~null)
    )


_MOST_DAYS = ((1 << 63) - 1) // DAY_US
"""Most days before or after 1970 whose midnights fit in 64 bits as microseconds."""


def shifted(micros: Longs, offset: Longs | int) -> tuple[Longs, Mask]:
    """Add an offset to times; also return the mask of times that leave 64 bits."""
    moved = micros + np.int64(offset)
    return moved, np.where(np.asarray(offset) > 0, moved < micros, moved > micros)


def _times_as_text(values: pa.Array, zone: str) -> Vector:
    """Format dates and times as Spark prints them: fractions of a second without trailing zeros."""
    raised = None
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        local = DataType("timestamp_ntz")
        values, raised = cast_time(values, DataType("timestamp"), local, zone)
    texts = [None if t is None else _short(t) for t in date_texts(values)]
    return Vector(arrow_array(texts, pa.string()), raised)


def _short(text: str) -> str:
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    head = text[1:] if text[0] == "-" else text
    return f"+{text}" if text[0] != "-" and len(head.split("-", 1)[0]) > 4 else text


def rounded(call: Call, args: list[pa.Array]) -> Vector:
    """Compute round, floor and ceil; the setting of the call is the number of digits after the point."""
    values, from_, digits = args[0], call.args[0].type, int(call.setting[0])
    if from_.name == "decimal":
        return rounded_decimal(call, values, from_.scale, digits)
    if from_.name in WHOLE:
        if digits >= 0 or call.name != "round":
            return Vector(pc.cast(values, arrow_type(call.type, str(call.type))))
        unit = 10**-digits
        data = np.array([half_up(value, unit) * unit for value in numbers(values).tolist()], dtype=object)
        return within(data, nulls_of(values), call.type, "ARITHMETIC_OVERFLOW")
    if call.name == "round":
        return _rounded_floats(values, from_, digits)
    whole_floats = pc.floor(values) if call.name == "floor" else pc.ceil(values)
    wide = np.nan_to_num(numbers(whole_floats).astype(np.float64), nan=0.0, posinf=2.0**63, neginf=-(2.0**63))
    whole = np.clip(wide, -(2.0**63), 2.0**63 - 1024).astype(np.int64)
    whole = np.where(wide >= 2.0**63, WHOLE["long"][1], whole)
    return Vector(array_of(whole, nulls_of(values), call.type))


_FAR = 1e-3
"""A number below 2**38 that is farther than this from a tie is none, whatever its rounding error."""


def _rounded_floats(values: pa.Array, type_: DataType, digits: int) -> Vector:
    """Round floats by their decimal text, as Spark does; values near a tie are rounded one by one."""

    def one_by_one(floats: pa.Array) -> Vector:
        return per_distinct([floats], [type_], type_, lambda v: _round_float(v, digits))

    def quick(floats: pa.Array) -> Vector:
        scaled = numbers(floats) * 10.0**digits
        rounded_values = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled) / 10.0**digits + 0.0
        return Vector(array_of(rounded_values, nulls_of(floats), type_))

    if type_.name != "double" or not 0 <= digits <= _MOST_DIGITS:
        return one_by_one(values)
    with np.errstate(all="ignore"):
        scaled = np.abs(numbers(values) * 10.0**digits)
        plain = (scaled < 2.0**38) & (np.abs(scaled % 1 - 0.5) > _FAR)
    return by_parts(values, arrow_array(plain, mask=nulls_of(values)), quick, one_by_one)


_MOST_DIGITS = 22
"""Powers of ten up to this exponent are exact as doubles."""


def _round_float(value: float, digits: int) -> float:
    from decimal import ROUND_HALF_UP, Context, Decimal

    if not np.isfinite(value):
        return value
    wide = Context(prec=800, Emin=-2000, Emax=2000)
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, wide)) + 0.0


_DIGITS = {"byte": 2, "short": 4, "integer": 9, "long": 18}
"""Numbers of digits that always fit in a type."""
_DAY = r"(?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?"


def usual(to: DataType, zone: str) -> str | None:
    """Return a pattern of texts that Arrow casts to a type as Spark does; None if there is none."""
    if to.name in _DIGITS:
        return rf"^-?\d{{1,{_DIGITS[to.name]}}}$"
    if to.name in ("float", "double"):
        return r"^-?\d{1,15}(?:\.\d{1,15})?$"
    if to.name == "decimal":
        return (
            rf"^-?\d{{1,{to.precision - to.scale}}}{_behind(to.scale)}$" if to.precision > to.scale else None
        )
    if to.name == "date":
        return rf"^{_DAY}$"
    if to.name == "timestamp_ntz" or (to.name == "timestamp" and fixed_offset(zone) == 0):
        return rf"^{_DAY}[ T]{_TIME}$"
    return None


def _behind(scale: int) -> str:
    return rf"(?:\.\d{{1,{scale}}})?" if scale else ""


def read(texts: pa.Array, to: DataType) -> Vector:
    """Cast texts that match the pattern of `usual` to a type."""
    target = arrow_type(to, str(to))
    if pa.types.is_timestamp(target):
        return Vector(pc.cast(pc.cast(texts, pa.timestamp("us")), target))
    return Vector(pc.cast(texts, target))


_SECOND = 1_000_000


def across_1970(values: pa.Array, from_: DataType, to: DataType) -> Vector:
    """Cast instants to whole or exact seconds, or seconds to instants.

    Source: Spark 4.2, Cast.timestampToLong; longToTimestamp, which clamps to 64 bits;
    DoubleExactNumeric.toLong, which accepts up to 2**63.
    """
    null, data = nulls_of(values), numbers(values)
    if from_.name == "timestamp" and to.name in WHOLE:
        return within(data // _SECOND, null, to, "CAST_OVERFLOW")
    if from_.name == "timestamp":
        return Vector(array_of(data / float(_SECOND), null, to))
    if from_.name in WHOLE:
        most = ((1 << 63) - 1) // _SECOND
        clipped = np.clip(data.astype(np.int64), -most - 1, most + 1)
        ends = np.where(clipped > 0, (1 << 63) - 1, -(1 << 63))
        return Vector(array_of(np.where(np.abs(clipped) > most, ends, clipped * _SECOND), null, to))
    with np.errstate(invalid="ignore", over="ignore"):
        micros = data.astype(np.float64) * _SECOND
    odd, beyond = ~np.isfinite(data), ~(np.abs(micros) <= 2.0**63)
    most = micros == 2.0**63
    inside = np.where(odd | beyond | most, 0.0, micros).astype(np.int64)
    inside[most] = (1 << 63) - 1
    raised = first_of([code("CAST_INVALID_INPUT", odd & ~null), code("CAST_OVERFLOW", beyond & ~null)])
    return Vector(array_of(inside, null, to), raised)
