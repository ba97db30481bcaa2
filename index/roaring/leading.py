"""Sorting of keys of any length by the first eight bytes behind their common prefix, as numbers.

Arrow compares whole keys, which takes three times as long where these bytes tell most keys apart.

Worked example, with two bytes in place of eight:

    keys         item-bz  item-aab  item-c  item-aaa
    prefix       item-
    numbers      bz       aa        c 0     aa
    by number    item-aab  item-aaa  item-bz  item-c      the first two are tied
    ties sorted  item-aaa  item-aab  item-bz  item-c
"""

from __future__ import annotations

from itertools import takewhile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.tables import compute as pc
from tailbit.tables.arrow import numpy_of

_FEW = 1 << 12
"""Up to this many keys Arrow is as fast; as large a sample shows whether their numbers are tied."""


def order_of_texts(keys: pa.BinaryArray) -> Longs | None:
    """Return the indices that sort keys without null; None if they are few or many numbers would be tied."""
    if len(keys) <= _FEW:
        return None
    ends = pc.min_max(keys)
    pairs = zip(ends["min"].as_py(), ends["max"].as_py(), strict=False)
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    step = len(keys) // _FEW
    sample = keys.take(pa.array(np.arange(0, len(keys), step)))
    tied = len(sample) - len(np.unique(_numbers(sample, shared)))
    # Of n keys with d numbers, k sampled ones have about k * k / 2 d ties: here d is less than n / 4.
    if tied > len(sample) * min(0.25, 2 * len(sample) / len(keys)):
        return None
    return _untied(keys, _numbers(keys, shared))


def _untied(keys: pa.BinaryArray, numbers: npt.NDArray[np.uint64]) -> Longs:
    """Return the indices that sort keys by their numbers; keys of equal numbers are sorted by Arrow."""
    order = np.argsort(numbers)
    ordered = numbers[order]
    tied = np.zeros(len(order), dtype=np.bool_)
    tied[1:] = ordered[1:] == ordered[:-1]
    tied[:-1] |= tied[1:]
    if tied.any():
        some = order[tied]
        order[tied] = some[numpy_of(pc.array_sort_indices(keys.take(pa.array(some))))]
    return order


def _numbers(keys: pa.BinaryArray, shared: int) -> npt.NDArray[np.uint64]:
    """Return each key's eight bytes behind the first `shared` ones as a number, filled up with zeros."""
    ends = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset :][: len(keys) + 1]
    data = np.frombuffer(keys.buffers()[2] or b"\0", dtype=np.uint8)
    out = np.zeros(len(keys), dtype=np.uint64)
    for place in range(shared, shared + 8):
        at = ends[:-1] + np.int32(place)
        out <<= np.uint64(8)
        out |= np.where(at < ends[1:], data.take(at, mode="clip"), 0).astype(np.uint64)
    return out
