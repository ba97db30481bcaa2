"""Record positions as bitmaps, as arrays, and in the stored form that Delta and Iceberg share.

Stored is a frame around a portable Roaring bitmap: the payload's length before it and its CRC-32 behind it,
both big-endian. Source: Delta protocol, Deletion Vector Format; Puffin specification, deletion-vector-v1.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from tailbit.base.errors import DeletionVectorError, MalformedLogError, StorageError
from tailbit.tables.storage import Stat, Storage

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


def checked_vector(
    storage: Storage, file: str, offset: int, cardinality: int, read: Callable[[], BitMap]
) -> BitMap:
    """Return the hidden rows that `read` reads of the vector at an offset in a file.

    Raises:
        DeletionVectorError: the vector is missing, truncated, altered or denied, or has another cardinality.
        StorageError: the store refuses more than this file.
    """
    error = partial(DeletionVectorError, file=file, offset=offset)
    try:
        rows = read()
    except FileNotFoundError as gone:
        raise error(reason=str(gone), gone=True) from gone
    except (ValueError, struct.error, EOFError, IndexError, MalformedLogError) as wrong:
        raise error(reason=str(wrong)) from wrong
    except StorageError as refused:
        if storage.is_of_one_file(refused):
            raise error(reason=f"it cannot be read: {refused.fields.get('reason')}") from refused
        raise
    if len(rows) != cardinality:
        raise error(reason=f"it hides {len(rows)} rows, the log says {cardinality}")
    return rows


PORTABLE_MAGIC = 1681511377
FRAME = 8
"""Bytes of a frame around the payload."""
LARGEST = 1 << 30
"""Size limit in bytes of a stored vector: twice the bitset that can hide any subset of 2^32 rows."""


def read_frame(storage: Storage, path: str, stat: Stat | None, offset: int, size: int) -> bytes:
    """Read the payload of `size` bytes whose frame begins at `offset`. Cost: one range read.

    Raises:
        FileNotFoundError: the file is missing.
        ValueError: the payload is too large, cut, of another length, or its CRC does not fit.
    """
    if size > LARGEST:
        raise ValueError(f"it has {size} bytes, and at most {LARGEST} are read")
    if stat is None:
        raise FileNotFoundError("the file is missing")
    if offset + size + FRAME > stat.size:
        raise ValueError(f"the file has {stat.size} bytes, the vector ends at {offset + size + FRAME}")
    frame = storage.read_range(path, offset, size + FRAME)
    stated, crc = int.from_bytes(frame[:4], "big"), int.from_bytes(frame[-4:], "big")
    if stated != size:
        raise ValueError(f"it has {stated} bytes, the log says {size}")
    if zlib.crc32(frame[4:-4]) != crc:
        raise ValueError("its bytes do not fit their CRC")
    return frame[4:-4]


def portable(payload: bytes) -> BitMap:
    """Decode the portable form: int64 count, then per bitmap the high 32 bits and a 32-bit bitmap.

    Raises:
        ValueError: the payload hides rows beyond 32 bits, or is damaged.
    """
    (count,) = struct.unpack_from("<q", payload, 4)
    if count == 0:
        return BitMap()
    if count != 1 or struct.unpack_from("<I", payload, 12) != (0,):
        raise ValueError("it hides rows beyond 32 bits")
    return BitMap.deserialize(payload[16:])
