"""Edits of bytes: cut, flipped, invented, repeated; and such as get past a length or a checksum."""

from __future__ import annotations

import random
import struct
import zlib

_ENDS = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b'"',
    b"{}",
    b"[",
)


def edited(data: bytes, draw: random.Random) -> bytes:
    """Bytes after one to three edits anywhere."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        at = draw.randrange(len(data) + 1)
        data = _edit(data, at, draw)
    return data


def _edit(data: bytes, at: int, draw: random.Random) -> bytes:
    kind, size = draw.randrange(6), draw.randrange(1, 9)
    if kind == 0:
        return data[:at] + data[at + size :]
    if kind == 1:
        return data[:at] + draw.randbytes(size) + data[at:]
    if kind == 2:
        return data[:at] + draw.choice(_ENDS) + data[at:]
    if kind == 3:
        end = draw.choice(_ENDS)
        return data[:at] + end + data[at + len(end) :]
    if kind == 4:
        start = draw.randrange(len(data) + 1)
        return data[:at] + data[start : start + size * 4] + data[at:]
    return data[:at] + bytes(b ^ 1 << draw.randrange(8) for b in data[at : at + 1]) + data[at + 1 :]


def edited_parquet(data: bytes, draw: random.Random) -> bytes:
    """A Parquet file after edits, half of them in its footer, whose length is then made to fit."""
    length = int.from_bytes(data[-8:-4], "little")
    if draw.random() < 0.5 or not 12 <= length + 12 <= len(data):
        return edited(data, draw)
    start = len(data) - 8 - length
    footer = edited(data[start:-8], draw)
    return data[:start] + footer + struct.pack("<I", len(footer)) + b"PAR1"


def edited_vector(data: bytes, draw: random.Random) -> bytes:
    """A vector file after edits; in half of the cases size, CRC and offset are then made to fit."""
    data = edited(data, draw)
    if draw.random() < 0.5 or len(data) < 25:
        return data
    payload = data[17:-4]
    frame = struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))
    return struct.pack("<II", 1, len(payload)) + data[8:12] + b"\x01" + frame
