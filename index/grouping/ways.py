"""Matching rows by stored key of the segments of one column, by each method.

Each method takes segments, their column, positions of the row space and, if known, a value set that contains
every position's value; it returns, per segment, a count for each key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.lazy import lazy
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.keys import KeyRange, key_type_of
from tailbit.index.postings.segment import Segment
from tailbit.index.predicate.key_ranges import key_ranges
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.tuple_keys import truncated
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column
from tailbit.tables.positions import BitPositions, positions_in

if TYPE_CHECKING:
    from tailbit.index.postings import codes as row_codes
else:
    row_codes = lazy("tailbit.index.postings.codes")


def _by_cardinality(
    segments: Sequence[Segment], column: Column, bits: BitMap, among: ValueSet | None
) -> list[Longs]:
    return [segment.keys(column.id)[1].copy() for segment in segments]


def _by_codes(
    segments: Sequence[Segment], column: Column, bits: BitMap, among: ValueSet | None
) -> list[Longs]:
    """Count by stored key: look up the code of each row in vectors."""
    positions: BitPositions = positions_in(bits)
    return [row_codes.codes_of(segment, column.id).counts(positions)[1:] for segment in segments]


def _by_intersections(
    segments: Sequence[Segment], column: Column, bits: BitMap, among: ValueSet | None
) -> list[Longs]:
    """Count by stored key: intersect each posting with the rows, only postings of `among` if given."""
    return [_intersected(segment, column, bits, among) for segment in segments]


def _intersected(segment: Segment, column: Column, bits: BitMap, among: ValueSet | None) -> Longs:
    stored = segment.keys(column.id)[0]
    out = np.zeros(len(stored), dtype=np.int64)
    ranges: list[KeyRange] = [(None, False, None, False)]
    if among is not None:
        wanted = key_ranges(among, key_type_of(column.type), segment.columns[column.id])
        ranges = [*wanted.sure, *wanted.maybe]
    keys, postings = segment.select(column.id, ranges)
    cardinalities = [bits.intersection_cardinality(posting) for posting in postings]
    first = len(stored) and not stored[0].is_valid
    if among is None:
        out[int(first) :] = cardinalities
    elif keys:
        places = pc.index_in(arrow_array(keys, pa.binary()), value_set=stored)
        out[np.asarray(places)] = cardinalities
    if first and (among is None or among.nulls):
        null = segment.lookup(column.id, None)
        out[0] = 0 if null is None else bits.intersection_cardinality(null)
    return out


COUNT = {
    CountingWay.CARDINALITIES: _by_cardinality,
    CountingWay.CODES: _by_codes,
    CountingWay.INTERSECTIONS: _by_intersections,
}


def shortened(segment: Segment, column: Column, counts: Longs, bits: BitMap) -> BitMap:
    """Return the positions with truncated keys, and set the counts of those keys to zero."""
    keys = segment.keys(column.id)[0]
    short = truncated(keys, segment.columns[column.id])
    if short is None or not counts[short].any():
        return BitMap()
    places = np.flatnonzero(short & (counts > 0))
    counts[places] = 0
    postings = [segment.lookup(column.id, key) for key in pc.take(keys, arrow_array(places)).to_pylist()]
    return bits & BitMap.union(*(posting for posting in postings if posting is not None))
