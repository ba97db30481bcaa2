"""Sorting of keys of any length by the first eight bytes in which they differ, as numbers.

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

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of

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
