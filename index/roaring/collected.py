"""A chunk of a column as it is collected: integers as distances from the least, other values by dictionary.

Rows are hashed only if needed, and a row takes as few bytes as its chunk allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.keys import encode_array, integer_keys
from tailbit.index.ordered import WORD_DIGITS, ordered_ints
from tailbit.tables import compute as pc
from tailbit.tables.arrow import decoded

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
    words = np.frombuffer(chunk.buffers()[1], dtype=np.int64)
    words = words[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]
    low, high = words[::2], words[1::2]
    if chunk.type.precision > WORD_DIGITS and not (high == low >> 63).all():
        return None
    return pa.array(low, mask=nulls)


def narrowest(most: int) -> np.dtype[Any]:
    """Return the narrowest unsigned type that holds numbers up to `most`."""
    widths = (np.uint8, np.uint16, np.uint32, np.uint64)
    return np.dtype(next(width for width in widths if most <= np.iinfo(width).max))
