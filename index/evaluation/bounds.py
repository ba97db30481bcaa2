"""Bounds of the rows where a predicate is TRUE, and set operations on positions.

Worked example: `carrier = 'UA' AND dest = 'SFO'`, of which only `carrier` is indexed:

    carrier = 'UA'    sure {0 4 7}    maybe {0 4 7}        exact: the posting of UA
    dest = 'SFO'      sure {}         maybe all rows       no posting: any row may match
    AND               sure {}         maybe {0 4 7}        three rows are rechecked on data
"""

from __future__ import annotations

from typing import NamedTuple

from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass

EMPTY = BitMap()


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Positions in a row space where a predicate is surely TRUE, and where it may be TRUE.

    `sure` lies in `maybe`. `exact`: whether both are equal, so that no row needs a recheck.
    """

    sure: BitMap
    maybe: BitMap
    exact: bool

    @classmethod
    def exactly(cls, bits: BitMap) -> Bounds:
        """Return exact bounds: no row needs a recheck."""
        return cls(bits, bits, True)

    @classmethod
    def between(cls, sure: BitMap, maybe: BitMap) -> Bounds:
        """Return bounds whose rows in `maybe` but not in `sure` need a recheck. Cost: counts two bitmaps."""
        return cls(sure, maybe, len(sure) == len(maybe))


class Stated(NamedTuple):
    """Statistics of one column per file of a row space, in the order of its files.

    `low`, `high`: ranks (`value_sets`). `bounded`: whether these bound the non-null values of the file.
    `tight`: whether `low` and `high` are values of visible rows; if not `bounded`, whether all rows are NULL.
    `nulls`: the number of visible rows that are NULL, -1 if unknown.
    """

    low: Longs
    high: Longs
    bounded: Mask
    tight: Mask
    nulls: Longs


def intersection(sets: list[BitMap]) -> BitMap:
    """Intersect position sets, starting with the smallest."""
    first, *others = sorted(sets, key=len)
    out = first
    for positions in others:
        if not out:
            break
        out = out & positions
    return out


def union(sets: list[BitMap]) -> BitMap:
    """Unite position sets."""
    if len(sets) == 1:
        return sets[0]
    return BitMap.union(*sets) if sets else EMPTY
