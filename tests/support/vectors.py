"""Deletion vectors by hand: their payloads in either form, framed as in a file, and as inline text."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable

from pyroaring import BitMap, BitMap64

from tailbit.tables.delta.deletion_vectors import NATIVE_MAGIC, Z85
from tailbit.tables.positions import PORTABLE_MAGIC


def encode_z85(data: bytes) -> str:
    """Z85 text of bytes, padded with NULs to a multiple of four."""
    data += b"\0" * (-len(data) % 4)
    out: list[str] = []
    for (number,) in struct.iter_unpack(">I", data):
        digits = []
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits.append(chr(Z85[digit]))
        out += reversed(digits)
    return "".join(out)


def portable(rows: Iterable[int]) -> bytes:
    """The payload of a deletion vector in the portable form."""
    return struct.pack("<i", PORTABLE_MAGIC) + BitMap64(rows).serialize()


def native(rows: Iterable[int]) -> bytes:
    """The payload of a deletion vector in the native form."""
    bitmap = BitMap(rows).serialize()
    return struct.pack("<iii", NATIVE_MAGIC, 1, len(bitmap)) + bitmap


def framed(payload: bytes) -> bytes:
    """A payload with its length before it and its CRC behind it."""
    return struct.pack(">i", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
