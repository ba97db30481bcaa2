"""Choice of the cheapest method to group the rows of one row space, by estimate, with its reason.

Codes are an array that holds, for each position of a row space, the number of its key. Codes are costly to
make, but save time in all later questions. So they are also chosen when earlier questions about the column
have spent enough on other methods (`tailbit.index.evaluation.costs`).
"""

from __future__ import annotations

import enum
import math

from pyroaring import BitMap

from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.costs import (
    fetching,
    intersecting,
    is_due,
    looking_up,
    looking_up_in_postings,
    making,
    share_of,
)
from tailbit.index.evaluation.row_space import Segments, Serving, SpaceView
from tailbit.index.keys import key_type_of
from tailbit.index.predicate.tree import key_ranges
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.roaring.containers import BLOCK
from tailbit.tables.model import Column


class CountingWay(enum.Enum):
    """Method of grouping rows by a column."""

    RECORDED = "recorded counts"
    """The index records the number of visible rows per value: no row is looked at."""

    KNOWN = "the condition"
    """The condition allows a single value of the column: the rows are counted, none is looked at."""

    CARDINALITIES = "recorded cardinalities"
    """Every row of the row space matches: the cardinality of each posting is its count."""

    INTERSECTIONS = "intersections"
    """Each key's posting is intersected with the rows."""

    LOOKUPS = "rows looked up in postings"
    """Of several columns: each key's posting is intersected with the rows, which get the code of the key."""

    CODES = "codes by position"
    """The code of each row is looked up."""

    DATA = "data"
    """The column is read at the rows."""

    PARTITION = "partition values"
    """The log records the value of whole files."""


@dataclass(frozen=True)
class Choice:
    """The method chosen for one row space, and each method's estimate in ms; `rows`: rows to group."""

    space: str
    rows: int
    way: CountingWay
    estimates: dict[CountingWay, float]


def choose(
    space: SpaceView, segments: Segments, column: Column, bits: BitMap, among: ValueSet | None
) -> Choice:
    """Choose the cheapest method to group positions `bits` of a row space by a column with postings.

    `among`: a value set that contains every row's value, if one is known. Cost: footers, and one binary
    search per file.
    """
    if all(len(bits) == space.extent == segment.rows for segment in segments):
        return Choice(space.space, len(bits), CountingWay.CARDINALITIES, {CountingWay.CARDINALITIES: 0.0})
    keys = sum(segment.weight(column.id)[0] for segment in segments)
    look_up, make = looking_up(len(bits), keys), sum(making(s, column.id) for s in segments)
    estimates = {
        CountingWay.INTERSECTIONS: _intersections(segments, column, len(bits), among),
        CountingWay.CODES: look_up + make,
        CountingWay.DATA: fetching(space, bits),
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


def choose_codes(space: SpaceView, serving: Serving, bits: BitMap, partitioned: bool) -> Choice:
    """Choose the cheapest method to find the keys of several columns for some rows.

    `serving`: the segments of each column, by column id. `partitioned`: whether there are partition columns
    too.
    """
    estimates = {CountingWay.CODES: 0.0, CountingWay.DATA: fetching(space, bits, len(serving))}
    for column, segments in serving.items():
        estimates[CountingWay.CODES] += looking_up(len(bits), 0) + sum(making(s, column) for s in segments)
    estimates |= _few_combinations(space, serving, bits, partitioned) | _lookups(serving, len(bits))
    names = "|".join(segment.name for segments in serving.values() for segment in segments)
    method = min(estimates, key=lambda method: estimates[method])
    if method is CountingWay.DATA and is_due(
        names, _grouping(*serving), estimates[method], estimates[CountingWay.CODES]
    ):
        method = CountingWay.CODES
    return Choice(space.space, len(bits), method, estimates)


def _grouping(*columns: str) -> str:
    """Return the key under which `SPENT` adds up the cost of grouping, apart from the cost of conditions."""
    return ",".join(("grouped by", *columns))


def _intersections(segments: Segments, column: Column, rows: int, among: ValueSet | None) -> float:
    cost = 0.0
    for segment in segments:
        share = 1.0
        if among is not None:
            ranges = key_ranges(among, key_type_of(column.type), segment.columns[column.id])
            share = share_of(segment, column.id, [*ranges.sure, *ranges.maybe])
        cost += intersecting(segment, column.id, rows, share)
    return cost


def _lookups(serving: Serving, rows: int) -> dict[CountingWay, float]:
    """Estimate the ms to look up the rows in each posting; empty if a column has sparse keys."""
    every = [(segment, column) for column, segments in serving.items() for segment in segments]
    if any(segment.sparse_positions(column) for segment, column in every):
        return {}
    return {
        CountingWay.LOOKUPS: sum(looking_up_in_postings(segment, column, rows) for segment, column in every)
    }


MOST_COMBINATIONS = 512
"""Intersecting the postings of each combination of keys is considered up to this many combinations."""


def _few_combinations(
    space: SpaceView, serving: Serving, bits: BitMap, partitioned: bool
) -> dict[CountingWay, float]:
    """Estimate the ms of intersections; empty unless each column has one segment and combinations are few."""
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
