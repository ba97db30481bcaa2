"""Rows counted by group: the result of grouping, the steps of counting, and groups by recorded counts.

Groups by recorded counts: the index counts the visible rows of each value, or tuple, of its definitions. No
row is looked at. Counts of tuples group the rows by any of their parts, in any order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.expression.indexed_term import IndexedTuple
from tailbit.index.grouping.choice import Choice, CountingWay
from tailbit.index.grouping.dictionary import (
    PER_VALUE,
    Coded,
    Combinations,
    Dictionary,
    by_parts,
    first_in_order,
    holding,
)
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
