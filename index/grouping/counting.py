"""Matching rows per key of one column.

Recorded value counts serve questions without WHERE at the covered version; postings serve covered files, each
row space with the method that `choice` finds cheapest; the data serves the rest. All become canonical keys,
so that NaN, -0.0 and values of types widened since are counted as Spark groups them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.arrays import Longs
from tailbit.errors import CorruptIndexError
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.evaluation.side_by_side import each_space, unread_of
from tailbit.index.grouping.choice import CountingWay, choose
from tailbit.index.grouping.dictionary import (
    DICTIONARIES,
    Dictionary,
    coded,
    in_order,
    of_segments,
    python_values,
    truncated,
    united,
)
from tailbit.index.grouping.key_counts import KeyCounts, Step
from tailbit.index.grouping.rows import Read, Rows
from tailbit.index.grouping.tally import Tally
from tailbit.index.grouping.ways import COUNT
from tailbit.index.keys import NO_KEYS
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.model import key_type_of_column
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column
from tailbit.tables.parquet.column_codes.numbered import numbered
from tailbit.tables.parquet.rows import fetch_files
from tailbit.tables.partition_values import partition_array


def key_counts(
    selection: Selection, column: Column, recorded: RecordedCounts | None, ordered: bool = True
) -> KeyCounts:
    """Count the rows of a selection per key of a column.

    `recorded`: the value counts of the index, if they describe this source. `ordered`: False if the keys may
    come in any order, which may save a sort.

    Raises:
        ColumnTypeError: the column's type has no keys (struct, array, map ...).
    """
    key_type = key_type_of_column(column)
    begun = time.perf_counter()
    known = None if recorded is None else recorded.of(selection, column, key_type)
    if known is None:
        return count_keys(Rows.of(selection), column, ordered=ordered)
    keys, counts = known
    took = (time.perf_counter() - begun) * 1e3
    return KeyCounts(
        column,
        key_type,
        keys,
        counts,
        lambda: _recorded_values(recorded, keys, column, key_type),
        [Step(CountingWay.RECORDED, None, took)],
    )


def _recorded_values(
    recorded: RecordedCounts | None, keys: pa.BinaryArray, column: Column, key_type: str
) -> list[Any]:
    """Return the values of recorded keys, cached until the index changes."""
    stand = ("recorded", *map(str, recorded.stand if recorded is not None else ()))
    kept = DICTIONARIES.get(
        (column.id, key_type, stand), lambda: (Dictionary(keys, []), keys.nbytes + 120 * len(keys))
    )
    return kept.values(column, key_type)


def count_keys(rows: Rows, column: Column, way: CountingWay | None = None, ordered: bool = True) -> KeyCounts:
    """Count rows per key of a column; `way`: the method where postings serve, by default the cheapest.

    `way`: the method for rows that postings serve, by default the cheapest.

    `ordered`: as for `key_counts`.

    Raises:
        ColumnTypeError: the column's type has no keys.
    """
    key_type = key_type_of_column(column)
    counting = _Counting(rows, column, key_type, way)
    key = None if way is not None else rows.known_key(column)
    if key is not None:
        counting.steps.append(Step(CountingWay.KNOWN, rows.count, 0.0))
        parts = [CountedKeys(arrow_array([key], pa.binary()), np.array([rows.count]))] if rows.count else []
        return counting.result(parts, ordered)
    parts = counting.partition() if column.partition else counting.column_parts()
    return counting.result(parts, ordered)


@dataclass(frozen=True, eq=False)
class CountedKeys:
    """Distinct keys of some rows and their counts; `of`: the dictionary of segments that the keys come from.

    `ordered`: whether the keys are in order.
    """

    keys: pa.BinaryArray
    counts: Longs
    of: Dictionary | None = None
    ordered: bool = True


class _InSpace(NamedTuple):
    """Counts of a row space by stored key and segment, the positions left to the data, and the steps."""

    counted: Sequence[tuple[SpaceView, list[Segment], Longs]]
    left: BitMap
    steps: Sequence[Step] = ()


class _Counting:
    """One question's rows, counted by one column."""

    def __init__(self, rows: Rows, column: Column, key_type: str, way: CountingWay | None) -> None:
        self.rows, self.column, self.key_type, self.way = rows, column, key_type, way
        self.steps: list[Step] = []

    def result(self, parts: Sequence[CountedKeys], ordered: bool) -> KeyCounts:
        """Merge the parts into a result; parts of segments alone reuse their dictionary's cached values."""
        whole = _together(parts)
        some = np.flatnonzero(whole.counts)
        if ordered and not whole.ordered:
            some = in_order(whole.keys)
        sorted_ = ordered or whole.ordered
        same = len(some) == len(whole.keys) and (whole.ordered or not ordered)
        keys = whole.keys if same else whole.keys.take(arrow_array(some))

        def values() -> list[Any]:
            if whole.of is None or len(some) * 4 <= len(whole.keys):
                return python_values(keys, self.key_type, self.column)
            known = whole.of.values(self.column, self.key_type)
            return known if same else [known[place] for place in some.tolist()]

        return KeyCounts(self.column, self.key_type, keys, whole.counts[some], values, self.steps, sorted_)

    def partition(self) -> list[CountedKeys]:
        """Count rows per value of a partition column from the log; no data is read."""
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
        self._note(CountingWay.PARTITION, sum(n for _, n in rows_per_text), begun)
        if not rows_per_text:
            return []
        # Two partition texts may denote the same value.
        keys, at = coded(pa.concat_arrays(values), self.key_type)
        return [CountedKeys(keys, np.bincount(at, weights=[n for _, n in rows_per_text]).astype(np.int64))]

    def column_parts(self) -> list[CountedKeys]:
        """Count rows per key: of all row spaces together, and of the rows left to the data."""
        served: list[tuple[SpaceView, list[Segment], Longs]] = []
        left: list[Read] = list(self.rows.loose)
        spaces = self.rows.spaces
        counted_spaces = each_space(
            spaces, lambda work: self._in_space(*work), lambda work: unread_of([self.column], work[0])
        )
        for (space, bits), outcome in zip(spaces, counted_spaces, strict=True):
            if isinstance(outcome, CorruptIndexError):
                self.rows.damages.note(outcome)
                outcome = _InSpace([], bits)
            served += outcome.counted
            self.steps += outcome.steps
            left += self.rows.by_slice(space, outcome.left)
        parts = [self._of_segments(served)] if served else []
        return parts + self._in_data(left)

    def _of_segments(self, served: Sequence[tuple[SpaceView, list[Segment], Longs]]) -> CountedKeys:
        """Merge the counts of several row spaces, by stored key and segment, into one dictionary."""
        segments = [segment for _, some, _ in served for segment in some]
        all_keys = of_segments(segments, self.column.id, self.key_type)
        sums = np.zeros(len(all_keys.keys), dtype=np.int64)
        stored = np.concatenate([counts for _, _, counts in served])
        np.add.at(sums, np.concatenate(all_keys.places), stored)
        return CountedKeys(all_keys.keys, sums, all_keys)

    def _in_space(self, space: SpaceView, bits: BitMap) -> _InSpace:
        """Count by stored key, and return the positions that postings cannot serve.

        Raises:
            CorruptIndexError: a segment is damaged; the caller reads the whole row space from data.
        """
        segments = space.serving(self.column)
        if not segments or not bits:
            return _InSpace([], bits)
        unposted = space.unposted(self.column.id)
        left = BitMap() if unposted is None else bits & unposted
        wanted = bits - left if left else bits
        if not wanted:
            return _InSpace([], left)
        among = self.rows.values_of(self.column)
        choice = choose(space, segments, self.column, wanted, among)
        if self.way is not None:
            choice = replace(choice, way=self.way)
        if choice.way is CountingWay.DATA:
            return _InSpace([], bits, [Step(CountingWay.DATA, choice.rows, None, choice)])
        begun = time.perf_counter()
        counts = COUNT[choice.way](segments, self.column, wanted, among)
        if sum(int(c.sum()) for c in counts) != len(wanted):
            reason = f"postings of {self.column.id} do not hold all rows of row space {space.space}"
            raise CorruptIndexError(file=segments[0].path, reason=reason)
        for segment, mine in zip(segments, counts, strict=True):
            left |= _shortened(segment, self.column, mine, wanted)
        step = Step(choice.way, choice.rows, (time.perf_counter() - begun) * 1e3, choice)
        return _InSpace([(space, segments, np.concatenate(counts))], left, [step])

    def _in_data(self, reads: Sequence[Read]) -> list[CountedKeys]:
        """Count the keys of some rows of files by reading their data."""
        if not reads:
            return []
        begun, tally = time.perf_counter(), Tally(self.key_type)
        for columns_of_files, rest in numbered(self.rows.storage, reads, [self.column]):
            for values in columns_of_files:
                tally.add(values.values, values.counts)
            for table in fetch_files(self.rows.storage, rest, [self.column]):
                tally.add(table[self.column.id])
        keys, counts = tally.keys()
        self._note(CountingWay.DATA, sum(len(positions) for _, positions in reads), begun)
        return [CountedKeys(keys, counts, ordered=False)]

    def _note(self, method: CountingWay, rows: int, begun: float) -> None:
        self.steps.append(Step(method, rows, (time.perf_counter() - begun) * 1e3))


def _together(parts: Sequence[CountedKeys]) -> CountedKeys:
    """Merge all parts into one. Cost: a sort of the keys, if there are several parts."""
    if len(parts) == 1:
        return parts[0]
    all_keys = united([part.keys for part in parts] or [NO_KEYS])
    sums = np.zeros(len(all_keys.keys), dtype=np.int64)
    for part, places in zip(parts, all_keys.places, strict=False):
        sums[places] += part.counts
    return CountedKeys(all_keys.keys, sums)


def _shortened(segment: Segment, column: Column, counts: Longs, bits: BitMap) -> BitMap:
    """Return the positions with truncated keys, and set the counts of those keys to zero."""
    keys = segment.keys(column.id)[0]
    short = truncated(keys, segment.columns[column.id])
    if short is None or not counts[short].any():
        return BitMap()
    places = np.flatnonzero(short & (counts > 0))
    counts[places] = 0
    postings = [segment.lookup(column.id, key) for key in keys.take(arrow_array(places)).to_pylist()]
    return bits & BitMap.union(*(posting for posting in postings if posting is not None))
