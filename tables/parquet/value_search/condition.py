"""Conditions on columns, joined by AND and OR; only the rows that pass are needed.

A test states which values pass in two forms: as a function of decoded values and, if possible, as ranges of
stored values. The reader uses the form that a file allows (see `forms`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.once import once
from tailbit.tables.model import Column

_WORD = 1 << 63
"""Stored integers are at least -_WORD and less than _WORD."""


@dataclass(frozen=True)
class Numbers:
    """Integers, days, microseconds, unscaled decimals or booleans in one of several sorted closed ranges."""

    ranges: Sequence[tuple[int, int]]

    def within(self, least: int, most: int) -> tuple[Longs, list[tuple[int, int]]]:
        """Return the ranges cut to those between two 64-bit numbers, both included.

        First come the ranges of a single number, as an ascending array of numbers; then all other ranges.
        """
        points, wider = self._apart
        low, high = np.searchsorted(points, least), np.searchsorted(points, most, side="right")
        cut = [(max(first, least), min(last, most)) for first, last in wider]
        return points[low:high], [(first, last) for first, last in cut if first <= last]

    @once
    def _apart(self) -> tuple[Longs, list[tuple[int, int]]]:
        """Return the ranges of one number that a file may store, and the others, once for all files."""
        points = [low for low, high in self.ranges if low == high and -_WORD <= low < _WORD]
        wider = [(low, high) for low, high in self.ranges if low < high]
        return np.array(points, np.int64), wider


@dataclass(frozen=True)
class Floats:
    """Floating point numbers in one of several sorted closed ranges; `nan`: whether NaN passes too."""

    ranges: Sequence[tuple[float, float]]
    nan: bool


@dataclass(frozen=True)
class Texts:
    """Bytes in one of several sorted ranges (low, low included, high, high included); None is unbounded."""

    ranges: Sequence[tuple[bytes | None, bool, bytes | None, bool]]


@dataclass(frozen=True)
class Part:
    """Bytes with a given beginning, a given end that does not overlap it, and a given part anywhere."""

    begin: bytes = b""
    end: bytes = b""
    middle: bytes = b""


Stored = Numbers | Floats | Texts | Part
"""Conditions on values as a file stores them."""


@dataclass(frozen=True, eq=False)
class Test:
    """A condition on one column (no partition column).

    `passes`: returns which values of the column's logical type pass, NULL included, or None if it raises for
    one of them. `stored`: the non-null values that pass, or with `complement` those that do not; None if only
    the function can tell. `nulls`: whether NULL passes.
    """

    __test__ = False

    column: Column
    passes: Callable[[pa.Array], Mask | None]
    stored: Stored | None
    complement: bool
    nulls: bool


@dataclass(frozen=True, eq=False)
class AllOf:
    """A conjunction: a row passes if it passes all parts."""

    parts: Sequence[Condition]


@dataclass(frozen=True, eq=False)
class AnyOf:
    """A disjunction: a row passes if it passes any part."""

    parts: Sequence[Condition]


Condition = Test | AllOf | AnyOf


def each_test(condition: Condition) -> list[Test]:
    """Return the tests in a condition, each once, in order of appearance."""
    return list({id(test): test for test in _tests(condition)}.values())


def _tests(condition: Condition) -> Iterator[Test]:
    if isinstance(condition, Test):
        yield condition
    else:
        for part in condition.parts:
            yield from _tests(part)
