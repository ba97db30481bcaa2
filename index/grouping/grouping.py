"""Grouping of rows by one column or by several, in one procedure: one column is a tuple of one.

Row space by row space, rows are grouped from postings where that is possible, by the method that `choice`
finds cheapest; all other rows are read from data: rows of uncovered files, of files without postings of a
column, of damaged segments, and rows with truncated keys. Columns without postings of their own are grouped
by the postings of a tuple that holds them. Keys from all of these become canonical, so that NaN, -0.0 and
values of types widened since are counted as Spark groups them.

Groups by recorded counts: the index counts the visible rows of each value, or tuple, of its definitions. No
row is looked at. Counts of tuples group the rows by any of their parts, in any order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.evaluation.side_by_side import each_space, unread_of
from tailbit.index.expression.indexed_term import IndexedTuple
from tailbit.index.grouping.choice import (
    Choice,
    CountingWay,
    PartitionColumn,
    PostedColumn,
    SpaceColumn,
    choose,
    partition_keys,
)
from tailbit.index.grouping.counting import Tally, count
from tailbit.index.grouping.dictionary import (
    PER_VALUE,
    Coded,
    Combinations,
    Dictionary,
    added_up,
    by_parts,
    coded,
    first_in_order,
    fold,
    grouped_numbers,
    holding,
    of_segments,
    united,
)
from tailbit.index.grouping.rows import Read, Rows, fetch_values, number_values
from tailbit.index.keys import NO_KEYS
from tailbit.index.kinds.value_counts import Counts
from tailbit.index.model import key_type_of_column
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.index.roaring.coding import order_with_nulls
from tailbit.index.sql.terms import indexed_columns_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column


@dataclass(frozen=True)
class Step:
    """One step of a count, for `explain`: the method, the number of rows (None: all) and the ms it took.

    `took` is None if the rows of a row space are read together with others, in a later step.
    """

    method: CountingWay
    rows: int | None
    took: float | None
    choice: Choice | None = None

    def account(self) -> dict[str, Any]:
        """Return the step in a form that JSON can hold."""
        estimates = {} if self.choice is None else self.choice.estimates
        return {
            "way": self.method.value,
            "row_space": None if self.choice is None else self.choice.space,
            "rows": self.rows,
            "estimates_ms": {method.value: round(ms, 3) for method, ms in estimates.items()},
            "took_ms": None if self.took is None else round(self.took, 3),
        }


@dataclass(frozen=True, eq=False)
class Groups:
    """Combinations of whole keys of some columns, with the rows of each; no count is zero.

    `keys`: per column, in order, null (NULL) first; keys without a group may be among them. `codes`: per
    column, the place of each group's key. `steps`: how the rows were counted. `ordered`: False for groups by
    one column in no order; its keys are in the same order as the groups.
    """

    columns: Sequence[Column]
    keys: Sequence[Dictionary]
    codes: Sequence[Longs]
    counts: Longs
    steps: Sequence[Step] = field(default=())
    ordered: bool = True

    def key_type(self, column: int = 0) -> str:
        """Return the key type of a column, by its number."""
        return key_type_of_column(self.columns[column])

    def keys_of(self, column: int = 0) -> pa.BinaryArray:
        """Return each group's key of a column."""
        keys, codes = self.keys[column].keys, self.codes[column]
        # Ascending codes of as many groups as there are keys are all places in order.
        whole = len(self.columns) == 1 and len(codes) == len(keys)
        return keys if whole else pc.take(keys, arrow_array(codes))

    def values(self, column: int = 0) -> list[Any]:
        """Return the Python value of each key of a column; the values are kept with the keys."""
        return self.keys[column].values(self.columns[column], self.key_type(column))

    def values_of(self, column: int = 0) -> list[Any]:
        """Return each group's Python value of a column."""
        values, codes = self.values(column), self.codes[column]
        whole = len(self.columns) == 1 and len(codes) == len(values)
        return values if whole else [values[code] for code in codes.tolist()]

    def combinations(self) -> Combinations:
        """Return the groups without the keys that none of them has."""
        pairs = zip(self.keys, self.codes, strict=True)
        return Combinations([Coded(of.keys, codes).of_used() for of, codes in pairs], self.counts)

    @property
    def nulls(self) -> int:
        """Return the number of rows that are NULL in the only column."""
        (codes,), (dictionary,) = self.codes, self.keys
        if not len(codes) or not dictionary.keys.null_count:
            return 0
        null = dictionary.null_place
        group = 0 if self.ordered else null
        return int(self.counts[group]) if codes[group] == null else 0

    def most_frequent(self, n: int | None = None) -> Longs:
        """Return the groups by falling count, ties in key order; `n`: only the first ones."""
        if n is None or n >= len(self.counts):
            order = np.arange(len(self.counts)) if self.ordered else order_with_nulls(self.keys_of())
        else:
            order = self._first(n)
        return order[np.argsort(-self.counts[order], kind="stable")]

    def _first(self, n: int) -> Longs:
        """Return the most frequent groups, in key order. Cost: no full sort."""
        if n == 0:
            return np.zeros(0, dtype=np.int64)
        least = np.partition(self.counts, len(self.counts) - n)[-n]
        over, ties = np.flatnonzero(self.counts > least), np.flatnonzero(self.counts == least)
        missing = n - len(over)
        if self.ordered:
            return np.sort(np.concatenate([over, ties[:missing]]))
        keys = self.keys_of()
        first = np.concatenate([over, ties[first_in_order(pc.take(keys, arrow_array(ties)), missing)]])
        return first[order_with_nulls(pc.take(keys, arrow_array(first)))]


_GROUPS: Cache[tuple[object, ...], Groups] = Cache(share(2 / 64))
"""Groups by the state of the index, the column or tuple, and its parts."""


def recorded_groups(
    selection: Selection, columns: Sequence[Column], recorded: RecordedCounts
) -> Groups | None:
    """Return the rows per combination of keys of some columns if recorded counts tell them, else None.

    Cost: reading the counts; for parts of tuples, the first time also a sort of the keys of each part.
    """
    begun = time.perf_counter()
    for column, field_numbers in _counted_columns(selection, columns, recorded):
        key_type = key_type_of_column(column)
        counts = recorded.of(selection, column, key_type)
        if counts is not None:
            groups = _groups(recorded, column, key_type, counts, field_numbers)
            step = Step(CountingWay.RECORDED, None, (time.perf_counter() - begun) * 1e3)
            return replace(groups, columns=columns, steps=[step])
    return None


def _counted_columns(
    selection: Selection, columns: Sequence[Column], recorded: RecordedCounts
) -> Iterator[tuple[Column, Sequence[int]]]:
    """Yield the only column, then tuples that hold all columns, short ones first, and the columns' places."""
    if len(columns) == 1:
        yield columns[0], [0]
    if recorded.of_tuples:
        several = [d for d in recorded.index.settings.definitions if len(d.terms) > 1]
        several.sort(key=lambda definition: len(definition.terms))
        yield from holding(indexed_columns_of(several, selection.schema), columns)


def _groups(
    recorded: RecordedCounts, column: Column, key_type: str, counts: Counts, field_numbers: Sequence[int]
) -> Groups:
    """Return the groups by a column, or by parts of a tuple, cached until the index changes."""

    def added_up() -> tuple[Groups, int]:
        keys, rows = counts
        groups = Combinations([Coded(keys, np.arange(len(keys)))], rows)
        if isinstance(column, IndexedTuple):
            groups = by_parts(groups, column, field_numbers)
        dictionaries = [Dictionary(column_of_groups.keys, []) for column_of_groups in groups.columns]
        codes = [column_of_groups.codes for column_of_groups in groups.columns]
        size = sum(array.nbytes for array in (*codes, groups.counts))
        size += sum(
            column_of_groups.keys.nbytes + PER_VALUE * len(column_of_groups.keys)
            for column_of_groups in groups.columns
        )
        return Groups((), dictionaries, codes, groups.counts), size

    return _GROUPS.get((*recorded.stand, column.id, key_type, *field_numbers), added_up)


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
