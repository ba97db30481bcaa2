"""A chunk of a column as it is collected: integers as distances from the least, other values by dictionary.

Rows are hashed only if needed, and a row takes as few bytes as its chunk allows.

A chunk of tuples as it is collected: the codes of the parts are folded into one number per row.

Each part is coded by itself, as a column of its values would be. Rows with the same number have the same key,
so a key is made once per distinct tuple of the chunk, from the first row that has it.

Worked example: five rows of (integer, string).

    rows         7 'b'   9 NULL   7 'b'   7 'a'   9 NULL
    codes        0  1    2  0     0  1    0  2    2  0       distances from 7; 0 for NULL among texts
    numbers      1       6        1       2       6          code * 3 + code
    ids          0       1        0       2       1
    first rows   0 1 3, and so the keys (7, 'b')  (9, NULL)  (7, 'a')
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.keys import WORD_DIGITS, decimal_words, encode_array, integer_keys, ordered_ints
from tailbit.index.tuple_keys import join_parts, types_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, decoded, numpy_of

Codes = npt.NDArray[Any]
"""Unsigned integers, as narrow as the number of keys allows."""

_INTEGERS = (
    pa.types.is_integer,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_floating,
    pa.types.is_decimal128,
)


@dataclass(frozen=True, slots=True)
class Collected:
    """Rows from position `start` on, as they were collected; row i is NULL if `nulls[i]`."""

    start: int
    ids: Codes
    nulls: Mask | None


@dataclass(frozen=True, slots=True)
class Numbers(Collected):
    """Rows of integers: row i has the integer `base + ids[i]`."""

    base: int


@dataclass(frozen=True, slots=True)
class Keyed(Collected):
    """Rows of keys: row i has the key `keys[ids[i]]`."""

    keys: pa.BinaryArray


def collected(start: int, chunk: pa.Array, key_type: str) -> Numbers | Keyed:
    """Return the rows of a chunk from position `start` on; the chunk has at least one row."""
    if pa.types.is_struct(chunk.type):
        return _of_tuples(start, chunk, key_type)
    if any(test(chunk.type) for test in _INTEGERS):
        numbers = _distances(start, chunk)
        if numbers is not None:
            return numbers
    return _by_dictionary(start, chunk, key_type)


def _by_dictionary(start: int, chunk: pa.Array, key_type: str) -> Keyed:
    if pa.types.is_dictionary(chunk.type) and chunk.dictionary.null_count:
        chunk = decoded(chunk)
    nulls = np.asarray(chunk.is_null()) if chunk.null_count else None
    coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    indices = coded.indices.fill_null(0) if nulls is not None else coded.indices
    ids = np.asarray(indices).astype(narrowest(len(coded.dictionary)))
    return Keyed(start, ids, nulls, encode_array(coded.dictionary, key_type))


def distinct(chunk: Numbers) -> tuple[Longs, Codes]:
    """Return the distinct integers of a part, and per row the index of its integer among them."""
    coded = pa.array(chunk.ids).dictionary_encode()
    # The sum wraps to the right value in 64 bits, even if a distance overflows int64.
    distances: Longs = np.asarray(coded.dictionary).astype(np.int64)
    distances += np.int64(chunk.base)
    return distances, np.asarray(coded.indices).astype(narrowest(len(coded.dictionary)))


def number_keys(numbers: Longs, type_: pa.DataType, key_type: str) -> pa.BinaryArray:
    """Return the keys of ordered integers, which are overwritten."""
    if not pa.types.is_decimal128(type_):
        # A key of eight bytes depends only on the ordered integer, whatever the type.
        return integer_keys(numbers)
    words = np.ascontiguousarray(np.column_stack([numbers, numbers >> 63]))
    values = pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(words)])
    return encode_array(values, key_type)


def _distances(start: int, chunk: pa.Array) -> Numbers | None:
    """Return each row's distance from the least integer; None if a value exceeds 64 bits or all are NULL."""
    whole = _integers(chunk)
    if whole is None:
        return None
    bounds = pc.min_max(whole)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None:
        return None
    nulls = np.asarray(chunk.is_null()) if chunk.null_count else None
    numbers = np.asarray(whole.fill_null(low) if nulls is not None else whole)
    # However the subtraction wraps, the distance is right in as many bits as it needs.
    ids = (numbers - numbers.dtype.type(low)).astype(narrowest(high - low))
    return Numbers(start, ids, nulls, low)


def _integers(chunk: pa.Array) -> pa.Array | None:
    """Return integers in the order of the values, or None if 64 bits cannot hold them."""
    if pa.types.is_integer(chunk.type):
        return chunk
    nulls = np.asarray(chunk.is_null()) if chunk.null_count else None
    if pa.types.is_floating(chunk.type):
        return pa.array(ordered_ints(chunk, "double"), mask=nulls)
    if not pa.types.is_decimal128(chunk.type):
        return chunk.view(pa.int32() if chunk.type.bit_width == 32 else pa.int64())
    low, high = decimal_words(chunk).view(np.int64).T
    if chunk.type.precision > WORD_DIGITS and not (high == low >> 63).all():
        return None
    return pa.array(low, mask=nulls)


def narrowest(most: int) -> np.dtype[Any]:
    """Return the narrowest unsigned type that holds numbers up to `most`."""
    widths = (np.uint8, np.uint16, np.uint32, np.uint64)
    return np.dtype(next(width for width in widths if most <= np.iinfo(width).max))


_MOST = 1 << 62
"""Numbers stay below this: larger ones are replaced by their indices among the distinct numbers."""

_FEW = 1 << 16
"""If all numbers are below this or below the number of rows, a table finds the distinct ones, else a hash."""


def _of_tuples(start: int, chunk: pa.StructArray, key_type: str) -> Keyed:
    """Return the rows of a chunk of tuples. Memory: eight bytes per row and part while it is coded."""
    pairs = list(zip(chunk.flatten(), types_of(key_type), strict=True))
    fields = [collected(start, values, type_) for values, type_ in pairs]
    ids, first = _distinct_rows(*_numbers(fields))
    keys = [
        _keys_at(field, first, values.type, type_)
        for field, (values, type_) in zip(fields, pairs, strict=True)
    ]
    return Keyed(start, ids, None, join_parts(keys, key_type))


def _numbers(fields: list[Numbers | Keyed]) -> tuple[Codes, int]:
    """Return a number per row, equal where all parts have equal codes, and a bound above all numbers."""
    numbers, size = _codes(fields[0])
    for field in fields[1:]:
        codes, many = _codes(field)
        if size * many >= _MOST:
            numbers, size = _compact(numbers)
        if size * many >= _MOST:
            codes, many = _compact(codes)
        size *= many
        numbers = np.multiply(numbers, many, dtype=narrowest(size), casting="unsafe")
        numbers += codes.astype(numbers.dtype, copy=False)
    return numbers, size


def _codes(field: Numbers | Keyed) -> tuple[Codes, int]:
    """Return the code of each row of a part, and a bound above all codes. If there are NULLs, NULL has 0."""
    ids, most = field.ids, int(field.ids.max())
    if most >= _MOST and isinstance(field, Numbers):
        distances, ids = distinct(field)
        most = len(distances)
    if field.nulls is None:
        return ids, most + 1
    codes = np.add(ids, 1, dtype=narrowest(most + 2), casting="unsafe")
    codes[field.nulls] = 0
    return codes, most + 2


def _compact(numbers: Codes) -> tuple[Codes, int]:
    """Return the index of each number among the distinct numbers, and how many distinct numbers there are."""
    coded = pc.dictionary_encode(arrow_array(numbers))
    many = len(coded.dictionary)
    return numpy_of(coded.indices).astype(narrowest(many)), many


def _distinct_rows(numbers: Codes, size: int) -> tuple[Codes, Longs]:
    """Return the index of each number among the distinct numbers, and a row of each distinct number."""
    if size > max(_FEW, len(numbers)):
        ids, _ = _compact(numbers)
        # Arrow numbers distinct values as they first appear: the first row of each has a new greatest number.
        return ids, np.flatnonzero(np.diff(np.maximum.accumulate(ids).astype(np.int64), prepend=-1))
    row_of = np.full(size, -1, dtype=np.int32)
    row_of[numbers] = np.arange(len(numbers), dtype=np.int32)
    some = np.flatnonzero(row_of >= 0)
    table = np.zeros(size, dtype=narrowest(len(some)))
    table[some] = np.arange(len(some))
    return table[numbers], row_of[some].astype(np.int64)


def _keys_at(field: Numbers | Keyed, rows: Longs, type_: pa.DataType, key_type: str) -> pa.BinaryArray:
    """Return the keys that a part has in some rows."""
    ids, null = field.ids[rows], None if field.nulls is None else field.nulls[rows]
    if isinstance(field, Keyed):
        return pc.take(field.keys, arrow_array(ids.astype(np.int64), mask=null))
    keys = number_keys(ids.astype(np.int64) + np.int64(field.base), type_, key_type)
    return keys if null is None else pc.if_else(arrow_array(null), arrow_scalar(None, keys.type), keys)
