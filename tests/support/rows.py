"""Rows of Spark and of Arrow in one spelling, so that they can be compared as text."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

_DIGITS = Context(prec=60)


def canonical(value: Any) -> Any:
    """Values of Spark and of Arrow in one spelling."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, Decimal):
        return str(value.normalize(_DIGITS))
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if type(value).__name__ == "VariantVal":
        value = {"value": value.value, "metadata": value.metadata}
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return sorted((str(k), canonical(v)) for k, v in value.items())
    if isinstance(value, list) and value and type(value[0]) is tuple:
        return canonical(dict(value))
    return [canonical(v) for v in value] if isinstance(value, (list, tuple)) else value


def as_python(values: pa.ChunkedArray) -> list[Any]:
    """Values as Python objects; dates and times outside its calendar as text."""
    with suppress(OverflowError, ValueError):
        return list(values.to_pylist())
    # Arrow has no text for years beyond 32767.
    if pa.types.is_date32(values.type):
        return [
            None if n is None else str(np.datetime64(n, "D")) for n in values.cast(pa.int32()).to_pylist()
        ]
    if pa.types.is_timestamp(values.type):
        end = "" if values.type.tz is None else "Z"
        return [None if n is None else _moment(n) + end for n in values.cast(pa.int64()).to_pylist()]
    return list(values.cast(pa.string()).to_pylist())


def _moment(micros: int) -> str:
    """Microseconds since 1970 as a day and a time of day."""
    day, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{np.datetime64(day, 'D')} {hour:02}:{minute:02}:{second:02}.{fraction:06}"
