"""From codes by position to Roaring containers: the first half of the kernel.

A block is 65,536 positions, the range of one container. Its codes are sorted on their own by radix, inside
the CPU cache; each run of equal codes is then a container, and its sorted positions are that container's
contents. Up to `FEW_CODES` codes need no sort: comparing and packing bits gives the containers. Nothing is
done row by row.

Every container takes the smallest of its three forms (array, bitset, runs), as `run_optimize` would choose.
Runs are not considered in a sorted block if at most one position in 64 has a neighbour of the same code. A
container without runs is read by its cardinality alone: an array up to 4,096 positions, a bitset above. Sizes
cannot tell the two apart, since an array of 4,096 positions has as many words as a bitset.

Worked example: a block of eight positions, three codes.

    position             0   1   2   3   4   5   6   7
    code                 1   0   2   2   2   2   0   1

    by_comparing  bits of code 0    0 1 0 0 0 0 1 0      2 positions in 2 runs
                          code 1    1 0 0 0 0 0 0 1      2 positions in 2 runs
                          code 2    0 0 1 1 1 1 0 0      4 positions in 1 run

    by_sorting    codes             0  0  1  1  2  2  2  2
                  positions         1  6  0  7  2  3  4  5
                  apart             x  x  x  x  x               x: does not follow the position before it
                  first             0     2     4               index where each container begins

    both give     code      0        1        2
                  counts    2        2        4
                  runs      no       no       yes               three words of runs beat four of an array
                  words     1 6      0 7      1 2 3             one run: from 2, and 3 more
Source: https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tailbit.base.arrays import Ints, Longs, Mask

BLOCK = 1 << 16
"""Positions of a block: the range of one Roaring container."""

FEW_CODES = 16
"""Up to this many codes, comparing a block with each code beats sorting it: most containers are bitsets."""

ARRAY_LIMIT = 4096
_BITSET_WORDS = BLOCK // 16

Array = npt.NDArray[Any]


class Block(NamedTuple):
    """The containers of one block, by ascending code.

    `number`: position // BLOCK. Per container: `codes`; `counts`, its number of positions; `sizes`, its words
    in `words` (uint16, one container after the other); `runs`, whether it is a run container. A container
    without runs is a bitset if `counts` is above 4,096, else an array.
    """

    number: int
    codes: Ints
    counts: Ints
    sizes: Ints
    runs: Mask
    words: npt.NDArray[np.uint16]

    def within(self, low: int, high: int, wanted: Mask) -> Block:
        """Return the containers of the codes in `[low, high)` that `wanted` marks, one flag per code."""
        a, b = np.searchsorted(self.codes, [low, high]).tolist()
        start = int(self.sizes[:a].sum(dtype=np.int64))
        sizes = self.sizes[a:b].astype(np.int64)
        words = self.words[start : start + int(sizes.sum())]
        kept = wanted[self.codes[a:b] - low]
        which: Any = slice(a, b)
        if not kept.all():
            words = words[ranges((np.cumsum(sizes) - sizes)[kept], sizes[kept])]
            which = a + np.flatnonzero(kept)
        codes, counts, lengths = self.codes[which], self.counts[which], self.sizes[which]
        return Block(self.number, codes, counts, lengths, self.runs[which], words)


def containers(number: int, codes: Array, limit: int) -> Block:
    """Return the containers of one block of at most BLOCK positions.

    `codes`: one unsigned code per position, by position; codes from `limit` on stand for no row and are
    skipped.
    """
    if limit <= FEW_CODES:
        return by_comparing(number, codes, limit)
    return by_sorting(number, codes, limit)


def by_comparing(number: int, codes: Array, limit: int) -> Block:
    """Return the containers of a block of few codes. Cost: a pass over the block per code."""
    masks = codes == np.arange(limit, dtype=codes.dtype)[:, None]
    bits = np.zeros((limit, BLOCK // 8), dtype=np.uint8)
    bits[:, : -(-len(codes) // 8)] = np.packbits(masks, axis=1, bitorder="little")
    longs = bits.view("<u8")
    starts = longs & ~(longs << np.uint64(1))
    starts[:, 1:] &= ~(longs[:, :-1] >> np.uint64(63))
    counts = np.bitwise_count(longs).sum(axis=1, dtype=np.int64)
    runs = np.bitwise_count(starts).sum(axis=1, dtype=np.int64)
    there = np.flatnonzero(counts)
    sizes, as_runs = _forms(counts[there], runs[there])
    as_bits = _bitsets(counts[there], as_runs)
    words = [
        bits[code].view("<u2") if bitset else _listed(np.flatnonzero(masks[code]), run)
        for code, bitset, run in zip(there.tolist(), as_bits.tolist(), as_runs.tolist(), strict=True)
    ]
    return _block(number, there, counts[there], sizes, as_runs, np.concatenate([_NO_WORDS, *words]))


def by_sorting(number: int, codes: Array, limit: int) -> Block:
    """Return the containers of a block of any number of codes. Cost: a radix sort of the block."""
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    if limit >= BLOCK:
        order = order[np.argsort((codes >> 16).astype(np.uint16)[order], kind="stable")]
    return from_sorted(number, order.astype(np.uint16), codes.take(order), limit)


def from_sorted(number: int, lows: npt.NDArray[np.uint16], codes: Array, limit: int) -> Block:
    """Return the containers of one block from its positions sorted by code.

    `lows`: positions within the block, ascending within each code. `codes`: the code of each position,
    ascending; codes from `limit` on, which stand for no row, come last.
    """
    first = np.flatnonzero(np.r_[len(codes) > 0, codes[1:] != codes[:-1]][: len(codes)])
    present = codes[first].astype(np.int64)
    end = len(codes)
    if len(present) and present[-1] >= limit:
        kept = int(np.searchsorted(present, limit))
        end, first, present = int(first[kept]), first[:kept], present[:kept]
    counts = np.diff(first, append=end)
    lows = lows[:end]
    # Only neighbours make runs pay, and each neighbour saves at most 2 bytes.
    apart = np.empty(end, dtype=np.bool_)
    np.not_equal(lows[1:], lows[:-1] + np.uint16(1), out=apart[1:])
    apart[first] = True
    if end - int(np.count_nonzero(apart)) > end // 64:
        sizes, as_runs = _forms(counts, np.add.reduceat(apart, first, dtype=np.int64))
    else:
        sizes, as_runs = np.minimum(counts, _BITSET_WORDS), np.zeros(len(first), dtype=np.bool_)
    if as_runs.any() or _bitsets(counts, as_runs).any():
        lows = _reformed(lows, apart, first, counts, sizes, as_runs)
    return _block(number, present, counts, sizes, as_runs, lows)


def _block(
    number: int,
    codes: Longs,
    counts: Longs,
    sizes: Longs,
    runs: Mask,
    words: npt.NDArray[np.uint16],
) -> Block:
    """Return a block of containers, with its numbers cast to int32.

    `codes`, `counts`, `sizes`, `runs`: for each container, its code, its positions, its words, and whether it
    holds runs; `words`: those of all containers. int32, since many keys make about one container per row.
    """
    return Block(number, codes.astype(np.int32), counts.astype(np.int32), sizes.astype(np.int32), runs, words)


def _forms(counts: Longs, runs: Longs) -> tuple[Longs, Mask]:
    """Return the words of the smallest form of each container, and whether that form is runs."""
    plain = np.minimum(counts, _BITSET_WORDS)
    as_runs = 1 + 2 * runs < plain
    return np.where(as_runs, 1 + 2 * runs, plain), as_runs


def _bitsets(counts: Longs, as_runs: Mask) -> Mask:
    """Return which containers are bitsets: by cardinality, as every reader of the format decides."""
    return (counts > ARRAY_LIMIT) & ~as_runs


def _listed(positions: Longs, run: bool) -> npt.NDArray[np.uint16]:
    """Return an array container, or a run container, of ascending positions."""
    if not run:
        return positions.astype(np.uint16)
    first = np.flatnonzero(np.r_[True, np.diff(positions) != 1])
    lengths = np.diff(first, append=len(positions))
    pairs = np.column_stack([positions[first], lengths - 1]).ravel()
    return np.concatenate([[len(first)], pairs]).astype(np.uint16)


def _reformed(
    lows: npt.NDArray[np.uint16],
    apart: Mask,
    first: Longs,
    counts: Longs,
    sizes: Longs,
    as_runs: Mask,
) -> npt.NDArray[np.uint16]:
    """Return the words of all containers of a block in which some containers are bitsets or runs.

    Array containers are copied all at once, runs are computed all at once, and the bitsets of a block, at
    most 15, are packed one by one.
    """
    out = np.empty(int(sizes.sum()), dtype=np.uint16)
    at = np.cumsum(sizes) - sizes
    as_bits = _bitsets(counts, as_runs)
    plain = ~as_runs & ~as_bits
    out[ranges(at[plain], counts[plain])] = lows[ranges(first[plain], counts[plain])]
    for i in np.flatnonzero(as_bits).tolist():
        bits = np.zeros(BLOCK, dtype=np.bool_)
        bits[lows[first[i] : first[i] + counts[i]]] = True
        out[at[i] : at[i] + _BITSET_WORDS] = np.packbits(bits, bitorder="little").view("<u2")
    if as_runs.any():
        many = (sizes[as_runs] - 1) // 2
        out[at[as_runs]] = many
        begins = np.flatnonzero(apart & np.repeat(as_runs, counts))
        ends = np.flatnonzero(np.append(apart[1:], True) & np.repeat(as_runs, counts))
        target = ranges(at[as_runs] + 1, many, step=2)
        out[target] = lows[begins]
        out[target + 1] = ends - begins
    return out


def ranges(starts: Longs, counts: Longs, step: int = 1) -> Longs:
    """Concatenate the ranges `start, start + step, ...` of `count` numbers each."""
    before = np.cumsum(counts) - counts
    if step == 1:
        return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
    return np.repeat(starts - step * before, counts) + step * np.arange(int(counts.sum()))


_NO_WORDS = np.zeros(0, dtype=np.uint16)
