"""Positions where a predicate is TRUE for sure, and where it may be; and sets of positions combined."""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import BitMap

EMPTY = BitMap()


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Positions where a predicate is TRUE for sure, and where it may be: `sure` is a subset of `maybe`.

    `exact`: whether both are equal, so that nothing is left to recheck.
    """

    sure: BitMap
    maybe: BitMap
    exact: bool

    @classmethod
    def exactly(cls, bits: BitMap) -> Bounds:
        """Bounds that leave nothing open."""
        return cls(bits, bits, True)

    @classmethod
    def between(cls, sure: BitMap, maybe: BitMap) -> Bounds:
        """Bounds that may leave rows open. Cost: two cardinalities."""
        return cls(sure, maybe, len(sure) == len(maybe))


def intersection(parts: list[BitMap]) -> BitMap:
    """The positions of all sets, the smallest first."""
    first, *others = sorted(parts, key=len)
    out = first
    for part in others:
        if not out:
            break
        out = out & part
    return out


def union(parts: list[BitMap]) -> BitMap:
    """The positions of any set."""
    if len(parts) == 1:
        return parts[0]
    return BitMap.union(*parts) if parts else EMPTY
