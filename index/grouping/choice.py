"""How the rows of one row space are grouped by a column: the cheapest way by estimate, with its reason.

Making codes is dear once and cheap ever after: it is also chosen when questions about the column have cost
enough in other ways (`tailbit.index.evaluation.costs`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap

from tailbit.index.evaluation.costs import (
    asking,
    fetching,
    intersecting,
    is_due,
    looking_up,
    making,
    share_of,
)
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.keys import key_type_of
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.predicate.tree import key_ranges
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.roaring.containers import BLOCK
from tailbit.tables.model import Column


class CountingWay(enum.Enum):
    """How rows are grouped by a column."""

    RECORDED = "recorded counts"
    """The index keeps how many visible rows each value has: no row is looked at."""

    KNOWN = "the condition"
    """The condition leaves the column one value: its rows are counted, and none is looked at."""

    CARDINALITIES = "recorded cardinalities"
    """Every row of the row space is asked for: each posting says how many it has."""

    INTERSECTIONS = "intersections"
    """Each key's posting is intersected with the rows."""

    ASKED = "postings asked for rows"
    """The posting of each key is asked whether it has the row, before any is decoded."""

    CODES = "codes by position"
    """The code of each row is looked up."""

    DATA = "data"
    """The column is read at the rows."""

    PARTITION = "partition values"
    """The log says the value of whole files."""


@dataclass(frozen=True)
class Choice:
    """A way for one row space, and what each was estimated to take (ms); `rows`: how many are grouped."""

    space: str
    rows: int
    way: CountingWay
    estimates: dict[CountingWay, float]


def choose(
    space: SpaceView, segments: Sequence[Segment], column: Column, bits: BitMap, among: ValueSet | None
) -> Choice:
    """The cheapest way to group some positions of a row space by a column that its segments serve.

    `among`: values, one of which every row has, where that is known. Cost: footers, and one binary search a
    file.
    """
    if all(len(bits) == space.extent == segment.rows for segment in segments):
        return Choice(space.space, len(bits), CountingWay.CARDINALITIES, {CountingWay.CARDINALITIES: 0.0})
    keys = sum(segment.weight(column.id)[0] for segment in segments)
    look_up, make = looking_up(len(bits), keys), sum(making(s, column.id) for s in segments)
    estimates = {
        CountingWay.INTERSECTIONS: sum(_intersections(s, column, len(bits), among) for s in segments),
        CountingWay.CODES: look_up + make,
        CountingWay.DATA: fetching(space, bits),
        **_asked({column.id: segments}, len(bits)),
    }
    method = min(estimates, key=lambda method: estimates[method])
    names = "|".join(segment.name for segment in segments)
    gains = make > 0 and look_up < estimates[method]
    if (
        method is not CountingWay.CODES
        and gains
        and is_due(names, _grouping(column.id), estimates[method], estimates[CountingWay.CODES])
    ):
        method = CountingWay.CODES
    return Choice(space.space, len(bits), method, estimates)


def choose_codes(
    space: SpaceView, serving: Mapping[str, Sequence[Segment]], bits: BitMap, partitioned: bool
) -> Choice:
    """The cheapest way to tell the keys of several columns of some rows.

    `serving`: the segments of each column, by its id. `partitioned`: whether there are partition columns too.
    """
    estimates = {CountingWay.CODES: 0.0, CountingWay.DATA: fetching(space, bits, len(serving))}
    for column, segments in serving.items():
        estimates[CountingWay.CODES] += looking_up(len(bits), 0) + sum(making(s, column) for s in segments)
    estimates |= _few_combinations(space, serving, bits, partitioned) | _asked(serving, len(bits))
    names = "|".join(segment.name for segments in serving.values() for segment in segments)
    method = min(estimates, key=lambda method: estimates[method])
    if method is CountingWay.DATA and is_due(
        names, _grouping(*serving), estimates[method], estimates[CountingWay.CODES]
    ):
        method = CountingWay.CODES
    return Choice(space.space, len(bits), method, estimates)


def _grouping(*columns: str) -> str:
    """What the cost of grouping is added up under, apart from that of conditions on the same columns."""
    return ",".join(("grouped by", *columns))


def _intersections(segment: Segment, column: Column, rows: int, among: ValueSet | None) -> float:
    share = 1.0
    if among is not None:
        ranges = key_ranges(among, key_type_of(column.type), segment.columns[column.id])
        share = share_of(segment, column.id, [*ranges.sure, *ranges.maybe])
    return intersecting(segment, column.id, rows, share)


def _asked(serving: Mapping[str, Sequence[Segment]], rows: int) -> dict[CountingWay, float]:
    """What asking each posting for each row would take, where no column has sparse keys."""
    every = [(segment, column) for column, segments in serving.items() for segment in segments]
    if any(segment.sparse_positions(column) for segment, column in every):
        return {}
    return {CountingWay.ASKED: sum(asking(segment, column, rows) for segment, column in every)}


MOST_COMBINATIONS = 512
"""Up to this many combinations of keys it is asked whether to intersect the postings of each."""


def _few_combinations(
    space: SpaceView, serving: Mapping[str, Sequence[Segment]], bits: BitMap, partitioned: bool
) -> dict[CountingWay, float]:
    """What intersections would take, where every column has one segment and the combinations are few."""
    if partitioned or any(len(segments) != 1 for segments in serving.values()):
        return {}
    combinations = math.prod(segments[0].weight(column)[0] for column, segments in serving.items())
    if combinations > MOST_COMBINATIONS:
        return {}
    cold = sum(intersecting(segments[0], column, 0, 1.0) for column, segments in serving.items())
    blocks = 1 + min(len(bits), space.extent // BLOCK)
    return {CountingWay.INTERSECTIONS: cold + _DENSE * combinations * blocks}


_DENSE = 1e-3
"""Intersecting two bitsets, in ms."""
