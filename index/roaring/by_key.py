"""Bitmaps of columns with many keys: positions sorted by key, a range of keys at a time, no containers.

With more keys than a block has positions, a container has about one position, and creating, summing and
placing containers costs more than the positions. Here the rows of a range of keys are selected by their codes
and sorted by code. If the range has many codes, each row's code and position are packed into one number for
sorting. Dense keys still go through containers.

Memory: four bytes per row for the codes, four per key, and some forty per row of `RANGE_ROWS`.

Worked example: eight rows, ranges of four rows:

    position       0  1  2  3  4  5  6  7
    code           3  0  2  1  0  4  2  1

    counts         2 2 2 1 1, so the ranges are the codes 0 and 1, and 2 to 4
    first range    pairs  0 1   1 3   0 4   1 7    sorted   0 1   0 4   1 3   1 7
                   code 0: 1 4      code 1: 3 7
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tailbit.base.arrays import Longs, Mask
from tailbit.index.roaring.collected import Codes
from tailbit.index.roaring.containers import BLOCK, Block, containers, from_sorted
from tailbit.index.roaring.serialize import SLAB_CODES, Bitmaps, Choose, bitmaps
from tailbit.index.roaring.sparse import roaring_bytes
from tailbit.tables.positions import BitPositions

RANGE_ROWS = 1 << 20
"""Number of rows that are sorted together, about."""

_PIECE = 1 << 20
"""Number of codes that are scanned together."""

_RADIX = 1 << 16
"""Up to this many keys are sorted in passes over their bytes, which is three times as fast."""

_NO_BYTES = np.zeros(0, dtype=np.uint8)


def bitmaps_by_key(
    codes: Codes,
    start: int,
    limit: int,
    choose: Choose,
    range_rows: int = RANGE_ROWS,
    positions: BitPositions | None = None,
) -> Iterator[Bitmaps]:
    """Yield what `serialize.bitmaps` yields for these codes, in ranges of about `range_rows` rows.

    `codes`: codes from `limit` on stand for no row. `positions`: the position of each code, ascending among
    equal codes; None if there is one code per position from `start` on, a multiple of BLOCK.
    """
    counts = np.zeros(limit, dtype=np.uint32)
    for at in range(0, len(codes), _PIECE):
        piece = codes[at : at + _PIECE]
        np.add.at(counts, piece[piece < limit], np.uint32(1))
    low = 0
    while low < limit:
        ends = np.cumsum(counts[low : low + range_rows], dtype=np.int64)
        high = low + max(1, int(np.searchsorted(ends, range_rows, side="right")))
        if ends[0] > range_rows:
            yield _frequent(codes, start, low, choose, positions)
        else:
            ordered = _sorted(codes, start, low, high, int(ends[high - low - 1]), positions)
            yield from _slabs(_range(low, counts[low:high].astype(np.int64), ordered, choose))
        low = high


def _frequent(codes: Codes, start: int, code: int, choose: Choose, positions: BitPositions | None) -> Bitmaps:
    """Build, by containers, the bitmap of one code that has more rows than are sorted together."""
    if positions is None:
        blocks = [
            containers((start + at) // BLOCK, (codes[at : at + BLOCK] != code).view(np.uint8), 1)
            for at in range(0, len(codes), BLOCK)
        ]
    else:
        own = positions[codes == code]
        blocks = _blocks(own, np.array([len(own)]), np.zeros(1, dtype=np.bool_))
    (part,) = bitmaps(blocks, 1, choose=choose)
    return replace(part, first=code)


def _sorted(
    codes: Codes, start: int, low: int, high: int, rows: int, at_positions: BitPositions | None
) -> BitPositions:
    """Return the positions of the codes in `[low, high)`, code by code, ascending within a code.

    `start`: position of the first entry of `codes`, unless `at_positions` gives the position of each. `rows`:
    number of positions to return.
    """
    local = np.empty(rows, dtype=np.uint16 if high - low <= _RADIX else np.uint32)
    positions, end = np.empty(rows, dtype=np.uint32), 0
    for at in range(0, len(codes), _PIECE):
        # With unsigned wrap-around, a code below the range becomes far larger than its width.
        piece = codes[at : at + _PIECE] - codes.dtype.type(low)
        places = np.flatnonzero(piece < high - low)
        local[end : end + len(places)] = piece[places]
        if at_positions is None:
            np.add(places, start + at, out=positions[end : end + len(places)], casting="unsafe")
        else:
            positions[end : end + len(places)] = at_positions[at : at + _PIECE][places]
        end += len(places)
    if local.dtype == np.uint16:
        return positions[np.argsort(local, kind="stable")]
    pairs = local.astype(np.uint64) << np.uint64(32)
    pairs |= positions
    pairs.sort()
    out: BitPositions = pairs.astype(np.uint32)
    return out


def _slabs(whole: Bitmaps) -> Iterator[Bitmaps]:
    """Yield the bitmaps in parts of SLAB_CODES codes, because the writer builds a table of each part."""
    ahead = np.concatenate([[0], np.cumsum(np.where(whole.sparse, whole.cardinality, 0))])
    for a in range(0, len(whole.cardinality), SLAB_CODES):
        b = min(a + SLAB_CODES, len(whole.cardinality))
        ends = whole.offsets[a : b + 1]
        yield Bitmaps(
            whole.first + a,
            whole.cardinality[a:b],
            ends - ends[0],
            whole.data[ends[0] : ends[-1]],
            whole.sparse[a:b],
            whole.positions[ahead[a] : ahead[b]],
        )


def _range(low: int, counts: Longs, positions: BitPositions, choose: Choose) -> Bitmaps:
    there = np.flatnonzero(counts)
    own = counts[there]
    ends = np.cumsum(own)
    sparse = np.zeros(len(counts), dtype=np.bool_)
    if len(there):
        firsts, lasts = positions[ends - own].astype(np.int64), positions[ends - 1].astype(np.int64)
        sparse[there] = choose(own, firsts, lasts, roaring_bytes(positions, own))
    sizes = np.zeros(len(counts) + 1, dtype=np.int64)
    if len(there) == len(counts) and sparse.all():
        return Bitmaps(low, counts, sizes, _NO_BYTES, sparse, positions)
    dense = np.repeat(~sparse, counts)
    parts = list(bitmaps(_blocks(positions[dense], counts, sparse), int(np.count_nonzero(~sparse))))
    sizes[1:][~sparse] = np.concatenate([np.diff(part.offsets) for part in parts])
    data = np.concatenate([part.data for part in parts])
    return Bitmaps(low, counts, np.cumsum(sizes), data, sparse, positions[~dense])


def _blocks(positions: BitPositions, counts: Longs, sparse: Mask) -> list[Block]:
    """Return the containers of dense codes, which are renumbered without the sparse codes between them."""
    own = counts[~sparse]
    codes = np.repeat(np.arange(len(own), dtype=np.uint32), own)
    numbers = (positions >> np.uint32(16)).astype(np.uint16)
    order = np.argsort(numbers, kind="stable")
    numbers, lows, codes = numbers[order], positions[order].astype(np.uint16), codes[order]
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    parts = zip(
        numbers[np.concatenate([[0], cuts])].tolist() if len(numbers) else [],
        np.split(lows, cuts),
        np.split(codes, cuts),
        strict=False,
    )
    return [from_sorted(number, low, code, len(own)) for number, low, code in parts]
