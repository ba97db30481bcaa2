"""Conversions between bitmaps and arrays of positions, at the speed of copying them."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

BitPositions = npt.NDArray[np.uint32]
"""Positions in a bitmap: rows of a row space, or hidden rows of a data file."""


_OVERHEAD = 256


def most_bytes(bits: BitMap) -> int:
    """Return an upper bound of the bytes of memory that a bitmap and its cache entry take."""
    return _OVERHEAD + (bits.max() // 8 if bits else 0)


def positions_in(bits: BitMap) -> BitPositions:
    """Return the positions of a bitmap, ascending, uint32.

    >>> positions_in(BitMap([5, 2])).tolist()
    [2, 5]
    """
    return np.frombuffer(bits.to_array(), dtype=np.uint32)


def bitmap_of(positions: npt.NDArray[np.unsignedinteger] | npt.NDArray[np.signedinteger]) -> BitMap:
    """Return the bitmap of positions, each below 2^32.

    pyroaring reads an array of the standard library ten times as fast as a numpy array.

    >>> bitmap_of(np.array([5, 2]))
    BitMap([2, 5])
    """
    numbers = array("I")
    numbers.frombytes(positions.astype(np.uint32, copy=False).tobytes())
    return BitMap(numbers)
