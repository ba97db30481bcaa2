"""From containers to one serialized Roaring bitmap per code: the second half of the kernel.

Codes that are chosen as sparse get their positions instead, see `sparse`.

Input: the containers of each block of 65,536 positions. Output: portable 32-bit bitmaps, byte for byte those
of a run-optimised `BitMap`, laid out by code without a step per row or code: arithmetic gives the place of
each container. Memory: the containers (two bytes per row, some twenty per container) and `SLAB_BYTES` of
output.

Worked example: the eight positions of `containers`, as words (two bytes each):

    code   cookie        containers   flags   number, count - 1   offset   container     bytes
    0      12346 0       1 0                  0 1                 16 0     1 6           20
    1      12346 0       1 0                  0 1                 16 0     0 7           20
    2      12347 0                    1       0 3                          1 2 3         15

Code 2 has a run container, so its second word is the number of containers less one, and the flags say which
containers are runs. The flags take one byte: a padding byte is laid out behind it and removed at the end. A
bitmap with runs has no offsets below four containers.

Source: https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.roaring.containers import BLOCK, Block, ranges
from tailbit.index.roaring.sparse import placed
from tailbit.tables.positions import BitPositions

SLAB_BYTES = 32 << 20
"""Bytes of bitmaps that are laid out together, about."""

SLAB_CODES = 1 << 18
"""Most bitmaps that are laid out together."""

COOKIE, COOKIE_WITH_RUNS = 12346, 12347
"""First word of a portable bitmap: without run containers, and with them (a half word)."""
_NO_OFFSETS_BELOW = 4
"""A bitmap with runs has offsets only if it has this many containers or more."""
_RUN_FLAGS = 2
"""Words before the run flags."""
_FEW_MOVES = 256

Array = npt.NDArray[Any]


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
        ends = pa.py_buffer(self.offsets.astype(np.int32))
        there = pa.py_buffer(np.packbits(~self.sparse, bitorder="little")) if self.sparse.any() else None
        return pa.Array.from_buffers(
            pa.binary(), len(self.cardinality), [there, ends, pa.py_buffer(self.data)]
        )


Choose = Callable[[Longs, Longs, Longs, Longs], Mask]
"""Choice of sparse codes by their number of positions, their approximate first and last positions, and the
bytes of their bitmaps: see `sparse.pays`.
"""


def bitmaps(
    blocks: Sequence[Block], limit: int, slab_bytes: int = SLAB_BYTES, choose: Choose | None = None
) -> Iterator[Bitmaps]:
    """Yield one bitmap per code from 0 to `limit` - 1, empty ones included, in slabs of about `slab_bytes`.

    `blocks`: by ascending number. `choose`: selects sparse codes, which have no bitmap; without it there are
    none. Slabs come by ascending code.
    """
    sums = _Sums(blocks, limit)
    if choose is not None:
        sums.choose(choose)
    for low, high in sums.slabs(slab_bytes):
        yield _Layout(sums, low, high).bitmaps(blocks)


class _Sums:
    """Sums per code: number of containers, of positions and of words, and whether any container is runs."""

    def __init__(self, blocks: Sequence[Block], limit: int) -> None:
        self.many = np.zeros(limit, dtype=np.int32)
        self.cardinality = np.zeros(limit, dtype=np.int32)
        self.body = np.zeros(limit, dtype=np.int32)
        self.runs = np.zeros(limit, dtype=np.bool_)
        self.sparse = np.zeros(limit, dtype=np.bool_)
        self.first = np.zeros(limit, dtype=np.int32)
        self.last = np.zeros(limit, dtype=np.int32)
        for block in blocks:
            # Codes of a block are distinct, so indexed addition meets each code once.
            self.first[block.codes[self.many[block.codes] == 0]] = block.number
            self.last[block.codes] = block.number
            self.many[block.codes] += 1
            self.cardinality[block.codes] += block.counts
            self.body[block.codes] += block.sizes
            if block.runs.any():
                self.runs[block.codes] |= block.runs

    def choose(self, choose: Choose) -> None:
        """Choose sparse codes; the first and last positions are taken to be the ends of their blocks."""
        for low in range(0, len(self.many), SLAB_CODES):
            layout = _Layout(self, low, min(low + SLAB_CODES, len(self.many)))
            at = slice(low, low + SLAB_CODES)
            firsts, lasts = self.first[at].astype(np.int64), self.last[at].astype(np.int64)
            sizes = 2 * layout.words - layout.padded
            ends = (lasts + 1) * BLOCK - 1
            self.sparse[at] = choose(layout.cardinality, firsts * BLOCK, ends, sizes)

    def slabs(self, slab_bytes: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of codes, each of about `slab_bytes` of bitmaps and of at least one code."""
        for first in range(0, len(self.many), SLAB_CODES):
            layout = _Layout(self, first, min(first + SLAB_CODES, len(self.many)))
            ends = np.cumsum(2 * layout.words + 4 * np.where(layout.sparse, layout.cardinality, 0))
            low = 0
            while low < len(ends):
                before = int(ends[low - 1]) if low else 0
                high = max(low + 1, int(np.searchsorted(ends, before + slab_bytes, side="right")))
                yield first + low, first + high
                low = high


class _Layout:
    """The layout of the bitmaps of a slab, in words (two bytes) from the start of each bitmap.

    The run flags of a bitmap take bytes, possibly an odd number of them: such a bitmap is laid out with a
    byte of padding behind the flags, which is removed at the end.
    """

    def __init__(self, sums: _Sums, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.many = sums.many[low:high].astype(np.int64)
        self.cardinality = sums.cardinality[low:high].astype(np.int64)
        self.sparse = sums.sparse[low:high]
        self.runs = sums.runs[low:high] & ~self.sparse
        flag_bytes = np.where(self.runs, -(-self.many // 8), 0)
        self.padded = flag_bytes % 2 == 1
        self.heads = np.where(self.runs, _RUN_FLAGS + (flag_bytes + 1) // 2, 4)
        self.has_offsets = ~self.runs | (self.many >= _NO_OFFSETS_BELOW)
        self.offsets = self.heads + 2 * self.many
        self.bodies = self.offsets + np.where(self.has_offsets, 2 * self.many, 0)
        self.words = np.where(self.sparse, 0, self.bodies + sums.body[low:high])

    def bitmaps(self, blocks: Sequence[Block]) -> Bitmaps:
        """Return the bitmaps of the slab."""
        starts = np.cumsum(self.words) - self.words
        out = np.zeros(int(self.words.sum()), dtype="<u2")
        self._write_starts(out, starts)
        place = _Places(self, starts)
        for block in blocks:
            place.write(block.within(self.low, self.high, ~self.sparse), out)
        sizes = 2 * self.words - self.padded
        ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
        data = self._unpadded(out, starts)
        return Bitmaps(self.low, self.cardinality, ends, data, self.sparse, self._positions(blocks))

    def _positions(self, blocks: Sequence[Block]) -> BitPositions:
        if not self.sparse.any():
            return np.zeros(0, dtype=np.uint32)
        parts = (block.within(self.low, self.high, self.sparse) for block in blocks)
        return placed(parts, self.low, np.where(self.sparse, self.cardinality, 0))

    def _write_starts(self, out: Array, starts: Longs) -> None:
        there = ~self.sparse
        starts, runs, many = starts[there], self.runs[there], self.many[there]
        out[starts] = np.where(runs, COOKIE_WITH_RUNS, COOKIE)
        out[starts + 1] = np.where(runs, many - 1, 0)
        plain = ~runs
        out[starts[plain] + 2] = many[plain] & 0xFFFF
        out[starts[plain] + 3] = many[plain] >> 16

    def _unpadded(self, out: Array, starts: Longs) -> npt.NDArray[np.uint8]:
        data = out.view(np.uint8)
        padded = np.flatnonzero(self.padded)
        if not len(padded):
            return data
        # Remove the padding byte before the heads.
        kept = np.ones(len(data), dtype=np.bool_)
        kept[2 * (starts + self.heads)[padded] - 1] = False
        return data[kept]


class _Places:
    """Writer of the containers of a slab (the bitmaps of a range of codes), block after block.

    The writer tracks where the next container of each code goes.
    """

    def __init__(self, layout: _Layout, starts: Longs) -> None:
        self._low = layout.low
        self._flags = 2 * (starts + _RUN_FLAGS)
        self._heads = starts + layout.heads
        self._offsets = starts + layout.offsets
        self._next = starts + layout.bodies
        self._base = 2 * starts + layout.padded
        self._seen = np.zeros(len(starts), dtype=np.int64)
        self._runs = layout.runs
        self._without_offsets = ~layout.has_offsets
        self._any_runs = bool(self._runs.any())
        self._any_without = bool(self._without_offsets.any())

    def write(self, part: Block, out: Array) -> None:
        """Write the containers of one block for the slab's codes into `out`, at the tracked places.

        `part`: containers of one block of 65,536 positions. `out`: uint16 words of all bitmaps of the slab.
        """
        if not len(part.codes):
            return
        codes, sizes = part.codes.astype(np.int64) - self._low, part.sizes.astype(np.int64)
        seen, target = self._seen[codes], self._next[codes]
        head = self._heads[codes] + 2 * seen
        out[head] = part.number
        out[head + 1] = part.counts - 1
        self._write_offsets(out, codes, seen, target)
        if self._any_runs:
            self._write_flags(out, codes[part.runs], seen[part.runs])
        _move(out, part.words, target, sizes)
        self._seen[codes] = seen + 1
        self._next[codes] = target + sizes

    def _write_offsets(self, out: Array, codes: Longs, seen: Longs, target: Longs) -> None:
        offset = 2 * target - self._base[codes]
        at = self._offsets[codes] + 2 * seen
        if self._any_without:
            has = ~self._without_offsets[codes]
            offset, at = offset[has], at[has]
        out[at] = offset & 0xFFFF
        out[at + 1] = offset >> 16

    def _write_flags(self, out: Array, codes: Longs, seen: Longs) -> None:
        out.view(np.uint8)[self._flags[codes] + seen // 8] |= (1 << (seen % 8)).astype(np.uint8)


def _move(out: Array, words: Array, targets: Longs, sizes: Longs) -> None:
    """Copy consecutive pieces of `words` to their targets: few pieces one by one, many at once."""
    if len(sizes) <= _FEW_MOVES:
        at = 0
        for target, size in zip(targets.tolist(), sizes.tolist(), strict=True):
            out[target : target + size] = words[at : at + size]
            at += size
        return
    out[ranges(targets, sizes)] = words
