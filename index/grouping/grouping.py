"""Grouping of rows by one column or by several, in one procedure: one column is a tuple of one.

Row space by row space, rows are grouped from postings where that is possible, by the method that `choice`
finds cheapest; all other rows are read from data: rows of uncovered files, of files without postings of a
column, of damaged segments, and rows with truncated keys. Columns without postings of their own are grouped
by the postings of a tuple that holds them. Keys from all of these become canonical, so that NaN, -0.0 and
values of types widened since are counted as Spark groups them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.errors import CorruptIndexError
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.evaluation.side_by_side import each_space, unread_of
from tailbit.index.grouping.choice import (
    CountingWay,
    PartitionColumn,
    PostedColumn,
    SpaceColumn,
    choose,
    partition_keys,
)
from tailbit.index.grouping.counting import Tally, count
from tailbit.index.grouping.dictionary import (
    Coded,
    Combinations,
    Dictionary,
    added_up,
    by_parts,
    coded,
    fold,
    grouped_numbers,
    holding,
    of_segments,
    united,
)
from tailbit.index.grouping.groups import Groups, Step
from tailbit.index.grouping.rows import Read, Rows, fetch_values, number_values
from tailbit.index.keys import NO_KEYS
from tailbit.index.model import key_type_of_column
from tailbit.index.roaring.coding import order_with_nulls
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column


def count_groups(
    rows: Rows, columns: Sequence[Column], method: CountingWay | None = None, ordered: bool = True
) -> Groups:
    """Count rows per combination of keys of some columns.

    `method`: the method for rows with postings, by default the cheapest. `ordered`: False if groups by one
    column may come in any order, which may save a sort. Columns for which the condition allows a single value
    are not looked at.
    """
    for column in columns:
        key_type_of_column(column)
    keys = {column.id: rows.known_key(column) for column in columns} if method is None else {}
    single = {id_: key for id_, key in keys.items() if key is not None}
    various = [column for column in columns if column.id not in single]
    if not single:
        return _Grouping(rows, columns, method).groups(ordered)
    if various:
        groups = _Grouping(rows, various, method).groups()
    else:
        counts = np.full(1 if rows.count else 0, rows.count, dtype=np.int64)
        groups = Groups((), (), (), counts, [Step(CountingWay.RECORDED, rows.count, 0.0)])
    by_id = {column.id: (groups.keys[n], groups.codes[n]) for n, column in enumerate(various)}
    first = np.zeros(len(groups.counts), dtype=np.int64)
    by_id |= {id_: (Dictionary(arrow_array([key], pa.binary()), []), first) for id_, key in single.items()}
    dictionaries, codes = zip(*(by_id[column.id] for column in columns), strict=True)
    return replace(groups, columns=columns, keys=dictionaries, codes=codes)


class _InSpace(NamedTuple):
    """Groups of a row space, the positions to be read from data, and the steps taken."""

    groups: Combinations | None
    unserved: BitMap
    steps: Sequence[Step] = ()


class _Grouping:
    """One question's rows, grouped by some columns."""

    def __init__(self, rows: Rows, columns: Sequence[Column], method: CountingWay | None) -> None:
        self.rows, self.columns, self.method = rows, columns, method
        self.key_types = [key_type_of_column(column) for column in columns]
        self.steps: list[Step] = []

    def groups(self, ordered: bool = True) -> Groups:
        """Count the rows of each row space, then those read from data, and merge the counts."""
        groups = list(self._of_spaces_and_data())
        if len(groups) == 1 and len(self.columns) == 1 and not groups[0].columns[0].segments:
            return self._of_one(groups[0], ordered)
        return sum_of_groups(self.columns, groups, self.steps)

    def _of_one(self, groups: Combinations, ordered: bool) -> Groups:
        """Return groups of distinct keys as they are, sorted only if asked for."""
        (column,), counts = groups.columns, groups.counts
        keys = pc.take(column.keys, arrow_array(column.codes))
        if ordered:
            order = order_with_nulls(keys)
            keys, counts = pc.take(keys, arrow_array(order)), counts[order]
        codes = np.arange(len(keys))
        return Groups(self.columns, [Dictionary(keys, [])], [codes], counts, self.steps, ordered)

    def _of_spaces_and_data(self) -> Iterator[Combinations]:
        reads, spaces = list[Read](), self.rows.spaces
        stored = [column for column in self.columns if not column.partition]
        outcomes = each_space(
            spaces,
            lambda work: self._in_space(*work, self.columns),
            lambda work: unread_of(stored, work[0]),
            [space for space, _ in spaces],
        )
        for (space, bits), outcome in zip(spaces, outcomes, strict=True):
            if isinstance(outcome, CorruptIndexError):
                self.rows.damages.note(outcome)
                outcome = _InSpace(None, bits)
            if outcome.groups is not None:
                yield outcome.groups
            self.steps += outcome.steps
            reads += self.rows.by_slice(space, outcome.unserved)
        reads += self.rows.loose
        if reads:
            begun = time.perf_counter()
            yield from self._by_data(reads)
            rows = sum(len(positions) for _, positions in reads)
            method = CountingWay.DATA if stored else CountingWay.RECORDED
            self.steps.append(Step(method, rows, (time.perf_counter() - begun) * 1e3))

    def _in_space(self, space: SpaceView, bits: BitMap, columns: Sequence[Column]) -> _InSpace:
        """Group the rows that postings can serve, and return the positions of the others."""
        if not bits:
            return _InSpace(None, bits)
        serving = {column.id: space.serving(column) for column in columns if not column.partition}
        if not all(serving.values()):
            return self._by_tuples(space, bits, columns)
        unserved = BitMap()
        for id_ in serving:
            unserved |= bits & (space.unposted(id_) or BitMap())
        served = bits - unserved if unserved else bits
        if not served:
            return _InSpace(None, bits)
        space_columns: list[SpaceColumn] = [
            PartitionColumn(space, column)
            if column.partition
            else PostedColumn(column, serving[column.id], self.rows.values_of(column))
            for column in columns
        ]
        choice = choose(space, space_columns, served)
        if self.method in choice.estimates:
            choice = replace(choice, method=self.method)
        if choice.method is CountingWay.DATA:
            return _InSpace(None, bits, [Step(CountingWay.DATA, choice.rows, None, choice)])
        begun = time.perf_counter()
        groups, truncated = count(space, space_columns, served, choice.method)
        if int(groups.counts.sum()) + len(truncated) != len(served):
            reason = f"postings of {', '.join(serving)} do not hold all rows of row space {space.space}"
            raise CorruptIndexError(file=next(iter(serving.values()))[0].path, reason=reason)
        took = (time.perf_counter() - begun) * 1e3
        return _InSpace(groups, unserved | truncated, [Step(choice.method, choice.rows, took, choice)])

    def _by_tuples(self, space: SpaceView, bits: BitMap, columns: Sequence[Column]) -> _InSpace:
        """Group rows by the postings of a tuple that holds the columns."""
        for tuple_, field_numbers in holding((access.values for access in space.accesses), columns):
            outcome = self._in_space(space, bits, [tuple_]) if tuple_ not in columns else _InSpace(None, bits)
            if outcome.groups is not None:
                return outcome._replace(groups=by_parts(outcome.groups, tuple_, field_numbers))
        return _InSpace(None, bits)

    def _by_data(self, reads: Sequence[Read]) -> Iterator[Combinations]:
        """Yield the groups of rows of files, read from their data, or from the log for partition columns."""
        if all(column.partition for column in self.columns):
            counts = np.array([len(positions) for _, positions in reads], dtype=np.int64)
            texts = [[slice_.partition.get(c.physical[0]) for slice_, _ in reads] for c in self.columns]
            pairs = zip(self.columns, texts, strict=True)
            yield added_up([Coded(*partition_keys(*pair)) for pair in pairs], counts)
            return
        tally = Tally(self.key_types[0])
        for columns, rest in number_values(self.rows.storage, reads, self.columns):
            tables = fetch_values(self.rows.storage, rest, self.columns)
            if len(self.columns) == 1:
                for values in columns:
                    tally.add(values.values, values.counts)
                for table in tables:
                    tally.add(table[self.columns[0].id])
                continue
            if columns:
                yield grouped_numbers(columns, self.key_types)
            for table in tables:
                pairs_of_table = zip(self.columns, self.key_types, strict=True)
                yield added_up([Coded(*coded(table[column.id], type_)) for column, type_ in pairs_of_table])
        if len(self.columns) == 1:
            keys, counts = tally.keys()
            yield Combinations([Coded(keys, np.arange(len(keys)))], counts)


def sum_of_groups(
    columns: Sequence[Column], groups: Sequence[Combinations], steps: Sequence[Step] = ()
) -> Groups:
    """Add up groups of different rows; the keys of each part are distinct and in order, or of segments."""
    merged = [
        _merged([of.columns[n] for of in groups], column, key_type_of_column(column))
        for n, column in enumerate(columns)
    ]
    codes = [np.concatenate([_NONE, *of_column]) for _, of_column in merged]
    counts = np.concatenate([_NONE, *(of.counts for of in groups)])
    dictionaries = [dictionary for dictionary, _ in merged]
    codes, counts = fold(codes, [len(dictionary.keys) for dictionary in dictionaries], counts)
    return Groups(columns, dictionaries, codes, counts, steps)


_FEW = 4
"""Groups use few keys if at most one key in this many is used."""


def _merged(coded_columns: Sequence[Coded], column: Column, key_type: str) -> tuple[Dictionary, list[Longs]]:
    """Merge the keys of one column of several groups; return the dictionary, and the codes in it.

    The dictionary of all keys of segments is cached, unless only few of the keys are used.
    """
    keys = sum(len(of.keys) for of in coded_columns)
    many = _FEW * sum(len(of.codes) for of in coded_columns) > keys
    if coded_columns and many and all(of.segments for of in coded_columns):
        segments = [segment for of in coded_columns for segment in of.segments]
        dictionary = of_segments(segments, column.id, key_type)
        segment_codes = iter(dictionary.codes)
        codes = []
        for of in coded_columns:
            own = [next(segment_codes) for _ in of.segments]
            codes.append((own[0] if len(own) == 1 else np.concatenate(own))[of.codes])
        return dictionary, codes
    used = [of.of_used() for of in coded_columns]
    in_order = all(len(of.segments) <= 1 for of in coded_columns)
    dictionary = united([of.keys for of in used] or [NO_KEYS], in_order)
    return dictionary, [
        segment_codes[of.codes] for segment_codes, of in zip(dictionary.codes, used, strict=False)
    ]


_NONE = np.zeros(0, dtype=np.int64)
