"""Comparisons of two columns of one row, in the common type that Spark compares them in.

Such a comparison is evaluated on rows only.
"""

from __future__ import annotations

import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.index.keys import encode_array, is_textual, key_type_of, scale_of
from tailbit.index.predicate.membership import true_mask
from tailbit.index.predicate.tree import Compare
from tailbit.tables import compute as pc
from tailbit.tables.arrow import filled
from tailbit.tables.model import Column


def compare_columns(left: pa.Array, right: pa.Array, node: Compare) -> Mask:
    """Return the mask of the rows where a comparison of two columns is TRUE."""
    op, wanted = node.op, key_type_of(node.common)
    left, right = _equally_long(left, node.left, node.right), _equally_long(right, node.right, node.left)
    a, b = _keys(left, wanted), _keys(right, wanted)
    same = pc.equal(a, b)
    if op in ("<=>", "IS DISTINCT FROM"):
        both_null = pc.and_(pc.is_null(a), pc.is_null(b))
        alike = true_mask(pc.or_(both_null, filled(same, False)))
        return alike if op == "<=>" else ~alike
    if op == "=":
        return true_mask(same)
    compare = {"<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
    return true_mask(compare[op](a, b))


def _equally_long(values: pa.Array, column: Column, other: Column) -> pa.Array:
    """Pad or cut the values of a CHAR column to the length of the longer CHAR column compared with it."""
    length, wanted = column.type.char_length, other.type.char_length
    if not 0 < length < wanted:
        return values
    return pc.utf8_rpad(pc.utf8_slice_codeunits(values, 0, wanted), wanted, " ")


def _keys(values: pa.Array, wanted: str) -> pa.Array:
    """Encode one side as bytes in the order of the common type; text is not truncated."""
    if is_textual(wanted):
        return pc.cast(values, pa.binary())
    if wanted == "double":
        values = pc.cast(values, pa.float64(), safe=False)
    elif (scale := scale_of(wanted)) is not None:
        if pa.types.is_integer(values.type):
            values = pc.cast(pc.cast(values, pa.int64()), pa.decimal128(19, 0))
        values = pc.cast(values, pa.decimal128(38, scale))
    return encode_array(values, wanted)
