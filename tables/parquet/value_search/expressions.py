"""Translation of a condition into a Polars expression over columns in their `forms`.

NULL in Polars counts as FALSE here: only the rows that pass are needed, and no NOT is applied to other parts.
NaN is tested explicitly, so that nothing depends on how Polars orders it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from tailbit.base.arrays import Longs
from tailbit.tables.parquet.value_search.condition import (
    AllOf,
    Condition,
    Floats,
    Numbers,
    Part,
    Test,
    Texts,
)
from tailbit.tables.parquet.value_search.forms import Form

if TYPE_CHECKING:
    from types import ModuleType

    from polars import Expr

PASSES, FAILS = 1, 0
"""The values of a replaced dictionary."""
_BITS = {"INT32": 31, "INT64": 63}


Names = Mapping[int, tuple[str, str, Form]]
"""The name in the file, physical type and form of each tested column, by the identity of its test."""


def expression(library: ModuleType, condition: Condition, names: Names) -> Expr:
    """Translate a condition into an expression that is true for the rows that pass."""
    if not isinstance(condition, Test):
        parts = [expression(library, part, names) for part in condition.parts]
        return reduce(and_ if isinstance(condition, AllOf) else or_, parts)
    name, physical, form = names[id(condition)]
    column: Expr = library.col(name)
    test = column == PASSES if form.coded else _stored(library, column, physical, condition)
    if condition.complement and not form.coded:
        test = column.is_not_null() if test is None else ~test
    null = column.is_null()
    if test is None:
        return null if condition.nulls else null & ~null
    return test | null if condition.nulls else test


def _stored(library: ModuleType, column: Expr, physical: str, test: Test) -> Expr | None:
    """Return the expression that a stored value is among the test's, NULL for NULL; None if none can be."""
    stored = test.stored
    if isinstance(stored, Part):
        return _part(column, stored)
    if isinstance(stored, Floats):
        return _floats(library, column.cast(library.Float64), stored)
    if isinstance(stored, Texts):
        return _texts(library, column, stored)
    assert isinstance(stored, Numbers)
    if physical == "BOOLEAN":
        held = [value for value in (False, True) if any(lo <= value <= hi for lo, hi in stored.ranges)]
        return _any([column if value else ~column for value in held])
    bits, dtype = _BITS[physical], library.Int32 if physical == "INT32" else library.Int64
    least, most = -(1 << bits), (1 << bits) - 1
    points, wider = stored.within(least, most)
    found_in = [_between(library, column, dtype, lo, hi, least, most) for lo, hi in wider]
    return _any([*found_in, *_points(library, column, points, dtype)])


def _between(library: ModuleType, column: Expr, dtype: type, lo: int, hi: int, least: int, most: int) -> Expr:
    above: Expr = column >= library.lit(lo, dtype=dtype)
    below: Expr = column <= library.lit(hi, dtype=dtype)
    return below if lo == least else above if hi == most else above & below


def _points(library: ModuleType, column: Expr, points: Sequence[object] | Longs, dtype: type) -> list[Expr]:
    if len(points) == 1:
        return [column == library.lit(points[0], dtype=dtype)]
    return [column.is_in(library.Series(points, dtype=dtype).implode())] if len(points) else []


def _floats(library: ModuleType, column: Expr, floats: Floats) -> Expr | None:
    inside = _any([(column >= library.lit(lo)) & (column <= library.lit(hi)) for lo, hi in floats.ranges])
    numbers = None if inside is None else inside & column.is_not_nan()
    if not floats.nan:
        return numbers
    return column.is_nan() if numbers is None else numbers | column.is_nan()


def _part(column: Expr, part: Part) -> Expr:
    parts = [column.bin.size() >= len(part.begin) + len(part.end)]
    if part.begin:
        parts.append(column.bin.starts_with(part.begin))
    if part.end:
        parts.append(column.bin.ends_with(part.end))
    if part.middle:
        parts.append(column.bin.contains(part.middle))
    return reduce(and_, parts if part.begin and part.end else parts[1:] or parts)


def _texts(library: ModuleType, column: Expr, texts: Texts) -> Expr | None:
    points, wider = [], []
    for lo, lo_closed, hi, hi_closed in texts.ranges:
        if lo is not None and lo == hi:
            points.append(lo)
            continue
        ends = []
        if lo is not None:
            ends.append(column >= library.lit(lo) if lo_closed else column > library.lit(lo))
        if hi is not None:
            ends.append(column <= library.lit(hi) if hi_closed else column < library.lit(hi))
        wider.append(reduce(and_, ends) if ends else column >= library.lit(b""))
    return _any([*wider, *_points(library, column, points, library.Binary)])


def _any(parts: Sequence[Expr]) -> Expr | None:
    return reduce(or_, parts) if parts else None
