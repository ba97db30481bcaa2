"""Promotion of stored values to the later type of their column, by the rules of Hudi.

A whole number becomes the nearest float or double. A number becomes the text that Java writes of the number,
and a float becomes the double of that text. Source: HoodieAvroUtils, rewritePrimaryTypeWithDiffSchemaType;
Avro, Schema resolution.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array

_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Java writes numbers of a size between these without an exponent."""


def is_promotion(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether Hudi promotes values of a stored type to another by its own rules.

    >>> is_promotion(pa.int32(), pa.float32()), is_promotion(pa.float64(), pa.float32())
    (True, False)
    """
    types = pa.types
    if types.is_float32(wanted):
        return bool(types.is_integer(stored))
    if types.is_float64(wanted):
        return bool(types.is_integer(stored) or types.is_float32(stored))
    return bool(types.is_string(wanted) and (types.is_integer(stored) or _is_float(stored)))


def promoted(stored: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return values of a stored type as Hudi promotes them; NULL stays NULL."""
    if _is_float(stored.type):
        texts = float_texts(stored) if pa.types.is_string(wanted) else pc.cast(stored, pa.string())
        return pc.cast(texts, wanted)
    return pc.cast(stored, wanted, safe=pa.types.is_string(wanted))


def float_texts(values: pa.Array) -> pa.StringArray:
    """Return the text of each float or double as Java writes it; NULL stays NULL."""
    numbers, valid = values.to_numpy(zero_copy_only=False), pc.is_valid(values).to_pylist()
    texts = [_float_text(n) if ok else None for n, ok in zip(numbers, valid, strict=True)]
    return arrow_array(texts, pa.string())


def _float_text(value: np.floating) -> str:
    """Return the shortest text that parses to the number again, as Java 19 and later write it.

    If one digit is enough in a text with an exponent, two digits are written, those nearest to the number:
    4.9E-324, not 5.0E-324.

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


def _is_float(type_: pa.DataType) -> bool:
    return bool(pa.types.is_float32(type_) or pa.types.is_float64(type_))
