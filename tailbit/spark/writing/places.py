"""Rows of data files by path and position, as a transaction takes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
from pyroaring import BitMap

from tailbit.answer import Answer
from tailbit.base.dataclass import dataclass
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.positions import PORTABLE_MAGIC, bitmap_of

RowsByPath = Mapping[str, BitMap]
"""Per file, by its path as in the log but decoded, the 0-based physical positions of rows."""


def places_of_answer(answer: Answer) -> RowsByPath:
    """Return where the rows of an answer lie."""
    return {hit.slice_.path: bitmap_of(hit.positions) for hit in answer._selection.hits()}


def places_of_keys(located: pa.Table) -> RowsByPath:
    """Return where the rows of keys lie; `located`: what `locate` returns, path and position last."""
    *_, path, position = located.column_names
    rows = located.select([path, position]).filter(located[path].is_valid())
    grouped = rows.group_by(path).aggregate([(position, "list")])
    positions = grouped[f"{position}_list"]
    return {
        name: bitmap_of(numpy_of(positions[number].values))
        for number, name in enumerate(grouped[path].to_pylist())
    }


@dataclass(frozen=True)
class Hidden:
    """Rows that a deletion vector hides from a file already, and the identity of the vector."""

    id: str
    positions: BitMap


class LocatedRows(NamedTuple):
    """Rows of data files, and by the paths of files what is hidden of them already."""

    rows: RowsByPath
    hidden: Mapping[str, Hidden]


def with_hidden(rows: RowsByPath, answer: Answer) -> LocatedRows:
    """Return rows with what is hidden of their files already, at the version of an answer.

    The index has what it covers; of other files the deletion vector is read.
    """
    coverage, files = answer._selection.coverage, answer._selection.snapshot.files
    numbers = numpy_of(pc.index_in(arrow_array([*rows], pa.string()), files.paths))
    hidden = {}
    for path, number in zip(rows, numbers.tolist(), strict=True):
        positions = coverage.hidden_of(number)
        if positions:
            hidden[path] = Hidden(files[number].hidden_id, positions)
    return LocatedRows(rows, hidden)


def packed(rows: RowsByPath, hidden: Mapping[str, Hidden]) -> bytes:
    """Return what to delete per file, each part behind its length in bytes.

    The parts: the path; a RoaringBitmapArray of one bitmap, the rows; the identity of the deletion vector
    that the file has, empty if it is not known; the array of the rows that this hides. See the Delta
    protocol, Deletion Vector Format: a magic number (4 bytes), the number of bitmaps (8), and each behind the
    upper half of its values (4), all little endian.
    """
    none = Hidden("", BitMap())
    fields = []
    for path, positions in rows.items():
        vector = hidden.get(path, none)
        fields += [path.encode(), _array(positions), vector.id.encode(), _array(vector.positions)]
    return b"".join(struct.pack(">i", len(content)) + content for content in fields)


def _array(positions: BitMap) -> bytes:
    return struct.pack("<IqI", PORTABLE_MAGIC, 1, 0) + positions.serialize()
