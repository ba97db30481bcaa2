"""One sorted dictionary of a column, merged from the keys of several segments and of data.

Counts are arrays parallel to the dictionary. Dictionaries made of segments alone, which never change, are
cached: a repeated question sorts no keys and makes no Python values.

Worked example: two segments, the second without NULL.

    keys of segment 1     NULL  a     c
    keys of segment 2           a  b
    dictionary            NULL  a  b  c
    places                0  1  3  |  1  2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.row_space import Segments
from tailbit.index.keys import NO_KEYS, decode_keys, encode_array, is_textual, part_types, widen_keys
from tailbit.index.roaring.coding import order_with_nulls
from tailbit.index.tuple_keys import join_parts, split_parts
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, decoded, in_one, numpy_of, python_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.date_text import date_texts
from tailbit.tables.model import Column

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
    places: Sequence[Longs]
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
    """Return the cached dictionary of a column of some segments, widened to a key type.

    Raises:
        CorruptIndexError: a segment is damaged.
    """
    names = tuple(segment.name for segment in segments)

    def made() -> tuple[Dictionary, int]:
        stored = [widen_keys(s.keys(column)[0], s.columns[column], key_type) for s in segments]
        all_keys = united(stored)
        return all_keys, all_keys.keys.nbytes + PER_VALUE * len(all_keys.keys)

    return DICTIONARIES.get((column, key_type, names), made)


def united(inputs: Sequence[pa.BinaryArray], in_order: bool = True) -> Dictionary:
    """Merge inputs into a dictionary; `in_order`: each input has distinct keys in order.

    Cost: a sort, unless there is one input in order.
    """
    if len(inputs) == 1 and in_order:
        return Dictionary(inputs[0], [np.arange(len(inputs[0]))])
    keys, places = distinct(pa.concat_arrays([NO_KEYS, *inputs]))
    ends = np.cumsum([len(part) for part in inputs])[:-1]
    return Dictionary(keys, np.split(places, ends))


def coded(values: pa.Array | pa.ChunkedArray, key_type: str) -> tuple[pa.BinaryArray, Longs]:
    """Return the distinct whole keys of values, in order, and per value the index of its key.

    Equal values are merged before keys are made; different values (0.0 and -0.0) may share a key.
    """
    encoded = pc.dictionary_encode(one_array(values), null_encoding="encode")
    keys, places = distinct(full_keys(encoded.dictionary, key_type))
    return keys, places[numpy_of(encoded.indices, dtype=np.int64)]


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
        return join_parts([full_keys(part, type_) for part, type_ in pairs], key_type)
    return pc.cast(whole, pa.binary()) if is_textual(key_type) else encode_array(whole, key_type)


def one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Combine values into one array without dictionary encoding."""
    return decoded(in_one(values))


def python_values(keys: pa.BinaryArray, key_type: str, column: Column) -> list[Any]:
    """Decode whole keys to Python values; text that is not UTF-8 gets replacement characters."""
    types = part_types(key_type)
    if types is not None:
        parts = zip(split_parts(keys, key_type), types, column.type.fields, strict=True)
        return list(zip(*(python_values(*part) for part in parts), strict=True))
    if key_type == "binary":
        python: list[Any] = keys.to_pylist()
        return python
    if is_textual(key_type):
        return [None if key is None else key.decode("utf-8", "replace") for key in keys.to_pylist()]
    values = decode_keys(keys, key_type, column.type)
    try:
        python = python_of(values)
    except (OverflowError, ValueError):
        python = date_texts(values)
    return python


def first_in_order(keys: pa.BinaryArray, n: int) -> Longs:
    """Return the places of at least the `n` least of distinct keys, in no order; null is least."""
    if len(keys) <= n:
        return np.arange(len(keys))
    null = np.flatnonzero(numpy_of(pc.is_null(keys)))[:n]
    places = pc.select_k_unstable(keys, n - len(null), [("key", "ascending")]) if n > len(null) else []
    return np.concatenate([null, np.asarray(places, dtype=np.int64)])


def all_texts(keys: pa.BinaryArray) -> bool:
    """Return whether all keys are UTF-8; keys that are not may look alike once shown."""
    try:
        pc.cast(keys, pa.string())
    except pa.ArrowInvalid:
        return False
    return True
