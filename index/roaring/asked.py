"""Lookup of few positions in serialized bitmaps, without decoding or copying anything.

A bitmap with more than 4,096 positions in each block consists of one bitset per block, one after the other:
together they are one array of bits over the row space. The last block, which a row space seldom fills, may be
an array instead.

Worked example: two bitmaps of one block, bits of positions 0 to 7; the codes are 1 and 2:

    bitmap 0      0 1 0 0 0 1 1 0
    bitmap 1      1 0 0 1 0 0 0 0
    positions     0 1 2 3               codes 2 1 0 2
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.index.roaring.containers import ARRAY_LIMIT, BLOCK
from tailbit.index.roaring.decode import bytes_of, headers_of, pairs_at
from tailbit.tables.positions import BitPositions

Bytes = npt.NDArray[np.uint8]

_BITSET = BLOCK // 8


class _Bitmap(NamedTuple):
    """Offsets of a bitmap: of its first bits, of its last container, and of its end."""

    bits: int
    last: int
    end: int


def place_asked(
    bitmaps: pa.BinaryArray, cardinality: Longs, first: int, positions: BitPositions, out: Longs
) -> bool:
    """Write the code of the bitmap that holds each position: `first` for bitmap 0, and so on.

    `out` holds 0 at positions without a code so far. Return False and write nothing unless every bitmap has a
    bitset per block up to the last position's block, or up to the block before it. Cost: a byte per position
    and bitmap.

    Raises:
        ValueError: two bitmaps hold a position, or the bytes are not as their headers say.
    """
    data, offsets = bytes_of(bitmaps)
    blocks = int(positions[-1]) // BLOCK + 1
    layouts = _laid_out(data, offsets, cardinality, blocks)
    if layouts is None:
        return False
    at, bit = (positions >> 3).astype(np.int64), (positions & 7).astype(np.uint8)
    for code, layout in enumerate(layouts, first):
        packed = layout.end - layout.last == _BITSET
        inside = (
            len(positions) if packed else int(np.searchsorted(positions, (layout.last - layout.bits) * 8))
        )
        there = np.flatnonzero(data[layout.bits :].take(at[:inside]) >> bit[:inside] & 1)
        if not packed:
            words = data[layout.last : layout.end].view("<u2")
            listed = np.isin(positions[inside:] % BLOCK, words)
            there = np.concatenate([there, inside + np.flatnonzero(listed)])
        if out[there].any():
            raise ValueError("postings share positions")
        out[there] = code
    return True


def _laid_out(data: Bytes, offsets: Longs, cardinality: Longs, least: int) -> list[_Bitmap] | None:
    """Return the layout of each bitmap; None if one has fewer than `least` blocks or other containers."""
    try:
        headers = headers_of(data, offsets[:-1])
        blocks = int(headers.sizes[0])
        alike = headers.known.all() and not headers.runny.any() and (headers.sizes == blocks).all()
        if not alike or not least <= blocks <= BLOCK:
            return None
        block, less = pairs_at(data, headers.pairs, headers.sizes)
    except IndexError as beyond:
        raise ValueError("a bitmap ends before its containers do") from beyond
    counts = less.reshape(-1, blocks).astype(np.int64) + 1
    if (counts[:, :-1] <= ARRAY_LIMIT).any() or (block.reshape(-1, blocks) != np.arange(blocks)).any():
        return None
    if not np.array_equal(counts.sum(axis=1), cardinality):
        raise ValueError("a bitmap has other positions than are recorded")
    bits = headers.pairs + 8 * blocks
    last = bits + (blocks - 1) * _BITSET
    ends = last + np.where(counts[:, -1] > ARRAY_LIMIT, _BITSET, 2 * counts[:, -1])
    if not np.array_equal(ends, offsets[1:]):
        raise ValueError("the containers of a bitmap do not fill its bytes")
    return [_Bitmap(*layout) for layout in zip(bits.tolist(), last.tolist(), ends.tolist(), strict=True)]
