"""Hashes of values for the filters of a file: a value is hashed in the bytes that the file would store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.tables.model import Column
from tailbit.tables.parquet.bloom.xxh64 import Hashes, hashes_of_bytes, hashes_of_words
from tailbit.tables.parquet.decode import written_legacy
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.leaves import ParquetNode
from tailbit.tables.parquet.relabelling import declared_type

_WORDS: dict[str, np.dtype[Any]] = {"INT32": np.dtype(np.int32), "INT64": np.dtype(np.int64)}
_FLOATS: dict[str, np.dtype[Any]] = {"FLOAT": np.dtype(np.float32), "DOUBLE": np.dtype(np.float64)}
_WHOLE = ("byte", "short", "integer", "long")
_TEXTS = ("string", "binary")


def hashes_in_file(values: Sequence[Any], column: Column, layout: Layout, node: ParquetNode) -> Hashes | None:
    """Return the hashes that a file's filters would hold for some values; None if filters prove nothing.

    `values`: canonical, of the column's type. Filters prove nothing if a value may be stored in an unknown
    way, or in more ways than can be listed. A value that the file's type cannot hold has no hash.
    """
    leaf = layout.metadata.schema.column(node.first)
    physical, stored, name = str(leaf.physical_type), node.field.type, column.type.name
    if leaf.max_repetition_level or column.type.char_length:
        return None
    if name in _TEXTS and physical == "BYTE_ARRAY" and _is_text(stored):
        return hashes_of_texts(values)
    if name in ("float", "double") and _is_float(name, physical, stored):
        return _of_floats(values, _FLOATS[physical])
    if physical in _WORDS and _is_same(name, stored, column, layout):
        return _of_whole(values, _WORDS[physical])
    if physical == "FIXED_LEN_BYTE_ARRAY" and name == "decimal" and _is_same(name, stored, column, layout):
        return _of_long(values, int(leaf.length))
    return None


def _is_text(stored: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(stored) or types.is_binary(stored))


def _is_float(name: str, physical: str, stored: pa.DataType) -> bool:
    wanted = {"FLOAT": "float", "DOUBLE": "double"}.get(physical)
    return name == wanted and bool(pa.types.is_floating(stored))


def _is_same(name: str, stored: pa.DataType, column: Column, layout: Layout) -> bool:
    """Return whether the numbers that the file stores are the canonical values of the column's type."""
    types = pa.types
    if name in _WHOLE:
        return bool(types.is_signed_integer(stored))
    if name == "decimal":
        return bool(types.is_decimal(stored)) and stored.scale == column.type.scale
    modern = not written_legacy(layout.metadata, is_int96=False)
    if name == "date":
        return modern and bool(types.is_date32(stored))
    in_micros = types.is_timestamp(stored) and stored.unit == "us" and declared_type(stored, column) is None
    return modern and in_micros and name in ("timestamp", "timestamp_ntz")


def hashes_of_texts(values: Sequence[bytes]) -> Hashes:
    """Return the hashes of some bytes."""
    places = np.concatenate([[0], np.cumsum([len(value) for value in values], dtype=np.int64)])
    return hashes_of_bytes(places.astype(np.int64), np.frombuffer(b"".join(values), dtype=np.uint8))


def _of_whole(values: Sequence[int], width: np.dtype[Any]) -> Hashes:
    most = np.iinfo(width)
    held = [value for value in values if most.min <= value <= most.max]
    return hashes_of_words(np.array(held, dtype=width))


def _of_long(values: Sequence[int], length: int) -> Hashes:
    most = 1 << (8 * length - 1)
    held = [value for value in values if -most <= value < most]
    return hashes_of_texts([value.to_bytes(length, "big", signed=True) for value in held])


def _of_floats(values: Sequence[float], width: np.dtype[Any]) -> Hashes | None:
    """Return the hashes of numbers: two for zero (0.0, -0.0); None if one is NaN, which has many."""
    if any(map(math.isnan, values)):
        return None
    with np.errstate(over="ignore"):
        held = [value for value in values if float(width.type(value)) == value]
    both = held + [-0.0 for value in held if value == 0] + [0.0 for value in held if value == 0]
    return hashes_of_words(np.array(both, dtype=width).view(f"i{width.itemsize}"))
