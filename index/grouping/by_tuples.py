"""Rows of a row space grouped by the postings of tuples that hold the columns as parts.

Columns without postings of their own are grouped in this way, under any condition. Tuples that have the same
values of the columns are added up later, together with the other row spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.errors import CorruptIndexError
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.expression.indexed_term import IndexedTerm, IndexedTuple, sources_of
from tailbit.index.grouping.choice import Choice, CountingWay, choose
from tailbit.index.grouping.dictionary import distinct
from tailbit.index.grouping.folding import Coded, Combinations
from tailbit.index.grouping.ways import COUNT, shortened
from tailbit.index.keys import NO_KEYS, key_type_of
from tailbit.index.tuple_keys import split_parts
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column

Grouped = tuple[Combinations, BitMap, Choice]
"""Groups, the positions that are left to the data, and the method chosen."""


def holding(
    columns: Iterable[Column | None], parts: Sequence[Column]
) -> Iterator[tuple[IndexedTuple, list[int]]]:
    """Yield the tuples among some columns that have all of `parts`, and each part's place in the tuple.

    Only tuples and parts in UTC count, because tuples hold the values of partition columns as in UTC.
    """
    for tuple_ in columns:
        if isinstance(tuple_, IndexedTuple) and _in_utc([tuple_]) and _in_utc(parts):
            places = [_place(tuple_, part) for part in parts]
            known = [place for place in places if place is not None]
            if len(known) == len(parts):
                yield tuple_, known


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


def parts_of(keys: pa.BinaryArray, tuple_: IndexedTuple, places: Sequence[int]) -> list[Coded]:
    """Return the distinct keys of some parts of tuples, in order, and the place of each tuple's key."""
    parts = split_parts(keys, key_type_of(tuple_.type))
    return [Coded(*distinct(parts[place])) for place in places]


def grouped_by_tuples(
    space: SpaceView, bits: BitMap, columns: Sequence[Column], way: CountingWay | None
) -> Grouped | None:
    """Group positions of a row space by the postings of tuples; None if no tuple serves, or data is cheaper.

    `way`: the method to take, if given.

    Raises:
        CorruptIndexError: a segment is damaged.
    """
    for tuple_, places in holding((access.values for access in space.accesses), columns):
        segments, unposted = space.serving(tuple_), space.unposted(tuple_.id)
        wanted = bits if unposted is None else bits - unposted
        if not segments or not wanted:
            continue
        choice = choose(space, segments, tuple_, wanted, None)
        if way in choice.estimates:
            choice = replace(choice, way=way)
        if choice.way is CountingWay.DATA:
            continue
        left, keys, counts = bits - wanted, [NO_KEYS], [np.zeros(0, dtype=np.int64)]
        for segment, mine in zip(segments, COUNT[choice.way](segments, tuple_, wanted, None), strict=True):
            left |= shortened(segment, tuple_, mine, wanted)
            some = np.flatnonzero(mine)
            keys.append(pc.take(segment.keys(tuple_.id)[0], arrow_array(some)))
            counts.append(mine[some])
        groups = Combinations(parts_of(pa.concat_arrays(keys), tuple_, places), np.concatenate(counts))
        if int(groups.counts.sum()) + len(left) != len(bits):
            reason = f"postings of {tuple_.id} do not hold all rows of row space {space.space}"
            raise CorruptIndexError(file=segments[0].path, reason=reason)
        return groups, left, choice
    return None
