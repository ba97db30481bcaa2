"""From codes by position to one serialized Roaring bitmap per code, by sorting: the kernel.

The rows of a range of codes are selected and sorted by code, and pyroaring makes a bitmap of the positions of
each code. If the range has many codes, each row's code and position are packed into one number for sorting.
Codes that are chosen as sparse keep their positions instead (`containers.pays`). A range of one code, which
may have any number of rows, needs no sort.

Memory: four bytes per row for the codes, four per key, and some forty per row of a range.

Worked example: eight rows, ranges of four rows:

    position       0  1  2  3  4  5  6  7
    code           3  0  2  1  0  4  2  1

    counts         2 2 2 1 1, so the ranges are the codes 0 and 1, and 2 to 4
    first range    pairs  0 1   1 3   0 4   1 7    sorted   0 1   0 4   1 3   1 7
                   code 0: 1 4      code 1: 3 7
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.keys import texts_of
from tailbit.index.roaring.collected import Codes
from tailbit.index.roaring.containers import BLOCK, bitmap_where, most_roaring_bytes, roaring_bytes
from tailbit.tables.positions import BitPositions, bitmap_of, positions_in

RANGE_ROWS = 1 << 20
"""Number of rows that are sorted together, at least."""

_MOST_RANGES = 16
"""Codes are scanned about this many times at most: once for each range, and once for each frequent code,
which has more than one row in this many and more rows than a block.
"""

_PIECE = 1 << 20
"""Number of codes that are scanned together."""

_RADIX = 1 << 16
"""Up to this many keys are sorted in passes over their bytes, which is three times as fast."""

SLAB_CODES = 1 << 18
"""Most bitmaps that are given together, because the writer builds a table of them."""


@dataclass(frozen=True)
class Bitmaps:
    """Serialized bitmaps of the codes `first`, `first + 1` and so on, one after the other.

    Shapes: `cardinality` int64 (n); `offsets` int64 (n + 1), begins and ends of the bitmaps; `data` uint8.
    Codes marked in `sparse` have no bitmap but `positions` (uint32), one code after the other.
    """

    first: int
    cardinality: Longs
    offsets: Longs
    data: npt.NDArray[np.uint8]
    sparse: Mask
    positions: BitPositions

    def arrow(self) -> pa.BinaryArray:
        """Return the bitmaps as an Arrow array, null for a sparse code; only the offsets are copied."""
        return texts_of(self.offsets, self.data, self.sparse)


Choose = Callable[[Longs, Longs, Longs, Longs], Mask]
"""Choice of sparse codes by their number of positions, their first and last positions, and the bytes of their
bitmaps, or more bytes, which may only add to the choice: see `containers.pays`.
"""


def bitmaps(
    codes: Codes,
    start: int,
    limit: int,
    choose: Choose,
    range_rows: int = RANGE_ROWS,
    positions: BitPositions | None = None,
) -> Iterator[Bitmaps]:
    """Yield one bitmap per code from 0 to `limit` - 1, empty ones included, by ascending code.

    `codes`: codes from `limit` on stand for no row. `positions`: the position of each code, ascending among
    equal codes; None if there is one code per position from `start` on. `range_rows`: rows of a range, about.
    """
    counts, range_rows = _counts(codes, limit), max(range_rows, len(codes) // _MOST_RANGES)
    frequent = np.flatnonzero(counts > max(BLOCK, len(codes) // _MOST_RANGES))
    low = 0
    while low < limit:
        ends = np.cumsum(counts[low : low + min(range_rows, SLAB_CODES)])
        high = low + max(1, int(np.searchsorted(ends, range_rows, side="right")))
        after = frequent[np.searchsorted(frequent, low) :]
        if len(after):
            high = min(high, max(low + 1, int(after[0])))
        if high == low + 1:
            yield _of_one(codes, start, low, choose, positions)
        else:
            ordered = _sorted(codes, start, low, high, int(ends[high - low - 1]), positions)
            yield _of_range(low, counts[low:high], ordered, choose)
        low = high


def _counts(codes: Codes, limit: int) -> Longs:
    """Count the rows of each code below `limit`."""
    counts = np.zeros(limit, dtype=np.int64)
    for begin in range(0, len(codes), _PIECE):
        piece = codes[begin : begin + _PIECE]
        if limit <= _PIECE:
            counts += np.bincount(piece, minlength=limit)[:limit]
        else:
            np.add.at(counts, piece[piece < limit], 1)
    return counts


def _of_one(codes: Codes, start: int, code: int, choose: Choose, positions: BitPositions | None) -> Bitmaps:
    """Build the bitmap of one code."""
    mask = codes == code
    bits = bitmap_where(mask).shift(start) if positions is None else bitmap_of(positions[mask])
    counts, sparse = np.array([len(bits)], dtype=np.int64), np.zeros(1, dtype=np.bool_)
    data, sizes = _serialized([bits])
    if bits:
        firsts, lasts = np.array([bits.min()]), np.array([bits.max()])
        sparse = choose(counts, firsts.astype(np.int64), lasts.astype(np.int64), sizes)
    if sparse.any():
        return Bitmaps(code, counts, np.zeros(2, dtype=np.int64), data[:0], sparse, positions_in(bits))
    return Bitmaps(code, counts, np.append(0, sizes), data, sparse, np.zeros(0, dtype=np.uint32))


def _of_range(low: int, counts: Longs, positions: BitPositions, choose: Choose) -> Bitmaps:
    """Build the bitmaps of the codes from `low` on. `positions`: those of each code, one after the other."""
    present = np.flatnonzero(counts)
    own = counts[present]
    ends = np.cumsum(own)
    sparse = np.zeros(len(counts), dtype=np.bool_)
    if len(present):
        firsts, lasts = positions[ends - own].astype(np.int64), positions[ends - 1].astype(np.int64)
        bound = most_roaring_bytes(own, firsts, lasts)
        candidates = choose(own, firsts, lasts, bound)
        if candidates.any():
            bound[candidates] = roaring_bytes(positions[np.repeat(candidates, own)], own[candidates])
            sparse[present] = choose(own, firsts, lasts, bound)
    sizes = np.zeros(len(counts) + 1, dtype=np.int64)
    is_dense = np.repeat(~sparse, counts)
    numbers = array("I")
    numbers.frombytes(positions[is_dense].tobytes())
    dense_ends = np.cumsum(counts[~sparse])
    spans = zip((dense_ends - counts[~sparse]).tolist(), dense_ends.tolist(), strict=True)
    data, sizes[1:][~sparse] = _serialized([_bitmap(numbers[begin:end]) for begin, end in spans])
    return Bitmaps(low, counts, np.cumsum(sizes), data, sparse, positions[~is_dense])


def _bitmap(positions: array[int]) -> BitMap:
    """Return the bitmap of ascending positions, of which a single run takes no time to add."""
    if positions and positions[-1] - positions[0] + 1 == len(positions):
        return BitMap(range(positions[0], positions[-1] + 1))
    return BitMap(positions)


def _serialized(dense: Sequence[BitMap]) -> tuple[npt.NDArray[np.uint8], Longs]:
    """Return run-optimised bitmaps as bytes, one after the other, and the bytes of each."""
    for bits in dense:
        bits.run_optimize()
    bodies = [bits.serialize() for bits in dense]
    return np.frombuffer(b"".join(bodies), np.uint8), np.array([len(body) for body in bodies], dtype=np.int64)


def _sorted(
    codes: Codes, start: int, low: int, high: int, rows: int, code_positions: BitPositions | None
) -> BitPositions:
    """Return the positions of the codes in `[low, high)`, code by code, ascending within a code.

    `start`: position of the first entry of `codes`, unless `code_positions` gives the position of each.
    `rows`: number of positions to return.
    """
    local = np.empty(rows, dtype=np.uint16 if high - low <= _RADIX else np.uint32)
    positions, end = np.empty(rows, dtype=np.uint32), 0
    for begin in range(0, len(codes), _PIECE):
        # With unsigned wrap-around, a code below the range becomes far larger than its width.
        piece = codes[begin : begin + _PIECE] - codes.dtype.type(low)
        indexes = np.flatnonzero(piece < high - low)
        rows_of_piece = slice(end, end + len(indexes))
        local[rows_of_piece] = piece[indexes]
        if code_positions is None:
            np.add(indexes, start + begin, out=positions[rows_of_piece], casting="unsafe")
        else:
            positions[rows_of_piece] = code_positions[begin : begin + _PIECE][indexes]
        end += len(indexes)
    if (local[1:] >= local[:-1]).all():
        return positions
    if local.dtype == np.uint16:
        return positions[np.argsort(local, kind="stable")]
    pairs = local.astype(np.uint64) << np.uint64(32)
    pairs |= positions
    pairs.sort()
    ordered: BitPositions = pairs.astype(np.uint32)
    return ordered
