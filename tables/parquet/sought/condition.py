"""Conditions on single columns, joined by AND and OR, of which only the rows that pass are asked.

A test says what passes in two ways: as a function of decoded values, and, where it can, as ranges of values
as they are stored. Whoever asks takes the one that a file allows (see `forms`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tailbit.arrays import Mask
from tailbit.tables.model import Column
from tailbit.tables.parquet.sought.formula import Formula


@dataclass(frozen=True)
class Numbers:
    """Integers, days, microseconds, unscaled decimals or booleans in one of sorted closed ranges."""

    ranges: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Floats:
    """Numbers in one of sorted closed ranges; `nan`: whether NaN is one of them."""

    ranges: Sequence[tuple[float, float]]
    nan: bool


@dataclass(frozen=True)
class Texts:
    """Bytes in one of sorted ranges, each low, whether it belongs, high, whether it belongs; None: no end."""

    ranges: Sequence[tuple[bytes | None, bool, bytes | None, bool]]


@dataclass(frozen=True)
class Part:
    """Bytes that begin with one text and end with another, which do not overlap, and have one somewhere."""

    begin: bytes = b""
    end: bytes = b""
    middle: bytes = b""


Stored = Numbers | Floats | Texts | Part
"""Values as a file stores them."""


@dataclass(frozen=True, eq=False)
class Test:
    """A condition on one column (no partition column).

    `passes`: which of some values of the column's logical type pass, NULL among them; None where one of them
    raises. `stored`: the non-null values that pass, or with `complement` the others; None where the function
    alone says it. `nulls`: whether NULL passes.
    """

    __test__ = False

    column: Column
    passes: Callable[[pa.Array], Mask | None]
    stored: Stored | None
    complement: bool
    nulls: bool


@dataclass(frozen=True, eq=False)
class Pair:
    """Two columns of whole numbers, days or microseconds compared: `sign` is = <> < <= > or >=."""

    left: Column
    sign: str
    right: Column


@dataclass(frozen=True, eq=False)
class AllOf:
    """A row passes where it passes all parts."""

    parts: Sequence[Condition]


@dataclass(frozen=True, eq=False)
class AnyOf:
    """A row passes where it passes one of the parts."""

    parts: Sequence[Condition]


Condition = Test | Pair | Formula | AllOf | AnyOf


Asked = tuple[Column, Test | None]
"""A column that is needed, and the test that it is put to; None where it is a number in a comparison."""


def asked_by(condition: Condition) -> list[Asked]:
    """What a condition needs, each once, in order of appearance."""
    return list({key_of(test): test for test in _asked(condition)}.values())


def key_of(test_of_column: Asked) -> object:
    """What is equal for columns that are needed for the same."""
    column, test = test_of_column
    return column.id if test is None else id(test)


def _asked(condition: Condition) -> Iterator[Asked]:
    if isinstance(condition, Test):
        yield condition.column, condition
    elif isinstance(condition, Pair):
        yield condition.left, None
        yield condition.right, None
    elif isinstance(condition, Formula):
        yield from ((column, None) for column in condition.columns)
    else:
        for part in condition.parts:
            yield from _asked(part)
