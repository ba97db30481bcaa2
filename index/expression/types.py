"""The types of arithmetic on decimals. Source: Spark 4.2, DecimalPrecision and DecimalType."""

from __future__ import annotations

from tailbit.index.values.literals import MAX_DIGITS, decimal_type
from tailbit.tables.model import DataType


def decimal_result(op: str, left: DataType, right: DataType) -> DataType | None:
    """Return the type of `left op right` for `+ - * / %`; None for other operators.

    Beyond 38 digits the scale is cut, down to six. Source: Spark, DecimalType.
    """
    whole = max(left.precision - left.scale, right.precision - right.scale)
    scale = max(left.scale, right.scale)
    if op in ("+", "-"):
        precision = whole + scale + 1
    elif op == "*":
        precision, scale = left.precision + right.precision + 1, left.scale + right.scale
    elif op == "/":
        scale = max(6, left.scale + right.precision + 1)
        precision = left.precision - left.scale + right.scale + scale
    elif op == "%":
        precision = min(left.precision - left.scale, right.precision - right.scale) + scale
    else:
        return None
    if precision > MAX_DIGITS:
        scale = max(MAX_DIGITS - (precision - scale), min(scale, _LEAST_SCALE))
    return decimal_type(min(precision, MAX_DIGITS), scale)


_LEAST_SCALE = 6
"""Digits after the point that are never cut."""
