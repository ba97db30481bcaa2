"""Rows per combination of values, from the recorded counts of tuples: no row is looked at.

An index of tuples counts the visible rows of each tuple. It groups the rows by any of its parts, in any
order: tuples with the same values of these parts are added up.

Worked example: tuples of (carrier, dest), grouped by dest.

    counts of tuples    (AA, LAX) 1   (UA, LAX) 1   (UA, SFO) 2
    by dest             LAX 2   SFO 2
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from tailbit.index.expression.indexed_term import IndexedTuple
from tailbit.index.grouping.by_tuples import holding, parts_of
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.grouping.dictionary import python_values
from tailbit.index.grouping.folding import fold
from tailbit.index.grouping.groups import GroupCounts
from tailbit.index.grouping.key_counts import KeyCounts, Step
from tailbit.index.keys import key_type_of
from tailbit.index.kinds.value_counts import Counts
from tailbit.index.query.recorded_counts import RecordedCounts
from tailbit.index.query.selection import Selection
from tailbit.index.sql.terms import indexed_columns_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column

_KEPT: Cache[tuple[object, ...], GroupCounts] = Cache(share(1 / 64))
"""Groups by the state of the index, the tuples and the parts."""


def recorded_groups(
    selection: Selection, columns: Sequence[Column], recorded: RecordedCounts
) -> GroupCounts | None:
    """Return the rows per combination of keys of some columns, if recorded counts of tuples tell; else None.

    Cost: reading the counts; the first time also a sort of the keys of each part.
    """
    begun = time.perf_counter()
    several = [definition for definition in recorded.index.settings.definitions if len(definition.terms) > 1]
    several.sort(key=lambda definition: len(definition.terms))
    for tuple_, places in holding(indexed_columns_of(several, selection.schema), columns):
        counts = recorded.of(selection, tuple_, key_type_of(tuple_.type))
        if counts is not None:
            groups = _groups(recorded, tuple_, counts, places)
            step = Step(CountingWay.RECORDED, None, (time.perf_counter() - begun) * 1e3)
            return replace(groups, columns=columns, steps=[step])
    return None


def recorded_part(selection: Selection, column: Column, recorded: RecordedCounts) -> KeyCounts | None:
    """Return the rows per key of a column that is a part of tuples, if their counts tell; else None."""
    groups = recorded_groups(selection, [column], recorded)
    if groups is None:
        return None
    (keys,), key_type = groups.keys, key_type_of(column.type)
    return KeyCounts(
        column, key_type, keys, groups.counts, lambda: python_values(keys, key_type, column), groups.steps
    )


def _groups(
    recorded: RecordedCounts, tuple_: IndexedTuple, counts: Counts, places: Sequence[int]
) -> GroupCounts:
    """Return the rows per combination of keys of some parts, cached until the index changes."""

    def added_up() -> tuple[GroupCounts, int]:
        keys, rows = counts
        parts = parts_of(keys, tuple_, places)
        codes, sums = fold([part.codes for part in parts], [len(part.keys) for part in parts], rows)
        groups = GroupCounts((), [part.keys for part in parts], codes, sums)
        return groups, sum(array.nbytes for array in (*groups.keys, *codes, sums))

    return _KEPT.get((*recorded.stand, tuple_.id, *places), added_up)
