"""Deletion vectors: the rows hidden from a data file, read and checked.

A vector is stored in one of three places: inline in the log (`i`), in a file below the table named by a uuid
(`u`), or in a file at an absolute path (`p`). Length, CRC and cardinality are verified. Payload:
little-endian magic, then either the portable 64-bit Roaring form or the older native form. Row numbers are
32-bit: no data file has more rows. Source: Delta protocol, Deletion Vectors and Deletion Vector Format.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any

from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.tables.delta.paths import decode_path
from tailbit.tables.positions import PORTABLE_MAGIC, checked_vector, portable, read_frame
from tailbit.tables.storage import Storage

FIELDS = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
"""The fields of a descriptor in the log, in the order of `DeletionVector`."""
NATIVE_MAGIC = 1681511376

Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGIT = {c: i for i, c in enumerate(Z85)}
_FORMAT_VERSION = 1
_UUID_DIGITS = 20


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The descriptor of the rows hidden from a data file.

    Source: Delta protocol, Deletion Vectors. `storage_type` is u, p or i.
    """

    storage_type: str
    path_or_inline: str
    offset: int | None
    size: int
    cardinality: int

    @property
    def id(self) -> str:
        """The identity of the vector: two descriptors with the same id hide the same rows."""
        suffix = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline}{suffix}"

    @property
    def place(self) -> tuple[str, int]:
        """The file and the offset in the file, as errors name them."""
        return ("inline" if self.storage_type == "i" else self.path_or_inline), self.offset or 0

    def concerns(self, file: str, offset: object) -> bool:
        """Return whether an error that names a file and an offset is about this vector."""
        return (file, offset) == self.place

    def action(self) -> dict[str, Any]:
        """Return the descriptor by the names of its fields in the log."""
        values = (self.storage_type, self.path_or_inline, self.offset, self.size, self.cardinality)
        return dict(zip(FIELDS, values, strict=True))

    def read(self, storage: Storage) -> BitMap:
        """Return the 0-based physical row numbers that the vector hides.

        Cost: one range read of the vector's bytes; no read if the vector is inline.

        Raises:
            DeletionVectorError: the vector is missing, truncated or altered, has another cardinality than the
                log states, or hides rows beyond 32 bits.
            UnsafePathError: the vector's path leaves the table.
        """

        def read() -> BitMap:
            return _decode(_inline(self) if self.storage_type == "i" else _stored(storage, self))

        return checked_vector(storage, *self.place, self.cardinality, read)


def vector_path(vector: DeletionVector) -> str:
    """Return the path of a stored deletion vector: relative to the table's root, or absolute.

    Raises:
        ValueError: the name is not an encoded uuid.
    """
    if vector.storage_type == "p":
        return decode_path(vector.path_or_inline, "a deletion vector")
    prefix, digits = vector.path_or_inline[:-_UUID_DIGITS], vector.path_or_inline[-_UUID_DIGITS:]
    if len(digits) != _UUID_DIGITS:
        raise ValueError(f"{vector.path_or_inline!r} names no file")
    name = f"deletion_vector_{uuid.UUID(bytes=decode_z85(digits))}.bin"
    return f"{prefix}/{name}" if prefix else name


def decode_z85(text: str) -> bytes:
    """Decode Z85 text: five digits become four bytes.

    Raises:
        ValueError: the length is not a multiple of five, or a character is outside the alphabet.
    """
    if len(text) % 5:
        raise ValueError(f"Z85 text of {len(text)} characters")
    out = bytearray()
    for index in range(0, len(text), 5):
        number = 0
        for digit in text[index : index + 5].encode():
            if digit not in _DIGIT:
                raise ValueError(f"{chr(digit)!r} is not a Z85 digit")
            number = number * 85 + _DIGIT[digit]
        if number >> 32:
            raise ValueError("five Z85 digits exceed 32 bits")
        out += number.to_bytes(4, "big")
    return bytes(out)


def _inline(vector: DeletionVector) -> bytes:
    data = decode_z85(vector.path_or_inline)
    if len(data) < vector.size:
        raise ValueError(f"{len(data)} bytes inline, the log says {vector.size}")
    return data[: vector.size]


def _stored(storage: Storage, vector: DeletionVector) -> bytes:
    """Read the payload of a stored vector and check its frame: the length before and the CRC behind it."""
    path, stat = storage.locate(vector_path(vector))
    offset = vector.offset or 0
    payload = read_frame(storage, path, stat, offset, vector.size)
    if offset and storage.read_range(path, 0, 1) != bytes([_FORMAT_VERSION]):
        raise ValueError("the file is not of format version 1")
    return payload


def _decode(payload: bytes) -> BitMap:
    """Decode a payload of either form into the hidden rows."""
    (magic,) = struct.unpack_from("<i", payload)
    if magic == PORTABLE_MAGIC:
        return portable(payload)
    if magic == NATIVE_MAGIC:
        return _native(payload)
    raise ValueError(f"magic number {magic} is unknown")


def _native(payload: bytes) -> BitMap:
    """Decode the native form: int32 count, then per bitmap its length and its bytes.

    The index of a bitmap in the payload is the high 32 bits of its rows.
    """
    (count,) = struct.unpack_from("<i", payload, 4)
    rows, offset = BitMap(), 8
    for high in range(count):
        (size,) = struct.unpack_from("<i", payload, offset)
        if size <= 0 or offset + 4 + size > len(payload):
            raise ValueError("a bitmap in it is cut")
        bitmap = BitMap.deserialize(payload[offset + 4 : offset + 4 + size])
        if high and bitmap:
            raise ValueError("it hides rows beyond 32 bits")
        rows |= bitmap
        offset += 4 + size
    return rows
