"""Hashes of bytes, and hexadecimal text of bytes and integers."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.index.functions.texts.buffers import hex_of_bytes, texts_of
from tailbit.index.functions.texts.pieced import hexadecimal, texts_of_pieces
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Vector, array_of, nulls_of, numbers
from tailbit.tables.arrow import filled

_ALGORITHMS: dict[str, Callable[..., Any]] = {
    name: getattr(hashlib, name) for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
}


def digest(call: Call, args: list[pa.Array]) -> Vector:
    """Compute a hash of bytes, named by the setting.

    Cost: one call per value, equal values included.
    """
    name, values = str(call.setting[0]), args[0]
    if name == "hex":
        return Vector(hex_of_bytes(values))
    null = nulls_of(values)
    data = filled(values.view(pa.binary()), b"").to_pylist()
    if name == "crc32":
        return Vector(array_of(np.fromiter(map(zlib.crc32, data), np.int64, len(data)), null, call.type))
    algorithm = _ALGORITHMS[name]
    digests = [algorithm(value, usedforsecurity=False).digest() for value in data]
    size = algorithm(usedforsecurity=False).digest_size
    bytes_ = np.frombuffer(b"".join(digests), np.uint8)
    return Vector(hex_of_bytes(texts_of(np.arange(len(data) + 1) * size, bytes_, null), capitals=False))


def hex_of_whole(call: Call, args: list[pa.Array]) -> Vector:
    """Return the 64 bits of an integer as hexadecimal text without leading zeros."""
    return Vector(texts_of_pieces([hexadecimal(numbers(args[0]))], nulls_of(args[0])))
