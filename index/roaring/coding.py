"""A column as codes by position: the place of each row's key among the column's sorted distinct keys.

Values come piece by piece, decoded or dictionary-coded, and are kept as two or four bytes a row; only
distinct values are encoded to keys and sorted. Integers, dates and times in a narrow range are their
distance from the least one, without any hashing; all else is dictionary-encoded. Values that share a key
(NaN, -0.0, long strings of one hash) share a code. NULL is the first code where there is one.

Eight rows by hand, an integer column in two chunks of four, NULL in row 2:

    values            30   10  NULL   10 |  20   30   30   10
    collected: base   10                 |  10
               ids    20    0     0    0 |  10   20   20    0
    finished: shift    1                 |   1                 code 0 is NULL, so all others move up by one
              codes   21    1     0    1 |  11   21   21    1
              keys   NULL, 10, 11, ... 30                      a narrow range: some keys have no row

In a wide range the keys are NULL, 10, 20, 30, and a table per chunk gives the codes 3 1 0 1 | 2 3 3 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailbit.index.keys import encode_array, ordered_ints

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[Any]
"""Unsigned integers, as narrow as the number of keys allows."""

_WIDEST = 1 << 24
"""The widest range of integers that gets a table of codes: 64 MB while a column is coded."""

_AS_IT_IS = 1 << 15
"""Up to this range the distance itself is the code: looking which values occur would cost more than a few
keys too many.
"""

_DIGITS = 18
"""Decimal digits that 64 bits always hold."""

_INTEGERS = (
    pa.types.is_integer,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_floating,
    pa.types.is_decimal128,
)


@dataclass(frozen=True, slots=True)
class _Collected:
    """Rows from position `start` on, as they were collected; row i is NULL where `nulls[i]`."""

    start: int
    ids: Codes
    nulls: npt.NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class _Numbers(_Collected):
    """Row i has the integer `base + ids[i]`."""

    base: int


@dataclass(frozen=True, slots=True)
class _Keyed(_Collected):
    """Row i has the key `keys[ids[i]]`."""

    keys: pa.BinaryArray


@dataclass(frozen=True, slots=True)
class CodedPart:
    """Rows from position `start` on, once the column is finished.

    Row i has the code `table[ids[i]]`, or `shift + ids[i]` where no table is needed; NULL rows have code 0.
    """

    start: int
    ids: Codes
    nulls: npt.NDArray[np.bool_] | None
    table: Codes | None = None
    shift: int = 0

    def write(self, out: Codes, start: int, end: int) -> None:
        """Write the codes of its rows `start` to `end`, not included."""
        ids = self.ids[start:end]
        if self.table is None:
            np.add(ids, out.dtype.type(self.shift), out=out, dtype=out.dtype)
        else:
            np.take(self.table, ids, out=out, mode="clip")
        if self.nulls is not None:
            out[self.nulls[start:end]] = 0


@dataclass(frozen=True)
class CodedColumn:
    """Sorted distinct `keys`, null (NULL) first where there is one, and the codes of rows by position.

    A key that no row has may be among them.
    """

    keys: pa.BinaryArray
    parts: list[CodedPart]

    @property
    def absent(self) -> int:
        """The code of a position that holds no row: one more than the last."""
        return len(self.keys)

    def codes(self, start: int, end: int) -> Codes:
        """The codes of positions `start` to `end`, not included; `absent` where there is no row."""
        out = np.full(end - start, self.absent, dtype=_narrowest(self.absent))
        for part in self.parts:
            a, b = max(start, part.start), min(end, part.start + len(part.ids))
            if a < b:
                part.write(out[a - start : b - start], a - part.start, b - part.start)
        return out

    def counts(self, start: int, end: int) -> npt.NDArray[np.int64]:
        """Rows per code among positions `start` to `end`, not included. Memory: a block."""
        out = np.zeros(self.absent + 1, dtype=np.int64)
        for at in range(start, end, 1 << 16):
            out += np.bincount(self.codes(at, min(at + (1 << 16), end)), minlength=len(out))
        return out[:-1]


_Coded = tuple[pa.BinaryArray, list[CodedPart]]
"""The distinct keys of a column without NULL, sorted, and its rows as codes."""


class Coding:
    """Collects the rows of one column; `finish` gives their codes.

    Memory: one to four bytes a row and the distinct values of each piece.
    """

    def __init__(self, type_: pa.DataType, key_type: str) -> None:
        self._type, self._key_type = type_, key_type
        self._parts: list[_Numbers | _Keyed] = []

    def add(self, start: int, values: pa.ChunkedArray) -> None:
        """Rows from position `start` on, in the column's Arrow type or dictionary-coded."""
        for chunk in values.chunks:
            if len(chunk):
                self._parts.append(self._part(start, chunk))
            start += len(chunk)

    def finish(self) -> CodedColumn:
        """The codes of all rows added. Cost: encodes and sorts the distinct values."""
        self._parts.sort(key=lambda part: part.start)
        some_null = int(any(part.nulls is not None for part in self._parts))
        numbers = [part for part in self._parts if isinstance(part, _Numbers)]
        if numbers and len(numbers) == len(self._parts):
            self._parts.clear()
            keys, coded = self._by_distance(numbers, some_null) or self._by_number(numbers, some_null)
        else:
            keys, coded = self._by_key(some_null)
        if some_null:
            keys = pa.concat_arrays([pa.nulls(1, pa.binary()), keys])
        return CodedColumn(keys, coded)

    def _part(self, start: int, chunk: pa.Array) -> _Numbers | _Keyed:
        if any(test(chunk.type) for test in _INTEGERS):
            part = _distances(start, chunk)
            if part is not None:
                return part
        return self._dictionary_part(start, chunk)

    def _dictionary_part(self, start: int, chunk: pa.Array) -> _Keyed:
        if pa.types.is_dictionary(chunk.type) and chunk.dictionary.null_count:
            chunk = chunk.dictionary_decode()
        nulls = np.asarray(chunk.is_null()) if chunk.null_count else None
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        indices = coded.indices.fill_null(0) if nulls is not None else coded.indices
        ids = np.asarray(indices).astype(_narrowest(len(coded.dictionary)))
        return _Keyed(start, ids, nulls, encode_array(coded.dictionary, self._key_type))

    def _by_distance(self, parts: list[_Numbers], first: int) -> _Coded | None:
        """Each part with its window of one table over the whole range of integers; None for a wide range."""
        bases = [part.base for part in parts]
        widths = [int(part.ids.max()) + 1 for part in parts]
        low = min(bases)
        span = max(base + width for base, width in zip(bases, widths, strict=True)) - low
        if span > min(_WIDEST, max(4 * sum(len(part.ids) for part in parts), 1 << 12)):
            return None
        if span <= _AS_IT_IS:
            coded = [CodedPart(p.start, p.ids, p.nulls, shift=p.base - low + first) for p in parts]
            return self._keys(low + np.arange(span)), coded
        present = np.zeros(span, dtype=np.bool_)
        for part in parts:
            present[part.base - low :][part.ids] = True
        distinct = np.flatnonzero(present)
        table = np.cumsum(present, dtype=np.int32) + np.int32(first - 1)
        table = table.astype(_narrowest(len(distinct) + first))
        windows = [table[base - low : base - low + width] for base, width in zip(bases, widths, strict=True)]
        coded = [CodedPart(p.start, p.ids, p.nulls, w) for p, w in zip(parts, windows, strict=True)]
        return self._keys(distinct + low), coded

    def _by_number(self, parts: list[_Numbers], first: int) -> _Coded:
        """Each part with a table from its own distinct integers to their places among all integers.

        Memory: a part's distances are freed as soon as its places are known.
        """
        own, placed = [], []
        while parts:
            part = parts.pop(0)
            numbers, ids = _distinct(part)
            own.append(numbers)
            placed.append((part.start, ids, part.nulls))
            del part
        every = np.concatenate(own)
        every.sort()
        every = every[np.append(True, every[1:] != every[:-1])]
        coded = []
        for start, ids, nulls in placed:
            # Sorted, the numbers are found side by side; and each piece is freed once it is placed.
            numbers = own.pop(0)
            order = np.argsort(numbers)
            table = np.empty(len(numbers), dtype=_narrowest(len(every) + first))
            table[order] = np.searchsorted(every, numbers[order]) + first
            coded.append(CodedPart(start, ids, nulls, table))
        return self._keys(every), coded

    def _keys(self, numbers: Ints) -> pa.BinaryArray:
        """The keys of distinct ordered integers."""
        if not pa.types.is_decimal128(self._type):
            # A key of eight bytes is that of its ordered integer, whatever the type.
            return encode_array(pa.array(numbers), "integer")
        words = np.ascontiguousarray(np.column_stack([numbers, numbers >> 63]))
        values = pa.Array.from_buffers(self._type, len(numbers), [None, pa.py_buffer(words)])
        return encode_array(values, self._key_type)

    def _by_key(self, first: int) -> _Coded:
        """Each part with a table from its own keys to their places among all keys."""
        parts = [self._keyed(part) for part in self._parts]
        self._parts.clear()
        # All chunks get one and the same dictionary.
        coded = pa.chunked_array([_NO_KEYS, *(part.keys for part in parts)]).dictionary_encode()
        every = coded.chunk(0).dictionary if coded.num_chunks else _NO_KEYS
        indices = np.concatenate([_NONE, *(np.asarray(chunk.indices) for chunk in coded.chunks)])
        order = sorted_order(every)
        rank = np.empty(len(order), dtype=_narrowest(len(order) + first))
        rank[order] = np.arange(first, len(order) + first)
        out, end = [], 0
        for part in parts:
            # Rows of a part without keys are NULL; they too need an entry to point at.
            own = indices[end : end + len(part.keys)]
            table = rank[own] if len(own) else np.zeros(1, dtype=rank.dtype)
            out.append(CodedPart(part.start, part.ids, part.nulls, table))
            end += len(part.keys)
        return every.take(pa.array(order)), out

    def _keyed(self, part: _Numbers | _Keyed) -> _Keyed:
        if isinstance(part, _Keyed):
            return part
        numbers, ids = _distinct(part)
        return _Keyed(part.start, ids, part.nulls, self._keys(numbers))


def _distinct(part: _Numbers) -> tuple[Ints, Codes]:
    """The distinct integers of a part, and per row the place of its integer among them."""
    coded = pa.array(part.ids).dictionary_encode()
    # In 64 bits the sum is right even where a summand is not.
    distances: Ints = np.asarray(coded.dictionary).astype(np.int64)
    distances += np.int64(part.base)
    return distances, np.asarray(coded.indices).astype(_narrowest(len(coded.dictionary)))


_NO_KEYS = pa.array([], pa.binary())
_NONE = np.zeros(0, dtype=np.int32)


def sorted_order(keys: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """The places of distinct keys without null, in ascending order of the keys."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64)
    ends = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    width = int(ends[1] - ends[0])
    if width not in (8, 16) or not (np.diff(ends) == width).all():
        return np.asarray(pc.array_sort_indices(keys)).astype(np.int64)
    data = np.frombuffer(keys.buffers()[2], dtype=np.uint8)[ends[0] : ends[-1]]
    words = np.frombuffer(data.tobytes(), dtype=">u8").astype(np.uint64).reshape(len(keys), -1)
    if width == 8 or (words[:, 0] == words[0, 0]).all():
        return np.argsort(words[:, -1])
    return np.lexsort((words[:, 1], words[:, 0]))


def _distances(start: int, chunk: pa.Array) -> _Numbers | None:
    """Integers as distances from the least one; None where they need more than 64 bits, or all are NULL."""
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
    ids = (numbers - numbers.dtype.type(low)).astype(_narrowest(high - low))
    return _Numbers(start, ids, nulls, low)


def _integers(chunk: pa.Array) -> pa.Array | None:
    """Integers in the order of the values; None where 64 bits do not hold them."""
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
    if chunk.type.precision > _DIGITS and not (high == low >> 63).all():
        return None
    return pa.array(low, mask=nulls)


def _narrowest(most: int) -> np.dtype[Any]:
    """The narrowest unsigned type that holds numbers up to `most`."""
    widths = (np.uint8, np.uint16, np.uint32, np.uint64)
    return np.dtype(next(width for width in widths if most <= np.iinfo(width).max))
