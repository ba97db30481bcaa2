"""Choice of the cheapest method to group the rows of one row space, by estimate, with its reason.

Codes are an array that holds, for each position of a row space, the number of its key. Codes are costly to
make, but save time in all later questions. So they are also chosen when earlier questions about the columns
have spent enough on other methods (`tailbit.index.evaluation.costs`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence

from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.costs import fetching, intersecting, is_due, looking_up, making, share_of
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.grouping.space_columns import PostedColumn, SpaceColumn
from tailbit.index.roaring.containers import BLOCK


class CountingWay(enum.Enum):
    """Method of grouping rows."""

    RECORDED = "recorded counts"
    """The index, the log or the condition says how many rows each group has: no row is looked at."""

    INTERSECTIONS = "intersections"
    """Each key's posting, of several columns each combination of postings, is intersected with the rows."""

    CODES = "codes by position"
    """The codes of each row are looked up."""

    DATA = "data"
    """The columns are read at the rows."""


@dataclass(frozen=True)
class Choice:
    """The method chosen for one row space, and each method's estimate in ms; `rows`: rows to group."""

    space: str
    rows: int
    way: CountingWay
    estimates: dict[CountingWay, float]


MOST_COMBINATIONS = 512
"""Intersecting the postings of each combination of keys is considered up to this many combinations."""

_DENSE = 1e-3
"""Intersecting two bitsets, in ms."""


def choose(space: SpaceView, columns: Sequence[SpaceColumn], bits: BitMap) -> Choice:
    """Choose the cheapest method to group positions `bits` of a row space by some columns.

    Cost: footers, and one binary search per file.
    """
    posted = [column for column in columns if isinstance(column, PostedColumn)]
    stored = [(segment, column.column.id) for column in posted for segment in column.segments]
    if not posted or (len(columns) == 1 and all(len(bits) == space.extent == s.rows for s, _ in stored)):
        return Choice(space.space, len(bits), CountingWay.RECORDED, {CountingWay.RECORDED: 0.0})
    keys = posted[0].size if len(columns) == 1 else 0
    look_up = sum(looking_up(len(bits), keys) for _ in posted)
    make = sum(making(segment, column) for segment, column in stored)
    estimates = _intersections(space, columns, bits) | {
        CountingWay.CODES: look_up + make,
        CountingWay.DATA: fetching(space, bits, len(posted)),
    }
    method = min(estimates, key=lambda method: estimates[method])
    names = "|".join(segment.name for segment, _ in stored)
    grouped_by = ",".join(("grouped by", *(column.column.id for column in posted)))
    if (
        method is not CountingWay.CODES
        and make > 0
        and look_up < estimates[method]
        and is_due(names, grouped_by, estimates[method], look_up + make)
    ):
        method = CountingWay.CODES
    return Choice(space.space, len(bits), method, estimates)


def _intersections(
    space: SpaceView, columns: Sequence[SpaceColumn], bits: BitMap
) -> dict[CountingWay, float]:
    """Estimate the ms of intersections; empty if several columns have too many combinations of keys."""
    posted = [column for column in columns if isinstance(column, PostedColumn)]
    if len(columns) == 1:
        return {CountingWay.INTERSECTIONS: sum(_intersecting(column, len(bits)) for column in posted)}
    combinations = math.prod(column.size for column in columns)
    if combinations > MOST_COMBINATIONS:
        return {}
    cold = sum(
        intersecting(segment, column.column.id, 0, 1.0) for column in posted for segment in column.segments
    )
    blocks = 1 + min(len(bits), space.extent // BLOCK)
    return {CountingWay.INTERSECTIONS: cold + _DENSE * combinations * blocks}


def _intersecting(column: PostedColumn, rows: int) -> float:
    """Estimate the ms to intersect the postings that `rows` rows may be in."""
    cost = 0.0
    for segment in column.segments:
        ranges = column.ranges(segment)
        share = 1.0 if ranges is None else share_of(segment, column.column.id, ranges)
        cost += intersecting(segment, column.column.id, rows, share)
    return cost
