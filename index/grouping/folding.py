"""Codes of several columns folded into one number per row.

A code is the place of a row's key among the keys of its column. Equal numbers are counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.row_space import Segments
from tailbit.index.grouping.dictionary import coded
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array

if TYPE_CHECKING:
    from tailbit.tables.parquet.column_codes import Numbered

FEW = 1 << 17
"""Up to this many combinations, rows are counted in an array with one slot per combination."""


@dataclass(frozen=True, eq=False)
class Coded:
    """One column of some rows or groups: `keys`, and for each row or group the place of its key.

    `segments`: if given, the keys are those that these segments store, of one segment after the other, and
    may repeat. All other keys are distinct.
    """

    keys: pa.BinaryArray
    codes: Longs
    segments: Segments = ()

    def of_used(self) -> Coded:
        """Drop the keys that no row has."""
        used = np.zeros(len(self.keys), dtype=np.bool_)
        used[self.codes] = True
        places = np.flatnonzero(used)
        if len(places) == len(self.keys):
            return self
        return Coded(pc.take(self.keys, arrow_array(places)), (np.cumsum(used) - 1)[self.codes])


@dataclass(frozen=True, eq=False)
class Combinations:
    """Combinations of keys: per column, keys and codes by combination; `counts`: rows of each combination."""

    columns: Sequence[Coded]
    counts: Longs


def fold(codes: Sequence[Longs], sizes: Sequence[int], counts: Longs | None) -> tuple[list[Longs], Longs]:
    """Return the distinct combinations of codes, in order, and the rows of each.

    `counts`: rows per entry, else 1.

    Worked example: codes [1, 0, 1] and [2, 2, 2] of sizes [2, 3] fold to 1 * 3 + 2 = 5, 2 and 5; the distinct
    numbers 2 and 5 unfold to the combinations (0, 2) with one row and (1, 2) with two.
    Cost: one pass where combinations are few compared to rows, otherwise a sort.
    """
    if math.prod(max(1, size) for size in sizes) >= 1 << 62:
        combinations, at = np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)
        return [combinations[:, n] for n in range(len(sizes))], _sums(at.ravel(), counts, len(combinations))
    folded = np.zeros(len(codes[0]), dtype=np.int64)
    for part, size in zip(codes, sizes, strict=True):
        folded *= size
        folded += part
    numbers, sums = count_numbers(folded, math.prod(sizes), counts)
    return unfold(numbers, sizes), sums


def count_numbers(folded: Longs, size: int, counts: Longs | None = None) -> tuple[Longs, Longs]:
    """Count the rows of each distinct number below `size`; numbers are returned in order."""
    if size <= max(FEW, 4 * len(folded)):
        sums = _sums(folded, counts, size)
        some = np.flatnonzero(sums)
        return some, sums[some]
    if counts is None:
        return np.unique(folded, return_counts=True)
    order = np.argsort(folded)
    ordered = folded[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    return ordered[starts], np.add.reduceat(counts[order], starts) if len(starts) else counts[:0]


def unfold(numbers: Longs, sizes: Sequence[int]) -> list[Longs]:
    """Recover the codes that were folded into numbers."""
    out = []
    for size in reversed(sizes):
        numbers, code = np.divmod(numbers, max(1, size))
        out.append(code)
    return out[::-1]


def _sums(at: Longs, counts: Longs | None, size: int) -> Longs:
    if counts is None:
        return np.bincount(at, minlength=size)
    out = np.zeros(size, dtype=np.int64)
    np.add.at(out, at, counts)
    return out


def added_up(columns: Sequence[Coded], counts: Longs | None = None) -> Combinations:
    """Group rows, or groups with `counts` of rows, by combination of the keys of some columns."""
    codes, sums = fold([of.codes for of in columns], [len(of.keys) for of in columns], counts)
    return Combinations([Coded(of.keys, own) for of, own in zip(columns, codes, strict=True)], sums)


def grouped_numbers(columns: Sequence[Numbered], key_types: Sequence[str]) -> Combinations:
    """Group rows by combination, where each column numbers its distinct values."""
    known = [_keys_by_number(column, key_type) for column, key_type in zip(columns, key_types, strict=True)]
    sizes = [len(keys) for keys, _ in known]
    if math.prod(sizes) >= 1 << 62:
        return added_up(
            [Coded(keys, at[column.numbers]) for column, (keys, at) in zip(columns, known, strict=True)]
        )
    folded = Folded(math.prod(sizes))
    for start in range(0, len(columns[0].numbers), CHUNK):
        chunk = np.zeros(1, dtype=np.int64)
        for column, (keys, at) in zip(columns, known, strict=True):
            chunk = chunk * len(keys) + at.take(column.numbers[start : start + CHUNK])
        folded.add(chunk)
    numbers, counts = folded.counted()
    pairs = zip(known, unfold(numbers, sizes), strict=True)
    return Combinations([Coded(keys, codes) for (keys, _), codes in pairs], counts)


def _keys_by_number(column: Numbered, key_type: str) -> tuple[pa.BinaryArray, Longs]:
    """Return the distinct keys, and by number the place of its key."""
    keys, at = coded(column.values, key_type)
    places = np.zeros(int(column.used[-1]) + 1 if len(column.used) else 1, dtype=np.int64)
    places[column.used] = at
    return keys, places


CHUNK = 1 << 17
"""Rows per chunk, so that intermediate arrays stay in a processor cache."""


class Folded:
    """Counts of combinations folded into numbers below `size`, accumulated chunk by chunk."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._sums = np.zeros(size if size <= FEW else 0, dtype=np.int64)
        self._later: list[Longs] = []

    def add(self, folded: Longs) -> None:
        """Add the folded numbers of some rows."""
        if self.size <= FEW:
            self._sums += np.bincount(folded, minlength=self.size)
        else:
            self._later.append(folded)

    def counted(self) -> tuple[Longs, Longs]:
        """Return the numbers that occur, ascending, and the rows of each."""
        if self._later:
            return count_numbers(np.concatenate(self._later), self.size)
        some = np.flatnonzero(self._sums)
        return some, self._sums[some]
