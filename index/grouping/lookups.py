"""Positions grouped by the codes of several columns.

If most positions of a row space match, counting the others and subtracting is quicker, once the combinations
of all positions are known; they change only with the segments, and are cached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.grouping.folding import CHUNK, Coded, Combinations, Folded, unfold
from tailbit.index.tuple_keys import truncated
from tailbit.tables.cache import Cache, share
from tailbit.tables.positions import BitPositions, bitmap_of, positions_in

_OTHERS = 4
"""Unselected positions are few if at most one position in this many is unselected."""


@dataclass(frozen=True, eq=False)
class Lookup:
    """One column of a row space: distinct `keys`.

    `codes` maps positions to 1 + the place of their key, 0 for none.
    """

    keys: pa.BinaryArray
    codes: Callable[[BitPositions], Any]


class AllRows(NamedTuple):
    """All positions below `extent`, the rows of a row space; `stand`: equal for equal segments and types.

    Positions of removed files are among them.
    """

    stand: tuple[object, ...]
    extent: int


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
        some = counts > 0
        return _Counted(self.numbers[some], counts[some], self.short - others.short)


KEPT: Cache[AllRows, _Counted] = Cache(share(1 / 64))
"""Combinations of all positions of row spaces."""


def looked_up(
    columns: Sequence[Lookup], key_types: Sequence[str], bits: BitMap, all_rows: AllRows | None = None
) -> tuple[Combinations | None, BitMap]:
    """Group positions by their codes, and return those with a truncated key.

    Positions without a code are left out.

    `all_rows`: given if the result for all positions may be cached. The combinations are None if codes do not
    fold into 64 bits. Cost: one lookup per position and column; for most positions, after the first time, one
    per unselected position.
    """
    counting = _Counting(columns, key_types)
    if counting.size >= 1 << 62:
        return None, bits
    counted = counting.of_most(bits, all_rows) if all_rows is not None else counting.of(bits)
    codes = unfold(counted.numbers, counting.sizes)
    there = np.logical_and.reduce([code > 0 for code in codes])
    parts = [Coded(column.keys, code[there] - 1) for column, code in zip(columns, codes, strict=True)]
    return Combinations([part.of_used() for part in parts], counted.counts[there]), counted.short


class _Counting:
    def __init__(self, columns: Sequence[Lookup], key_types: Sequence[str]) -> None:
        pairs = zip(columns, key_types, strict=True)
        self.columns, self.shorts = columns, [truncated(column.keys, type_) for column, type_ in pairs]
        self.sizes = [len(column.keys) + 1 for column in columns]
        self.size = math.prod(self.sizes)

    def of_most(self, bits: BitMap, all_rows: AllRows) -> _Counted:
        """Group like `of`, but subtract the unselected positions from all if most are selected."""
        every = BitMap(range(all_rows.extent))
        others = every - bits
        if _OTHERS * len(others) > all_rows.extent or not bits <= every:
            return self.of(bits)
        whole = KEPT.get(all_rows, lambda: self._sized(every))
        return whole.without(self.of(others)) if others else whole

    def _sized(self, bits: BitMap) -> tuple[_Counted, int]:
        counted = self.of(bits)
        return counted, counted.numbers.nbytes + counted.counts.nbytes + 4 * len(counted.short)

    def of(self, bits: BitMap) -> _Counted:
        """Fold and count positions in chunks that stay in a processor cache."""
        combined, short = Folded(self.size), BitMap()
        positions: BitPositions = positions_in(bits)
        for start in range(0, len(positions), CHUNK):
            chunk = positions[start : start + CHUNK]
            folded, keep = self._chunk(chunk)
            if keep is not None:
                short |= bitmap_of(chunk[~keep & (folded > 0)])
                folded = folded[keep]
            combined.add(folded)
        return _Counted(*combined.counted(), short)

    def _chunk(self, positions: BitPositions) -> tuple[Longs, Mask | None]:
        """Fold the codes of each position into a number.

        Also return the mask of untruncated keys (None: all).
        """
        folded: Longs = np.zeros(0, dtype=np.int64)
        keep: Mask | None = None
        for number, (column, short, size) in enumerate(
            zip(self.columns, self.shorts, self.sizes, strict=True)
        ):
            codes = column.codes(positions)
            if short is not None:
                mine = ~np.append(False, short)[codes]
                keep = mine if keep is None else keep & mine
            if number:
                folded *= size
                folded += codes
            else:
                folded = codes.astype(np.int64)
        return folded, keep
