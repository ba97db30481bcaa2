"""Tuples that hold columns as parts, and the keys of these parts.

Worked example: tuples of (carrier, dest), grouped by dest.

    counts of tuples    (AA, LAX) 1   (UA, LAX) 1   (UA, SFO) 2
    by dest             LAX 2   SFO 2
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tailbit.index.expression.indexed_term import IndexedTerm, IndexedTuple, sources_of
from tailbit.index.grouping.dictionary import distinct
from tailbit.index.grouping.folding import Coded, Combinations, added_up
from tailbit.index.keys import key_type_of
from tailbit.index.tuple_keys import split_parts
from tailbit.tables.model import Column


def holding(
    columns: Iterable[Column | None], parts: Sequence[Column]
) -> Iterator[tuple[IndexedTuple, list[int]]]:
    """Yield the tuples among some columns that have all of `parts`, and each part's place in the tuple.

    Only tuples and parts in UTC count, because tuples hold the values of partition columns as in UTC.
    """
    for tuple_ in columns:
        if isinstance(tuple_, IndexedTuple) and _in_utc([tuple_]) and _in_utc(parts):
            places = [place for place in (_place(tuple_, part) for part in parts) if place is not None]
            if len(places) == len(parts):
                yield tuple_, places


def _in_utc(columns: Iterable[Column]) -> bool:
    """Return whether all columns that some columns and terms read are in UTC, where they depend on a zone."""
    return all(column.zone == "UTC" for column in sources_of(columns))


def _place(tuple_: IndexedTuple, column: Column) -> int | None:
    """Return the place of a column among the parts of a tuple; None if the tuple does not have it."""
    for place, part in enumerate(tuple_.parts):
        if isinstance(part, IndexedTerm) and isinstance(column, IndexedTerm):
            if part.key == column.key:
                return place
        elif part.id == column.id:
            return place
    return None


def by_parts(tuples: Combinations, tuple_: IndexedTuple, places: Sequence[int]) -> Combinations:
    """Add up the counts of tuples with the same values of some parts. Cost: a sort of each part's keys."""
    (column,) = tuples.columns
    used = column.of_used()
    parts = split_parts(used.keys, key_type_of(tuple_.type))
    keys = [distinct(parts[place]) for place in places]
    return added_up([Coded(of_part, codes[used.codes]) for of_part, codes in keys], tuples.counts)
