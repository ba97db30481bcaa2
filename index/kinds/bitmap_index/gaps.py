"""Sparse postings as columns of a segment: the first position of a key, and the gaps between the others.

Both are integers that Parquet packs by their differences, so any reader has them; dense keys are null in
both, as sparse ones are in `bitmap`.

Eight rows by hand, a dense key and two sparse ones, {4 6 7} and {2}:

    cardinality   2 000    3       1
    bitmap        bytes    null    null
    first         null     4       2
    gaps          null     2 1     empty
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tailbit.arrays import Ints, Longs, Mask
from tailbit.tables.positions import BitPositions

FIRST = pa.int32()
GAPS = pa.list_(pa.field("element", pa.int32(), nullable=False))


def encoded(positions: BitPositions, counts: Longs) -> tuple[pa.Int32Array, pa.ListArray]:
    """The columns `first` and `gaps` of some keys.

    `counts`: int64, per key how many of the positions are its own, key after key; 0 for a dense key.
    """
    held = counts > 0
    starts = (np.cumsum(counts) - counts)[held]
    signed = positions.view(np.int32) if positions.flags.c_contiguous else positions.astype(np.int32)
    first = np.zeros(len(counts), dtype=np.int32)
    first[held] = signed[starts]
    gaps = np.diff(signed, prepend=np.int32(0))
    inner = np.ones(len(signed), dtype=np.bool_)
    inner[starts] = False
    ends = np.concatenate([[0], np.cumsum(np.maximum(counts - 1, 0))]).astype(np.int32)
    missing = pa.array(~held)
    values = pa.array(gaps[inner])
    lists = pa.ListArray.from_arrays(pa.array(ends), values, type=GAPS, mask=missing)
    return pa.array(first, mask=~held), lists


def none(many: int) -> tuple[pa.Int32Array, pa.ListArray]:
    """The columns of `many` dense keys."""
    return pa.nulls(many, FIRST), pa.nulls(many, GAPS)


@dataclass(frozen=True, eq=False)
class Gaps:
    """The columns `first` and `gaps` as they were read: nothing is checked before it is decoded.

    `held`: which keys are sparse. `counts`: int64, positions that are recorded of each key, 0 for a dense
    one. `rows`: the extent of the row space.
    """

    held: Mask
    counts: Longs
    rows: int
    _first: Ints
    _offsets: Ints
    _steps: Ints

    @classmethod
    def of(cls, first: pa.Int32Array, gaps: pa.ListArray, cardinality: Longs, rows: int) -> Gaps:
        """Of the columns of a table, as they are stored."""
        held = np.asarray(first.is_valid())
        offsets = np.asarray(gaps.offsets) if len(gaps) else np.zeros(1, dtype=np.int32)
        steps = np.asarray(gaps.values)
        return cls(held, np.where(held, cardinality, 0), rows, np.asarray(first.fill_null(0)), offsets, steps)

    def positions(self, low: int, high: int) -> BitPositions:
        """The positions of the sparse ones among the keys `low` to `high`, not included, key by key.

        Cost: two sums over the positions, and nothing for other keys.

        Raises:
            ValueError: they differ in number from what is recorded, do not rise, or are beyond the rows.
        """
        first, counts, steps = self._checked(low, high)
        found = first if not len(steps) else _summed(first, counts, steps)
        self._check_last(found)
        return found.astype(np.uint32)

    def apart(self, low: int, high: int) -> tuple[BitPositions, BitPositions]:
        """The same positions in half the time: the first of each key, and all others, key by key.

        Raises:
            ValueError: as `positions`.
        """
        first, counts, steps = self._checked(low, high)
        inner = counts - 1
        others = np.cumsum(steps, dtype=np.int64)
        before = np.concatenate([[0], others])[np.cumsum(inner) - inner]
        others += np.repeat(first - before, inner)
        self._check_last(first)
        self._check_last(others)
        return first.astype(np.uint32), others.astype(np.uint32)

    def _checked(self, low: int, high: int) -> tuple[Longs, Longs, Ints]:
        """First positions and counts of the sparse ones among some keys, and the steps between."""
        offsets = self._offsets[low : high + 1].astype(np.int64)
        held, counts = self.held[low:high], self.counts[low:high]
        sizes = np.diff(offsets)
        if not np.array_equal(np.where(held, sizes + 1, sizes), counts):
            raise ValueError("a posting has other positions than are recorded")
        first, counts = self._first[low:high][held].astype(np.int64), counts[held]
        steps = self._steps[offsets[0] : offsets[-1]]
        if (len(first) and first.min() < 0) or (len(steps) and steps.min() < 1):
            raise ValueError("the positions of a posting do not rise")
        return first, counts, steps

    def _check_last(self, found: Longs) -> None:
        if len(found) and found.max() >= self.rows:
            raise ValueError(f"position {found.max()} is beyond the {self.rows} rows")


def _summed(first: Longs, counts: Longs, steps: Ints) -> Longs:
    starts = np.cumsum(counts) - counts
    ahead = np.concatenate([[0], np.cumsum(steps, dtype=np.int64)])
    ends = np.cumsum(counts - 1)
    last = first + ahead[ends] - ahead[ends - (counts - 1)]
    out = np.empty(int(counts.sum()), dtype=np.int64)
    inner = np.ones(len(out), dtype=np.bool_)
    inner[starts] = False
    out[inner] = steps
    # A key begins as far from the last position of the one before as it must, forward or back.
    out[starts] = first - np.concatenate([[0], last[:-1]])
    return np.cumsum(out, out=out)
