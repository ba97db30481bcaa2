"""Sparse keys: plain positions, for keys whose Roaring containers would be mostly headers.

A container costs eight bytes of header and offset, whatever it holds. A key with few positions per container
is smaller as its sorted positions: the first one, and the gap to each next one.

Input: the containers of each block, and which codes are sparse. Output: their positions by ascending code,
without a step per row or code.

Worked example: two blocks of the codes 0 and 1, both sparse (positions of the second block begin at 65,536):

    block 0       code 0: 3 9       code 1: 4
    block 1       code 0: 0         code 1: 7 8
    counts        3, 3
    positions     3 9 65536 | 4 65543 65544
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tailbit.base.arrays import Longs, Mask
from tailbit.index.roaring.containers import ARRAY_LIMIT, BLOCK, Block, ranges
from tailbit.tables.positions import BitPositions

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
    at = np.flatnonzero(opens)
    sizes = np.minimum(2 * np.diff(at, append=len(positions)), _BITSET)
    sizes = np.minimum(sizes, 2 + 4 * np.add.reduceat(jumps, at, dtype=np.int64))
    owner = np.searchsorted(at, starts)
    totals: Longs = _HEADER + np.add.reduceat(sizes + _CONTAINER, owner)
    return totals


def placed(parts: Iterable[Block], low: int, counts: Longs) -> BitPositions:
    """Return the positions of sparse codes, code after code; `parts` hold only the containers of these codes.

    `parts`: one per block, ascending by `number`. `counts`: int64, numbers of positions of the codes `low`,
    `low + 1` and so on; 0 for a code that is not sparse.
    """
    out = np.empty(int(counts.sum()), dtype=np.uint32)
    place = np.cumsum(counts) - counts
    for part in parts:
        if not len(part.codes):
            continue
        codes, many = part.codes.astype(np.int64) - low, part.counts.astype(np.int64)
        positions = _lows(part).astype(np.uint32) + np.uint32(part.number * BLOCK)
        out[place[codes] if len(positions) == len(codes) else ranges(place[codes], many)] = positions
        place[codes] += many
    return out


def _lows(part: Block) -> npt.NDArray[Any]:
    """Return the positions of all containers within their block, whatever their forms."""
    bitsets = ~part.runs & (part.counts > ARRAY_LIMIT)
    if not (part.runs.any() or bitsets.any()):
        return part.words
    counts, sizes = part.counts.astype(np.int64), part.sizes.astype(np.int64)
    at, to = np.cumsum(sizes) - sizes, np.cumsum(counts) - counts
    out = np.empty(int(counts.sum()), dtype=np.uint16)
    plain = ~part.runs & ~bitsets
    out[ranges(to[plain], counts[plain])] = part.words[ranges(at[plain], counts[plain])]
    for i in np.flatnonzero(bitsets).tolist():
        bits = np.unpackbits(part.words[at[i] : at[i] + sizes[i]].view(np.uint8), bitorder="little")
        out[to[i] : to[i] + counts[i]] = np.flatnonzero(bits)
    runs = part.runs
    pairs = part.words[ranges(at[runs] + 1, sizes[runs] - 1)].astype(np.int64).reshape(-1, 2)
    out[ranges(to[runs], counts[runs])] = ranges(pairs[:, 0], pairs[:, 1] + 1)
    return out
