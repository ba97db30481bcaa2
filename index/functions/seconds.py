"""Casts between instants and the seconds since 1970, ANSI mode on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.index.functions.vectors import Vector, array_of, code, first_of, nulls_of, numbers, within
from tailbit.index.values.literals import FLOATING, WHOLE
from tailbit.tables.model import DataType

_SECOND = 1_000_000


def is_since_1970(from_: DataType, to: DataType) -> bool:
    """Return whether a cast converts an instant to seconds, or seconds to an instant."""
    numeric = (*WHOLE, *FLOATING)
    return (from_.name == "timestamp" and to.name in numeric) or (
        from_.name in numeric and to.name == "timestamp"
    )


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
        held = np.clip(data.astype(np.int64), -most - 1, most + 1)
        ends = np.where(held > 0, (1 << 63) - 1, -(1 << 63))
        return Vector(array_of(np.where(np.abs(held) > most, ends, held * _SECOND), null, to))
    with np.errstate(invalid="ignore", over="ignore"):
        micros = data.astype(np.float64) * _SECOND
    odd, beyond = ~np.isfinite(data), ~(np.abs(micros) <= 2.0**63)
    most = micros == 2.0**63
    kept = np.where(odd | beyond | most, 0.0, micros).astype(np.int64)
    kept[most] = (1 << 63) - 1
    raised = first_of([code("CAST_INVALID_INPUT", odd & ~null), code("CAST_OVERFLOW", beyond & ~null)])
    return Vector(array_of(kept, null, to), raised)
