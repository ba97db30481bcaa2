"""A table of sorted keys with their positions, by which many keys are looked up at once.

It holds a row group of postings, or the keys of some of its pages. Positions of sparse keys lie one after the
other; a dense key has its bitmap, which is decoded for wanted keys alone, all bitmaps together.

Worked example: the keys 3, 5 and 9; 5 is dense.

    keys         3        5         9
    ends      0      2         2         3
    positions    4 17               8
    bitmaps               {0 1 2 3}
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.index.postings.gaps import FIRST, Gaps
from tailbit.index.postings.sorted_keys import SortedKeys
from tailbit.index.roaring.containers import ranges
from tailbit.index.roaring.decode import positions_of
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.positions import BitPositions, bitmap_of

_LARGE = 4096
"""Bitmaps of more positions are united sooner than their positions."""

Placed = tuple[Longs, BitPositions]
"""Keys and positions, an entry per pair of them; a key is given by its index among the wanted keys."""


class _Bitmaps(NamedTuple):
    """Serialized bitmaps: `of`, int32, per key the number of its bitmap, or -1; `counts`: their positions."""

    of: npt.NDArray[np.int32]
    data: pa.BinaryArray
    counts: Longs


class PositionLists(NamedTuple):
    """The positions of some keys, by the number of the key.

    `ends`: int32, one more than keys, where the positions of each key begin and end; None if every key has
    one position. `rows`: the row count of the row space.
    """

    ends: npt.NDArray[np.int32] | None
    positions: BitPositions
    bitmaps: _Bitmaps | None
    rows: int

    @classmethod
    def of(cls, postings: pa.Table, rows: int) -> PositionLists:
        """Decode rows of a segment; without the column `cardinality`, each key has one position.

        Raises:
            ValueError: positions are damaged.
        """
        if "cardinality" not in postings.column_names:
            first = numpy_of(filled(postings[FIRST].combine_chunks(), -1))
            if len(first) and not 0 <= int(first.min()) <= int(first.max()) < rows:
                raise ValueError(f"a position is not among the {rows} rows")
            return cls(None, first.view(np.uint32), None, rows)
        cardinality = numpy_of(postings["cardinality"], dtype=np.int64)
        sparse = FIRST in postings.column_names
        gaps = Gaps.of(postings, cardinality, rows) if sparse else Gaps.none(len(postings), rows)
        ends = np.zeros(len(postings) + 1, dtype=np.int32)
        np.cumsum(gaps.counts, out=ends[1:])
        bitmaps = None if gaps.is_sparse.all() else _bitmaps(postings, gaps, cardinality)
        return cls(ends, gaps.positions(0, len(postings)), bitmaps, rows)

    @property
    def size(self) -> int:
        """Return the bytes of memory that the lists take."""
        ends = 0 if self.ends is None else self.ends.nbytes
        bitmaps = 0 if self.bitmaps is None else self.bitmaps.of.nbytes + self.bitmaps.data.nbytes
        return ends + self.positions.nbytes + bitmaps

    def placed(self, owners: Longs, keys: Longs) -> Placed:
        """Return the positions of the keys with the numbers `keys`, each with its owner.

        Raises:
            ValueError: a bitmap is damaged.
        """
        if self.ends is None:
            return owners, self.positions[keys]
        counts = (self.ends[keys + 1] - self.ends[keys]).astype(np.int64)
        positions = self.positions[ranges(self.ends[keys].astype(np.int64), counts)]
        listed = np.repeat(owners, counts)
        if self.bitmaps is None:
            return listed, positions
        numbers = self.bitmaps.of[keys]
        dense = numbers >= 0
        data = pc.take(self.bitmaps.data, arrow_array(numbers[dense]))
        many = self.bitmaps.counts[numbers[dense]]
        decoded = positions_of(data, many, self.rows)
        return np.concatenate([listed, np.repeat(owners[dense], many)]), np.concatenate([positions, decoded])

    def covered(self, _: Longs, keys: Longs) -> list[BitMap]:
        """Return bitmaps whose union is that of the keys with the numbers `keys`.

        Raises:
            ValueError: a bitmap is damaged.
        """
        large = np.zeros(len(keys), dtype=np.bool_)
        if self.bitmaps is not None:
            numbers = self.bitmaps.of[keys]
            large = (numbers >= 0) & (self.bitmaps.counts[numbers] > _LARGE)
        bitmaps = [self._bitmap(number) for number in numbers[large].tolist()] if large.any() else []
        return [*bitmaps, bitmap_of(self.placed(keys[~large], keys[~large])[1])]

    def _bitmap(self, number: int) -> BitMap:
        assert self.bitmaps is not None
        bits = BitMap.deserialize(self.bitmaps.data[number].as_py())
        if len(bits) != self.bitmaps.counts[number] or bits.max() >= self.rows:
            raise ValueError("a bitmap has other positions than are recorded")
        return bits


class KeyTable(NamedTuple):
    """The keys of a row group and their positions; NULL's posting is left out."""

    keys: SortedKeys
    lists: PositionLists

    @classmethod
    def of(cls, postings: pa.Table, rows: int) -> KeyTable:
        """Decode a row group of a segment, whose first column has the keys as they are stored.

        `rows`: the row count of the row space.

        Raises:
            ValueError: positions are damaged.
        """
        own = postings.slice(postings[0].null_count)
        return cls(SortedKeys.of(own[0].combine_chunks()).with_filters(), PositionLists.of(own, rows))

    @property
    def size(self) -> int:
        """Return the bytes of memory that the table takes."""
        return self.keys.size + self.lists.size


def _bitmaps(postings: pa.Table, gaps: Gaps, cardinality: Longs) -> _Bitmaps:
    dense = ~gaps.is_sparse
    of = np.where(dense, np.cumsum(dense) - 1, -1).astype(np.int32)
    data = pc.filter(postings["bitmap"].combine_chunks(), arrow_array(dense))
    if data.null_count:
        raise ValueError("a posting has two forms, or none")
    return _Bitmaps(of, data, cardinality[dense])
