"""Sparse postings as columns of a segment: the first position of a key, and the bytes of the gaps after it.

The gaps between a key's positions are stored byte by byte: the lowest bytes in one column, the next bytes in
another. The higher bytes of a key's gaps are much alike and compress well; together the columns take about
the entropy of the gaps. A column of higher bytes is null for a key whose gaps do not need it; all columns are
null for dense keys, as `bitmap` is for sparse ones.

Worked example: a dense key and the two sparse keys {4 6 7 300} and {2}:

    cardinality   2 000    4           1
    bitmap        bytes    null        null
    first         null     4           2
    gaps_0        null     02 01 25    null
    gaps_1        null     00 00 01    null
    gaps_2        null     null        null
    gaps_3        null     null        null
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.arrays import Ints, Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.keys import bytes_of, texts_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.positions import BitPositions

FIRST = "first"

PLANES = tuple(f"gaps_{number}" for number in range(4))
"""The columns of the gaps' bytes, the lowest bytes first."""

SCHEMA = pa.schema([(FIRST, pa.int32()), *((name, pa.binary()) for name in PLANES)])
"""The columns of a segment for sparse keys."""

COLUMNS = tuple(SCHEMA.names)

ENCODINGS = {FIRST: "DELTA_BINARY_PACKED", **dict.fromkeys(PLANES, "DELTA_LENGTH_BYTE_ARRAY")}
"""Parquet encodings of these columns: they put the bytes one after the other, as the compression needs
them."""


_OTHERS = "a posting has other positions than are recorded"


def encoded(positions: BitPositions, counts: Longs) -> pa.Table:
    """Encode the sparse postings of some keys as the columns of `SCHEMA`.

    `counts`: int64, the number of positions of each key, key after key; 0 for a dense key.
    """
    nonempty = counts > 0
    starts = (np.cumsum(counts) - counts)[nonempty]
    signed = positions.view(np.int32) if positions.flags.c_contiguous else positions.astype(np.int32)
    first = np.zeros(len(counts), dtype=np.int32)
    first[nonempty] = signed[starts]
    gaps = np.diff(signed, prepend=np.int32(0))
    inner = np.ones(len(signed), dtype=np.bool_)
    inner[starts] = False
    sizes = np.maximum(counts - 1, 0)
    planes = _planes(gaps[inner], sizes)
    return pa.table([arrow_array(first, mask=~nonempty), *planes], schema=SCHEMA)


def none(many: int) -> pa.Table:
    """Return the columns of `many` dense keys."""
    return pa.table([pa.nulls(many, field.type) for field in SCHEMA], schema=SCHEMA)


def _planes(gaps: npt.NDArray[np.int32], sizes: Longs) -> list[pa.BinaryArray]:
    """Return the columns of bytes. `sizes`: int64, the number of gaps of each key."""
    split = gaps.astype("<i4", copy=False).view(np.uint8).reshape(-1, len(PLANES))
    widest = np.zeros(len(sizes), dtype=np.int32)
    some = sizes > 0
    if len(gaps):
        widest[some] = np.maximum.reduceat(gaps, (np.cumsum(sizes) - sizes)[some])
    out = []
    for number in range(len(PLANES)):
        reached = some & (widest >> np.int32(8 * number) > 0)
        plane = split[:, number]
        if not reached.any():
            plane = plane[:0]
        elif not np.array_equal(reached, some):
            plane = plane[np.repeat(reached, sizes)]
        offsets = np.zeros(len(sizes) + 1, dtype=np.int32)
        np.cumsum(np.where(reached, sizes, 0), out=offsets[1:])
        out.append(texts_of(offsets, plane, ~reached))
    return out


class _Plane(NamedTuple):
    """One column of bytes as read: `offsets` int32, one more than keys, into `data`, uint8."""

    offsets: Ints
    data: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, column: pa.BinaryArray) -> _Plane:
        offsets, data = bytes_of(column)
        return cls(offsets.astype(np.int32), data)

    def only(self, marked: Mask) -> _Plane:
        """Return the bytes of only some keys. Cost: a pass over the bytes of all keys."""
        sizes = np.diff(self.offsets)
        data = self.data[self.offsets[0] : self.offsets[-1]]
        if len(data) != self.offsets[-1] - self.offsets[0]:
            raise ValueError(_OTHERS)
        offsets = np.concatenate([[0], np.cumsum(sizes[marked])]).astype(np.int32)
        return _Plane(offsets, data[np.repeat(marked, sizes)] if len(data) else data)


@dataclass(frozen=True, eq=False)
class Gaps:
    """The columns of sparse keys as read: nothing is checked before it is decoded.

    `held`: mask of the sparse keys, whose posting is a list of positions and not a bitmap. `counts`: int64,
    the recorded number of positions of each key, 0 for a dense key. `rows`: the row count of the row space.
    """

    is_sparse: Mask
    counts: Longs
    rows: int
    _first: Ints
    _planes: tuple[_Plane, ...]

    @classmethod
    def of(cls, table: pa.Table, cardinality: Longs, rows: int) -> Gaps:
        """Wrap the stored columns of `SCHEMA` in a table that may have others too."""
        first = table[FIRST].combine_chunks()
        is_sparse = numpy_of(pc.is_valid(first))
        planes = tuple(_Plane.of(table[name].combine_chunks()) for name in PLANES)
        return cls(is_sparse, np.where(is_sparse, cardinality, 0), rows, numpy_of(filled(first, 0)), planes)

    @classmethod
    def none(cls, many: int, rows: int) -> Gaps:
        """Return the `Gaps` of `many` dense keys, without reading columns."""
        is_sparse, nothing = np.zeros(many, dtype=np.bool_), np.zeros(many, dtype=np.int64)
        empty = _Plane(np.zeros(many + 1, dtype=np.int32), np.zeros(0, dtype=np.uint8))
        return cls(is_sparse, nothing, rows, nothing.astype(np.int32), (empty,) * len(PLANES))

    @property
    def stored(self) -> int:
        """Return how many positions are stored, which may contradict `counts` in a damaged file."""
        return int(np.count_nonzero(self.is_sparse)) + len(self._planes[0].data)

    def positions(self, low: int, high: int) -> BitPositions:
        """Decode the positions of the sparse keys among the keys `low` to `high` (excluded), key after key.

        Dense keys in the range are skipped; `counts` tells how many positions each key has. Cost: a few
        vector operations and a cumulative sum over these positions; other keys cost nothing.

        Raises:
            ValueError: the number of positions is not the recorded one, or positions do not ascend or
                exceed the rows.
        """
        first, counts, steps = self._checked(low, high)
        return first if not len(steps) else _summed(first, counts, steps)

    def apart(self, low: int, high: int) -> tuple[BitPositions, BitPositions]:
        """Decode what `positions` decodes as two arrays, in less time.

        The first array holds the first position of each key, the second all others, key by key.

        Raises:
            ValueError: the number of positions is not the recorded one, or positions do not ascend or
                exceed the rows.
        """
        first, counts, steps = self._checked(low, high)
        inner = counts - 1
        others = np.cumsum(steps, dtype=np.uint32)
        before = np.concatenate([_ZERO, others])[np.cumsum(inner) - inner]
        others += np.repeat(first - before, inner)
        return first, others

    def only(self, marked: Mask) -> Gaps:
        """Return the gaps of some keys.

        Raises:
            ValueError: bytes of gaps are missing.
        """
        planes = tuple(plane.only(marked) for plane in self._planes)
        return Gaps(self.is_sparse[marked], self.counts[marked], self.rows, self._first[marked], planes)

    def _checked(self, low: int, high: int) -> tuple[BitPositions, Longs, BitPositions]:
        """Return first positions, counts and gaps of the sparse keys among the keys `[low, high)`, checked.

        The last position of each key is checked against the rows, so sums of gaps may overflow 32 bits: their
        differences stay right.
        """
        is_sparse, counts = self.is_sparse[low:high], self.counts[low:high]
        gap_counts = np.maximum(counts - 1, 0)
        lowest, *others = self._planes
        offsets = lowest.offsets[low : high + 1]
        if not np.array_equal(np.diff(offsets), gap_counts):
            raise ValueError(_OTHERS)
        steps = lowest.data[offsets[0] : offsets[-1]].astype(np.uint32)
        for number, plane in enumerate(others, 1):
            if plane.offsets[low] < plane.offsets[high]:
                _add(plane, low, high, gap_counts, np.uint32(8 * number), steps)
        first, counts = self._first[low:high][is_sparse], counts[is_sparse]
        if len(counts) and (counts.min() < 1 or first.min() < 0):
            raise ValueError("the positions of a posting are fewer than one, or below zero")
        if len(steps) and not steps.all():
            raise ValueError("the positions of a posting do not rise")
        self._check_last(first.astype(np.int64), counts - 1, steps)
        return first.astype(np.uint32), counts, steps

    def _check_last(self, last: Longs, inner: Longs, steps: BitPositions) -> None:
        """Raise if the last position of a key is beyond the rows.

        `last`: the first position of each key, to which the sum of its `inner` gaps is added.
        """
        some = inner > 0
        last[some] += np.add.reduceat(steps, (np.cumsum(inner) - inner)[some], dtype=np.int64)
        if len(last) and last.max() >= self.rows:
            raise ValueError(f"position {last.max()} is beyond the {self.rows} rows")


def _add(
    plane: _Plane, low: int, high: int, gap_counts: Longs, shift: np.uint32, steps: BitPositions
) -> None:
    """Add the higher bytes of some keys to their gaps.

    `gap_counts`: int64, the number of gaps of each key; a key has as many bytes in the plane, or none.
    """
    offsets = plane.offsets[low : high + 1]
    sizes = np.diff(offsets)
    data = plane.data[offsets[0] : offsets[-1]].astype(np.uint32)
    data <<= shift
    if np.array_equal(sizes, gap_counts):
        steps |= data
        return
    reached = sizes > 0
    if not np.array_equal(sizes, np.where(reached, gap_counts, 0)):
        raise ValueError(_OTHERS)
    steps[np.repeat(reached, gap_counts)] |= data


def _summed(first: BitPositions, counts: Longs, steps: BitPositions) -> BitPositions:
    starts = np.cumsum(counts) - counts
    ahead = np.concatenate([_ZERO, np.cumsum(steps, dtype=np.uint32)])
    ends = np.cumsum(counts - 1)
    last = first + ahead[ends] - ahead[ends - (counts - 1)]
    out = np.empty(int(counts.sum()), dtype=np.uint32)
    inner = np.ones(len(out), dtype=np.bool_)
    inner[starts] = False
    out[inner] = steps
    # Each key begins with the signed distance from the last position of the previous key.
    out[starts] = first - np.concatenate([_ZERO, last[:-1]])
    return np.cumsum(out, dtype=np.uint32, out=out)


_ZERO = np.zeros(1, dtype=np.uint32)
