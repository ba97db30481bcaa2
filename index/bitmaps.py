"""Bitmaps from codes: the kernel that turns a dictionary-coded column into one Roaring bitmap per key.

Input: int codes of consecutive positions. Output: portable 32-bit Roaring bitmaps, serialized. Few keys: one comparison a key,
packed straight into portable containers. Many keys: a radix sort of the codes, then one `BitMap(array('I'))` a key;
`BitMap(ndarray)` is eight times slower than that.

Source: Roaring portable format, https://github.com/RoaringBitmap/RoaringFormatSpec.
"""

from __future__ import annotations

import array
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

CONTAINER = 1 << 16
FEW_KEYS = 12
"""Up to so many keys, comparing all codes with each key beats sorting them."""

CHUNK = 1 << 23
"""Positions worked on at a time; a multiple of CONTAINER. Bounds the memory of the sort."""

_ARRAY_LIMIT = 4096
_NO_RUNS = 12346
_HEADER = struct.Struct("<II")

Codes = npt.NDArray[np.int32]


def serialized_bitmaps(codes: Codes, keys: int) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    """Serialized positions of each code 0 … keys-1, and how many there are; other codes are passed over.

    `codes[p]` is the code at position p. Cost: `keys` passes over bytes up to FEW_KEYS keys, else one radix sort a chunk.
    """
    if keys <= FEW_KEYS:
        return _by_comparison(codes, keys)
    return _by_sorting(codes, keys)


def _by_comparison(codes: Codes, keys: int) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    narrow = codes.astype(np.int8)
    made, counts = [], np.zeros(keys, dtype=np.int64)
    for key in range(keys):
        made.append(bitmap_of_mask(narrow == key))
        counts[key] = made[-1][1]
    return [data for data, _ in made], counts


def bitmap_of_mask(mask: npt.NDArray[np.bool_]) -> tuple[bytes, int]:
    """The set positions of a mask as a portable Roaring bitmap, and their number.

    >>> from pyroaring import BitMap
    >>> import numpy as np
    >>> BitMap.deserialize(bitmap_of_mask(np.array([True, False, True]))[0])
    BitMap([0, 2])
    """
    packed = np.packbits(mask, bitorder="little")
    whole = -(-len(mask) // CONTAINER) * (CONTAINER // 8)
    if len(packed) < whole:
        packed = np.concatenate([packed, np.zeros(whole - len(packed), dtype=np.uint8)])
    blocks = packed.reshape(-1, CONTAINER // 8)
    counts = np.bitwise_count(blocks.view(np.uint64)).sum(axis=1, dtype=np.int64)
    used = np.flatnonzero(counts)
    bodies = [_container(blocks[block], int(counts[block])) for block in used.tolist()]
    return _assemble(used, counts[used], bodies), int(counts.sum())


def _container(block: npt.NDArray[np.uint8], count: int) -> bytes:
    if count > _ARRAY_LIMIT:
        return block.tobytes()
    return np.flatnonzero(np.unpackbits(block, bitorder="little")).astype("<u2").tobytes()


def _assemble(used: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], bodies: list[bytes]) -> bytes:
    n = len(bodies)
    heads = np.empty((n, 2), dtype="<u2")
    heads[:, 0], heads[:, 1] = used, counts - 1
    first = 8 + 8 * n
    sizes = np.array([len(body) for body in bodies], dtype=np.int64)
    offsets = (first + np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)[:-1]]) if n else sizes).astype("<u4")
    return b"".join([_HEADER.pack(_NO_RUNS, n), heads.tobytes(), offsets.tobytes(), *bodies])


def _by_sorting(codes: Codes, keys: int) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    counts = np.zeros(keys, dtype=np.int64)
    parts: list[list[bytes]] = []
    for start in range(0, max(len(codes), 1), CHUNK):
        made, found = _chunk_by_sorting(codes[start : start + CHUNK], keys, start)
        parts.append(made)
        counts += found
    if len(parts) == 1:
        return parts[0], counts
    return [_united(pieces) for pieces in zip(*parts, strict=True)], counts


def _chunk_by_sorting(codes: Codes, keys: int, start: int) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    positions, counts = _sorted_positions(codes, keys, start)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    starts = ends[:-1][counts > 0]
    high = (positions >> 16).astype(np.uint16)
    first = np.flatnonzero(_changes(high[1:] != high[:-1], starts))
    sizes = np.diff(np.append(first, len(positions)))
    bounds = np.searchsorted(first, ends)
    runs = np.zeros(keys, dtype=np.int64)
    if len(starts):
        breaks = _changes(positions[1:] != positions[:-1] + np.uint32(1), starts)
        runs[counts > 0] = np.add.reduceat(breaks.view(np.uint8), starts, dtype=np.int64)
    plain = (_largest(sizes, bounds) <= _ARRAY_LIMIT) & (runs * 2 > counts)
    heads = np.empty((len(first), 2), dtype="<u2")
    heads[:, 0], heads[:, 1] = high[first], sizes - 1
    before = np.cumsum(sizes) - sizes
    containers = np.diff(bounds)
    owner = np.repeat(np.arange(keys), containers)
    offsets = (8 + 8 * containers[owner] + 2 * (before - ends[owner])).astype("<u4").tobytes()
    low, head, wide = positions.astype("<u2").tobytes(), heads.tobytes(), memoryview(positions).cast("B")
    places, bodies, simple = bounds.tolist(), ends.tolist(), plain.tolist()
    made = []
    for key in range(keys):
        a, b, p, q = places[key], places[key + 1], bodies[key], bodies[key + 1]
        if simple[key]:
            start = _HEADER.pack(_NO_RUNS, b - a)
            made.append(b"".join((start, head[4 * a : 4 * b], offsets[4 * a : 4 * b], low[2 * p : 2 * q])))
        else:
            made.append(_by_roaring(wide[4 * p : 4 * q]))
    return made, counts


def _by_roaring(positions: memoryview) -> bytes:
    """Serialized positions (uint32, as bytes) with run containers where they are smaller."""
    bits = BitMap(array.array("I", positions.tobytes()))
    bits.run_optimize()
    return bytes(bits.serialize())


def _sorted_positions(
    codes: Codes, keys: int, start: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Positions grouped by code, ascending in each group, and the size of each group."""
    known = np.flatnonzero((codes < 0) | (codes >= keys))
    at = None
    if len(known):
        at = np.flatnonzero((codes >= 0) & (codes < keys))
        codes = codes[at]
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    if keys > 1 << 16:
        order = order[np.argsort((codes >> 16).astype(np.uint16)[order], kind="stable")]
    counts = np.bincount(codes, minlength=keys).astype(np.int64)
    positions = (order if at is None else at[order]).astype(np.uint32)
    return positions + np.uint32(start), counts


def _changes(between: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Where something begins: at each start of a group, and where neighbours differ."""
    out = np.empty(len(between) + 1 if len(starts) else 0, dtype=np.bool_)
    out[1:] = between
    out[starts] = True
    return out


def _largest(sizes: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The largest container of each key; 0 for a key without positions."""
    if not len(sizes):
        return np.zeros(len(bounds) - 1, dtype=np.int64)
    best = np.maximum.reduceat(sizes, np.minimum(bounds[:-1], len(sizes) - 1))
    return np.where(np.diff(bounds) > 0, best, 0)


def _united(pieces: Sequence[bytes]) -> bytes:
    bits = BitMap.union(*[BitMap.deserialize(piece) for piece in pieces])
    bits.run_optimize()
    return bytes(bits.serialize())
