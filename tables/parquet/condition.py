"""Conditions on columns, joined by AND and OR, and the form in which a file lets each be tested.

A test states which values pass as a function of decoded values and, if possible, as ranges of stored values.
As stored are tested numbers whose bytes are the table's values. If a chunk holds only a dictionary and codes,
each value of the dictionary is tested once, by the function that tests rows, and the dictionary is replaced
by the results: decoding the chunk then is testing it. Only the rows that pass are needed.

Example: is the value > 6?

    dictionary    7  3  9        codes   0 1 1 NULL 2
    replaced by   1  0  1        decoded 1 0 0 NULL 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.once import once
from tailbit.tables.model import Column
from tailbit.tables.parquet.assembly import CODECS, written_leaf
from tailbit.tables.parquet.data_file import flat_column
from tailbit.tables.parquet.decode import declared_type, written_legacy
from tailbit.tables.parquet.file import plain_type
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.schema import arrow_type
from tailbit.tables.storage import Storage

if TYPE_CHECKING:
    import pyarrow.parquet as pq


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


Stored = Numbers | Floats
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

    children: Sequence[Condition]


@dataclass(frozen=True, eq=False)
class AnyOf:
    """A disjunction: a row passes if it passes any part."""

    children: Sequence[Condition]


Condition = Test | AllOf | AnyOf


def each_test(condition: Condition) -> list[Test]:
    """Return the tests in a condition, each once, in order of appearance."""
    return list({id(test): test for test in _tests(condition)}.values())


def _tests(condition: Condition) -> Iterator[Test]:
    if isinstance(condition, Test):
        yield condition
    else:
        for inner in condition.children:
            yield from _tests(inner)


_CALENDAR = ("date", "timestamp", "timestamp_ntz")
_NUMBERS = ("BOOLEAN", "INT32", "INT64")


class Form(NamedTuple):
    """A leaf column as it is tested; `coded`: whether its dictionary is replaced by test results."""

    leaf: int
    type: str
    nullable: bool
    coded: bool

    def written(self, name: str) -> bytes:
        """Encode the column for the schema of an assembled file."""
        return written_leaf(name, self.type, self.nullable)


def form_of(storage: Storage, layout: Layout, path: str, test: Test, groups: Sequence[int]) -> Form | None:
    """Return the form in which the column of a test is tested in row groups of a file; None if there is none.

    Cost: if dictionaries are to be tested, reads the page headers, once.
    """
    column, stored = test.column, test.stored
    node = flat_column(layout, column, path)
    if node is None:
        return None
    leaf = node.first
    described = layout.metadata.schema.column(leaf)
    chunks = [layout.chunk(group, leaf) for group in groups]
    if not CODECS.keys() >= {chunk.codec for chunk in chunks}:
        return None
    nullable = bool(described.max_definition_level)
    if stored is not None and _is_as_meant(layout, described, plain_type(node.field.type), column, stored):
        return Form(leaf, str(described.physical_type), nullable, False)
    if _are_codes(storage, layout, path, groups, leaf):
        return Form(leaf, "INT32", nullable, True)
    return None


def _is_as_meant(
    layout: Layout, leaf: pq.ColumnSchema, stored: pa.DataType, column: Column, test: Stored
) -> bool:
    """Return whether the stored values of a leaf are the table's values, and can be tested as stored."""
    physical = str(leaf.physical_type)
    if column.type.char_length or not _is_same(stored, arrow_type(column.type, column.label), leaf):
        return False
    if declared_type(stored, column) is not None:
        return False
    if column.type.name in _CALENDAR and written_legacy(layout.metadata, is_int96=False):
        return False
    if isinstance(test, Numbers):
        return physical in _NUMBERS
    return physical in ("FLOAT", "DOUBLE")


def _is_same(stored: pa.DataType, meant: pa.DataType, leaf: pq.ColumnSchema) -> bool:
    if pa.types.is_timestamp(meant):
        micros = "timeUnit=microseconds" in str(leaf.logical_type)
        return bool(micros and pa.types.is_timestamp(stored) and (stored.tz is None) == (meant.tz is None))
    return bool(stored == meant)


def _are_codes(storage: Storage, layout: Layout, path: str, groups: Sequence[int], leaf: int) -> bool:
    """Return whether chunks hold only a dictionary and codes."""
    if not all(layout.chunk(group, leaf).coded for group in groups):
        return False
    with storage.open(storage.resolve(path)) as source:
        pages = [layout.pages(source, group, leaf) for group in groups]
    return all(of is not None and of.dictionary is not None and of.coded.all() for of in pages)
