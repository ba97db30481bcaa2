"""Values of many rows at once: Arrow arrays, and for each row whether it raises instead of having a value.

Texts as one buffer of bytes and the offsets where they begin and end, for functions done by numpy.

Bytes of a NULL may have any value: functions change them like others, and the entry stays NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.index.functions.tree import Call
from tailbit.index.keys import Bytes, bytes_of, decimal_words, texts_of
from tailbit.index.values.literals import WHOLE, Literal, range_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.model import DataType
from tailbit.tables.schema import arrow_type

Codes = npt.NDArray[np.uint8]
"""Per row 0, or the number of an error class in `ERRORS`."""

NOT_READ = "NOT_READ_EXACTLY"

ERRORS = (
    "",
    "DIVIDE_BY_ZERO",
    "REMAINDER_BY_ZERO",
    "ARITHMETIC_OVERFLOW",
    "BINARY_ARITHMETIC_OVERFLOW",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "DATETIME_OVERFLOW",
    "CANNOT_PARSE_TIMESTAMP",
    "DATETIME_FIELD_OUT_OF_BOUNDS",
    "INVALID_ARRAY_INDEX",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
    "INVALID_INDEX_OF_ZERO",
    "MALFORMED_CHARACTER_CODING",
    NOT_READ,
)
"""Spark's error classes; the last one is not Spark's: it marks values whose result in Spark is not known."""


class Raised(Exception):
    """The error of a function for one value for which Spark raises, too; carries Spark's error class."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.code = ERRORS.index(error)


class Vector(NamedTuple):
    """Values of many rows; `raised`: the error code of each row. A row that raises has the value NULL."""

    values: pa.Array
    raised: Codes | None = None

    @property
    def failed(self) -> Mask:
        """Return the mask of rows that raise."""
        if self.raised is None:
            return np.zeros(len(self.values), dtype=np.bool_)
        return np.asarray(self.raised != 0)


def code(error: str, where: Mask) -> Codes | None:
    """Return the code of an error for the rows `where`; None if there are no such rows."""
    return np.where(where, ERRORS.index(error), 0).astype(np.uint8) if where.any() else None


def first_of(codes: Sequence[Codes | None]) -> Codes | None:
    """Return per row the first error of several."""
    present = [raised for raised in codes if raised is not None]
    if not present:
        return None
    out = present[0]
    for raised in present[1:]:
        out = np.where(out != 0, out, raised)
    return out


def nulls_of(*arrays: pa.Array) -> Mask:
    """Return the rows where an array is NULL, of arrays of one length."""
    masks = [numpy_of(pc.is_null(values)) for values in arrays if values.null_count]
    return np.logical_or.reduce(masks) if masks else np.zeros(len(arrays[0]), dtype=np.bool_)


def is_set(values: pa.Array) -> Mask:
    """Return the mask of the rows of a boolean array that are TRUE."""
    return numpy_of(filled(values, False))


def numbers(values: pa.Array) -> npt.NDArray[Any]:
    """Return numbers, dates or times as a numpy array of their own width; 0 for NULL."""
    if pa.types.is_date32(values.type):
        values = pc.cast(values, pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = pc.cast(values, pa.int64())
    return numpy_of(filled(values, 0))


def array_of(data: npt.NDArray[Any], null: Mask, type_: DataType) -> pa.Array:
    """Return numbers as an Arrow array of a logical type; all that are not NULL must fit in the type."""
    target = arrow_type(type_, str(type_))
    if pa.types.is_date32(target):
        return arrow_array(data.astype(np.int32, copy=False), target, mask=null)
    if pa.types.is_timestamp(target):
        return arrow_array(data.astype(np.int64, copy=False), target, mask=null)
    if pa.types.is_integer(target) or pa.types.is_floating(target):
        data = data.astype(target.to_pandas_dtype(), copy=False)
    return arrow_array(data, target, mask=null)


def within(
    data: npt.NDArray[Any], null: Mask, type_: DataType, error: str, beyond: Mask | bool = False
) -> Vector:
    """Return integers as values of a type of integers, dates or times; those out of its range raise an error.

    `beyond`: rows that are out of range whatever `data` holds there.
    """
    low, high = range_of(type_) or WHOLE["long"]
    outside = (data < low) | (data > high) | beyond
    inside = np.where(outside | null, 0, data) if outside.any() else data
    return Vector(array_of(inside, null, type_), code(error, outside & ~null))


def repeated(literal: Literal, rows: int) -> pa.Array:
    """Return a constant as an array."""
    return pa.repeat(from_canonical([literal.value], literal.type)[0], rows)


def canonical(values: pa.Array, type_: DataType) -> list[Any]:
    """Return values as canonical Python values; None for NULL."""
    if pa.types.is_date32(values.type):
        return list(pc.cast(values, pa.int32()).to_pylist())
    if pa.types.is_timestamp(values.type):
        return list(pc.cast(values, pa.int64()).to_pylist())
    if pa.types.is_string(values.type):
        return list(pc.cast(values, pa.binary()).to_pylist())
    if pa.types.is_decimal(values.type):
        return list(unscaled(values))
    if pa.types.is_list(values.type):
        inner = type_.fields[0].type
        return [None if not v.is_valid else tuple(canonical(v.values, inner)) for v in values]
    return list(values.to_pylist())


def from_canonical(values: Sequence[Any], type_: DataType) -> pa.Array:
    """Convert canonical Python values to an Arrow array of a logical type."""
    target = arrow_type(type_, str(type_))
    if pa.types.is_date32(target):
        return pc.cast(arrow_array(values, pa.int32()), target)
    if pa.types.is_timestamp(target):
        return pc.cast(arrow_array(values, pa.int64()), target)
    if pa.types.is_string(target):
        return arrow_array(values, pa.binary()).view(target)
    if pa.types.is_decimal(target):
        return decimals(np.array(values, dtype=object), type_)
    if pa.types.is_list(target):
        flat = [item for row in values if row is not None for item in row]
        ends = np.cumsum([0, *(0 if row is None else len(row) for row in values)]).astype(np.int32)
        null = arrow_array([row is None for row in values]) if None in values else None
        elements = from_canonical(flat, type_.fields[0].type)
        return pa.ListArray.from_arrays(arrow_array(ends), elements, target, mask=null)
    return arrow_array(values, target)


def unscaled(values: pa.Array) -> npt.NDArray[np.object_]:
    """Return decimals as unscaled Python integers of any size; None for NULL."""
    pairs = decimal_words(values)
    high = pairs[:, 1].view(np.int64).astype(object)
    out: npt.NDArray[np.object_] = high * (1 << 64) + pairs[:, 0].astype(object)
    out[nulls_of(values)] = None
    return out


def decimals(data: npt.NDArray[np.object_], type_: DataType) -> pa.Array:
    """Convert unscaled integers, which must fit, to decimals; None becomes NULL."""
    null = np.array([v is None for v in data], dtype=np.bool_)
    plain = np.where(null, 0, data)
    low = np.array([int(v) & ((1 << 64) - 1) for v in plain], dtype="<u8")
    high = np.array([int(v) >> 64 for v in plain], dtype="<i8").view("<u8")
    return decimals_of_words(low, high, null, type_)


def decimals_of_words(low: npt.NDArray[Any], high: npt.NDArray[Any], null: Mask, type_: DataType) -> pa.Array:
    """Build decimals from low and high words of 64 bits."""
    words = np.empty((len(low), 2), dtype=low.dtype)
    words[:, 0], words[:, 1] = low, high
    valid = pa.py_buffer(np.packbits(~null, bitorder="little").tobytes()) if null.any() else None
    target = arrow_type(type_, str(type_))
    return pa.Array.from_buffers(target, len(low), [valid, pa.py_buffer(words)], int(null.sum()))


def joined(vectors: Sequence[Vector]) -> Vector:
    """Return the rows of several vectors of one type, one after the other."""
    codes = [np.zeros(len(v.values), np.uint8) if v.raised is None else v.raised for v in vectors]
    raised = np.concatenate(codes) if any(v.raised is not None for v in vectors) else None
    return Vector(pa.concat_arrays([v.values for v in vectors]), raised)


def by_parts(
    values: pa.Array,
    plain: pa.BooleanArray,
    quick: Callable[[pa.Array], Vector],
    other: Callable[[pa.Array], Vector],
) -> Vector:
    """Compute values of a plain form by `quick`, and others by `other`.

    `plain`: the mask of values of the plain form, NULL included.
    """
    odd = np.flatnonzero(~numpy_of(filled(plain, True)))
    if not len(odd):
        return quick(values)
    if len(odd) == len(values):
        return other(values)
    mask = np.ones(len(values), dtype=np.bool_)
    mask[odd] = False
    both = joined([quick(pc.filter(values, arrow_array(mask))), other(pc.take(values, arrow_array(odd)))])
    indexes = np.where(mask, np.cumsum(mask) - 1, 0)
    indexes[odd] = int(mask.sum()) + np.arange(len(odd))
    return Vector(
        pc.take(both.values, arrow_array(indexes)), None if both.raised is None else both.raised[indexes]
    )


def per_distinct(
    args: Sequence[pa.Array], types: Sequence[DataType], to: DataType, apply: Callable[..., Any]
) -> Vector:
    """Compute a function of canonical values, called once per distinct row of arguments; NULL if one is NULL.

    `apply` may raise `Raised`, and may return None for NULL.
    """
    null = nulls_of(*args)
    coded = [pc.dictionary_encode(a) for a in args]
    dictionaries = [canonical(c.dictionary, t) for c, t in zip(coded, types, strict=True)]
    rows, back = _distinct_rows([c.indices for c in coded], [len(values) for values in dictionaries], ~null)
    columns = [
        [dictionary[index] for index in indexes]
        for dictionary, indexes in zip(dictionaries, rows, strict=True)
    ]
    values, raised = _result_of_each_row(apply, columns)
    order = np.full(len(null), len(values), dtype=np.int64)
    order[~null] = back
    results = pc.take(from_canonical([*values, None], to), arrow_array(order))
    return Vector(results, np.append(raised, np.uint8(0))[order] if raised.any() else None)


def each_row(call: Call, args: Sequence[pa.Array], apply: Callable[..., Any]) -> Vector:
    """Compute a call by a function of canonical values; as `per_distinct`."""
    return per_distinct(args, [arg.type for arg in call.args], call.type, apply)


def _distinct_rows(
    codes: Sequence[pa.Array], sizes: Sequence[int], open_: Mask
) -> tuple[list[list[int]], npt.NDArray[np.int64]]:
    """Return the distinct rows of several columns of codes, column by column, and the row of each open entry.

    Codes of a column are below its size. Cost: sorts the rows, unless all columns but one are constants.
    """
    varied = [n for n, size in enumerate(sizes) if size > 1]
    arrays = [numpy_of(filled(column, 0), np.int64)[open_] for column in codes]
    if len(varied) > 1:
        rows, back = np.unique(np.column_stack(arrays), axis=0, return_inverse=True)
        return rows.T.tolist(), back.reshape(-1)
    of = varied[0] if varied else 0
    present = np.zeros(max(sizes[of], 1), dtype=np.bool_)
    present[arrays[of]] = True
    indexes = np.flatnonzero(present)
    columns = [indexes.tolist() if n == of else [0] * len(indexes) for n in range(len(codes))]
    return columns, (np.cumsum(present) - 1)[arrays[of]]


def _result_of_each_row(
    apply: Callable[..., Any], columns: Sequence[Sequence[Any]]
) -> tuple[list[Any], Codes]:
    """Return the results of a function for each row, None where it raises, and the errors."""
    raised = np.zeros(len(columns[0]), dtype=np.uint8)
    try:
        return list(map(apply, *columns)), raised
    except Raised:
        pass  # some rows raise: the function has no effects, so it is called for each again
    values: list[Any] = []
    for n, row in enumerate(zip(*columns, strict=True)):
        try:
            values.append(apply(*row))
        except Raised as error:
            raised[n] = error.code
            values.append(None)
    return values, raised


def _hex_table(form: bytes) -> npt.NDArray[np.uint16]:
    return np.frombuffer(b"".join(form % n for n in range(256)), np.uint16)


HEX_OF_BYTE = _hex_table(b"%02X")
"""The two hexadecimal digits of each byte, as a 16-bit word in memory order."""
_LOWER_HEX_OF_BYTE = _hex_table(b"%02x")


def hex_of_bytes(values: pa.Array, capitals: bool = True) -> pa.Array:
    """Return the bytes of texts or binary values as hexadecimal text."""
    offsets, data = bytes_of(values)
    table = HEX_OF_BYTE if capitals else _LOWER_HEX_OF_BYTE
    return texts_of(2 * offsets, table[data].view(np.uint8), nulls_of(values), pa.string())


def bytes_replaced(texts: pa.Array, by: Sequence[int | None]) -> pa.Array:
    """Replace each byte b of each text by the byte `by[b]`; remove the byte if `by[b]` is None.

    `by`: 256 entries.
    """
    offsets, data = bytes_of(texts)
    changed = np.array([b or 0 for b in by], np.uint8)[data]
    if None in by:
        remains = np.array([b is not None for b in by])[data]
        before = np.zeros(len(data) + 1, np.int64)
        np.cumsum(remains, out=before[1:])
        offsets, changed = before[offsets], changed[remains]
    return texts_of(offsets, changed, nulls_of(texts), pa.string())


Piece = tuple[Bytes, Mask | None]
"""A table with a row of bytes per text, and the mask of the bytes that belong to the text; None for all."""


def digits(numbers: Longs, least: int, most: int) -> Piece:
    """Return numbers (not negative) in `most` digits; leading zeros are kept up to `least` digits.

    >>> table, kept = digits(np.array([7, 12, 345]), 2, 3)
    >>> [row[there].tobytes() for row, there in zip(table, kept, strict=True)]
    [b'07', b'12', b'345']
    """
    table = np.empty((len(numbers), most), np.uint8)
    rest = numbers
    for column in range(most - 1, -1, -1):
        table[:, column] = rest % 10 + ord("0")
        rest = rest // 10
    if least == most:
        return table, None
    shown = np.ones(table.shape, np.bool_)
    for column in range(most - least):
        shown[:, column] = numbers >= 10 ** (most - 1 - column)
    return table, shown


def named(names: Sequence[str], numbers: Longs) -> Piece:
    """Return the name at each index of a list."""
    encoded = [name.encode() for name in names]
    width = max(map(len, encoded))
    table = np.frombuffer(b"".join(name.ljust(width) for name in encoded), np.uint8).reshape(
        len(names), width
    )
    if all(len(name) == width for name in encoded):
        return table.take(numbers, axis=0), None
    shown = np.arange(width) < np.array([[len(name)] for name in encoded])
    return table.take(numbers, axis=0), shown.take(numbers, axis=0)


def hexadecimal(numbers: Longs) -> Piece:
    """Return the 64 bits of numbers as hexadecimal text without leading zeros."""
    table = HEX_OF_BYTE[numbers.astype(">i8").view(np.uint8)].view(np.uint8).reshape(len(numbers), 16)
    shown = np.logical_or.accumulate(table != ord("0"), axis=1)
    shown[:, -1] = True
    return table, shown


def side_by_side(pieces: Sequence[Piece]) -> Piece:
    """Concatenate the pieces of each text."""
    table = np.concatenate([table for table, _ in pieces], axis=1)
    if all(shown is None for _, shown in pieces):
        return table, None
    masks = [np.ones(table.shape, np.bool_) if shown is None else shown for table, shown in pieces]
    return table, np.concatenate(masks, axis=1)


def texts_of_pieces(pieces: Sequence[Piece], null: Mask) -> pa.Array:
    """Concatenate the pieces of each text to a text; NULL where `null`. No pieces give empty texts."""
    if not pieces:
        return texts_of(np.zeros(len(null) + 1, np.int64), np.zeros(0, np.uint8), null, pa.string())
    table, shown = side_by_side(pieces) if len(pieces) > 1 else pieces[0]
    if shown is None:
        return texts_of(np.arange(len(null) + 1) * table.shape[1], table.reshape(-1), null, pa.string())
    offsets = np.zeros(len(null) + 1, np.int64)
    np.cumsum(shown.sum(axis=1), out=offsets[1:])
    return texts_of(offsets, table[shown], null, pa.string())
