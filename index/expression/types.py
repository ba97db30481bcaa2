"""The types of arithmetic on decimals. Source: Spark 4.2, DecimalPrecision and DecimalType."""

from __future__ import annotations

from tailbit.index.values.literals import MAX_DIGITS, decimal_type
from tailbit.tables.model import DataType


def decimal_result(op: str, left: DataType, right: DataType) -> DataType | None:
    """The type of `left op right`; None where it had more than 38 digits and Spark cut some of them."""
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
    return decimal_type(precision, scale) if precision <= MAX_DIGITS else None
