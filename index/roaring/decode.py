"""From serialized Roaring bitmaps to codes by position: the inverse of the kernel.

Each bitmap stands for a code, which is written to all its positions in one array over the row space. The
headers give all containers of all bitmaps at once. Array and run containers of all bitmaps together are
decoded to positions by vector operations. Only bitsets, which hold more than 4,096 positions, are processed
one by one.

Worked example: two bitmaps of one container each over eight positions; code 0 stands for no row.

    bitmap 0, code 1    array      1 6
    bitmap 1, code 2    one run    2, and 3 more
    codes               0 1 2 2 2 2 1 0
Source: https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.keys import Bytes, bytes_of
from tailbit.index.roaring.containers import ARRAY_LIMIT, BLOCK, COOKIE, COOKIE_WITH_RUNS, ranges
from tailbit.tables.positions import BitPositions

Array = npt.NDArray[Any]

_BITSET_BYTES = BLOCK // 8


@dataclass(frozen=True, slots=True)
class _Containers:
    """All containers of some bitmaps.

    Per container: `owner`, int32, the number of its bitmap; `block`, uint16, its block of positions; `count`,
    int32, its number of positions; `at`, int64, the offset of its bytes; `runs`, bool, whether it is a run
    container.
    """

    owner: Array
    block: Array
    count: Array
    offset: Array
    runs: Array

    def only(self, which: Array) -> _Containers:
        """Return some containers, by mask or by number."""
        columns = (self.owner, self.block, self.count, self.offset, self.runs)
        return _Containers(*(column[which] for column in columns))


def place_codes(bitmaps: pa.BinaryArray, cardinality: Longs, codes: Longs, out: Array) -> None:
    """Write the code `codes[i]` to all positions of bitmap i in `out`, which holds 0 there.

    `cardinality`: int64, the number of positions that each bitmap must have. Cost: some vector operations per
    container and per position, in blocks that fit a CPU cache. Memory: a few times that of the bitmaps.

    Raises:
        ValueError: a bitmap is no portable Roaring bitmap, contradicts its cardinality, or has a position
            beyond the end of `out`; some codes may be written then. Positions shared by two bitmaps are not
            detected here: they leave fewer codes written than positions recorded.
    """
    if not len(bitmaps):
        return
    offsets, data = bytes_of(bitmaps)
    try:
        containers = _containers(data, offsets[:-1], offsets[1:], cardinality)
    except IndexError as beyond:
        raise ValueError("a bitmap ends before its containers do") from beyond
    for block in _by_block(containers):
        start = int(block.block[0]) * BLOCK
        _place_block(data, block, codes, out[start : start + BLOCK])


def positions_of(bitmaps: pa.BinaryArray, cardinality: Longs, rows: int) -> BitPositions:
    """Return the positions of bitmaps, bitmap after bitmap, each ascending.

    `cardinality`: int64, the number of positions that each bitmap must have. Cost: some vector operations per
    container and per position.

    Raises:
        ValueError: a bitmap is no portable Roaring bitmap, contradicts its cardinality, or has a position
            beyond `rows`.
    """
    if not len(bitmaps):
        return np.zeros(0, dtype=np.uint32)
    offsets, data = bytes_of(bitmaps)
    try:
        every = _containers(data, offsets[:-1], offsets[1:], cardinality)
    except IndexError as beyond:
        raise ValueError("a bitmap ends before its containers do") from beyond
    count = every.count.astype(np.int64)
    start = np.cumsum(count) - count
    arrays = ~every.runs & (every.count <= ARRAY_LIMIT)
    out = np.empty(int(count.sum()), dtype=np.uint32)
    for which, read in (
        (arrays, _array_words),
        (every.runs, _run_words),
        (~every.runs & ~arrays, _bitset_words),
    ):
        if which.any():
            out[ranges(start[which], count[which])] = read(data, every.only(which))
    out += np.repeat(every.block.astype(np.uint32) << np.uint32(16), count)
    if int(out.max()) >= rows:
        raise ValueError("a position is beyond the end of the row space")
    return out


class Headers(NamedTuple):
    """Headers of bitmaps as stored, unchecked.

    Per bitmap: `known`, whether it has a cookie of the format; `runny`, whether it may have run containers;
    `sizes`, int64, its number of containers; `pairs`, int64, the offset of the (block, count - 1) pairs of
    its containers.
    """

    readable: Mask
    runny: Mask
    sizes: Longs
    pairs: Longs


def headers_of(data: Bytes, starts: Longs) -> Headers:
    """Return the headers of bitmaps of eight bytes or more."""
    cookie = _words(data, starts, "<u4")
    runny = (cookie & 0xFFFF) == COOKIE_WITH_RUNS
    sizes = (cookie >> 16) + 1
    sizes[~runny] = _words(data, starts[~runny] + 4, "<u4")
    pairs = np.where(runny, starts + 4 + (sizes + 7) // 8, starts + 8)
    return Headers(runny | (cookie == COOKIE), runny, sizes, pairs)


def _by_block(containers: _Containers) -> Iterator[_Containers]:
    """Yield the containers block by block, so that random writes stay within a CPU cache."""
    order = np.argsort(containers.block, kind="stable")
    block = containers.block[order]
    cuts = np.flatnonzero(block[1:] != block[:-1]) + 1
    for low, high in pairwise([0, *cuts.tolist(), len(order)]):
        if low < high:
            yield containers.only(order[low:high])


def _place_block(data: Bytes, containers: _Containers, codes: Longs, out: Array) -> None:
    """Write the codes of the containers of one block; `out` is the part of the row space in this block."""
    arrays = ~containers.runs & (containers.count <= ARRAY_LIMIT)
    if not arrays.all():
        _place_runs(data, containers.only(containers.runs), codes, out)
        _place_bitsets(data, containers.only(~containers.runs & ~arrays), codes, out)
        containers = containers.only(arrays)
    if len(containers.offset):
        _write(_array_words(data, containers), containers, codes, out)


def _words(data: Bytes, offsets: Longs, width: str) -> Longs:
    """Read little-endian unsigned numbers at any byte offsets."""
    size = np.dtype(width).itemsize
    read: Array = data[offsets[:, None] + np.arange(size)].view(width)[:, 0]
    return read.astype(np.int64)


def _containers(data: Bytes, starts: Longs, ends: Longs, cardinality: Longs) -> _Containers:
    """Return the containers of bitmaps that begin at `starts` and end at `ends`."""
    readable, runny, sizes, heads = headers_of(data, starts)
    if not readable.all():
        raise ValueError("a bitmap has no cookie that the format knows")
    if (sizes > BLOCK).any() or not sizes.all():
        raise ValueError("a bitmap has more containers than the format allows, or none")
    flags = starts + 4
    block, less = pairs_at(data, heads, sizes)
    count = less.astype(np.int32) + np.int32(1)
    first = np.cumsum(sizes) - sizes
    if not np.array_equal(np.add.reduceat(count, first, dtype=np.int64), cardinality):
        raise ValueError("a bitmap has other positions than are recorded")
    runs = np.zeros(len(count), dtype=np.bool_)
    if runny.any():
        some = sizes[runny]
        nth = ranges(np.zeros_like(some), some)
        bits = data[np.repeat(flags[runny], some) + nth // 8] >> (nth % 8).astype(np.uint8)
        runs[np.repeat(runny, sizes)] = bits & 1
    bodies = heads + 4 * sizes + np.where(~runny | (sizes >= 4), 4 * sizes, 0)
    offsets, end = _bodies(data, bodies, sizes, count, runs, runny)
    if not np.array_equal(end, ends):
        raise ValueError("the containers of a bitmap do not fill its bytes")
    return _Containers(np.repeat(np.arange(len(starts), dtype=np.int32), sizes), block, count, offsets, runs)


def pairs_at(data: Bytes, heads: Longs, sizes: Longs) -> tuple[Array, Array]:
    """Return the block of each container, and its number of positions less one, as the headers say."""
    if (heads & 1).any():
        packed = _words(data, ranges(heads, sizes, step=4), "<u4")
        return (packed & 0xFFFF).astype(np.uint16), (packed >> 16).astype(np.uint16)
    words = data[: len(data) // 2 * 2].view("<u2")
    pairs = words[ranges(heads >> 1, 2 * sizes)].reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _bodies(
    data: Bytes,
    bodies: Longs,
    sizes: Longs,
    count: Array,
    runs: Mask,
    runny: Mask,
) -> tuple[Longs, Longs]:
    """Return the offset of each container's bytes, and of each bitmap's end.

    A run container stores its length at its beginning, so bitmaps that may have run containers are walked
    container by container, all bitmaps side by side.
    """
    length = np.minimum(2 * count, _BITSET_BYTES)
    last = np.cumsum(sizes)
    first = last - sizes
    before = np.concatenate([[0], np.cumsum(length, dtype=np.int64)])
    offsets = np.repeat(bodies - before[first], sizes) + before[:-1]
    end = bodies + before[last] - before[first]
    going = np.flatnonzero(runny)
    here = bodies[going]
    nth = 0
    while len(going):
        current = first[going] + nth
        offsets[current] = here
        as_runs = runs[current]
        length[current[as_runs]] = 2 + 4 * _words(data, here[as_runs], "<u2")
        here = here + length[current]
        end[going] = here
        nth += 1
        more = sizes[going] > nth
        going, here = going[more], here[more]
    return offsets, end


def _array_words(data: Bytes, containers: _Containers) -> Array:
    """Return the words of array containers, one container after the other.

    Containers may begin at odd bytes.
    """
    odd = (containers.offset & 1).astype(np.bool_)
    if odd.any() and not odd.all():
        offsets = ranges(containers.offset, containers.count, step=2)
        low, high = data[offsets].astype(np.uint16), data[offsets + 1].astype(np.uint16)
        both: Array = low | (high << np.uint16(8))
        return both
    start = int(odd[0])
    words: Array = data[start : start + (len(data) - start) // 2 * 2].view("<u2")
    values: Array = words[ranges(containers.offset >> 1, containers.count)]
    return values


def _place_runs(data: Bytes, containers: _Containers, codes: Longs, out: Array) -> None:
    """Write the codes of run containers: pairs of a first position and the number of following positions."""
    if len(containers.offset):
        _write(_run_words(data, containers), containers, codes, out)


def _run_words(data: Bytes, containers: _Containers) -> Longs:
    """Return the positions within their blocks of run containers, one container after the other."""
    many = _words(data, containers.offset, "<u2")
    pairs = _words(data, ranges(containers.offset + 2, many, step=4), "<u4")
    lengths = (pairs >> 16) + 1
    if not many.all() or not np.array_equal(
        np.add.reduceat(lengths, np.cumsum(many) - many), containers.count
    ):
        raise ValueError("a run container has other positions than its header says")
    return ranges(pairs & 0xFFFF, lengths)


def _bitset_words(data: Bytes, containers: _Containers) -> Longs:
    """Return the positions within their blocks of bitsets, one bitset after the other."""
    every = [
        np.flatnonzero(np.unpackbits(data[offset : offset + _BITSET_BYTES], bitorder="little"))
        for offset in containers.offset.tolist()
    ]
    if not np.array_equal([len(positions) for positions in every], containers.count):
        raise ValueError("a bitset has other positions than its header says")
    return np.concatenate(every)


def _place_bitsets(data: Bytes, containers: _Containers, codes: Longs, out: Array) -> None:
    """Write the codes of bitsets by OR; assignment by mask would cost fifty times as much."""
    for owner, count, offset in zip(
        containers.owner.tolist(), containers.count.tolist(), containers.offset.tolist(), strict=True
    ):
        bits = np.unpackbits(data[offset : offset + _BITSET_BYTES], bitorder="little")
        if np.count_nonzero(bits) != count or bits[len(out) :].any():
            raise ValueError("a bitset has other positions than its header says")
        out |= bits[: len(out)] * out.dtype.type(codes[owner])


def _write(positions: npt.NDArray[Any], containers: _Containers, codes: Longs, out: Array) -> None:
    if int(positions.max()) >= len(out):
        raise ValueError("a position is beyond the end of the row space")
    out[positions] = np.repeat(codes[containers.owner].astype(out.dtype), containers.count)
