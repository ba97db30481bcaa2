"""Bitmaps are checked when they are written: before the commit, so that no segment is born damaged.

Input: postings as they go to a file. The positions of sparse keys are all decoded. A bitmap of one position,
the most frequent in columns of many keys, is 18 known bytes, and all of them are compared at once. Every
bitmap with an array or a bitset of `DENSE` positions or more, among which are all that stand at the limit
between two forms, is read back as a question would read it, and so is an even sample of the others; what is
read back must be written again as the same bytes, since other readers of the format also go by its offsets
and its end. Cost: a look at the heads of the large bitmaps, and decoding and encoding the dense ones;
`benchmarks/build_kernel.py` measures it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from tailbit.arrays import Longs, Mask
from tailbit.errors import BrokenBitmapError, CorruptIndexError
from tailbit.index.kinds.bitmap_index.gaps import Gaps
from tailbit.index.kinds.bitmap_index.row_group import SINGLE, SINGLE_BYTES, read_bitmap, single_heads
from tailbit.index.roaring.decode import Bytes, bytes_of, headers_of, pairs_at
from tailbit.tables.arrow import arrow_array, numpy_of

DENSE = 2048
"""Every bitmap is decoded that has an array or a bitset of this many positions or more."""

SAMPLE = 128
"""Bitmaps that are decoded of the others, evenly spaced."""

_DENSE_BYTES = 2 * DENSE
"""In fewer bytes such a container can only be of runs."""

_AT_ONCE = 1 << 18
"""Positions of sparse keys that are decoded at once, or of one key: they stay in the processor's cache."""

_TWO_FORMS = "it has both a bitmap and positions, or neither"
_OTHER_BYTES = "it has offsets or bytes that the format does not give its positions"


def check_bitmaps(space: str, column: str, cardinality: Longs, bitmaps: pa.BinaryArray, rows: int) -> None:
    """Check serialized bitmaps of a column against their cardinalities and the extent of their row space.

    `cardinality`: int64, positions of each. `bitmaps`: null for a sparse key, which is passed over. `rows`:
    the extent. Cost: see the head of the file.

    Raises:
        BrokenBitmapError: one does not decode, has other positions than its cardinality says, does not fit,
            or has bytes that the format does not give it.
    """
    places: Longs = np.arange(len(bitmaps))
    if bitmaps.null_count:
        places = np.flatnonzero(bitmaps.is_valid())
        cardinality, bitmaps = cardinality[places], bitmaps.take(arrow_array(places))
    data, offsets = bytes_of(bitmaps)
    sizes: Longs = np.diff(offsets)
    single = (cardinality == 1) & (sizes == SINGLE_BYTES)
    sound = _sound_singles(data, offsets[:-1][single], rows)
    large = np.flatnonzero(sizes >= _DENSE_BYTES)
    dense = large[_dense(data, offsets[:-1][large], offsets[1:][large])]
    suspects = [np.flatnonzero(single)[~sound], dense]
    other = np.setdiff1d(np.flatnonzero(~single), dense, assume_unique=True)
    if len(other):
        suspects.append(other[np.linspace(0, len(other) - 1, min(SAMPLE, len(other))).astype(np.int64)])
    for at in np.concatenate(suspects).tolist():
        written = bitmaps[at].as_py()
        try:
            bitmap = read_bitmap(written, int(cardinality[at]), rows, space)
        except CorruptIndexError as broken:
            raise BrokenBitmapError(
                space=space, column=column, number=int(places[at]), reason=broken.fields["reason"]
            ) from broken
        if bitmap.serialize() != written:
            raise BrokenBitmapError(space=space, column=column, number=int(places[at]), reason=_OTHER_BYTES)


def check_sparse(space: str, column: str, sparse: Gaps, bitmaps: pa.BinaryArray) -> None:
    """Check the positions of all sparse keys of a column, and that every key is either sparse or dense.

    Cost: decoding them.

    Raises:
        BrokenBitmapError: some do not rise, are beyond the rows, or differ in number from what is recorded.
    """
    twice = np.flatnonzero(sparse.held == numpy_of(bitmaps.is_valid()))
    if len(twice):
        raise BrokenBitmapError(space=space, column=column, number=int(twice[0]), reason=_TWO_FORMS)
    if not sparse.held.any():
        return
    at_once = np.cumsum(sparse.counts) // _AT_ONCE
    cuts = (np.flatnonzero(np.diff(at_once)) + 1).tolist()
    for low, high in pairwise([0, *cuts, len(bitmaps)]):
        try:
            sparse.positions(low, high)
        except ValueError:
            _name_broken(space, column, sparse, low, high)


def _name_broken(space: str, column: str, sparse: Gaps, low: int, high: int) -> None:
    """Find the first key that does not check by halving."""
    while high - low > 1:
        middle = (low + high) // 2
        try:
            sparse.positions(low, middle)
            low = middle
        except ValueError:
            high = middle
    try:
        sparse.positions(low, high)
    except ValueError as broken:
        raise BrokenBitmapError(space=space, column=column, number=low, reason=str(broken)) from broken


def _dense(data: Bytes, starts: Longs, ends: Longs) -> Mask:
    """Which bitmaps say that they have a container of `DENSE` positions, or say what cannot be."""
    known, _, sizes, heads = headers_of(data, starts)
    out = ~known | (heads + 4 * sizes > ends)
    sizes[out] = 0
    _, less = pairs_at(data, heads, sizes)
    out[np.repeat(np.arange(len(sizes)), sizes)[less >= DENSE - 1]] = True
    return out


def _sound_singles(data: Bytes, starts: Longs, rows: int) -> Mask:
    """Which bitmaps of 18 bytes, one position each, are as they must be."""
    if not len(starts):
        return np.zeros(0, dtype=np.bool_)
    singles = data[starts[:, None] + np.arange(SINGLE_BYTES)].view(SINGLE)[:, 0]
    position = (singles["high"].astype(np.int64) << 16) | singles["low"]
    sound: Mask = single_heads(singles) & (position < rows)
    return sound
