"""XXH64 of many values at once, by numpy.

Source: the xxHash specification, XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tailbit.base.arrays import Longs

Hashes = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)

_STRIPE, _LANES = 32, 4
"""Bytes of a stripe, and words in it, each of which has an accumulator."""


def hashes_of_words(values: npt.NDArray[np.integer]) -> Hashes:
    """Return the hashes of integers of four or eight bytes, by their bytes as they are stored.

    >>> hashes_of_words(np.array([0], np.int64)).tolist()
    [3803688792395291579]
    """
    width = values.dtype.itemsize
    words = values.view(f"u{width}").astype(np.uint64)
    start = np.full(len(values), _P5 + np.uint64(width))
    return _final(_with_word(start, words) if width == 8 else _with_half(start, words))


def hashes_of_bytes(places: Longs, data: Bytes) -> Hashes:
    """Return the hashes of texts; `places`: where each begins in `data`, and where the last one ends.

    Cost: a few numpy calls per word of the longest text, each over the texts that reach this word.

    >>> hashes_of_bytes(np.array([0, 0, 3]), np.frombuffer(b"abc", np.uint8)).tolist()
    [17241709254077376921, 4952883123889572249]
    """
    starts, lengths = places[:-1].astype(np.int64), np.diff(places).astype(np.int64)
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    hashes, at = np.full(len(starts), _P5), starts.copy()
    long = np.flatnonzero(lengths >= _STRIPE)
    if len(long):
        hashes[long] = _of_stripes(padded, starts[long], lengths[long] // _STRIPE)
        at[long] += lengths[long] // _STRIPE * _STRIPE
    hashes += lengths.astype(np.uint64)
    ends = places[1:].astype(np.int64)
    while len(rows := np.flatnonzero(ends - at >= 8)):
        hashes[rows] = _with_word(hashes[rows], _words(padded, at[rows], 8))
        at[rows] += 8
    rows = np.flatnonzero(ends - at >= 4)
    hashes[rows] = _with_half(hashes[rows], _words(padded, at[rows], 4))
    at[rows] += 4
    while len(rows := np.flatnonzero(ends > at)):
        mixed = hashes[rows] ^ padded[at[rows]].astype(np.uint64) * _P5
        hashes[rows] = _turned(mixed, 11) * _P1
        at[rows] += 1
    return _final(hashes)


def _of_stripes(data: Bytes, starts: Longs, stripes: Longs) -> Hashes:
    """Return the hash of the whole stripes of each text; `stripes`: their number, at least one."""
    zeros = np.zeros(len(starts), np.uint64)
    lanes = [zeros + _P1 + _P2, zeros + _P2, zeros, zeros - _P1]
    for stripe in range(int(stripes.max())):
        rows = np.flatnonzero(stripes > stripe)
        for lane, sums in enumerate(lanes):
            words = _words(data, starts[rows] + _STRIPE * stripe + 8 * lane, 8)
            sums[rows] = _round(sums[rows], words)
    out = sum((_turned(sums, by) for sums, by in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
    for sums in lanes:
        out = (out ^ _round(np.zeros_like(sums), sums)) * _P1 + _P4
    return out


def _words(data: Bytes, at: Longs, width: int) -> Hashes:
    """Return the little-endian words of `width` bytes at some offsets."""
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    return windows[at].view(f"<u{width}")[:, 0].astype(np.uint64)


def _turned(words: Hashes, by: int) -> Hashes:
    turned: Hashes = (words << np.uint64(by)) | (words >> np.uint64(64 - by))
    return turned


def _round(sums: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = _turned(sums + words * _P2, 31) * _P1
    return mixed


def _with_word(hashes: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = _turned(hashes ^ _round(np.zeros_like(words), words), 27) * _P1 + _P4
    return mixed


def _with_half(hashes: Hashes, words: Hashes) -> Hashes:
    mixed: Hashes = _turned(hashes ^ words * _P1, 23) * _P2 + _P3
    return mixed


def _final(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    final: Hashes = hashes ^ (hashes >> np.uint64(32))
    return final
