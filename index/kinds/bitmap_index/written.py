"""Bitmaps are checked when they are written: before the commit, so that no segment is born damaged.

Input: postings as they go to a file. A bitmap of one position, the most frequent in columns of many keys, is
18 known bytes, and all of them are compared at once. Every bitmap of `WHOLE_BYTES` or more is read back as a
question would read it, and so is an even sample of the smaller ones; what is read back must be written again
as the same bytes, since other readers of the format also go by its offsets and its end. Cost: that of
decoding and encoding the large bitmaps; `benchmarks/build_kernel.py` measures it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.errors import BrokenBitmapError, CorruptIndexError
from tailbit.index.kinds.bitmap_index.row_group import SINGLE, SINGLE_BYTES, read_bitmap, single_heads

WHOLE_BYTES = 4096
"""Every bitmap of this many bytes or more is decoded, so each container of 2,048 positions or more is."""

SAMPLE = 128
"""Smaller bitmaps that are decoded of those checked at once, evenly spaced."""

_OTHER_BYTES = "it has offsets or bytes that the format does not give its positions"

Longs = npt.NDArray[np.int64]


def check_bitmaps(space: str, column: str, cardinality: Longs, bitmaps: pa.BinaryArray, rows: int) -> None:
    """Check serialized bitmaps of a column against their cardinalities and the extent of their row space.

    `cardinality`: int64, positions of each. `rows`: the extent. Cost: see the head of the file.

    Raises:
        BrokenBitmapError: one does not decode, has other positions than its cardinality says, does not fit,
            or has bytes that the format does not give it.
    """
    offsets = np.frombuffer(bitmaps.buffers()[1] or b"", dtype=np.int32)
    offsets = offsets[bitmaps.offset : bitmaps.offset + len(bitmaps) + 1].astype(np.int64)
    data = np.frombuffer(bitmaps.buffers()[2] or b"", dtype=np.uint8)
    sizes = np.diff(offsets)
    single = (cardinality == 1) & (sizes == SINGLE_BYTES)
    sound = _sound_singles(data, offsets[:-1][single], rows)
    suspects = [np.flatnonzero(single)[~sound], np.flatnonzero(sizes >= WHOLE_BYTES)]
    small = np.flatnonzero(~single & (sizes < WHOLE_BYTES))
    if len(small):
        suspects.append(small[np.linspace(0, len(small) - 1, min(SAMPLE, len(small))).astype(np.int64)])
    for at in np.concatenate(suspects).tolist():
        written = bitmaps[at].as_py()
        try:
            found = read_bitmap(written, int(cardinality[at]), rows, space)
        except CorruptIndexError as broken:
            raise BrokenBitmapError(
                space=space, column=column, number=at, reason=broken.fields["reason"]
            ) from broken
        if found.serialize() != written:
            raise BrokenBitmapError(space=space, column=column, number=at, reason=_OTHER_BYTES)


def _sound_singles(data: npt.NDArray[np.uint8], starts: Longs, rows: int) -> npt.NDArray[np.bool_]:
    """Which bitmaps of 18 bytes, one position each, are as they must be."""
    if not len(starts):
        return np.zeros(0, dtype=np.bool_)
    singles = data[starts[:, None] + np.arange(SINGLE_BYTES)].view(SINGLE)[:, 0]
    position = (singles["high"].astype(np.int64) << 16) | singles["low"]
    sound: npt.NDArray[np.bool_] = single_heads(singles) & (position < rows)
    return sound
