"""One column of a row space, by its postings or by the partition values of files.

A position gets a code: 1 + the place of its key in `keys`, or 0 if the column has no key for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.lazy import lazy
from tailbit.base.once import once
from tailbit.index.evaluation.row_space import Segments, SpaceView, claims
from tailbit.index.grouping.dictionary import coded
from tailbit.index.keys import KeyRange, key_type_of, widen_keys
from tailbit.index.postings.segment import ALL_KEYS, Segment
from tailbit.index.predicate.key_ranges import key_ranges
from tailbit.index.predicate.value_sets import ValueSet
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

    def ranges(self, segment: Segment) -> list[KeyRange] | None:
        """Return the ranges of a segment's keys that rows may have; None if no value set limits them."""
        if self.among is None:
            return None
        ranges = key_ranges(self.among, self.key_type, segment.columns[self.column.id])
        return [*ranges.sure, *ranges.maybe]

    def codes(self, positions: BitPositions) -> Longs:
        """Return the code of each ascending position. Cost: the codes of all positions are made once.

        Raises:
            CorruptIndexError: a segment is damaged.
        """
        first, *others = (row_codes.codes_of(segment, self.column.id) for segment in self.segments)
        codes: Longs = first.take(positions)
        base = len(first.keys)
        for segment_codes in others:
            numbers = np.append(0, np.arange(1, len(segment_codes.keys) + 1) + base)
            codes = codes + numbers[segment_codes.take(positions)]
            base += len(segment_codes.keys)
        return codes

    def postings(self) -> tuple[Longs, list[BitMap]]:
        """Return the postings that rows may be in, and the place of each one's key.

        Raises:
            CorruptIndexError: a segment is damaged.
        """
        places, postings, base = list[Longs](), list[BitMap](), 0
        for segment in self.segments:
            stored = segment.keys(self.column.id)[0]
            ranges = self.ranges(segment)
            keys, selected = segment.select(self.column.id, [ALL_KEYS] if ranges is None else ranges)
            null = int(len(stored) > 0 and not stored[0].is_valid)
            if ranges is None:
                selected_places = np.arange(null, len(stored))
            else:
                found = pc.index_in(arrow_array(keys, pa.binary()), value_set=stored)
                selected_places = numpy_of(found, dtype=np.int64)
            if null and (self.among is None or self.among.nulls):
                selected_places = np.append(selected_places, 0)
                selected = [*selected, segment.lookup(self.column.id, None) or BitMap()]
            places.append(selected_places + base)
            postings += selected
            base += len(stored)
        return np.concatenate(places), postings


class PartitionColumn:
    """A partition column, whose value the log records per file."""

    segments: Segments = ()

    def __init__(self, space: SpaceView, column: Column) -> None:
        self.column, self.key_type = column, key_type_of(column.type)
        texts_of, texts = space.partitions.of(column.physical[0])
        numbers, file_numbers = np.unique(texts_of[space.files], return_inverse=True)
        self.keys, places = partition_keys(column, [texts[number] for number in numbers.tolist()])
        self.by_file: Longs = places[file_numbers]
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
