"""A chunk of tuples as it is collected: the codes of the parts are folded into one number per row.

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

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.index.roaring.collected import Codes, Keyed, Numbers, collected, distinct, narrowest, number_keys
from tailbit.index.tuple_keys import join_parts, types_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, numpy_of

_MOST = 1 << 62
"""Numbers stay below this: larger ones are replaced by their indices among the distinct numbers."""

_FEW = 1 << 16
"""If all numbers are below this or below the number of rows, a table finds the distinct ones, else a hash."""


def collected_tuples(start: int, chunk: pa.StructArray, key_type: str) -> Keyed:
    """Return the rows of a chunk of tuples from position `start` on; the chunk has at least one row.

    Memory: eight bytes per row and part while the chunk is coded.
    """
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
