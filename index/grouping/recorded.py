"""Groups by recorded counts: the index counts the visible rows of each value, or tuple, of its definitions.

No row is looked at. Counts of tuples group the rows by any of their parts, in any order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tailbit.index.expression.indexed_term import IndexedTuple
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.grouping.dictionary import PER_VALUE, Dictionary
from tailbit.index.grouping.folding import Coded, Combinations
from tailbit.index.grouping.groups import Groups, Step
from tailbit.index.grouping.tuples import by_parts, holding
from tailbit.index.keys import key_type_of
from tailbit.index.kinds.value_counts import Counts
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.index.sql.terms import indexed_columns_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column

_GROUPS: Cache[tuple[object, ...], Groups] = Cache(share(2 / 64))
"""Groups by the state of the index, the column or tuple, and its parts."""


def recorded_groups(
    selection: Selection, columns: Sequence[Column], recorded: RecordedCounts
) -> Groups | None:
    """Return the rows per combination of keys of some columns if recorded counts tell them, else None.

    Cost: reading the counts; for parts of tuples, the first time also a sort of the keys of each part.
    """
    begun = time.perf_counter()
    for column, places in _counted_columns(selection, columns, recorded):
        key_type = key_type_of(column.type)
        counts = recorded.of(selection, column, key_type)
        if counts is not None:
            groups = _groups(recorded, column, key_type, counts, places)
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
    recorded: RecordedCounts, column: Column, key_type: str, counts: Counts, places: Sequence[int]
) -> Groups:
    """Return the groups by a column, or by parts of a tuple, cached until the index changes."""

    def added_up() -> tuple[Groups, int]:
        keys, rows = counts
        groups = Combinations([Coded(keys, np.arange(len(keys)))], rows)
        if isinstance(column, IndexedTuple):
            groups = by_parts(groups, column, places)
        dictionaries = [Dictionary(part.keys, []) for part in groups.columns]
        codes = [part.codes for part in groups.columns]
        size = sum(array.nbytes for array in (*codes, groups.counts))
        size += sum(part.keys.nbytes + PER_VALUE * len(part.keys) for part in groups.columns)
        return Groups((), dictionaries, codes, groups.counts), size

    return _GROUPS.get((*recorded.stand, column.id, key_type, *places), added_up)
