"""One sorted dictionary of a column, and codes of several columns folded into one number per row.

A dictionary is merged from the keys of several segments and of data. Counts are arrays parallel to it.
Dictionaries made of segments alone, which never change, are cached: a repeated question sorts no keys and
makes no Python values.

Worked example: two segments, the second without NULL.

    keys of segment 1     NULL  a     c
    keys of segment 2           a  b
    dictionary            NULL  a  b  c
    places                0  1  3  |  1  2

Codes of several columns folded into one number per row. A code is the place of a row's key among the keys of
its column. Equal numbers are counted.

Tuples that hold columns as parts, and the keys of these parts. Worked example: tuples of (carrier, dest),
grouped by dest.

    counts of tuples    (AA, LAX) 1   (UA, LAX) 1   (UA, SFO) 2
    by dest             LAX 2   SFO 2
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.row_space import Segments
from tailbit.index.expression.indexed_term import IndexedTerm, IndexedTuple, sources_of
from tailbit.index.keys import (
    NO_KEYS,
    decode_keys,
    encode_array,
    is_textual,
    key_type_of,
    part_types,
    widen_keys,
)
from tailbit.index.roaring.coding import order_with_nulls
from tailbit.index.tuple_keys import join_parts, split_parts
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, decoded, in_one, numpy_of, python_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.date_text import date_texts
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.tables.parquet.column_codes import Numbered


DICTIONARIES: Cache[tuple[str, str, tuple[str, ...]], Dictionary] = Cache(share(2 / 64))
"""Dictionaries of segments, by column, key type and segments."""

PER_VALUE = 120
"""Approximate bytes of a key and its Python value."""


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Distinct keys of one key type, in order, null (NULL) first; in no order in groups that have none.

    `places`: per input of the merge, int64, the place of each of its keys in `keys`. Keys hold whole values,
    except in a dictionary of segments, where the keys that `truncated` marks are truncated.
    """

    keys: pa.BinaryArray
    codes: Sequence[Longs]
    _values: dict[tuple[str, str], list[Any]] = field(default_factory=dict)

    @property
    def null_place(self) -> int:
        """Return the place of NULL, which must be among the keys."""
        return int(np.flatnonzero(numpy_of(pc.is_null(self.keys)))[0])

    def values(self, column: Column, key_type: str) -> list[Any]:
        """Return the Python value of each key; a date or time outside of Python's calendar is text."""
        name = key_type, str(column.type)
        if name not in self._values:
            self._values[name] = python_values(self.keys, key_type, column)
        return self._values[name]


def of_segments(segments: Segments, column: str, key_type: str) -> Dictionary:
    """Return the cached dictionary of a column of some segments, widened to a key type."""
    names = tuple(segment.name for segment in segments)

    def sized() -> tuple[Dictionary, int]:
        stored = [widen_keys(s.keys(column)[0], s.columns[column], key_type) for s in segments]
        all_keys = united(stored)
        return all_keys, all_keys.keys.nbytes + PER_VALUE * len(all_keys.keys)

    return DICTIONARIES.get((column, key_type, names), sized)


def united(inputs: Sequence[pa.BinaryArray], in_order: bool = True) -> Dictionary:
    """Merge inputs into a dictionary; `in_order`: each input has distinct keys in order.

    Cost: a sort, unless there is one input in order.
    """
    if len(inputs) == 1 and in_order:
        return Dictionary(inputs[0], [np.arange(len(inputs[0]))])
    keys, codes = distinct(pa.concat_arrays([NO_KEYS, *inputs]))
    ends = np.cumsum([len(keys_of_input) for keys_of_input in inputs])[:-1]
    return Dictionary(keys, np.split(codes, ends))


def coded(values: pa.Array | pa.ChunkedArray, key_type: str) -> tuple[pa.BinaryArray, Longs]:
    """Return the distinct whole keys of values, in order, and per value the index of its key.

    Equal values are merged before keys are made; different values (0.0 and -0.0) may share a key.
    """
    encoded = pc.dictionary_encode(one_array(values), null_encoding="encode")
    keys, codes = distinct(full_keys(encoded.dictionary, key_type))
    return keys, codes[numpy_of(encoded.indices, dtype=np.int64)]


def distinct(keys: pa.BinaryArray) -> tuple[pa.BinaryArray, Longs]:
    """Return the distinct keys in order, null first, and per key its place among them."""
    encoded = pc.dictionary_encode(keys, null_encoding="encode")
    order = order_with_nulls(encoded.dictionary)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return pc.take(encoded.dictionary, arrow_array(order)), rank[numpy_of(encoded.indices, dtype=np.int64)]


def full_keys(values: pa.Array | pa.ChunkedArray, key_type: str) -> pa.BinaryArray:
    """Encode values as keys, never truncated."""
    whole = one_array(values)
    types = part_types(key_type)
    if types is not None:
        pairs = zip(whole.flatten(), types, strict=True)
        return join_parts([full_keys(field, type_) for field, type_ in pairs], key_type)
    return pc.cast(whole, pa.binary()) if is_textual(key_type) else encode_array(whole, key_type)


def one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Combine values into one array without dictionary encoding."""
    return decoded(in_one(values))


def python_values(keys: pa.BinaryArray, key_type: str, column: Column) -> list[Any]:
    """Decode whole keys to Python values; text that is not UTF-8 gets replacement characters."""
    types = part_types(key_type)
    if types is not None:
        fields = zip(split_parts(keys, key_type), types, column.type.fields, strict=True)
        return list(zip(*(python_values(*field) for field in fields), strict=True))
    if key_type == "binary":
        return list(keys.to_pylist())
    if is_textual(key_type):
        return [None if key is None else key.decode("utf-8", "replace") for key in keys.to_pylist()]
    return python_or_texts(decode_keys(keys, key_type, column.type))


def python_or_texts(values: pa.Array) -> list[Any]:
    """Return Python values; as texts, if a date or time is outside of Python's calendar."""
    try:
        return python_of(values)
    except (OverflowError, ValueError):
        return date_texts(values)


def first_in_order(keys: pa.BinaryArray, n: int) -> Longs:
    """Return the places of at least the `n` least of distinct keys, in no order; null is least."""
    if len(keys) <= n:
        return np.arange(len(keys))
    null = np.flatnonzero(numpy_of(pc.is_null(keys)))[:n]
    indexes = pc.select_k_unstable(keys, n - len(null), [("key", "ascending")]) if n > len(null) else []
    return np.concatenate([null, np.asarray(indexes, dtype=np.int64)])


def all_texts(keys: pa.BinaryArray) -> bool:
    """Return whether all keys are UTF-8; keys that are not may look alike once shown."""
    try:
        pc.cast(keys, pa.string())
    except pa.ArrowInvalid:
        return False
    return True


FEW = 1 << 17
"""Up to this many combinations, rows are counted in an array with one slot per combination."""


@dataclass(frozen=True, eq=False)
class Coded:
    """One column of some rows or groups: `keys`, and for each row or group the place of its key.

    `segments`: if given, the keys are those that these segments store, of one segment after the other, and
    may repeat. All other keys are distinct.
    """

    keys: pa.BinaryArray
    codes: Longs
    segments: Segments = ()

    def of_used(self) -> Coded:
        """Drop the keys that no row has."""
        used = np.zeros(len(self.keys), dtype=np.bool_)
        used[self.codes] = True
        used_codes = np.flatnonzero(used)
        if len(used_codes) == len(self.keys):
            return self
        return Coded(pc.take(self.keys, arrow_array(used_codes)), (np.cumsum(used) - 1)[self.codes])


@dataclass(frozen=True, eq=False)
class Combinations:
    """Combinations of keys: per column, keys and codes by combination; `counts`: rows of each combination."""

    columns: Sequence[Coded]
    counts: Longs


def fold(codes: Sequence[Longs], sizes: Sequence[int], counts: Longs | None) -> tuple[list[Longs], Longs]:
    """Return the distinct combinations of codes, in order, and the rows of each.

    `counts`: rows per entry, else 1.

    Worked example: codes [1, 0, 1] and [2, 2, 2] of sizes [2, 3] fold to 1 * 3 + 2 = 5, 2 and 5; the distinct
    numbers 2 and 5 unfold to the combinations (0, 2) with one row and (1, 2) with two.
    Cost: one pass where combinations are few compared to rows, otherwise a sort.
    """
    if math.prod(max(1, size) for size in sizes) >= 1 << 62:
        combinations, inverse = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        return [combinations[:, n] for n in range(len(sizes))], _sums(
            inverse.ravel(), counts, len(combinations)
        )
    folded = np.zeros(len(codes[0]), dtype=np.int64)
    for column_codes, size in zip(codes, sizes, strict=True):
        folded *= size
        folded += column_codes
    numbers, sums = count_numbers(folded, math.prod(sizes), counts)
    return unfold(numbers, sizes), sums


def count_numbers(folded: Longs, size: int, counts: Longs | None = None) -> tuple[Longs, Longs]:
    """Count the rows of each distinct number below `size`; numbers are returned in order."""
    if size <= max(FEW, 4 * len(folded)):
        sums = _sums(folded, counts, size)
        some = np.flatnonzero(sums)
        return some, sums[some]
    if counts is None:
        return np.unique(folded, return_counts=True)
    order = np.argsort(folded)
    ordered = folded[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    return ordered[starts], np.add.reduceat(counts[order], starts) if len(starts) else counts[:0]


def unfold(numbers: Longs, sizes: Sequence[int]) -> list[Longs]:
    """Recover the codes that were folded into numbers."""
    out = []
    for size in reversed(sizes):
        numbers, code = np.divmod(numbers, max(1, size))
        out.append(code)
    return out[::-1]


def _sums(groups: Longs, counts: Longs | None, size: int) -> Longs:
    if counts is None:
        return np.bincount(groups, minlength=size)
    out = np.zeros(size, dtype=np.int64)
    np.add.at(out, groups, counts)
    return out


def added_up(columns: Sequence[Coded], counts: Longs | None = None) -> Combinations:
    """Group rows, or groups with `counts` of rows, by combination of the keys of some columns."""
    codes, sums = fold([of.codes for of in columns], [len(of.keys) for of in columns], counts)
    return Combinations([Coded(of.keys, own) for of, own in zip(columns, codes, strict=True)], sums)


def grouped_numbers(columns: Sequence[Numbered], key_types: Sequence[str]) -> Combinations:
    """Group rows by combination, where each column numbers its distinct values."""
    dictionaries = [
        _keys_by_number(column, key_type) for column, key_type in zip(columns, key_types, strict=True)
    ]
    sizes = [len(keys) for keys, _ in dictionaries]
    if math.prod(sizes) >= 1 << 62:
        return added_up(
            [
                Coded(keys, key_codes[column.numbers])
                for column, (keys, key_codes) in zip(columns, dictionaries, strict=True)
            ]
        )
    folded = Folded(math.prod(sizes))
    for start in range(0, len(columns[0].numbers), CHUNK):
        chunk = np.zeros(1, dtype=np.int64)
        for column, (keys, key_codes) in zip(columns, dictionaries, strict=True):
            chunk = chunk * len(keys) + key_codes.take(column.numbers[start : start + CHUNK])
        folded.add(chunk)
    numbers, counts = folded.counted()
    pairs = zip(dictionaries, unfold(numbers, sizes), strict=True)
    return Combinations([Coded(keys, codes) for (keys, _), codes in pairs], counts)


def _keys_by_number(column: Numbered, key_type: str) -> tuple[pa.BinaryArray, Longs]:
    """Return the distinct keys, and by number the place of its key."""
    keys, key_codes = coded(column.values, key_type)
    by_number = np.zeros(int(column.used[-1]) + 1 if len(column.used) else 1, dtype=np.int64)
    by_number[column.used] = key_codes
    return keys, by_number


CHUNK = 1 << 17
"""Rows per chunk, so that intermediate arrays stay in a processor cache."""


class Folded:
    """Counts of combinations folded into numbers below `size`, accumulated chunk by chunk."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._sums = np.zeros(size if size <= FEW else 0, dtype=np.int64)
        self._later: list[Longs] = []

    def add(self, folded: Longs) -> None:
        """Add the folded numbers of some rows."""
        if self.size <= FEW:
            self._sums += np.bincount(folded, minlength=self.size)
        else:
            self._later.append(folded)

    def counted(self) -> tuple[Longs, Longs]:
        """Return the numbers that occur, ascending, and the rows of each."""
        if self._later:
            return count_numbers(np.concatenate(self._later), self.size)
        some = np.flatnonzero(self._sums)
        return some, self._sums[some]


def holding(
    columns: Iterable[Column | None], columns_sought: Sequence[Column]
) -> Iterator[tuple[IndexedTuple, list[int]]]:
    """Yield the tuples among some columns that have all those sought, and the place of each in the tuple.

    Only tuples and parts in UTC count, because tuples hold the values of partition columns as in UTC.
    """
    for tuple_ in columns:
        if isinstance(tuple_, IndexedTuple) and _in_utc([tuple_]) and _in_utc(columns_sought):
            field_numbers = [
                place for place in (_place(tuple_, column) for column in columns_sought) if place is not None
            ]
            if len(field_numbers) == len(columns_sought):
                yield tuple_, field_numbers


def _in_utc(columns: Iterable[Column]) -> bool:
    """Return whether all columns that some columns and terms read are in UTC, where they depend on a zone."""
    return all(column.zone == "UTC" for column in sources_of(columns))


def _place(tuple_: IndexedTuple, column: Column) -> int | None:
    """Return the place of a column among the parts of a tuple; None if the tuple does not have it."""
    for place, tuple_field in enumerate(tuple_.parts):
        if isinstance(tuple_field, IndexedTerm) and isinstance(column, IndexedTerm):
            if tuple_field.key == column.key:
                return place
        elif tuple_field.id == column.id:
            return place
    return None


def by_parts(tuples: Combinations, tuple_: IndexedTuple, field_numbers: Sequence[int]) -> Combinations:
    """Add up the counts of tuples with the same values of some parts. Cost: a sort of each part's keys."""
    (column,) = tuples.columns
    used = column.of_used()
    fields = split_parts(used.keys, key_type_of(tuple_.type))
    keys = [distinct(fields[place]) for place in field_numbers]
    return added_up([Coded(of_part, codes[used.codes]) for of_part, codes in keys], tuples.counts)
