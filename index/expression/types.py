"""The types of arithmetic on decimals. Source: Spark 4.2, DecimalPrecision and DecimalType."""

from __future__ import annotations

from tailbit.index.functions.tree import Expression
from tailbit.index.values.literals import DIGITS, MAX_DIGITS, Literal, decimal_type
from tailbit.tables.model import DataType


def digits_of(value: Expression) -> DataType:
    """The decimal type of an integer beside a decimal: a constant as written has as many digits as it has."""
    if isinstance(value, Literal) and value.written and value.value is not None:
        return decimal_type(len(str(abs(int(value.value)))), 0)
    return decimal_type(DIGITS[value.type.name], 0)


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
