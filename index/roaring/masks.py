"""Bitmaps of many positions: packed bits are a bitset's bytes already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.index.roaring.containers import ARRAY_LIMIT, BLOCK, COOKIE
from tailbit.tables.positions import BitPositions, bitmap_of

_RARE = 64
"""If at most one row in 64 is set, sorting the positions is faster than marking them among all rows."""

_FEW = 16
"""If at most one row in 16 is set, listing the positions is faster than packing all rows."""


def union_of(lists: Sequence[BitPositions], rows: int) -> BitMap:
    """Return one bitmap of the positions of all `lists`, which are below `rows` and in any order.

    Cost: a pass over `rows` bits, or a sort if the positions are few.
    """
    if sum(map(len, lists)) * _RARE > rows:
        there = np.zeros(rows, dtype=np.bool_)
        for positions in lists:
            there[positions] = True
        return bitmap_where(there)
    return bitmap_of(np.sort(np.concatenate(lists)))


def bitmap_where(there: Mask) -> BitMap:
    """Return the positions of the true entries. Cost: a pass over all entries, however many are true.

    >>> bitmap_where(np.array([False, True, True]))
    BitMap([1, 2])
    """
    if np.count_nonzero(there) * _FEW <= len(there):
        return bitmap_of(np.flatnonzero(there))
    blocks = -(-len(there) // BLOCK)
    bits = np.zeros((blocks, BLOCK // 8), dtype=np.uint8)
    packed = np.packbits(there, bitorder="little")
    bits.reshape(-1)[: len(packed)] = packed
    counts = np.bitwise_count(bits.view("<u8")).sum(axis=1, dtype=np.int64)
    bodies = []
    for block in (some := np.flatnonzero(counts)).tolist():
        if counts[block] > ARRAY_LIMIT:
            bodies.append(bits[block].tobytes())
        else:
            bodies.append(np.flatnonzero(there[block * BLOCK : (block + 1) * BLOCK]).astype("<u2").tobytes())
    return _from_containers(some, counts[some], bodies)


def _from_containers(blocks: Longs, counts: Longs, bodies: Sequence[bytes]) -> BitMap:
    """Return the bitmap of arrays and bitsets, by ascending block; see the format's specification."""
    heads = np.column_stack([blocks, counts - 1]).astype("<u2").tobytes()
    sizes = np.array([len(body) for body in bodies], dtype=np.int64)
    offsets = (8 + 8 * len(blocks) + np.cumsum(sizes) - sizes).astype("<u4").tobytes()
    start = np.array([COOKIE, len(blocks)], dtype="<u4").tobytes()
    return BitMap.deserialize(b"".join([start, heads, offsets, *bodies]))
