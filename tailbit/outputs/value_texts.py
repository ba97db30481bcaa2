"""Values as texts, as Spark's CAST AS STRING writes them in the time zone UTC."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.index.functions.casting import cast
from tailbit.index.functions.tree import Call
from tailbit.index.keys import decode_keys, is_textual, key_type_of
from tailbit.index.values.literals import FLOATING, Literal
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column, DataType

_TEXT = DataType("string")
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Java writes numbers of a size between these without an exponent."""


def texts_of_keys(keys: pa.BinaryArray, column: Column) -> pa.StringArray:
    """Return the texts of the values that keys of a column stand for; NULL stays null.

    A key of a text holds all of the text, however long the text is.
    """
    key_type = key_type_of(column.type)
    if is_textual(key_type):
        return keys.view(pa.string())
    values = decode_keys(keys, key_type, column.type)
    if column.type.name in FLOATING:
        return arrow_array([None if v is None else _float_text(v) for v in _floats(values)], pa.string())
    call = Call("cast", (Literal(column.type, None),), _TEXT, ("UTC",))
    return cast(call, [values]).values


def _floats(values: pa.Array) -> list[np.floating | None]:
    """Return numbers in their own precision, which tells how many digits tell them apart."""
    numbers = values.to_numpy(zero_copy_only=False)
    return [n if ok else None for n, ok in zip(numbers, values.is_valid().to_pylist(), strict=True)]


def _float_text(value: np.floating) -> str:
    """Return the shortest text that is read as the number again, in the form of Java from version 19 on.

    Of texts of two digits, it is the nearest, even if one digit would do.

    >>> [_float_text(np.float64(v)) for v in (0.1, 12.0, 1e7, -2.5e-4, 5e-324, float("nan"))]
    ['0.1', '12.0', '1.0E7', '-2.5E-4', '4.9E-324', 'NaN']
    """
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return np.format_float_positional(value, unique=True, trim="0")
    shortest = np.format_float_scientific(value, unique=True, trim="0")
    if shortest.lstrip("-")[1:4] == ".0e":
        shortest = f"{float(value):.1e}"
    digits, _, exponent = shortest.partition("e")
    return f"{digits}E{int(exponent)}"
