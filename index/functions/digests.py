"""Hashes of bytes, and hexadecimal text of bytes and integers.

Spark's hash(): Murmur3 of 32 bits; the hash of earlier arguments is the seed; NULL changes nothing.

Source: Spark 4.2, Murmur3Hash and Murmur3_x86_32, which takes the last bytes of a text one by one.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import (
    Vector,
    array_of,
    hex_of_bytes,
    hexadecimal,
    nulls_of,
    numbers,
    texts_of_pieces,
    unscaled,
)
from tailbit.index.keys import WORD_DIGITS, bytes_of, texts_of
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.model import DataType

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


_Words = npt.NDArray[np.uint32]
_SEED = 42


def hashed(call: Call, args: list[pa.Array]) -> Vector:
    """Compute the hash of all arguments; never NULL."""
    hashes = np.full(len(args[0]), _SEED, dtype=np.uint32)
    with np.errstate(over="ignore"):
        for arg, of in zip(args, call.args, strict=True):
            if not pa.types.is_null(arg.type):
                hashes = np.where(nulls_of(arg), hashes, _hashed(arg, of.type, hashes))
    return Vector(array_of(hashes.view(np.int32), np.zeros(len(hashes), dtype=np.bool_), call.type))


def _hashed(values: pa.Array, type_: DataType, seed: _Words) -> _Words:
    if not len(values):
        return seed
    if type_.name in ("string", "binary"):
        return _of_bytes(values, seed)
    if type_.name == "decimal" and type_.precision > WORD_DIGITS:
        whole = [int(v or 0) for v in unscaled(values)]
        texts = [v.to_bytes((v if v >= 0 else ~v).bit_length() // 8 + 1, "big", signed=True) for v in whole]
        return _of_bytes(arrow_array(texts, pa.binary()), seed)
    data = _plain(values, type_)
    words = data.astype(np.int64).view(np.uint32).reshape(-1, 2)
    if data.dtype.itemsize < 8:
        return _last(_mixed(seed, words[:, 0]), np.uint32(4))
    return _last(_mixed(_mixed(seed, words[:, 0]), words[:, 1]), np.uint32(8))


def _plain(values: pa.Array, type_: DataType) -> npt.NDArray[Any]:
    """Return values as integers of 32 or 64 bits."""
    if type_.name == "decimal":
        return np.array([int(v or 0) for v in unscaled(values)], dtype=np.int64)
    if type_.name == "boolean":
        return numpy_of(filled(values, False)).astype(np.int32)
    data = numbers(values)
    if data.dtype.kind == "f":
        data = np.where(np.isnan(data), data.dtype.type(np.nan), data + data.dtype.type(0))
        data = data.view(f"i{data.dtype.itemsize}")
    whole: npt.NDArray[Any] = data
    return whole


def _of_bytes(values: pa.Array, seed: _Words) -> _Words:
    offsets, data = bytes_of(values)
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes, whole = seed.copy(), lengths // 4
    for word in range(int(whole.max(initial=0))):
        rows = np.flatnonzero(whole > word)
        first = starts[rows] + 4 * word
        octets = [data[first + n].astype(np.uint32) << np.uint32(8 * n) for n in range(4)]
        hashes[rows] = _mixed(hashes[rows], octets[0] | octets[1] | octets[2] | octets[3])
    for rest in range(3):
        rows = np.flatnonzero(lengths % 4 > rest)
        signed = data[starts[rows] + 4 * whole[rows] + rest].view(np.int8).astype(np.int32).view(np.uint32)
        hashes[rows] = _mixed(hashes[rows], signed)
    return _last(hashes, lengths.astype(np.uint32))


def _turned(words: _Words, by: int) -> _Words:
    turned: _Words = (words << np.uint32(by)) | (words >> np.uint32(32 - by))
    return turned


def _mixed(seed: _Words, words: _Words) -> _Words:
    scrambled = _turned(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    mixed: _Words = _turned(seed ^ scrambled, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    return mixed


def _last(words: _Words, length: Any) -> _Words:
    words = words ^ length
    words = (words ^ (words >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    words = (words ^ (words >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    hashes: _Words = words ^ (words >> np.uint32(16))
    return hashes
