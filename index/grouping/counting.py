"""Matching rows per key of one column.

Recorded value counts serve questions without WHERE at the covered version; postings serve covered files, each
row space with the method that `choice` finds cheapest; the data serves the rest. Keys from all three become
canonical, so that NaN, -0.0 and values of types widened since are counted as Spark groups them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.index.evaluation.row_space import Segments, Serving, SpaceView
from tailbit.index.grouping.choice import Choice, CountingWay, choose
from tailbit.index.grouping.dictionary import (
    DICTIONARIES,
    Dictionary,
    coded,
    of_segments,
    python_values,
    united,
)
from tailbit.index.grouping.folding import Combinations
from tailbit.index.grouping.grouping import Grouping
from tailbit.index.grouping.key_counts import KeyCounts, Step
from tailbit.index.grouping.rows import Read, Rows, fetch_values, number_values
from tailbit.index.grouping.tally import Tally
from tailbit.index.grouping.ways import COUNT, shortened
from tailbit.index.keys import NO_KEYS
from tailbit.index.model import key_type_of_column
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.index.roaring.coding import order_with_nulls
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column
from tailbit.tables.partition_values import partition_array

if TYPE_CHECKING:
    from tailbit.index.grouping import tuples
else:
    tuples = lazy("tailbit.index.grouping.tuples")


def key_counts(
    selection: Selection, column: Column, recorded: RecordedCounts | None, ordered: bool = True
) -> KeyCounts:
    """Count the rows of a selection per key of a column.

    `recorded`: the value counts of the index, if they describe this source. `ordered`: False if the keys may
    come in any order, which may save a sort.

    Raises:
        ColumnTypeError: the column's type has no keys (struct, array, map ...).
    """
    key_type_of_column(column)
    counts = _recorded(selection, column, recorded)
    if counts is None and recorded is not None and recorded.of_tuples:
        counts = tuples.recorded_part(selection, column, recorded)
    return counts or count_keys(Rows.of(selection), column, ordered=ordered)


def _recorded(selection: Selection, column: Column, recorded: RecordedCounts | None) -> KeyCounts | None:
    """Return the recorded counts of a column if they answer a selection, else None; no row is read.

    The values of the keys are cached until the index changes.
    """
    begun, key_type = time.perf_counter(), key_type_of_column(column)
    known = None if recorded is None else recorded.of(selection, column, key_type)
    if recorded is None or known is None:
        return None
    keys, counts = known
    stand = ("recorded", *map(str, recorded.stand))

    def values() -> list[Any]:
        kept = DICTIONARIES.get(
            (column.id, key_type, stand), lambda: (Dictionary(keys, []), keys.nbytes + 120 * len(keys))
        )
        return kept.values(column, key_type)

    step = Step(CountingWay.RECORDED, None, (time.perf_counter() - begun) * 1e3)
    return KeyCounts(column, key_type, keys, counts, values, [step])


def count_keys(rows: Rows, column: Column, way: CountingWay | None = None, ordered: bool = True) -> KeyCounts:
    """Count rows per key of a column.

    `way`: the method for rows that postings serve, by default the cheapest. `ordered`: as for `key_counts`.

    Raises:
        ColumnTypeError: the column's type has no keys.
    """
    grouping = _KeyGrouping(rows, column, way)
    for path in (grouping.only_key, grouping.partition_values, grouping.stored_keys):
        parts = path()
        if parts is not None:
            break
    return grouping.result(parts or [], ordered)


@dataclass(frozen=True, eq=False)
class CountedKeys:
    """Distinct keys of some rows and their counts; `of`: the cached dictionary that the keys come from.

    `ordered`: whether the keys are in order.
    """

    keys: pa.BinaryArray
    counts: Longs
    of: Dictionary | None = None
    ordered: bool = True


@dataclass(frozen=True, eq=False)
class _StoredCounts:
    """Counts of a row space by stored key, segment after segment."""

    segments: Segments
    counts: Longs


class _KeyGrouping(Grouping[_StoredCounts | CountedKeys]):
    """One question's rows, grouped by one column."""

    def __init__(self, rows: Rows, column: Column, way: CountingWay | None) -> None:
        super().__init__(rows, [column], way)
        self.column, (self.key_type,) = column, self.key_types

    def only_key(self) -> list[CountedKeys] | None:
        """Return the number of rows, if the condition allows a single key; no row is looked at."""
        key = self.rows.known_key(self.column) if self.way is None else None
        if key is None:
            return None
        self.steps.append(Step(CountingWay.KNOWN, self.rows.count, 0.0))
        if not self.rows.count:
            return []
        return [CountedKeys(arrow_array([key], pa.binary()), np.array([self.rows.count]))]

    def stored_keys(self) -> list[CountedKeys]:
        """Count rows per key: of all row spaces together, and of the rows left to the data."""
        parts = list(self.parts())
        served = [part for part in parts if isinstance(part, _StoredCounts)]
        in_data = [part for part in parts if isinstance(part, CountedKeys)]
        return [self._of_segments(served), *in_data] if served else in_data

    def partition_values(self) -> list[CountedKeys] | None:
        """Count the visible rows per value of a partition column, as one list item; no data file is read.

        Partition values come from the log, row counts from the bitmaps of visible rows.
        """
        if not self.column.partition:
            return None
        physical, begun = self.column.physical[0], time.perf_counter()
        per_text: Counter[str | None] = Counter()
        for space, bits in self.rows.spaces:
            codes, texts = space.partitions.of(physical)
            used, at = np.unique(codes[space.files], return_inverse=True)
            sums = np.bincount(at, weights=space.counts_by_file(bits), minlength=len(used))
            per_text.update({texts[c]: int(n) for c, n in zip(used.tolist(), sums.tolist(), strict=True)})
        for slice_, positions in self.rows.loose:
            per_text[slice_.partition.get(physical)] += len(positions)
        rows_per_text = [(text, n) for text, n in per_text.items() if n]
        values = [partition_array(self.column, text, 1) for text, _ in rows_per_text]
        self.note(CountingWay.PARTITION, sum(n for _, n in rows_per_text), begun)
        if not rows_per_text:
            return []
        # Two partition texts may denote the same value.
        keys, at = coded(pa.concat_arrays(values), self.key_type)
        return [CountedKeys(keys, np.bincount(at, weights=[n for _, n in rows_per_text]).astype(np.int64))]

    def choose(self, space: SpaceView, serving: Serving, bits: BitMap) -> Choice:
        """Choose the method; a predicate on the column itself limits the keys."""
        return choose(space, serving[self.column.id], self.column, bits, self.rows.values_of(self.column))

    def by_index(
        self, space: SpaceView, serving: Serving, bits: BitMap, way: CountingWay
    ) -> tuple[_StoredCounts, BitMap]:
        """Count by stored key."""
        segments, left = serving[self.column.id], BitMap()
        counts = COUNT[way](segments, self.column, bits, self.rows.values_of(self.column))
        for segment, mine in zip(segments, counts, strict=True):
            left |= shortened(segment, self.column, mine, bits)
        return _StoredCounts(segments, np.concatenate(counts)), left

    def of_tuples(self, combinations: Combinations) -> CountedKeys:
        """Add up the rows of each key."""
        (column,) = combinations.columns
        sums = np.zeros(len(column.keys), dtype=np.int64)
        np.add.at(sums, column.codes, combinations.counts)
        return CountedKeys(column.keys, sums)

    def by_data(self, reads: Sequence[Read]) -> Iterator[CountedKeys]:
        """Count the values of the column in the rows."""
        tally = Tally(self.key_type)
        for columns_of_files, rest in number_values(self.rows.storage, reads, [self.column]):
            for values in columns_of_files:
                tally.add(values.values, values.counts)
            for table in fetch_values(self.rows.storage, rest, [self.column]):
                tally.add(table[self.column.id])
        yield CountedKeys(*tally.keys(), ordered=False)

    def _of_segments(self, served: Sequence[_StoredCounts]) -> CountedKeys:
        """Merge the counts of several row spaces, by stored key and segment, into one dictionary."""
        segments = [segment for part in served for segment in part.segments]
        all_keys = of_segments(segments, self.column.id, self.key_type)
        sums = np.zeros(len(all_keys.keys), dtype=np.int64)
        np.add.at(sums, np.concatenate(all_keys.places), np.concatenate([part.counts for part in served]))
        return CountedKeys(all_keys.keys, sums, all_keys)

    def result(self, parts: Sequence[CountedKeys], ordered: bool) -> KeyCounts:
        """Merge the parts into a result; parts of segments alone reuse their dictionary's cached values."""
        whole = _together(parts)
        some = np.flatnonzero(whole.counts)
        if ordered and not whole.ordered:
            some = order_with_nulls(whole.keys)
        sorted_ = ordered or whole.ordered
        same = len(some) == len(whole.keys) and (whole.ordered or not ordered)
        keys = whole.keys if same else pc.take(whole.keys, arrow_array(some))

        def values() -> list[Any]:
            if whole.of is None or len(some) * 4 <= len(whole.keys):
                return python_values(keys, self.key_type, self.column)
            known = whole.of.values(self.column, self.key_type)
            return known if same else [known[place] for place in some.tolist()]

        return KeyCounts(self.column, self.key_type, keys, whole.counts[some], values, self.steps, sorted_)


def _together(parts: Sequence[CountedKeys]) -> CountedKeys:
    """Merge all parts into one. Cost: a sort of the keys, if there are several parts."""
    if len(parts) == 1:
        return parts[0]
    all_keys = united([part.keys for part in parts] or [NO_KEYS])
    sums = np.zeros(len(all_keys.keys), dtype=np.int64)
    for part, places in zip(parts, all_keys.places, strict=False):
        sums[places] += part.counts
    return CountedKeys(all_keys.keys, sums)
