"""Codes of several columns as one number a row; equal numbers, and combinations of postings, counted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.arrays import Longs
from tailbit.index.grouping.dictionary import coded
from tailbit.tables.arrow import arrow_array
from tailbit.tables.parquet.coded.numbered import Numbered

FEW = 1 << 17
"""Up to this many combinations, each has a place of its own while rows are counted."""


@dataclass(frozen=True, eq=False)
class Coded:
    """One column of some rows: distinct `keys`, and per row the place of its key."""

    keys: pa.BinaryArray
    codes: Longs

    def of_used(self) -> Coded:
        """The same without keys that no row has, where these are most: keys are sorted, and become values."""
        used = np.bincount(self.codes, minlength=len(self.keys)) > 0
        some = np.flatnonzero(used)
        if 2 * len(some) > len(self.keys):
            return self
        return Coded(self.keys.take(arrow_array(some)), (np.cumsum(used) - 1)[self.codes])


@dataclass(frozen=True, eq=False)
class Combinations:
    """Combinations that some rows have: per column keys and codes by combination; `counts`: rows of each."""

    columns: Sequence[Coded]
    counts: Longs


def fold(codes: Sequence[Longs], sizes: Sequence[int], counts: Longs | None) -> tuple[list[Longs], Longs]:
    """The distinct combinations of codes, in order, and how many rows each has; a row counts one by default.

    Cost: a pass where combinations are few beside the rows, otherwise a sort.
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
    """The distinct numbers below `size`, in order, and how many rows each has."""
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
    """The codes of which numbers were folded."""
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


def combinations(
    levels: Sequence[Sequence[BitMap]], bits: BitMap, before: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """The places of the postings of each combination that some positions have, and how many have it."""
    for place, posting in enumerate(levels[0]):
        if len(levels) > 1:
            left = bits & posting
            if left:
                yield from combinations(levels[1:], left, (*before, place))
        elif n := bits.intersection_cardinality(posting):
            yield (*before, place), n


def grouped(parts: Sequence[Coded]) -> Combinations:
    """The combinations that the rows of some columns have."""
    codes, counts = fold([part.codes for part in parts], [len(part.keys) for part in parts], None)
    return Combinations([Coded(p.keys, some) for p, some in zip(parts, codes, strict=True)], counts)


def grouped_numbers(columns: Sequence[Numbered], key_types: Sequence[str]) -> Combinations:
    """The combinations that the rows of some columns have, each number of which is known as a value."""
    known = [_keys_by_number(column, key_type) for column, key_type in zip(columns, key_types, strict=True)]
    sizes = [len(keys) for keys, _ in known]
    if math.prod(sizes) >= 1 << 62:
        return grouped(
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
    """Distinct keys, and by number the place of its key."""
    keys, at = coded(column.values, key_type)
    places = np.zeros(int(column.used[-1]) + 1 if len(column.used) else 1, dtype=np.int64)
    places[column.used] = at
    return keys, places


CHUNK = 1 << 17
"""Rows worked on at once, so that what comes between stays in a cache."""


class Folded:
    """Combinations of rows, folded into numbers below `size`, counted as they come."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._sums = np.zeros(size if size <= FEW else 0, dtype=np.int64)
        self._later: list[Longs] = []

    def add(self, folded: Longs) -> None:
        """The numbers of some rows."""
        if self.size <= FEW:
            self._sums += np.bincount(folded, minlength=self.size)
        else:
            self._later.append(folded)

    def counted(self) -> tuple[Longs, Longs]:
        """The numbers that rows have, ascending, and how many rows."""
        if self._later:
            return count_numbers(np.concatenate(self._later), self.size)
        some = np.flatnonzero(self._sums)
        return some, self._sums[some]
