"""Rows of data files by path and position, as a transaction takes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pyarrow as pa
from pyroaring import BitMap

from tailbit.answer import Answer
from tailbit.tables.arrow import numpy_of
from tailbit.tables.delta.deletion_vectors import PORTABLE_MAGIC
from tailbit.tables.positions import bitmap_of

Places = Mapping[str, BitMap]
"""Per file, by its path as in the log but decoded, the 0-based physical positions of rows."""


def places_of_answer(answer: Answer) -> Places:
    """Return where the rows of an answer lie."""
    return {hit.slice_.path: bitmap_of(hit.positions) for hit in answer._selection.hits()}


def places_of_keys(located: pa.Table) -> Places:
    """Return where the rows of keys lie; `located`: what `locate` returns, path and position last."""
    *_, path, position = located.column_names
    rows = located.select([path, position]).filter(located[path].is_valid())
    grouped = rows.group_by(path).aggregate([(position, "list")])
    positions = grouped[f"{position}_list"]
    return {
        name: bitmap_of(numpy_of(positions[number].values))
        for number, name in enumerate(grouped[path].to_pylist())
    }


def packed(places: Places) -> bytes:
    """Return per file its path and a RoaringBitmapArray of one bitmap, both behind their length in bytes.

    See the Delta protocol, Deletion Vector Format: a magic number (4 bytes), the number of bitmaps (8), and
    each behind the upper half of its values (4), all little endian.
    """
    parts = []
    for path, positions in places.items():
        name, bitmap = path.encode(), struct.pack("<IqI", PORTABLE_MAGIC, 1, 0) + positions.serialize()
        parts += [struct.pack(">i", len(name)), name, struct.pack(">i", len(bitmap)), bitmap]
    return b"".join(parts)
