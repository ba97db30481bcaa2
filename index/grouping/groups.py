"""Matching rows per combination of keys of several columns.

Each row gets a code per column: from codes by position for covered files, from the log for partition columns,
from the data for the rest. The codes of a row are folded into one number, and equal numbers are counted.

Worked example: four rows.

    carrier           UA   AA   UA   UA      keys AA UA          codes  1 0 1 1
    dest              SFO  LAX  SFO  LAX     keys LAX SFO        codes  1 0 1 0
    folded            3    0    3    2       code 1 * 2 + code 2
    counted           (AA, LAX) 1   (UA, LAX) 1   (UA, SFO) 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.row_space import Serving, SpaceView
from tailbit.index.grouping.choice import Choice, CountingWay, choose_codes
from tailbit.index.grouping.dictionary import coded, python_values, united
from tailbit.index.grouping.folding import (
    Coded,
    Combinations,
    combinations,
    fold,
    grouped,
    grouped_numbers,
)
from tailbit.index.grouping.grouping import Grouping
from tailbit.index.grouping.key_counts import Step
from tailbit.index.grouping.lookups import AllRows, Lookup, looked_up
from tailbit.index.grouping.rows import Read, Rows, fetch_values, number_values
from tailbit.index.keys import NO_KEYS, widen_keys
from tailbit.index.model import key_type_of_column
from tailbit.index.postings.codes import PostingCodes, SegmentCodes, codes_of
from tailbit.index.postings.segment import Segment
from tailbit.index.tuple_keys import truncated
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column
from tailbit.tables.partition_values import partition_array
from tailbit.tables.positions import BitPositions


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """Combinations of whole keys, in key order, with the rows of each.

    Combinations without rows are left out.

    `keys`: per column, in order, null (NULL) first. `codes`: per column the place of each combination's key.
    `steps`: how the rows were counted.
    """

    columns: Sequence[Column]
    keys: Sequence[pa.BinaryArray]
    codes: Sequence[Longs]
    counts: Longs
    steps: Sequence[Step] = field(default=())

    def values(self) -> list[list[Any]]:
        """Return, per column, the Python value of each key."""
        pairs = zip(self.keys, self.columns, strict=True)
        return [python_values(keys, key_type_of_column(column), column) for keys, column in pairs]


def count_groups(rows: Rows, columns: Sequence[Column], way: CountingWay | None = None) -> GroupCounts:
    """Count rows per combination of keys of some columns; `way`: the method for rows with postings, if given.

    Columns for which the condition allows a single value are not read.

    Raises:
        ColumnTypeError: a column's type has no keys (struct, array, map ...).
    """
    known = {column.id: key for column in columns if (key := rows.known_key(column)) is not None}
    grouped_columns = [column for column in columns if column.id not in known] or columns[:1]
    groups = _counted(rows, grouped_columns, way)
    if len(grouped_columns) == len(columns):
        return groups
    every = {column.id: (groups.keys[n], groups.codes[n]) for n, column in enumerate(grouped_columns)}
    none = np.zeros(len(groups.counts), dtype=np.int64)
    every = {id_: (arrow_array([key], pa.binary()), none) for id_, key in known.items()} | every
    keys, codes = zip(*(every[column.id] for column in columns), strict=True)
    return replace(groups, columns=columns, keys=keys, codes=codes)


def _counted(rows: Rows, columns: Sequence[Column], way: CountingWay | None) -> GroupCounts:
    grouping = _Grouping(rows, columns, way)
    parts = list(grouping.parts())
    merged = [united([part.columns[n].keys for part in parts] or [NO_KEYS]) for n in range(len(columns))]
    lists = [
        [all_keys.places[order][part.columns[n].codes] for order, part in enumerate(parts)]
        for n, all_keys in enumerate(merged)
    ]
    codes = [np.concatenate([_NONE, *some]) for some in lists]
    counts = np.concatenate([_NONE, *(part.counts for part in parts)])
    codes, counts = fold(codes, [len(all_keys.keys) for all_keys in merged], counts)
    return GroupCounts(columns, [all_keys.keys for all_keys in merged], codes, counts, grouping.steps)


CodesOf = Callable[[Segment, str], PostingCodes | SegmentCodes]
"""Function that returns the codes of a column of a segment: of all rows at once, or looked up in postings."""


class _Grouping(Grouping[Combinations]):
    """One question's rows, grouped by several columns."""

    def choose(self, space: SpaceView, serving: Serving, bits: BitMap) -> Choice:
        """Choose the method."""
        return choose_codes(space, serving, bits, partitioned=len(serving) < len(self.columns))

    def by_index(
        self, space: SpaceView, serving: Serving, bits: BitMap, way: CountingWay
    ) -> tuple[Combinations | None, BitMap]:
        """Group positions by their codes, or by intersections."""
        if way is CountingWay.INTERSECTIONS:
            part = self._intersected(serving, bits)
            if part is not None:
                return part, BitMap()
        lookup_of: CodesOf = PostingCodes.of if way is CountingWay.LOOKUPS else codes_of
        columns = [self._lookup(space, serving, column, lookup_of) for column in self.columns]
        if len(serving) < len(self.columns) or way is CountingWay.LOOKUPS:
            return looked_up(columns, self.key_types, bits)
        segments = [(segment, id_) for id_, some in serving.items() for segment in some]
        stand = (*((segment.name, id_) for segment, id_ in segments), *self.key_types)
        extent = max(segment.rows for segment, _ in segments)
        return looked_up(columns, self.key_types, bits, AllRows(stand, extent))

    def _intersected(self, serving: Serving, bits: BitMap) -> Combinations | None:
        """Group positions by intersecting the postings of each combination; None if a key is truncated.

        Cost: one intersection per combination, of which there are few.
        """
        levels, keys = [], []
        for column, key_type in zip(self.columns, self.key_types, strict=True):
            (segment,) = serving[column.id]
            codes_of_keys = PostingCodes.of(segment, column.id)
            levels.append(codes_of_keys.postings)
            keys.append(widen_keys(codes_of_keys.keys, segment.columns[column.id], key_type))
            if truncated(keys[-1], key_type) is not None:
                return None
        counted = list(combinations(levels, bits, ()))
        codes = np.array([places for places, _ in counted], dtype=np.int64).reshape(len(counted), len(keys))
        counts = np.array([n for _, n in counted], dtype=np.int64)
        return Combinations([Coded(part, codes[:, n]) for n, part in enumerate(keys)], counts)

    def _lookup(self, space: SpaceView, serving: Serving, column: Column, lookup_of: CodesOf) -> Lookup:
        """Return the code lookup of a column of a row space; `lookup_of` gives the codes of one segment."""
        key_type = self.key_types[self.columns.index(column)]
        if column.partition:
            return _of_files(space, column, key_type)
        lookups = [lookup_of(segment, column.id) for segment in serving[column.id]]
        types = [segment.columns[column.id] for segment in serving[column.id]]
        if len(lookups) == 1:
            return Lookup(widen_keys(lookups[0].keys, types[0], key_type), lookups[0].take)
        all_keys = united([widen_keys(f.keys, t, key_type) for f, t in zip(lookups, types, strict=True)])
        tables = [np.concatenate([[0], places + 1]) for places in all_keys.places]

        def codes(positions: BitPositions) -> Longs:
            # At most one segment has a key for a position; in the others its code is 0.
            parts = [table[f.take(positions)] for f, table in zip(lookups, tables, strict=True)]
            found_here: Longs = np.sum(parts, axis=0, dtype=np.int64)
            return found_here

        return Lookup(all_keys.keys, codes)

    def of_tuples(self, combinations: Combinations) -> Combinations:
        """Return the combinations."""
        return combinations

    def by_data(self, reads: Sequence[Read]) -> Iterator[Combinations]:
        """Group the rows by the values of the columns."""
        for columns, rest in number_values(self.rows.storage, reads, self.columns):
            if columns:
                yield grouped_numbers(columns, self.key_types)
            for table in fetch_values(self.rows.storage, rest, self.columns):
                pairs = zip(self.columns, self.key_types, strict=True)
                yield grouped([Coded(*coded(table[column.id], key_type)) for column, key_type in pairs])


def _of_files(space: SpaceView, column: Column, key_type: str) -> Lookup:
    """Return the code lookup of a partition column, whose value the log records per file."""
    texts_of, texts = space.partitions.of(column.physical[0])
    numbers, at = np.unique(texts_of[space.files], return_inverse=True)
    values = [partition_array(column, texts[number], 1) for number in numbers.tolist()]
    keys, places = coded(pa.concat_arrays(values), key_type)
    by_file = places[at] + 1

    def codes(positions: BitPositions) -> Longs:
        file_codes: Longs = by_file[np.searchsorted(space.bases, positions, side="right") - 1]
        return file_codes

    return Lookup(keys, codes)


_NONE = np.zeros(0, dtype=np.int64)
