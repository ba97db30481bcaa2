"""Value changes (position, old, new) of one column of a file slice, kept as arrays.

Law: for every value v, the rows that show v after a change are those that showed it before, less the
positions with old = v, plus the positions with new = v; so counting the pairs equals counting positions in
bitmaps.

Worked example on eight rows with the keys NULL, A, B, when the rows 1, 3 and 5 are hidden too:

    row         0  1  2  3     4  5  6     7
    value       A  A  B  NULL  A  B  NULL  B
    code        1  1  2  0     1  2  0     2

    positions      1     3        5            a changed row each
    old            1     0        2            what the row showed
    new           -1    -1       -1            ABSENT: the row shows nothing any more
    counts      NULL -1, A -1, B -1            what the value counts change by
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.tables.positions import BitPositions

ABSENT = -1
"""The code of "no row here"; NULL is something else: a key like any other."""

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ValueChanges:
    """Value changes of one file and column: position, code of the old value, code of the new one.

    Code i means `keys[i]`; ABSENT means that no row is visible. Shapes: `positions` uint32, `old` and `new`
    int32, all of one length.
    """

    positions: BitPositions
    old: Codes
    new: Codes
    keys: pa.BinaryArray

    def counts(self) -> npt.NDArray[np.int64]:
        """Count per key, int64, how many more rows show it than before."""
        n = len(self.keys)
        return _tally(self.new, n) - _tally(self.old, n)


def entering(keys: pa.BinaryArray, codes: npt.NDArray[Any], positions: BitPositions) -> ValueChanges:
    """Return (ABSENT, v) for rows that appear at `positions`; one code per position."""
    return ValueChanges(positions, _absent(len(positions)), codes.astype(np.int32), keys)


def leaving(keys: pa.BinaryArray, codes: npt.NDArray[Any], positions: BitPositions) -> ValueChanges:
    """Return (v, ABSENT) for rows that disappear from `positions`; one code per position."""
    return ValueChanges(positions, codes.astype(np.int32), _absent(len(positions)), keys)


def _absent(n: int) -> Codes:
    return np.full(n, ABSENT, dtype=np.int32)


def _tally(codes: Codes, n: int) -> npt.NDArray[np.int64]:
    return np.bincount(codes[codes != ABSENT], minlength=n).astype(np.int64)
