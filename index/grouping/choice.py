"""Choice of the cheapest method to group the rows of one row space, by estimate, with its reason.

One column of a row space, by its postings or by the partition values of files. A position gets a code: 1 +
the place of its key in `keys`, or 0 if the column has no key for it.

Codes are an array that holds, for each position of a row space, the number of its key. Codes are costly to
make, but save time in all later questions. So they are also chosen when earlier questions about the columns
have spent enough on other methods (`tailbit.index.evaluation.costs`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.base.once import once
from tailbit.index.evaluation.costs import fetching, intersecting, is_due, looking_up, making
from tailbit.index.evaluation.key_selection import RangeKeys, keys_of
from tailbit.index.evaluation.row_space import Segments, SpaceView, claims
from tailbit.index.grouping.dictionary import coded
from tailbit.index.keys import key_type_of, widen_keys
from tailbit.index.postings.segment import ALL_KEYS, Segment
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.roaring.containers import BLOCK
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.model import Column
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import BitPositions

if TYPE_CHECKING:
    from tailbit.index.postings import codes as row_codes
else:
    row_codes = lazy("tailbit.index.postings.codes")


class PostedColumn:
    """A column with postings; a position has a key in at most one of the segments.

    `among`: a value set that contains every row's value; None if no such set is known.
    """

    def __init__(self, column: Column, segments: Segments, among: ValueSet | None) -> None:
        self.column, self.segments, self.among = column, segments, among
        self.key_type = key_type_of(column.type)

    @property
    def size(self) -> int:
        """Return the number of keys. Cost: footers."""
        return sum(segment.weight(self.column.id)[0] for segment in self.segments)

    @once
    def keys(self) -> pa.BinaryArray:
        """Return the stored keys, widened to the column's type, of one segment after the other."""
        stored = [
            (segment.keys(self.column.id)[0], segment.columns[self.column.id]) for segment in self.segments
        ]
        widened = [widen_keys(keys, type_, self.key_type) for keys, type_ in stored]
        return widened[0] if len(widened) == 1 else pa.concat_arrays(widened)

    def cardinalities(self) -> Longs:
        """Return the number of positions of each key, as the segments record it."""
        counts = [segment.keys(self.column.id)[1] for segment in self.segments]
        return np.concatenate(counts)

    def possible_keys(self, segment: Segment) -> list[RangeKeys]:
        """Return the keys of a segment that rows may have, but for NULL."""
        if self.among is None:
            return [RangeKeys(segment, self.column.id, [ALL_KEYS])]
        return [keys for keys in keys_of(self.column, self.among, segment) if keys is not None]

    def codes(self, positions: BitPositions) -> Longs:
        """Return the code of each ascending position. Cost: the codes of all positions are made once."""
        first, *others = (row_codes.codes_of(segment, self.column.id) for segment in self.segments)
        codes: Longs = first.take(positions)
        base = len(first.keys)
        for segment_codes in others:
            numbers = np.append(0, np.arange(1, len(segment_codes.keys) + 1) + base)
            codes = codes + numbers[segment_codes.take(positions)]
            base += len(segment_codes.keys)
        return codes

    def postings(self) -> tuple[Longs, list[BitMap]]:
        """Return the postings that rows may be in, and the place of each one's key."""
        key_numbers, postings, base = list[Longs](), list[BitMap](), 0
        for segment in self.segments:
            stored = segment.keys(self.column.id)[0]
            ranges = [key_range for keys in self.possible_keys(segment) for key_range in keys.question]
            keys, selected = segment.select(self.column.id, ranges)
            null = int(len(stored) > 0 and not stored[0].is_valid)
            if self.among is None:
                selected_places = np.arange(null, len(stored))
            else:
                indexes = pc.index_in(arrow_array(keys, pa.binary()), value_set=stored)
                selected_places = numpy_of(indexes, dtype=np.int64)
            if null and (self.among is None or self.among.nulls):
                selected_places = np.append(selected_places, 0)
                selected = [*selected, segment.lookup(self.column.id, None) or BitMap()]
            key_numbers.append(selected_places + base)
            postings += selected
            base += len(stored)
        return np.concatenate(key_numbers), postings


class PartitionColumn:
    """A partition column, whose value the log records per file."""

    segments: Segments = ()

    def __init__(self, space: SpaceView, column: Column) -> None:
        self.column, self.key_type = column, key_type_of(column.type)
        texts_of, texts = space.partitions.of(column.physical[0])
        numbers, file_numbers = np.unique(texts_of[space.files], return_inverse=True)
        self.keys, key_numbers = partition_keys(column, [texts[number] for number in numbers.tolist()])
        self.by_file: Longs = key_numbers[file_numbers]
        self._space = space

    @property
    def size(self) -> int:
        """Return the number of keys."""
        return len(self.keys)

    def codes(self, positions: BitPositions) -> Longs:
        """Return the code of each ascending position."""
        files = np.searchsorted(self._space.bases, positions, side="right") - 1
        codes: Longs = self.by_file[files] + 1
        return codes

    def postings(self) -> tuple[Longs, list[BitMap]]:
        """Return the positions of the files of each key, and the places of the keys."""
        bases, rows = self._space.bases, self._space.rows
        masks = [self.by_file == place for place in range(self.size)]
        return np.arange(self.size), [claims(bases[mask], rows[mask]) for mask in masks]


SpaceColumn = PostedColumn | PartitionColumn


def partition_keys(column: Column, texts: Sequence[str | None]) -> tuple[pa.BinaryArray, Longs]:
    """Return the distinct keys of partition values, and the place of each value's key.

    Two texts may denote the same value.
    """
    values = [partition_array(column, text, 1) for text in texts]
    return coded(pa.concat_arrays(values), key_type_of(column.type))


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
    method: CountingWay
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
        share = 1.0 if column.among is None else sum(keys.share for keys in column.possible_keys(segment))
        cost += intersecting(segment, column.column.id, rows, share)
    return cost
