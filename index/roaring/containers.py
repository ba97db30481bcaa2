"""Containers of Roaring bitmaps: their limits and sizes, and keys that are too sparse for them.

A container holds the positions of one block of 65,536, and costs eight bytes of header and offset, whatever
it holds. A key with few positions per container is smaller as its sorted positions: the first one, and the
gap to each next one.

Source: https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.tables.positions import BitPositions, bitmap_of

BLOCK = 1 << 16
"""Positions of a block: the range of one Roaring container."""

ARRAY_LIMIT = 4096
"""Positions of the largest array container; a container of more is a bitset, unless it holds runs."""

COOKIE, COOKIE_WITH_RUNS = 12346, 12347
"""First word of a portable bitmap: without run containers, and with them (a half word)."""

LIMIT = 1 << 31
"""Positions of sparse keys are below this: they are stored in 32 bits with a sign."""

_SHARE = 0.75
"""Positions must take at most this share of the bytes of a bitmap, because bitmaps are read and united
faster."""

_KEY = 6
"""Bytes of a key's first position and of the lengths of its gap columns."""

_HEADER, _CONTAINER, _BITSET = 8, 8, BLOCK // 8

_ALL_BITSETS = BLOCK // ARRAY_LIMIT - 1
"""If a key has at least one position in this many, nearly all of its containers are bitsets."""


def pays(counts: Longs, firsts: Longs, lasts: Longs, roaring: Longs) -> Mask:
    """Return the mask of the keys for which a list of positions takes fewer bytes than a bitmap.

    `counts`, `firsts`, `lasts`: number of positions, first and last position of each key. `roaring`: size in
    bytes of its bitmap.
    """
    span = lasts - firsts + 1
    # The entropy of a gap is some 1.5 bits more than the logarithm of the mean gap if gaps vary as those of
    # randomly ordered rows do, and less if they vary less.
    bits = np.log2(span / np.maximum(counts, 1) + 1) + 1.6
    size = _KEY + (counts - 1) * bits / 8
    sparse: Mask = (counts > 0) & (lasts < LIMIT) & (size <= _SHARE * roaring)
    # If bitsets replace arrays, compression makes them nearly as small as gaps.
    bitsets = (counts > ARRAY_LIMIT) & (counts * _ALL_BITSETS >= span)
    return sparse & ~bitsets


def most_roaring_bytes(counts: Longs, firsts: Longs, lasts: Longs) -> Longs:
    """Return an upper bound of the size in bytes of each key's bitmap, by its ends alone; see `pays`."""
    blocks = (lasts >> 16) - (firsts >> 16) + 1
    one_run = _HEADER + (_CONTAINER + 6) * blocks
    any_form = _HEADER + _CONTAINER * np.minimum(blocks, counts) + np.minimum(2 * counts, _BITSET * blocks)
    bound: Longs = np.where(lasts - firsts + 1 == counts, one_run, any_form)
    return bound


def roaring_bytes(positions: BitPositions, counts: Longs) -> Longs:
    """Return the size in bytes of each key's run-optimised bitmap. Cost: some vector operations per position.

    `positions`: of all keys, ascending within a key. `counts`: int64, each key's number of positions, not 0.
    """
    starts = np.cumsum(counts) - counts
    block = positions >> np.uint32(16)
    opens = np.empty(len(positions), dtype=np.bool_)
    np.not_equal(block[1:], block[:-1], out=opens[1:])
    opens[starts] = True
    jumps = np.empty(len(positions), dtype=np.bool_)
    np.not_equal(positions[1:], positions[:-1] + np.uint32(1), out=jumps[1:])
    jumps |= opens
    first_positions = np.flatnonzero(opens)
    sizes = np.minimum(2 * np.diff(first_positions, append=len(positions)), _BITSET)
    sizes = np.minimum(sizes, 2 + 4 * np.add.reduceat(jumps, first_positions, dtype=np.int64))
    owner = np.searchsorted(first_positions, starts)
    totals: Longs = _HEADER + np.add.reduceat(sizes + _CONTAINER, owner)
    return totals


def ranges(starts: Longs, counts: Longs, step: int = 1) -> Longs:
    """Concatenate the ranges `start, start + step, ...` of `count` numbers each."""
    before = np.cumsum(counts) - counts
    if step == 1:
        return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
    return np.repeat(starts - step * before, counts) + step * np.arange(int(counts.sum()))


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
