"""(old, new) values per record position of one file slice and column, kept columnar.

Law: for every value v, the rows that show v after a change are those that showed it before, less the positions with old = v,
plus the positions with new = v; so counting the pairs equals counting bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailbit.index.values import encode_array

ABSENT = -1
"""The code of "no row here": it differs from NULL, which is a key like any other."""

Codes = npt.NDArray[np.int32]
Positions = npt.NDArray[np.uint32]

_DENSE = 1 << 20
_INTEGERS = (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp)


@dataclass(frozen=True)
class CodedColumn:
    """A column by codes: `keys[codes[p]]` is the key of position p.

    `keys`: sorted and distinct, null (NULL) first where there is one. `codes`: int32, one a row.
    """

    keys: pa.BinaryArray
    codes: Codes


@dataclass(frozen=True)
class ValueChanges:
    """Pairs of one file and column: position, code of the old value, code of the new one; ABSENT where no row is.

    Shapes: `positions` uint32, `old` and `new` int32, all of one length; codes number `keys`.
    """

    positions: Positions
    old: Codes
    new: Codes
    keys: pa.BinaryArray

    def counts(self) -> npt.NDArray[np.int64]:
        """Per key: how many more rows show it than before, int64."""
        n = len(self.keys)
        return _tally(self.new, n) - _tally(self.old, n)


def entering(column: CodedColumn, positions: Positions) -> ValueChanges:
    """(ABSENT, v) for rows that appear at `positions`; `column` holds one code a position."""
    return ValueChanges(positions, _absent(len(positions)), column.codes, column.keys)


def leaving(column: CodedColumn, positions: Positions) -> ValueChanges:
    """(v, ABSENT) for rows that disappear from `positions`; `column` holds one code a position."""
    return ValueChanges(positions, column.codes, _absent(len(positions)), column.keys)


def _absent(n: int) -> Codes:
    return np.full(n, ABSENT, dtype=np.int32)


def _tally(codes: Codes, n: int) -> npt.NDArray[np.int64]:
    return np.bincount(codes[codes != ABSENT], minlength=n).astype(np.int64)


def code_column(values: pa.ChunkedArray, key_type: str) -> CodedColumn:
    """Codes and sorted keys of decoded values.

    Cost: one dictionary encoding; only distinct values are encoded to keys and sorted. Values that share a key (NaN, -0.0, long
    strings with one hash) share a code.
    """
    coded = _by_offset(values, key_type)
    return coded if coded is not None else _by_dictionary(values, key_type)


def _by_offset(values: pa.ChunkedArray, key_type: str) -> CodedColumn | None:
    """Codes of integers in a narrow range: their distance from the least one. None where that does not fit."""
    if values.null_count or not len(values) or not any(test(values.type) for test in _INTEGERS):
        return None
    whole = values.combine_chunks()
    numbers = np.asarray(whole.view(pa.int64() if whole.type.bit_width == 64 else f"int{whole.type.bit_width}"))
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= min(_DENSE, max(4 * len(numbers), 1024)):
        return None
    distance = numbers - low if numbers.dtype.itemsize > 4 else numbers.astype(np.int64) - low
    present = np.bincount(distance, minlength=high - low + 1) > 0
    rank = (np.cumsum(present) - 1).astype(np.int32)
    distinct = pa.array(np.flatnonzero(present) + low, pa.int64())
    return CodedColumn(encode_array(distinct.cast(_plain(whole.type)).view(whole.type), key_type), rank[distance])


def _plain(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(type_):
        return type_
    return pa.int32() if type_.bit_width == 32 else pa.int64()


def _by_dictionary(values: pa.ChunkedArray, key_type: str) -> CodedColumn:
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    encoded = values.unify_dictionaries().combine_chunks()
    keys = encode_array(encoded.dictionary, key_type)
    ranked, rank = _ranked(keys)
    codes = rank[np.asarray(encoded.indices.fill_null(0))] if len(rank) else np.zeros(len(encoded), np.int32)
    if not encoded.null_count:
        return CodedColumn(ranked, codes)
    codes += np.int32(1)
    codes[np.asarray(encoded.is_null())] = 0
    return CodedColumn(pa.concat_arrays([pa.nulls(1, pa.binary()), ranked]), codes)


def _ranked(keys: pa.BinaryArray) -> tuple[pa.BinaryArray, Codes]:
    """Distinct keys ascending, and for each of `keys` its place among them."""
    if not len(keys):
        return keys, np.zeros(0, np.int32)
    order = np.asarray(pc.array_sort_indices(keys))
    ascending = keys.take(pa.array(order))
    new = np.ones(len(keys), dtype=np.bool_)
    new[1:] = np.asarray(pc.not_equal(ascending[1:], ascending[:-1]))
    rank = np.empty(len(keys), dtype=np.int32)
    rank[order] = np.cumsum(new) - 1
    return ascending.filter(pa.array(new)), rank
