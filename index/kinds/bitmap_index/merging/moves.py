"""Moves of positions from old row spaces to the merged one, applied to bitmaps and to arrays.

The claim of a file is its range `[base, base + rows)` of a row space. Positions outside the kept claims
vanish. Neighbouring claims that stay neighbours move together, so a row space without gaps costs one mask and
one shift per bitmap.

Worked example: a row space of files a, b and c, of which b is dropped, and then a row space of file d.

    old position     0    1    2    3    4    5    6    7    |    0    1    2
    file, row        a 0  a 1  a 2  b 0  b 1  b 2  c 0  c 1  |  d 0  d 1  d 2
    starts, ends     [0, 3) and [6, 8)                       |  [0, 3)
    targets          0 and 3                                 |  5
    new position     0    1    2    -    -    -    3    4    |    5    6    7

    posting of UA    {0 2 4 7} becomes {0 2 4}               |  {1} becomes {6}; united: {0 2 4 6}
    posting of AA    {3} vanishes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.once import once
from tailbit.index.model import FileRecord, NewClaim
from tailbit.tables.positions import bitmap_of, positions_in

_FEW_RUNS = 8


@dataclass(frozen=True)
class Moves:
    """Moves of one old row space: int64 starts, ends and new starts of its runs, sorted by start.

    Invariant: runs do not overlap, before or after.
    """

    starts: Longs
    ends: Longs
    targets: Longs

    @once
    def kept(self) -> BitMap:
        """Return the old positions that move; all others vanish."""
        bits = BitMap()
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            bits.add_range(start, end)
        return bits

    def move(self, bits: BitMap) -> BitMap:
        """Move a bitmap to its new positions. Cost: a mask and a shift per run, or one array pass."""
        shifts = (self.targets - self.starts).tolist()
        if len(shifts) == 1 and bits and self.starts[0] <= bits.min() and bits.max() < self.ends[0]:
            return bits.shift(shifts[0])
        bits = bits & self.kept
        if len(shifts) == 1 or not bits:
            return bits.shift(shifts[0]) if bits else bits
        if len(shifts) <= _FEW_RUNS:
            runs = zip(self.starts.tolist(), self.ends.tolist(), shifts, strict=True)
            return BitMap.union(*((bits & BitMap(range(a, b))).shift(by) for a, b, by in runs))
        moved = self.positions(positions_in(bits).astype(np.int64))
        return bitmap_of(moved)

    def positions(self, old: Longs) -> Longs:
        """Return the new positions of old ones; -1 for those that vanish."""
        if not len(self.starts):
            return np.full(len(old), -1, dtype=np.int64)
        run = np.searchsorted(self.starts, old, side="right") - 1
        inside = (run >= 0) & (old < self.ends[run])
        return np.where(inside, old - self.starts[run] + self.targets[run], -1)


class Input(NamedTuple):
    """An input segment of a merge: its row space's moves, its path, and the row count of its row space."""

    moves: Moves
    path: str
    rows: int


def move_all(inputs: Sequence[Input], source: Longs, counts: Longs, old: Longs) -> Longs:
    """Return the new positions of postings of several row spaces, end to end; -1 for those that vanish.

    `old`: the old positions, one posting after the other. `source`, `counts`: per posting, the number of its
    input, and its number of positions. Cost: some vector operations per position.
    """
    if all(len(i.moves.starts) == 1 for i in inputs):
        low, high, to = (
            np.array([side[0] for side in sides], dtype=np.int64)
            for sides in zip(*((i.moves.starts, i.moves.ends, i.moves.targets) for i in inputs), strict=True)
        )
        moved = old + np.repeat((to - low)[source], counts)
        if all(i.moves.starts[0] == 0 and i.moves.ends[0] == i.rows for i in inputs):
            return moved
        inside = (old >= np.repeat(low[source], counts)) & (old < np.repeat(high[source], counts))
        return np.where(inside, moved, -1)
    far = [(number << 33) for number in range(len(inputs))]
    every = Moves(
        np.concatenate([i.moves.starts + by for i, by in zip(inputs, far, strict=True)]),
        np.concatenate([i.moves.ends + by for i, by in zip(inputs, far, strict=True)]),
        np.concatenate([i.moves.targets for i in inputs]),
    )
    return every.positions(old + np.repeat(source << 33, counts))


def lay_out(
    claims: Sequence[Sequence[FileRecord]], keep: Callable[[FileRecord], bool], space: str
) -> tuple[list[Moves], list[NewClaim], int]:
    """Lay the claims of old row spaces end to end in the new row space `space`.

    `claims`: per old row space, by base. A file for which `keep` is False loses its claim.

    Returns: the moves of each old row space, the new claims, and the rows of the new row space.
    """
    moves, moved, top = [], [], 0
    for old in claims:
        runs: list[list[int]] = []
        for record in old:
            base, rows = record.base or 0, record.rows or 0
            if not keep(record):
                moved.append(NewClaim(record.path, record.space or "", base, None, None))
                continue
            if runs and runs[-1][1] == base:
                runs[-1][1] += rows
            elif rows:
                runs.append([base, base + rows, top])
            moved.append(NewClaim(record.path, record.space or "", base, space, top))
            top += rows
        moves.append(Moves(*np.array(runs, dtype=np.int64).reshape(-1, 3).T))
    return moves, moved, top
