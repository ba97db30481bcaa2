"""Estimated costs in ms of reading postings, codes or data; only footers are read.

Codes are an array with the number of its key for each position of a row space, made from the postings of a
column. The rates are those of one core, measured with `benchmarks/workloads/facets.py`; they need only be
right in proportion, since all methods are compared by the same rates. Making codes costs much once and saves
ever after: codes are also due when earlier questions about a column have spent a sixth of that cost on other
methods.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyroaring import BitMap

from tailbit.base.lazy import lazy
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.keys import KeyRange
from tailbit.index.postings.segment import Segment
from tailbit.index.roaring.containers import ARRAY_LIMIT, BLOCK
from tailbit.tables.cache import Cache

if TYPE_CHECKING:
    from tailbit.index.postings import codes as row_codes
else:
    row_codes = lazy("tailbit.index.postings.codes")

_READ_BYTE, _DECODED, _DECODED_KEY, _COPIED_BYTE = 2.5e-6, 6e-4, 1e-3, 1.4e-6
"""Reading a byte of postings; decoding a container; decoding a bitmap; copying a byte into memory."""

_PAIR, _STEP, _UNITED = 3e-5, 5e-6, 1e-4
"""Intersecting two containers; one step of such an intersection; uniting a container with others."""

_LOOK_UP, _CODE, _COMPARED, _BITMAP = 8e-6, 1e-6, 2e-6, 1e-5
"""Looking up a row's code; summing the rows of a code; comparing a row's code; building a bitmap, per row."""

_CODED_ROW, _CODED_CONTAINER, _CODED_BIT = 2e-5, 2.5e-4, 1e-6
"""Making codes: per row and per container of array containers; per position of a bitset."""

_LISTED, _LISTED_KEY, _UNITED_POSITION, _CODED_POSITION = 4e-5, 3e-2, 3e-5, 4e-5
"""Costs of sparse keys: reading and decoding a position; building a key's own bitmap; uniting a position with
all others; making the code of a position.
"""

_FILE, _VALUE, _ROW, _PAGE = 1.5, 4e-6, 2e-5, 20_000
"""Opening a data file; decoding a value; taking a row; number of values decoded to read one wanted row."""

_GALLOP = 64
"""A container this many times larger than the other is intersected by galloping search."""

_PATIENCE = 6

_NO_ROOM = 1000
"""Cost factor of codes that do not fit into their cache."""

SPENT: Cache[tuple[str, str], list[float]] = Cache(10_000)
"""Estimated ms that methods other than codes have cost so far, by segments and column."""


def is_due(segments: str, column: str, spent: float, codes: float) -> bool:
    """Return whether to make codes although another method is cheaper now; never the first time.

    `spent`: ms that earlier questions spent on other methods. `codes`: ms that making the codes takes.
    """
    before = SPENT.get((segments, column), lambda: ([0.0], 1))
    again = before[0] > 0
    before[0] += spent
    return again and before[0] * _PATIENCE >= codes


class _Shape(NamedTuple):
    """Statistics of a column's postings: keys, bytes, containers, positions per container, sparse positions.

    All but the last describe dense keys only.
    """

    keys: int
    size: int
    containers: float
    positions: float
    sparse: int

    @classmethod
    def of(cls, segment: Segment, column: str) -> _Shape:
        """Estimate from rows and bytes, as if keys were spread evenly; few bytes mean fewer containers."""
        keys, size = segment.weight(column)
        sparse = min(segment.rows, segment.sparse_positions(column))
        rows = segment.rows - sparse
        if sparse:
            # The rest belongs to dense keys: few keys of many rows each.
            keys, size = min(keys, rows // BLOCK), min(size, 2 * rows)
        per_key = max(1.0, min(segment.rows / BLOCK, rows / max(1, keys)))
        containers = max(1.0, min(keys * per_key, size / 10))
        return cls(keys, size, containers, rows / containers, sparse)

    @property
    def reading(self) -> float:
        """Estimate the ms to read and decode all postings."""
        dense = (_READ_BYTE + _COPIED_BYTE) * self.size + _DECODED * self.containers
        dense += _DECODED_KEY * self.keys
        return dense + _LISTED * self.sparse


def intersecting(segment: Segment, column: str, rows: int, share: float) -> float:
    """Estimate the ms to intersect a share of a column's postings with a set of `rows` rows."""
    shape = _Shape.of(segment, column)
    rows_in_block = rows / max(1.0, segment.rows / BLOCK)
    container_cost = _PAIR + _STEP * _steps(rows_in_block, min(shape.positions, BLOCK))
    cold = 0.0 if segment.is_held(column) else shape.reading
    alone = _LISTED * shape.sparse + _LISTED_KEY * segment.weight(column)[0] if shape.sparse else 0.0
    return share * (container_cost * shape.containers + alone + cold)


def _steps(some: float, others: float) -> float:
    """Estimate the steps to intersect two containers of `some` and `others` positions."""
    few, many = sorted((some, others))
    if many > ARRAY_LIMIT:
        return min(few, ARRAY_LIMIT / 4)
    return few * math.log2(many + 2) if few * _GALLOP < many else few + many


def uniting(segment: Segment, column: str, share: float) -> float:
    """Estimate the ms to unite a share of a column's postings."""
    shape = _Shape.of(segment, column)
    cold = 0.0 if segment.is_held(column) else shape.reading
    return share * (_UNITED * shape.containers + _UNITED_POSITION * shape.sparse + cold)


def reading(segment: Segment, column: str, ranges: Sequence[KeyRange] | None, share: float) -> float:
    """Estimate the ms to read and unite the postings of some ranges of keys, as if none were cached.

    `ranges`: None for all keys. `share`: the share of the column's keys that lie in them. Row groups are read
    as a whole, however few of their keys are wanted.
    """
    shape = _Shape.of(segment, column)
    decoded = _DECODED * shape.containers + _DECODED_KEY * shape.keys + _LISTED * shape.sparse
    united = _UNITED * shape.containers + _UNITED_POSITION * shape.sparse
    size = segment.touched(column, ranges)
    return (_READ_BYTE + _COPIED_BYTE) * size + share * (decoded + united)


def making(segment: Segment, column: str) -> float:
    """Estimate the ms to make the codes of a column: 0 if the codes are cached.

    The estimate is higher if the codes were evicted before, or do not fit into the cache.
    """
    if row_codes.held_codes(segment, column) is not None:
        return 0.0
    shape = _Shape.of(segment, column)
    cost = _READ_BYTE * shape.size + _CODED_POSITION * shape.sparse
    if shape.positions > ARRAY_LIMIT:
        cost += _CODED_BIT * shape.containers * BLOCK
    else:
        cost += _CODED_ROW * (segment.rows - shape.sparse) + _CODED_CONTAINER * shape.containers
    no_room = 1 if row_codes.have_room(segment, column) else _NO_ROOM
    return cost * (1 + row_codes.times_made(segment, column)) * no_room


def looking_up(rows: int, keys: int) -> float:
    """Estimate the ms to look up the codes of `rows` rows and count them over `keys` keys."""
    return _LOOK_UP * rows + _CODE * keys


def comparing(segment: Segment, rows: int) -> float:
    """Estimate the ms to compare all codes with a range and build a bitmap of the `rows` matches."""
    return _COMPARED * segment.rows + _BITMAP * rows


def fetching(space: SpaceView, bits: BitMap, columns: int = 1) -> float:
    """Estimate the ms to read `columns` columns from data files at some rows of a row space."""
    counts = space.counts_by_file(bits)
    touched = counts > 0
    values = np.minimum(space.rows[touched], counts[touched] * _PAGE)
    return _FILE * int(touched.sum()) + columns * (_VALUE * int(values.sum()) + _ROW * len(bits))
