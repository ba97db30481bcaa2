"""A column as codes by position: the index of each row's key among the column's sorted distinct keys.

Values come piece by piece, decoded or dictionary-coded, and are stored as two or four bytes per row; only
distinct values are encoded to keys and sorted. Integers, dates and times in a narrow range are stored as
distances from the least value, without any hashing; everything else is dictionary-encoded. Values that share
a key (NaN, -0.0, long strings of one hash) share a code. If there are NULLs, NULL has code 0.

Worked example: an integer column of eight rows in two chunks of four, NULL in row 2.

    values            30   10  NULL   10 |  20   30   30   10
    collected: base   10                 |  10
               ids    20    0     0    0 |  10   20   20    0
    finished: shift    1                 |   1                 NULL has code 0, so all others move up by one
              codes   21    1     0    1 |  11   21   21    1
              keys   NULL, 10, 11, ... 30                      a narrow range: some keys have no row

In a wide range the keys are only NULL, 10, 20, 30, and a table per chunk gives the codes 3 1 0 1 | 2 3 3 1.

Sorting of keys of any length by the first eight bytes in which they differ, as numbers.

Arrow compares whole keys, which takes three times as long where these bytes tell most keys apart. Bytes that
are the same in all keys are left out: the prefix of texts, and the leading bytes of the parts of tuples.

Worked example, with two bytes in place of eight:

    keys         item-bz  item-aab  item-c  item-aaa
    left out     item-
    numbers      bz       aa        c 0     aa
    by number    item-aab  item-aaa  item-bz  item-c      the first two are tied
    ties sorted  item-aaa  item-aab  item-bz  item-c
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.keys import NO_KEYS, bytes_of, texts_of
from tailbit.index.roaring.collected import (
    Codes,
    Keyed,
    Numbers,
    collected,
    distinct,
    narrowest,
    number_keys,
)
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of

if TYPE_CHECKING:
    from tailbit.index.roaring.spilled import Keys

_WIDEST = 1 << 24
"""The widest range of integers that gets a table of codes: 64 MB while a column is coded."""

_PIECE = 1 << 20
"""Most rows of a part: its distinct values are hashed together, at some forty bytes each."""

_MANY_KEYS = 1 << 22
"""From this many keys in all parts on, keys are sorted instead of hashed: that takes half the memory."""
_LARGEST = 1 << 31
"""Bytes of keys that one array can hold."""

_AS_IT_IS = 1 << 15
"""Up to this range the distance itself is the code: finding out which values occur would cost more than some
keys without rows.
"""


@dataclass(frozen=True, slots=True)
class CodedPart:
    """Rows of a finished column from position `start` on.

    Row i has the code `table[ids[i]]`, or `shift + ids[i]` if no table is needed; NULL rows have code 0.
    """

    start: int
    ids: Codes
    nulls: Mask | None
    table: Codes | None = None
    shift: int = 0

    def write(self, out: Codes, start: int, end: int) -> None:
        """Write the codes of the part's rows `[start, end)` to `out`."""
        ids = self.ids[start:end]
        if self.table is None:
            np.add(ids, out.dtype.type(self.shift), out=out, dtype=out.dtype)
        else:
            np.take(self.table, ids, out=out, mode="clip")
        if self.nulls is not None:
            out[self.nulls[start:end]] = 0


@dataclass(frozen=True)
class CodedColumn:
    """Sorted distinct `keys`, null (for NULL) first if there is one, and the codes of rows by position.

    Some keys may have no row.
    """

    keys: Keys
    chunks: list[CodedPart]

    @property
    def absent(self) -> int:
        """Return the code of a position without a row: one more than the last code."""
        return len(self.keys)

    def codes(self, start: int, end: int) -> Codes:
        """Return the codes of the positions `[start, end)`; `absent` for positions without a row."""
        out = np.full(end - start, self.absent, dtype=narrowest(self.absent))
        for chunk in self.chunks:
            a, b = max(start, chunk.start), min(end, chunk.start + len(chunk.ids))
            if a < b:
                chunk.write(out[a - start : b - start], a - chunk.start, b - chunk.start)
        return out

    def codes_at(self, positions: Longs) -> tuple[Codes, Longs]:
        """Return the codes of the rows at ascending positions, and the position of each code."""
        if not len(positions):
            return np.zeros(0, dtype=narrowest(self.absent)), positions
        first = int(positions[0])
        return self.codes(first, int(positions[-1]) + 1)[positions - first], positions

    def listed(self, start: int, end: int) -> tuple[Codes, None]:
        """Return the codes of the positions `[start, end)`, and None: code i is at position `start + i`."""
        return self.codes(start, end), None

    def counts(self, start: int, end: int) -> Longs:
        """Count the rows per code among the positions `[start, end)`. Memory: a block."""
        out = np.zeros(self.absent + 1, dtype=np.int64)
        for block in range(start, end, 1 << 16):
            out += np.bincount(self.codes(block, min(block + (1 << 16), end)), minlength=len(out))
        return out[:-1]


_Coded = tuple[pa.BinaryArray, list[CodedPart]]
"""The distinct keys of a column without NULL, sorted, and its rows as codes."""


class Coding:
    """Collector of the rows of one column; `finish` returns their codes.

    Memory: one to four bytes per row and the distinct values of each piece. `key_bytes`: bytes of the keys
    collected so far.
    """

    def __init__(self, type_: pa.DataType, key_type: str) -> None:
        self._type, self._key_type = type_, key_type
        self._chunks: list[Numbers | Keyed] = []
        self.key_bytes = 0

    def add(self, start: int, values: pa.ChunkedArray) -> None:
        """Add rows from position `start` on, in the column's Arrow type or dictionary-coded."""
        for chunk in values.chunks:
            # A dictionary belongs to a whole chunk; other values are hashed a piece at a time.
            step = len(chunk) if pa.types.is_dictionary(chunk.type) else _PIECE
            for offset in range(0, len(chunk), max(1, step)):
                ids = collected(start + offset, chunk.slice(offset, step), self._key_type)
                self._chunks.append(ids)
                self.key_bytes += ids.keys.nbytes if isinstance(ids, Keyed) else 0
            start += len(chunk)

    def finish(self) -> CodedColumn:
        """Return the codes of all rows added. Cost: encodes and sorts the distinct values."""
        self._chunks.sort(key=lambda chunk: chunk.start)
        some_null = int(any(chunk.nulls is not None for chunk in self._chunks))
        numbers = [chunk for chunk in self._chunks if isinstance(chunk, Numbers)]
        if numbers and len(numbers) == len(self._chunks):
            self._chunks.clear()
            keys, coded = self._by_distance(numbers, some_null) or self._by_number(numbers, some_null)
        else:
            keys, coded = self._by_key(some_null)
        if some_null:
            keys = pa.concat_arrays([pa.nulls(1, pa.binary()), keys])
        return CodedColumn(keys, coded)

    def _by_distance(self, chunks: list[Numbers], first: int) -> _Coded | None:
        """Code all parts by one table over the whole range of integers; return None for a wide range."""
        bases = [chunk.base for chunk in chunks]
        widths = [int(chunk.ids.max()) + 1 for chunk in chunks]
        low = min(bases)
        span = max(base + width for base, width in zip(bases, widths, strict=True)) - low
        if span > min(_WIDEST, max(4 * sum(len(chunk.ids) for chunk in chunks), 1 << 12)):
            return None
        if span <= _AS_IT_IS:
            coded = [CodedPart(p.start, p.ids, p.nulls, shift=p.base - low + first) for p in chunks]
            return self._keys(low + np.arange(span)), coded
        present = np.zeros(span, dtype=np.bool_)
        for chunk in chunks:
            present[chunk.base - low :][chunk.ids] = True
        occurring = np.flatnonzero(present)
        occurring += low
        keys = self._keys(occurring)
        table = np.cumsum(present, dtype=np.int32)
        table += np.int32(first - 1)
        table = table.astype(narrowest(len(keys) + first), copy=False)
        windows = [table[base - low : base - low + width] for base, width in zip(bases, widths, strict=True)]
        coded = [CodedPart(p.start, p.ids, p.nulls, w) for p, w in zip(chunks, windows, strict=True)]
        return keys, coded

    def _by_number(self, chunks: list[Numbers], first: int) -> _Coded:
        """Code each part with a table from its own distinct integers to their indices among all integers.

        Memory: a part's distances are freed as soon as its indices are known.
        """
        own, placed = [], []
        while chunks:
            chunk = chunks.pop(0)
            numbers, ids = distinct(chunk)
            own.append(numbers)
            placed.append((chunk.start, ids, chunk.nulls))
            del chunk
        every = np.concatenate(own)
        every.sort()
        first_of = np.append(True, every[1:] != every[:-1])
        if not first_of.all():
            every = every[first_of]
        coded = []
        for start, ids, nulls in placed:
            # Sorted lookups touch neighbouring numbers; and each piece is freed once it is coded.
            numbers = own.pop(0)
            order = np.argsort(numbers)
            table = np.empty(len(numbers), dtype=narrowest(len(every) + first))
            table[order] = np.searchsorted(every, numbers[order]) + first
            coded.append(CodedPart(start, ids, nulls, table))
        return self._keys(every), coded

    def _keys(self, numbers: Longs) -> pa.BinaryArray:
        """Return the keys of distinct ordered integers, which are overwritten."""
        return number_keys(numbers, self._type, self._key_type)

    def _by_key(self, first: int) -> _Coded:
        """Code each part with a table from its own keys to their indices among all keys."""
        keys: list[pa.BinaryArray] = []
        rows: list[tuple[int, Codes, Mask | None]] = []
        while self._chunks:
            chunk = self._keyed(self._chunks.pop(0))
            keys.append(chunk.keys)
            rows.append((chunk.start, chunk.ids, chunk.nulls))
            del chunk
        ends = np.cumsum([0, *map(len, keys)])
        many = ends[-1] >= _MANY_KEYS and sum(key_part.nbytes for key_part in keys) < _LARGEST
        every, indexes = _sorted_union(keys) if many or len(keys) == 1 else _hashed_union(keys)
        table = np.add(indexes, first, dtype=narrowest(len(every) + first), casting="unsafe")
        out = []
        for (start, ids, nulls), low, high in zip(rows, ends[:-1], ends[1:], strict=True):
            # Rows of a part without keys are NULL; they too need a table entry to refer to.
            own = table[low:high] if low < high else np.zeros(1, dtype=table.dtype)
            out.append(CodedPart(start, ids, nulls, own))
        return every, out

    def _keyed(self, chunk: Numbers | Keyed) -> Keyed:
        if isinstance(chunk, Keyed):
            return chunk
        numbers, ids = distinct(chunk)
        return Keyed(chunk.start, ids, chunk.nulls, self._keys(numbers))


_NONE = np.zeros(0, dtype=np.int32)


def _hashed_union(keys: list[pa.BinaryArray]) -> tuple[pa.BinaryArray, Codes]:
    """Return the distinct keys of all arrays, ascending, and the index of each key among them."""
    # All chunks share one dictionary.
    coded = pc.dictionary_encode(pa.chunked_array([NO_KEYS, *keys]))
    every = coded.chunk(0).dictionary if coded.num_chunks else NO_KEYS
    indices = np.concatenate([_NONE, *(numpy_of(chunk.indices) for chunk in coded.chunks)])
    order = sorted_order(every)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return pc.take(every, arrow_array(order)), rank[indices]


def _sorted_union(keys: list[pa.BinaryArray]) -> tuple[pa.BinaryArray, Codes]:
    """Return the same as `_hashed_union` with half of the memory; `keys` is emptied.

    Memory: the keys, twice.
    """
    whole = _concatenated(keys)
    order = sorted_order(whole)
    new = np.ones(len(order), dtype=np.bool_)
    for begin in range(1, len(order), _PIECE):
        some = pc.take(whole, arrow_array(order[begin - 1 : begin + _PIECE]))
        new[begin : begin + _PIECE] = numpy_of(pc.not_equal(some[1:], some[:-1]))
    indexes = np.empty(len(order), dtype=np.uint32)
    indexes[order] = np.cumsum(new, dtype=np.uint32) - np.uint32(1)
    return pc.take(whole, arrow_array(order if new.all() else order[new])), indexes


def _concatenated(keys: list[pa.BinaryArray]) -> pa.BinaryArray:
    """Concatenate the keys; each array is freed as soon as it is copied."""
    keys[:] = [piece for piece in keys if len(piece)][::-1]
    size = sum(len(bytes_of(piece)[1]) for piece in keys)
    ends, data = np.zeros(sum(map(len, keys)) + 1, np.int32), np.empty(size, np.uint8)
    place = at = 0
    while keys:
        offsets, own = bytes_of(keys.pop())
        ends[place:][: len(offsets)] = offsets + at
        data[at:][: len(own)] = own
        place, at = place + len(offsets) - 1, at + len(own)
    return texts_of(ends, data)


def sorted_order(keys: pa.BinaryArray) -> Longs:
    """Return the indices that sort keys without null; equal keys come in any order."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64)
    ends, data = bytes_of(keys)
    width = int(ends[1] - ends[0])
    if width not in (8, 16) or not (np.diff(ends) == width).all():
        order = order_of_texts(keys)
        return numpy_of(pc.array_sort_indices(keys)).astype(np.int64) if order is None else order
    words = np.frombuffer(data.tobytes(), dtype=">u8").astype(np.uint64).reshape(len(keys), -1)
    if width == 8 or (words[:, 0] == words[0, 0]).all():
        return np.argsort(words[:, -1])
    return np.lexsort((words[:, 1], words[:, 0]))


def order_with_nulls(keys: pa.BinaryArray) -> Longs:
    """Return the indices that sort keys, null first. Cost: a sort."""
    if not keys.null_count:
        return sorted_order(keys)
    valid = numpy_of(pc.is_valid(keys))
    rest = np.flatnonzero(valid)
    return np.append(np.flatnonzero(~valid), rest[sorted_order(pc.take(keys, arrow_array(rest)))])


_FEW = 1 << 12
"""Up to this many keys, Arrow is as fast; of more keys, a sample of this size shows how many are tied."""


_BYTES = 8
"""Bytes of a number."""

_FARTHEST = 64
"""From this place on, bytes are taken whether keys differ in them or not."""


def order_of_texts(keys: pa.BinaryArray) -> Longs | None:
    """Return the indices that sort keys without null; None if they are few or many numbers would be tied."""
    if len(keys) <= _FEW:
        return None
    step = len(keys) // _FEW
    sample = pc.take(keys, arrow_array(np.arange(0, len(keys), step)))
    byte_indexes = _telling(keys, sample)
    tied = len(sample) - len(np.unique(_numbers(sample, byte_indexes)))
    # Of n keys with d numbers, k sampled ones have about k * k / 2 d ties: here d is less than n / 4.
    if tied > len(sample) * min(0.25, 2 * len(sample) / len(keys)):
        return None
    return _untied(keys, _numbers(keys, byte_indexes))


def _telling(keys: pa.BinaryArray, sample: pa.BinaryArray) -> list[int]:
    """Return the places of the first eight bytes in which keys differ; from `_FARTHEST` on, of any bytes.

    Cost: a pass over the keys per place behind their common prefix where all keys of the sample are the same.
    """
    ends = pc.min_max(keys)
    pairs = zip(ends["min"].as_py(), ends["max"].as_py(), strict=False)
    place = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    out: list[int] = []
    while len(out) < _BYTES:
        if place >= _FARTHEST or not (_is_same(sample, place) and _is_same(keys, place)):
            out.append(place)
        place += 1
    return out


def _is_same(keys: pa.BinaryArray, place: int) -> bool:
    """Return whether all keys have the same byte at a place."""
    values = _byte(keys, place)
    return bool((values == values[0]).all()) and int(pc.min(pc.binary_length(keys)).as_py()) > place


def _untied(keys: pa.BinaryArray, numbers: npt.NDArray[np.uint64]) -> Longs:
    """Return the indices that sort keys by their numbers; keys of equal numbers are sorted by Arrow."""
    order = np.argsort(numbers)
    ordered = numbers[order]
    tied = np.zeros(len(order), dtype=np.bool_)
    tied[1:] = ordered[1:] == ordered[:-1]
    tied[:-1] |= tied[1:]
    if tied.any():
        some = order[tied]
        order[tied] = some[numpy_of(pc.array_sort_indices(pc.take(keys, arrow_array(some))))]
    return order


def _numbers(keys: pa.BinaryArray, byte_indexes: list[int]) -> npt.NDArray[np.uint64]:
    """Return each key's bytes at eight places as a number."""
    out = np.zeros(len(keys), dtype=np.uint64)
    for place in byte_indexes:
        out <<= np.uint64(8)
        out |= _byte(keys, place)
    return out


def _byte(keys: pa.BinaryArray, place: int) -> npt.NDArray[np.uint8]:
    """Return the byte of each key at a place, zero behind its end."""
    ends = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset :][: len(keys) + 1]
    data = np.frombuffer(keys.buffers()[2] or b"\0", dtype=np.uint8)
    offsets = ends[:-1] + np.int32(place)
    values: npt.NDArray[np.uint8] = data.take(offsets, mode="clip")
    values[offsets >= ends[1:]] = 0
    return values
