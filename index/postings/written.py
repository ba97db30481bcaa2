"""Check of bitmaps before the commit that makes them visible, so that no segment is written damaged.

Input: postings on their way to a file. The positions of all sparse keys are decoded. Bitmaps of one position,
the most frequent in columns of many keys, have 18 known bytes and are compared all at once. Every bitmap with
an array or a bitset of `DENSE` positions or more (this includes all at the limit between the two container
types) is read back as a query would read it, and so is an even sample of the others. Each bitmap that is read
back must serialize to the same bytes again, since other readers of the format also rely on its offsets and
its end. Cost: a look at the headers of the large bitmaps, and decoding and encoding the dense ones;
`benchmarks/workloads/build_kernel.py` measures it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.errors import BrokenBitmapError, CorruptIndexError
from tailbit.index.keys import Bytes, bytes_of
from tailbit.index.postings.gaps import Gaps
from tailbit.index.postings.row_group import SINGLE, SINGLE_BYTES, read_bitmap, single_heads
from tailbit.index.roaring.decode import headers_of, pairs_at
from tailbit.tables.arrow import arrow_array, numpy_of

DENSE = 2048
"""Every bitmap that has an array or a bitset of this many positions or more is decoded."""

SAMPLE = 128
"""Number of the other bitmaps that are decoded, evenly spaced."""

_DENSE_BYTES = 2 * DENSE
"""A bitmap of fewer bytes has no array or bitset of `DENSE` positions, but may have runs."""

_AT_ONCE = 1 << 18
"""Positions of sparse keys decoded together (or those of one key), so that they stay in the CPU cache."""

_TWO_FORMS = "it has both a bitmap and positions, or neither"
_OTHER_BYTES = "it has offsets or bytes that the format does not give its positions"


def check_bitmaps(space: str, column: str, cardinality: Longs, bitmaps: pa.BinaryArray, rows: int) -> None:
    """Check serialized bitmaps of a column against their cardinalities and the row count of their row space.

    `cardinality`: int64, positions of each bitmap. `bitmaps`: null for a sparse key, which is skipped.
    `rows`: the row count of the row space. Cost: see the module's docstring.

    Raises:
        BrokenBitmapError: a bitmap does not decode, contradicts its cardinality, exceeds the rows, or its
            bytes are not those that the format prescribes for its positions.
    """
    indexes: Longs = np.arange(len(bitmaps))
    if bitmaps.null_count:
        indexes = np.flatnonzero(bitmaps.is_valid())
        cardinality, bitmaps = cardinality[indexes], bitmaps.take(arrow_array(indexes))
    offsets, data = bytes_of(bitmaps)
    sizes: Longs = np.diff(offsets)
    single = (cardinality == 1) & (sizes == SINGLE_BYTES)
    sound = _sound_singles(data, offsets[:-1][single], rows)
    large = np.flatnonzero(sizes >= _DENSE_BYTES)
    dense = large[_dense(data, offsets[:-1][large], offsets[1:][large])]
    suspects = [np.flatnonzero(single)[~sound], dense]
    other = np.setdiff1d(np.flatnonzero(~single), dense, assume_unique=True)
    if len(other):
        suspects.append(other[np.linspace(0, len(other) - 1, min(SAMPLE, len(other))).astype(np.int64)])
    for index in np.concatenate(suspects).tolist():
        written = bitmaps[index].as_py()
        try:
            bitmap = read_bitmap(written, int(cardinality[index]), rows, space)
        except CorruptIndexError as broken:
            raise BrokenBitmapError(
                space=space, column=column, number=int(indexes[index]), reason=broken.fields["reason"]
            ) from broken
        if bitmap.serialize() != written:
            raise BrokenBitmapError(
                space=space, column=column, number=int(indexes[index]), reason=_OTHER_BYTES
            )


def check_sparse(space: str, column: str, sparse: Gaps, bitmaps: pa.BinaryArray) -> None:
    """Check the positions of all sparse keys of a column, and that every key is either sparse or dense.

    Cost: decodes all positions.

    Raises:
        BrokenBitmapError: positions do not ascend, exceed the rows, or are not as many as recorded.
    """
    twice = np.flatnonzero(sparse.is_sparse == numpy_of(bitmaps.is_valid()))
    if len(twice):
        raise BrokenBitmapError(space=space, column=column, number=int(twice[0]), reason=_TWO_FORMS)
    if not sparse.is_sparse.any():
        return
    at_once = np.cumsum(sparse.counts) // _AT_ONCE
    cuts = (np.flatnonzero(np.diff(at_once)) + 1).tolist()
    for low, high in pairwise([0, *cuts, len(bitmaps)]):
        try:
            sparse.positions(low, high)
        except ValueError:
            _name_broken(space, column, sparse, low, high)


def _name_broken(space: str, column: str, sparse: Gaps, low: int, high: int) -> None:
    """Find the first key that fails the check by bisection, and raise its error."""
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
    """Return which bitmaps have a container of `DENSE` positions or more, or an impossible header."""
    readable, _, sizes, heads = headers_of(data, starts)
    out = ~readable | (heads + 4 * sizes > ends)
    sizes[out] = 0
    _, less = pairs_at(data, heads, sizes)
    out[np.repeat(np.arange(len(sizes)), sizes)[less >= DENSE - 1]] = True
    return out


def _sound_singles(data: Bytes, starts: Longs, rows: int) -> Mask:
    """Return which bitmaps of 18 bytes, one position each, are valid."""
    if not len(starts):
        return np.zeros(0, dtype=np.bool_)
    singles = data[starts[:, None] + np.arange(SINGLE_BYTES)].view(SINGLE)[:, 0]
    position = (singles["high"].astype(np.int64) << 16) | singles["low"]
    sound: Mask = single_heads(singles) & (position < rows)
    return sound
