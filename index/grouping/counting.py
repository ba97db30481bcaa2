"""Positions of one row space counted by combination of keys, by each method.

Each method returns the combinations, and the positions with a truncated key, which are not counted.

Worked example: four rows by codes.

    carrier           UA   AA   UA   UA      keys AA UA          codes  1 0 1 1
    dest              SFO  LAX  SFO  LAX     keys LAX SFO        codes  1 0 1 0
    folded            3    0    3    2       code 1 * 2 + code 2
    counted           (AA, LAX) 1   (UA, LAX) 1   (UA, SFO) 2
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.grouping.folding import CHUNK, Coded, Combinations, Folded, fold, unfold
from tailbit.index.grouping.space_columns import PartitionColumn, PostedColumn, SpaceColumn
from tailbit.index.tuple_keys import truncated
from tailbit.tables.cache import Cache, share
from tailbit.tables.positions import BitPositions, bitmap_of, positions_in


def count(
    space: SpaceView, columns: Sequence[SpaceColumn], bits: BitMap, way: CountingWay
) -> tuple[Combinations, BitMap]:
    """Count positions of a row space by a method other than reading their data.

    Raises:
        CorruptIndexError: a segment is damaged.
    """
    if way is CountingWay.CODES:
        return by_codes(columns, bits)
    if way is CountingWay.INTERSECTIONS:
        return by_intersections(columns, bits)
    first = columns[0]
    return (
        all_rows(first, bits)
        if isinstance(first, PostedColumn)
        else (by_file(space, columns, bits), BitMap())
    )


def all_rows(column: PostedColumn, bits: BitMap) -> tuple[Combinations, BitMap]:
    """Count all rows of a row space by a column: the cardinality of each posting is its count."""
    counts, mask = column.cardinalities().copy(), truncated(column.keys, column.key_type)
    truncated_rows = BitMap()
    if mask is not None:
        counts[mask] = 0
        places, postings = column.postings()
        truncated_rows = _rows_of(places, postings, mask, bits)
    codes = np.flatnonzero(counts)
    return Combinations([Coded(column.keys, codes, column.segments)], counts[codes]), truncated_rows


def by_file(space: SpaceView, columns: Sequence[SpaceColumn], bits: BitMap) -> Combinations:
    """Count by partition columns. Cost: one count per file, whatever its rows."""
    partitions = [column for column in columns if isinstance(column, PartitionColumn)]
    counts = space.counts_by_file(bits)
    files = np.flatnonzero(counts)
    codes = [column.by_file[files] for column in partitions]
    folded, sums = fold(codes, [column.size for column in partitions], counts[files])
    return Combinations([Coded(c.keys, of) for c, of in zip(partitions, folded, strict=True)], sums)


def by_intersections(columns: Sequence[SpaceColumn], bits: BitMap) -> tuple[Combinations, BitMap]:
    """Intersect the postings of each combination that occurs with the rows."""
    levels, truncated_rows = [], BitMap()
    for column in columns:
        places, postings = column.postings()
        mask = truncated(column.keys, column.key_type)
        if mask is not None:
            truncated_rows |= _rows_of(places, postings, mask, bits)
            postings = [p for p, short in zip(postings, mask[places].tolist(), strict=True) if not short]
            places = places[~mask[places]]
        levels.append((places, postings))
    codes, counts = _intersected(levels, bits - truncated_rows if truncated_rows else bits)
    pairs = zip(columns, codes, strict=True)
    return Combinations([Coded(c.keys, of, c.segments) for c, of in pairs], counts), truncated_rows


def _rows_of(places: Longs, postings: Sequence[BitMap], mask: Mask, bits: BitMap) -> BitMap:
    """Return the rows whose key is marked in `mask`."""
    marked = zip(postings, mask[places].tolist(), strict=True)
    return bits & BitMap.union(BitMap(), *(posting for posting, short in marked if short))


def _intersected(levels: Sequence[tuple[Longs, Sequence[BitMap]]], bits: BitMap) -> tuple[list[Longs], Longs]:
    """Return the places of the postings of each combination that occurs, per level, and its row count."""
    (places, postings), *deeper = levels
    if not deeper:
        counts = np.array([bits.intersection_cardinality(p) for p in postings], dtype=np.int64)
        occurring = np.flatnonzero(counts)
        return [places[occurring]], counts[occurring]
    codes: list[list[Longs]] = [[_NONE] for _ in levels]
    all_counts = [_NONE]
    for place, posting in zip(places.tolist(), postings, strict=True):
        rows = bits & posting
        if rows:
            inner, counts = _intersected(deeper, rows)
            for level, of_level in zip(codes, [np.full(len(counts), place), *inner], strict=True):
                level.append(of_level)
            all_counts.append(counts)
    return [np.concatenate(level) for level in codes], np.concatenate(all_counts)


_NONE = np.zeros(0, dtype=np.int64)


class _Counted(NamedTuple):
    """Folded codes, ascending, with the number of positions of each.

    `short`: positions of truncated keys, which are not counted.
    """

    numbers: Longs
    counts: Longs
    short: BitMap

    def without(self, others: _Counted) -> _Counted:
        """Subtract other positions, all of which are counted here."""
        counts = self.counts.copy()
        counts[np.searchsorted(self.numbers, others.numbers)] -= others.counts
        occurring = counts > 0
        return _Counted(self.numbers[occurring], counts[occurring], self.short - others.short)


COUNTED: Cache[tuple[object, ...], _Counted] = Cache(share(1 / 64))
"""Combinations of all positions of row spaces, those of removed files included, by segments and columns."""

_OTHERS = 4
"""Unselected positions are few if at most one position in this many is unselected."""


def by_codes(columns: Sequence[SpaceColumn], bits: BitMap) -> tuple[Combinations, BitMap]:
    """Look up the codes of each row; all rows are left uncounted if their codes do not fold into 64 bits.

    Positions without a code are left out. If most positions of a row space match, the others are subtracted
    from the combinations of all positions, which change only with the segments, and are cached.
    """
    sizes = [len(column.keys) + 1 for column in columns]
    if math.prod(sizes) >= 1 << 62:
        return Combinations([Coded(column.keys, _NONE) for column in columns], _NONE), bits
    counted = _most(columns, sizes, bits) or _looked_up(columns, sizes, bits)
    codes = unfold(counted.numbers, sizes)
    coded = np.logical_and.reduce([code > 0 for code in codes])
    pairs = zip(columns, codes, strict=True)
    parts = [Coded(column.keys, code[coded] - 1, column.segments) for column, code in pairs]
    return Combinations(parts, counted.counts[coded]), counted.short


def _most(columns: Sequence[SpaceColumn], sizes: Sequence[int], bits: BitMap) -> _Counted | None:
    """Subtract the unselected positions from all; None if they are not few or a column has no segments."""
    if not all(column.segments for column in columns):
        return None
    extent = max(segment.rows for column in columns for segment in column.segments)
    if _OTHERS * (extent - len(bits)) > extent or (bits and bits.max() >= extent):
        return None
    every = BitMap(range(extent))
    others = every - bits
    names = [(segment.name, column.column.id) for column in columns for segment in column.segments]

    def sized() -> tuple[_Counted, int]:
        counted = _looked_up(columns, sizes, every)
        return counted, counted.numbers.nbytes + counted.counts.nbytes + 4 * len(counted.short)

    whole = COUNTED.get((*names, *(column.key_type for column in columns)), sized)
    return whole.without(_looked_up(columns, sizes, others)) if others else whole


def _looked_up(columns: Sequence[SpaceColumn], sizes: Sequence[int], bits: BitMap) -> _Counted:
    """Fold and count positions in chunks that stay in a processor cache."""
    masks = [truncated(column.keys, column.key_type) for column in columns]
    combined, short = Folded(math.prod(sizes)), BitMap()
    positions: BitPositions = positions_in(bits)
    for start in range(0, len(positions), CHUNK):
        chunk = positions[start : start + CHUNK]
        codes = [column.codes(chunk) for column in columns]
        folded = codes[0]
        for of_column, size in zip(codes[1:], sizes[1:], strict=True):
            folded = folded * np.int64(size) + of_column
        short_rows = [
            np.append(False, mask)[own] for mask, own in zip(masks, codes, strict=True) if mask is not None
        ]
        if short_rows:
            truncated_rows = np.logical_or.reduce(short_rows)
            short |= bitmap_of(chunk[truncated_rows])
            folded = folded[~truncated_rows]
        combined.add(folded)
    return _Counted(*combined.counted(), short)
