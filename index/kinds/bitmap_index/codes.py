"""The postings of a column turned once into a code per position, kept in a bounded cache.

With codes at hand, rows are grouped by looking up one small number each, whatever the number of keys; and
since codes rise with the keys, a range of keys is a range of codes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.arrays import Longs, Mask
from tailbit.errors import CorruptIndexError
from tailbit.index.keys import KeyRange
from tailbit.index.kinds.bitmap_index.gaps import Gaps
from tailbit.index.kinds.bitmap_index.segment import STORED, Segment
from tailbit.index.roaring.collected import narrowest
from tailbit.index.roaring.decode import place_codes
from tailbit.index.roaring.masks import bitmap_where
from tailbit.tables.ahead import in_order
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.positions import BitPositions

CODES_BYTES = share(1 / 4)
"""Bytes of codes by position that one process keeps."""

CODES: Cache[tuple[str, str], SegmentCodes] = Cache(CODES_BYTES)
"""The codes that this process has made, by segment and column."""

MAKING: Cache[tuple[str, str], list[int]] = Cache(10_000)
"""How often codes were made in this process; more than once where they did not stay."""

_A_KEY = 12
"""Bytes of a key and of where it ends."""

_CHUNK = 1 << 17
"""Positions looked up at once, so that what comes between stays in a cache."""


@dataclass(frozen=True, eq=False)
class SegmentCodes:
    """One column of one segment: `codes[p]` is 1 + the place in `keys` of the key at position p, else 0.

    `keys`: as stored, ascending, null (NULL) first. `codes`: unsigned, as narrow as the keys allow.
    """

    keys: pa.BinaryArray
    codes: npt.NDArray[Any]

    def take(self, positions: BitPositions) -> npt.NDArray[Any]:
        """The codes at ascending positions; 0 beyond the rows that the segment is about.

        A row space may have grown since, or a file beyond may have its postings in a segment of its own.
        """
        if not len(positions):
            return self.codes[:0]
        first, last = int(positions[0]), int(positions[-1])
        if last < len(self.codes):
            gapless = last - first + 1 == len(positions)
            return self.codes[first : last + 1] if gapless else self.codes.take(positions)
        inside = int(np.searchsorted(positions, len(self.codes)))
        out = np.zeros(len(positions), dtype=self.codes.dtype)
        out[:inside] = self.codes.take(positions[:inside])
        return out

    def counts(self, positions: BitPositions) -> Longs:
        """Rows per code among some positions, the code 0 included. Cost: one look-up a position."""
        out = np.zeros(len(self.keys) + 1, dtype=np.int64)
        for start in range(0, len(positions), _CHUNK):
            codes = self.take(positions[start : start + _CHUNK])
            out += np.bincount(codes, minlength=len(out))
        return out

    def within(self, spans: Sequence[Span]) -> BitMap:
        """Positions whose code is in one of some spans. Cost: a pass over all codes a span."""
        inside = np.zeros(len(self.codes), dtype=np.bool_)
        for low, high in spans:
            inside |= (self.codes >= low) & (self.codes < high)
        return bitmap_where(inside)

    def among(self, wanted: Mask) -> BitMap:
        """Positions of the keys at some places. Cost: a look-up for each code."""
        return bitmap_where(np.concatenate([[False], wanted]).take(self.codes))

    def count_within(self, spans: Sequence[Span], positions: BitPositions) -> int:
        """How many of some positions have a code in one of disjoint spans."""
        count = 0
        for start in range(0, len(positions), _CHUNK):
            codes = self.take(positions[start : start + _CHUNK])
            count += sum(int(np.count_nonzero((codes >= low) & (codes < high))) for low, high in spans)
        return count


Span = tuple[int, int]
"""Codes from the first on, below the second."""


def spans_of(keys: pa.BinaryArray, ranges: Sequence[KeyRange]) -> list[Span]:
    """The codes of the keys in some ranges, empty ones left out. Cost: two binary searches a range."""
    first = int(len(keys) > 0 and not keys[0].is_valid)

    def place(key: bytes, after: bool) -> int:
        search = bisect_right if after else bisect_left
        return search(range(len(keys)), key, first, key=lambda i: keys[i].as_py())

    out = []
    for low, low_closed, high, high_closed in ranges:
        a = first if low is None else place(low, after=not low_closed)
        b = len(keys) if high is None else place(high, after=high_closed)
        if a < b:
            out.append((a + 1, b + 1))
    return out


def held_codes(segment: Segment, column: str) -> SegmentCodes | None:
    """The codes of a column where they have been made and kept."""
    return CODES.held((segment.name, column))


def codes_of(segment: Segment, column: str) -> SegmentCodes:
    """The codes of a column of a segment. Cost, once: some twenty nanoseconds a row; then a look-up.

    Raises:
        CorruptIndexError: the segment is damaged, or two of its postings share a position.
    """
    return CODES.get((segment.name, column), lambda: _made(segment, column))


def times_made(segment: Segment, column: str) -> int:
    """How often the codes of a column were made: where they are not held, so often they did not stay."""
    return MAKING.get((segment.name, column), lambda: ([0], 1))[0]


def have_room(segment: Segment, column: str) -> bool:
    """Whether codes of a column can be kept beside those of the same column in other segments that are.

    If they cannot, to make them for one row space after the other would keep none.
    """
    folder, keys = segment.name.rpartition("/")[0], segment.weight(column)[0]
    held = CODES.size(lambda cache_key: cache_key[1] == column and cache_key[0].startswith(folder))
    return held + segment.rows * narrowest(keys).itemsize + _A_KEY * keys <= CODES_BYTES


def _made(segment: Segment, column: str) -> tuple[SegmentCodes, int]:
    keys, cardinality = segment.keys(column)
    MAKING.get((segment.name, column), lambda: ([0], 1))[0] += 1
    codes = np.zeros(segment.rows, dtype=narrowest(len(keys)))
    parts = (partial(_decoded, read, 1 + first, len(codes)) for first, read in segment.parts(column))
    try:
        for part in in_order(parts):
            part.place(codes)
    except ValueError as damage:
        raise CorruptIndexError(file=segment.path, reason=str(damage)) from damage
    if np.count_nonzero(codes) != int(cardinality.sum()):
        raise CorruptIndexError(file=segment.path, reason=f"postings of {column} share positions")
    return SegmentCodes(keys, codes), codes.nbytes + keys.nbytes


@dataclass(frozen=True, eq=False)
class _Part:
    """The postings of a row group, decoded as far as can be done beside others.

    `sparse`: positions and the code of each. `bitmaps`: those of dense keys; `cardinality` and `numbers`:
    int64, how many positions each has, and its code.
    """

    sparse: Sequence[tuple[BitPositions, npt.NDArray[Any]]]
    bitmaps: pa.BinaryArray
    cardinality: Longs
    numbers: Longs

    def place(self, out: npt.NDArray[Any]) -> None:
        """Write the codes. One thread at a time: a bitset is added to the codes that stand there already.

        Raises:
            ValueError: a posting does not decode.
        """
        for positions, codes in self.sparse:
            out[positions] = codes
        place_codes(self.bitmaps, self.cardinality, self.numbers, out)


def _decoded(read: Callable[[Sequence[str]], pa.Table], first: int, rows: int, alone: bool) -> _Part:
    """A row group whose keys have the codes from `first` on.

    Raises:
        ValueError: a posting does not decode.
    """
    part = read(STORED[1:])
    cardinality = numpy_of(part["cardinality"], dtype=np.int64)
    gaps = Gaps.of(part, cardinality, rows)
    numbers = np.arange(first, first + len(part))
    bitmaps, sparse = part["bitmap"].combine_chunks(), []
    if gaps.held.any():
        firsts, others = gaps.apart(0, len(part))
        mine, dense = numbers[gaps.held].astype(narrowest(first + len(part))), ~gaps.held
        sparse = [(firsts, mine), (others, np.repeat(mine, gaps.counts[gaps.held] - 1))]
        bitmaps, cardinality, numbers = bitmaps.filter(arrow_array(dense)), cardinality[dense], numbers[dense]
    if bitmaps.null_count:
        raise ValueError("a posting has neither a bitmap nor positions")
    return _Part(sparse, bitmaps, cardinality, numbers)
