"""From containers to one serialized Roaring bitmap per code: the second half of the kernel.

Input: the containers of each block of 65,536 positions. Output: portable 32-bit bitmaps, byte for byte those
of a run-optimised `BitMap`, laid out by code without a step per row or code: where each container goes is
arithmetic.
Memory: the containers (two bytes a row, some twenty a container) and `SLAB_BYTES` of output.

Source: https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.index.containers import Block, ranges

SLAB_BYTES = 32 << 20
"""About how many bytes of bitmaps are laid out at a time."""

_COOKIE, _COOKIE_WITH_RUNS = 12346, 12347
_NO_OFFSETS_BELOW = 4
"""A bitmap with runs has offsets only from so many containers on."""
_FEW_MOVES = 256

Array = npt.NDArray[Any]
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Bitmaps:
    """Serialized bitmaps of the codes `first`, `first + 1` and so on, one after the other.

    Shapes: `cardinality` int64 (n); `offsets` int64 (n + 1), where each begins and ends; `data` uint8.
    """

    first: int
    cardinality: Longs
    offsets: Longs
    data: npt.NDArray[np.uint8]

    def arrow(self) -> pa.BinaryArray:
        """One value a bitmap; nothing is copied but the offsets."""
        ends = pa.py_buffer(self.offsets.astype(np.int32))
        return pa.Array.from_buffers(
            pa.binary(), len(self.cardinality), [None, ends, pa.py_buffer(self.data)]
        )


def bitmaps(blocks: Iterable[Block], limit: int, slab_bytes: int = SLAB_BYTES) -> Iterator[Bitmaps]:
    """One bitmap per code from 0 to `limit` - 1, empty ones included, in slabs of about `slab_bytes`.

    `blocks`: by rising number. Slabs come by rising code; the containers are held until the last one.
    """
    held = list(blocks)
    layout = _Layout(held, limit)
    for low, high in layout.slabs(slab_bytes):
        yield layout.slab(held, low, high)


class _Layout:
    """Where everything of every bitmap goes, in words (two bytes) from the start of its slab.

    The run flags of a bitmap take bytes, which may be odd in number: such a bitmap is laid out with a byte
    of padding behind them, which is taken out at the end.
    """

    def __init__(self, blocks: list[Block], limit: int) -> None:
        self.many = np.zeros(limit, dtype=np.int64)
        self.cardinality = np.zeros(limit, dtype=np.int64)
        self.body = np.zeros(limit, dtype=np.int64)
        self.runs = np.zeros(limit, dtype=np.bool_)
        for block in blocks:
            # Codes of a block are distinct, so that indexed addition meets each once.
            self.many[block.codes] += 1
            self.cardinality[block.codes] += block.counts
            self.body[block.codes] += block.sizes
            if block.runs.any():
                self.runs[block.codes] |= block.runs
        flag_bytes = np.where(self.runs, -(-self.many // 8), 0)
        self.padded = flag_bytes % 2 == 1
        self.flags = np.where(self.runs, 2, 0)
        self.heads = np.where(self.runs, 2 + (flag_bytes + 1) // 2, 4)
        self.has_offsets = ~self.runs | (self.many >= _NO_OFFSETS_BELOW)
        self.offsets = self.heads + 2 * self.many
        self.bodies = self.offsets + np.where(self.has_offsets, 2 * self.many, 0)
        self.words = self.bodies + self.body

    def slabs(self, slab_bytes: int) -> list[tuple[int, int]]:
        """Ranges of codes, each of about `slab_bytes` of bitmaps and of one code at least."""
        ends = 2 * np.cumsum(self.words)
        out, low = [], 0
        while low < len(ends):
            before = int(ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(ends, before + slab_bytes, side="right")))
            out.append((low, high))
            low = high
        return out

    def slab(self, blocks: list[Block], low: int, high: int) -> Bitmaps:
        """The bitmaps of codes `low` to `high`, not included."""
        words = self.words[low:high]
        starts = np.cumsum(words) - words
        out = np.zeros(int(words.sum()), dtype="<u2")
        self._write_starts(out, starts, slice(low, high))
        place = _Places(self, starts, slice(low, high))
        for block in blocks:
            place.write(block, out, *np.searchsorted(block.codes, [low, high]).tolist())
        sizes = 2 * words - self.padded[low:high]
        ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
        return Bitmaps(low, self.cardinality[low:high], ends, self._unpadded(out, starts, slice(low, high)))

    def _write_starts(self, out: Array, starts: Longs, part: slice) -> None:
        runs, many = self.runs[part], self.many[part]
        out[starts] = np.where(runs, _COOKIE_WITH_RUNS, _COOKIE)
        out[starts + 1] = np.where(runs, many - 1, 0)
        plain = ~runs
        out[starts[plain] + 2] = many[plain] & 0xFFFF
        out[starts[plain] + 3] = many[plain] >> 16

    def _unpadded(self, out: Array, starts: Longs, part: slice) -> npt.NDArray[np.uint8]:
        data = out.view(np.uint8)
        padded = np.flatnonzero(self.padded[part])
        if not len(padded):
            return data
        # The byte before the heads.
        kept = np.ones(len(data), dtype=np.bool_)
        kept[2 * (starts + self.heads[part])[padded] - 1] = False
        return data[kept]


class _Places:
    """Writes the blocks of one slab in turn: for each code, where its next container goes."""

    def __init__(self, layout: _Layout, starts: Longs, part: slice) -> None:
        self._low = part.start
        self._flags = 2 * (starts + layout.flags[part])
        self._heads = starts + layout.heads[part]
        self._offsets = starts + layout.offsets[part]
        self._next = starts + layout.bodies[part]
        self._base = 2 * starts + layout.padded[part]
        self._seen = np.zeros(len(starts), dtype=np.int64)
        self._runs = layout.runs[part]
        self._without_offsets = ~layout.has_offsets[part]
        self._any_runs = bool(self._runs.any())
        self._any_without = bool(self._without_offsets.any())

    def write(self, block: Block, out: Array, a: int, b: int) -> None:
        """Write the containers a to b (not included) of a block."""
        if a == b:
            return
        codes, sizes = block.codes[a:b].astype(np.int64) - self._low, block.sizes[a:b].astype(np.int64)
        seen, target = self._seen[codes], self._next[codes]
        head = self._heads[codes] + 2 * seen
        out[head] = block.number
        out[head + 1] = block.counts[a:b] - 1
        self._write_offsets(out, codes, seen, target)
        if self._any_runs:
            self._write_flags(out, codes[block.runs[a:b]], seen[block.runs[a:b]])
        start = int(block.sizes[:a].sum(dtype=np.int64))
        _move(out, block.words[start : start + int(sizes.sum())], target, sizes)
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
    """Copy consecutive pieces of `words` to their targets: a few one by one, many at once."""
    if len(sizes) <= _FEW_MOVES:
        at = 0
        for target, size in zip(targets.tolist(), sizes.tolist(), strict=True):
            out[target : target + size] = words[at : at + size]
            at += size
        return
    out[ranges(targets, sizes)] = words
