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

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.arrays import Longs
from tailbit.errors import CorruptIndexError
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.evaluation.side_by_side import each_space, unread_of
from tailbit.index.grouping.choice import CountingWay, choose_codes
from tailbit.index.grouping.dictionary import coded, python_values, truncated, united
from tailbit.index.grouping.folding import (
    Coded,
    Combinations,
    combinations,
    fold,
    grouped,
    grouped_numbers,
)
from tailbit.index.grouping.key_counts import Step
from tailbit.index.grouping.lookups import AllRows, Lookup, looked_up
from tailbit.index.grouping.rows import Read, Rows
from tailbit.index.keys import NO_KEYS, widen_keys
from tailbit.index.kinds.bitmap_index.codes import PostingCodes, SegmentCodes, codes_of
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.model import key_type_of_column
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column
from tailbit.tables.parquet.column_codes.numbered import numbered
from tailbit.tables.parquet.rows import fetch_files
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
    """Count rows per combination of keys of some columns; `way`: the method to use where it applies.

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
    key_types = [key_type_of_column(column) for column in columns]
    grouping = _Grouping(rows, columns, key_types, way)
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


class _InSpace(NamedTuple):
    """Grouped rows of a row space, the positions left to the data, and the steps taken."""

    counted: Combinations | None
    left: BitMap
    steps: Sequence[Step] = ()


class _Grouping:
    """One question's rows, grouped by some columns."""

    def __init__(
        self, rows: Rows, columns: Sequence[Column], key_types: Sequence[str], way: CountingWay | None
    ) -> None:
        self.rows, self.columns, self.key_types, self.way = rows, columns, key_types, way
        self.steps: list[Step] = []

    def parts(self) -> Iterator[Combinations]:
        """Yield the grouped rows of each row space, then those read from data."""
        left: list[Read] = list(self.rows.loose)
        stored = [column for column in self.columns if not column.partition]
        spaces = self.rows.spaces
        counted_spaces = each_space(
            spaces, lambda work: self._in_space(*work), lambda work: unread_of(stored, work[0])
        )
        for (space, bits), outcome in zip(spaces, counted_spaces, strict=True):
            if isinstance(outcome, CorruptIndexError):
                self.rows.damages.note(outcome)
                outcome = _InSpace(None, bits)
            if outcome.counted is not None:
                yield outcome.counted
            self.steps += outcome.steps
            left += self.rows.by_slice(space, outcome.left)
        yield from self._in_data(left)

    def _in_space(self, space: SpaceView, bits: BitMap) -> _InSpace:
        """Group the rows that codes can serve, and return the positions of the others.

        Raises:
            CorruptIndexError: a segment is damaged; the caller reads the whole row space from data.
        """
        stored = [column for column in self.columns if not column.partition]
        serving = {column.id: space.serving(column) for column in stored}
        if not bits or not all(serving.values()):
            return _InSpace(None, bits)
        left = BitMap()
        for column in stored:
            left |= bits & (space.unposted(column.id) or left)
        wanted = bits - left
        choice = choose_codes(space, serving, wanted, partitioned=len(stored) < len(self.columns))
        if self.way in choice.estimates:
            choice = replace(choice, way=self.way)
        if choice.way is CountingWay.DATA:
            return _InSpace(None, bits, [Step(CountingWay.DATA, choice.rows, None, choice)])
        begun = time.perf_counter()
        part, short = self._counted(space, serving, wanted, choice.way)
        if (part.counts.sum() if part else 0) + len(short) != len(wanted):
            reason = f"postings do not hold all rows of row space {space.space}"
            raise CorruptIndexError(file=next(iter(serving.values()))[0].path, reason=reason)
        took = (time.perf_counter() - begun) * 1e3
        return _InSpace(part, left | short, [Step(choice.way, len(wanted), took, choice)])

    def _counted(
        self, space: SpaceView, serving: dict[str, list[Segment]], bits: BitMap, way: CountingWay
    ) -> tuple[Combinations | None, BitMap]:
        """Group positions, and return the positions with truncated keys."""
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

    def _intersected(self, serving: dict[str, list[Segment]], bits: BitMap) -> Combinations | None:
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

    def _lookup(
        self, space: SpaceView, serving: dict[str, list[Segment]], column: Column, lookup_of: CodesOf
    ) -> Lookup:
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

    def _in_data(self, reads: Sequence[Read]) -> Iterator[Combinations]:
        """Yield the grouped rows of files, read from their data."""
        begun = time.perf_counter()
        for columns, rest in numbered(self.rows.storage, reads, self.columns):
            if columns:
                yield grouped_numbers(columns, self.key_types)
            for table in fetch_files(self.rows.storage, rest, self.columns):
                pairs = zip(self.columns, self.key_types, strict=True)
                yield grouped([Coded(*coded(table[column.id], key_type)) for column, key_type in pairs])
        if reads:
            took = (time.perf_counter() - begun) * 1e3
            self.steps.append(Step(CountingWay.DATA, sum(len(positions) for _, positions in reads), took))


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
