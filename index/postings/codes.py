"""The postings of a column converted once to a code per position, in a bounded cache.

The code of a position is the number of its key. With codes, rows are grouped by one lookup of a small number
each, whatever the number of keys; and since codes ascend with the keys, a range of keys is a range of codes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.index.keys import KeyRange
from tailbit.index.postings.gaps import Gaps
from tailbit.index.postings.segment import STORED, Segment
from tailbit.index.roaring.collected import narrowest
from tailbit.index.roaring.containers import bitmap_where
from tailbit.index.roaring.decode import place_codes
from tailbit.tables import compute as pc
from tailbit.tables.ahead import in_order
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.positions import BitPositions

CODES_BYTES = share(21 / 128)
"""Bytes of codes by position that one process keeps."""

CODES: Cache[tuple[str, str], SegmentCodes] = Cache(CODES_BYTES)
"""The codes that this process has built, by segment and column."""

MAKING: Cache[tuple[str, str], list[int]] = Cache(10_000)
"""How often codes were built in this process; more than once if they were evicted."""

_A_KEY = 12
"""Bytes of a key and of its end offset."""

_CHUNK = 1 << 17
"""Positions looked up together, so that intermediate arrays stay in the CPU cache."""


@dataclass(frozen=True, eq=False)
class SegmentCodes:
    """One code per position of a column of a segment.

    `codes[p]` is 1 + the index in `keys` of the key at position p, else 0. `keys`: as stored, ascending, null
    (NULL) first. `codes`: unsigned, as narrow as the number of keys allows.
    """

    keys: pa.BinaryArray
    codes: npt.NDArray[Any]

    def take(self, positions: BitPositions) -> npt.NDArray[Any]:
        """Return the codes at ascending positions; 0 beyond the last position that the segment knows.

        Such positions occur if the row space has grown since, or if a later file has its postings in another
        segment.
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
        """Count the rows per code among some positions, the code 0 included.

        Cost: one lookup per position.
        """
        out = np.zeros(len(self.keys) + 1, dtype=np.int64)
        for start in range(0, len(positions), _CHUNK):
            codes = self.take(positions[start : start + _CHUNK])
            out += np.bincount(codes, minlength=len(out))
        return out

    def within(self, spans: Sequence[Span]) -> BitMap:
        """Return the positions whose code is in one of some spans. Cost: a pass over all codes per span."""
        inside = np.zeros(len(self.codes), dtype=np.bool_)
        for low, high in spans:
            inside |= (self.codes >= low) & (self.codes < high)
        return bitmap_where(inside)

    def among(self, marked: Mask) -> BitMap:
        """Return the positions whose key is marked in `marked`, a mask with one flag per key.

        Cost: one lookup per position of the row space.
        """
        return bitmap_where(np.concatenate([[False], marked]).take(self.codes))

    def count_within(self, spans: Sequence[Span], positions: BitPositions) -> int:
        """Count the positions whose code is in one of disjoint spans."""
        count = 0
        for start in range(0, len(positions), _CHUNK):
            codes = self.take(positions[start : start + _CHUNK])
            count += sum(int(np.count_nonzero((codes >= low) & (codes < high))) for low, high in spans)
        return count


Span = tuple[int, int]
"""A half-open range of codes: the first one included, the second one not."""


def spans_of(keys: pa.BinaryArray, ranges: Sequence[KeyRange]) -> list[Span]:
    """Return a span of codes for each range that holds keys.

    Cost: two binary searches per range.
    """
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
    """Return the codes of a column if they are cached."""
    return CODES.cached((segment.name, column))


def codes_of(segment: Segment, column: str) -> SegmentCodes:
    """Return the cached codes of a column of a segment.

    Cost of building: some twenty nanoseconds per row, once.
    """
    return CODES.get((segment.name, column), lambda: _decoded_codes(segment, column))


def times_made(segment: Segment, column: str) -> int:
    """Return how often the codes of a column were built: more than once if they were evicted."""
    return MAKING.get((segment.name, column), lambda: ([0], 1))[0]


def have_room(segment: Segment, column: str) -> bool:
    """Return whether a column's codes fit into the cache together with those cached for its other segments.

    If they do not fit, building codes for one row space after the other would keep none of them.
    """
    folder, keys = segment.name.rpartition("/")[0], segment.weight(column)[0]
    cached = CODES.size(lambda cache_key: cache_key[1] == column and cache_key[0].startswith(folder))
    return cached + segment.rows * narrowest(keys).itemsize + _A_KEY * keys <= CODES_BYTES


def _decoded_codes(segment: Segment, column: str) -> tuple[SegmentCodes, int]:
    keys, cardinality = segment.keys(column)
    MAKING.get((segment.name, column), lambda: ([0], 1))[0] += 1
    codes = np.zeros(segment.rows, dtype=narrowest(len(keys)))
    reads = (partial(_decoded, read, 1 + first, len(codes)) for first, read in segment.row_groups(column))
    try:
        for row_group in in_order(reads):
            row_group.place(codes)
    except ValueError as damage:
        raise CorruptIndexError(file=segment.path, reason=str(damage)) from damage
    if np.count_nonzero(codes) != int(cardinality.sum()):
        raise CorruptIndexError(file=segment.path, reason=f"postings of {column} share positions")
    return SegmentCodes(keys, codes), codes.nbytes + keys.nbytes


@dataclass(frozen=True, eq=False)
class _RowGroupCodes:
    """The postings of a row group, decoded as far as threads can work side by side.

    `sparse`: positions and the code of each. `bitmaps`: of dense keys; `cardinality` and `numbers`: int64,
    the number of positions of each bitmap, and its code.
    """

    sparse: Sequence[tuple[BitPositions, npt.NDArray[Any]]]
    bitmaps: pa.BinaryArray
    cardinality: Longs
    numbers: Longs

    def place(self, out: npt.NDArray[Any]) -> None:
        """Write the codes into `out`, one thread at a time: bitsets are added to the codes written before."""
        for positions, codes in self.sparse:
            out[positions] = codes
        place_codes(self.bitmaps, self.cardinality, self.numbers, out)


def _decoded(read: Callable[[Sequence[str]], pa.Table], first: int, rows: int, alone: bool) -> _RowGroupCodes:
    """Decode a row group whose keys have the codes from `first` on.

    Raises:
        ValueError: a posting does not decode.
    """
    postings = read(STORED[1:])
    cardinality = numpy_of(postings["cardinality"], dtype=np.int64)
    gaps = Gaps.of(postings, cardinality, rows)
    numbers = np.arange(first, first + len(postings))
    bitmaps, sparse = postings["bitmap"].combine_chunks(), []
    if gaps.is_sparse.any():
        firsts, others = gaps.apart(0, len(postings))
        key_codes, dense = numbers[gaps.is_sparse].astype(narrowest(first + len(postings))), ~gaps.is_sparse
        sparse = [(firsts, key_codes), (others, np.repeat(key_codes, gaps.counts[gaps.is_sparse] - 1))]
        bitmaps = pc.filter(bitmaps, arrow_array(dense))
        cardinality, numbers = cardinality[dense], numbers[dense]
    if bitmaps.null_count:
        raise ValueError("a posting has neither a bitmap nor positions")
    return _RowGroupCodes(sparse, bitmaps, cardinality, numbers)
