"""A condition as an expression of Polars over columns in the forms that they are put to the test in.

A NULL of Polars is as good as FALSE here: only the rows that pass are asked for, and there is no NOT over
other parts. NaN is named wherever it is meant, so that nothing hangs on how Polars orders it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import TYPE_CHECKING

from tailbit.tables.parquet.sought.condition import (
    AllOf,
    Condition,
    Floats,
    Numbers,
    Pair,
    Part,
    Test,
    Texts,
    key_of,
)
from tailbit.tables.parquet.sought.forms import Form

if TYPE_CHECKING:
    from types import ModuleType

    from polars import Expr

PASSES, FAILS = 1, 0
"""What stands in a replaced dictionary."""
_BITS = {"INT32": 31, "INT64": 63}


Names = Mapping[object, tuple[str, str, Form]]
"""By `key_of` what is asked: its column, physical type and form."""

_SIGNS = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def expression(library: ModuleType, condition: Condition, names: Names) -> Expr:
    """True for the rows that pass."""
    if isinstance(condition, Pair):
        left, right = (names[key_of((its, None))][0] for its in (condition.left, condition.right))
        compared: Expr = _SIGNS[condition.sign](_number(library, left), _number(library, right))
        return compared
    if not isinstance(condition, Test):
        parts = [expression(library, part, names) for part in condition.parts]
        return reduce(and_ if isinstance(condition, AllOf) else or_, parts)
    name, physical, form = names[key_of((condition.column, condition))]
    column: Expr = library.col(name)
    found = column == PASSES if form.coded else _stored(library, column, physical, condition)
    if condition.complement and not form.coded:
        found = column.is_not_null() if found is None else ~found
    null = column.is_null()
    if found is None:
        return null if condition.nulls else null & ~null
    return found | null if condition.nulls else found


def _number(library: ModuleType, name: str) -> Expr:
    number: Expr = library.col(name).cast(library.Int64)
    return number


def _stored(library: ModuleType, column: Expr, physical: str, test: Test) -> Expr | None:
    """Whether a stored value is one of the test's, NULL for NULL; None where none can be."""
    its = test.stored
    if isinstance(its, Part):
        return _part(column, its)
    if isinstance(its, Floats):
        return _floats(library, column.cast(library.Float64), its)
    if isinstance(its, Texts):
        return _texts(library, column, its)
    assert isinstance(its, Numbers)
    if physical == "BOOLEAN":
        held = [value for value in (False, True) if any(lo <= value <= hi for lo, hi in its.ranges)]
        return _any([column if value else ~column for value in held])
    bits, dtype = _BITS[physical], library.Int32 if physical == "INT32" else library.Int64
    least, most = -(1 << bits), (1 << bits) - 1
    ranges = [(max(lo, least), min(hi, most)) for lo, hi in its.ranges if lo <= most and hi >= least]
    points = [lo for lo, hi in ranges if lo == hi]
    wider = [(lo, hi) for lo, hi in ranges if lo < hi]
    found_in = [_between(library, column, dtype, lo, hi, least, most) for lo, hi in wider]
    return _any([*found_in, *_points(library, column, points, dtype)])


def _between(library: ModuleType, column: Expr, dtype: type, lo: int, hi: int, least: int, most: int) -> Expr:
    above: Expr = column >= library.lit(lo, dtype=dtype)
    below: Expr = column <= library.lit(hi, dtype=dtype)
    return below if lo == least else above if hi == most else above & below


def _points(library: ModuleType, column: Expr, points: Sequence[object], dtype: type) -> list[Expr]:
    if len(points) == 1:
        return [column == library.lit(points[0], dtype=dtype)]
    return [column.is_in(library.Series(points, dtype=dtype).implode())] if points else []


def _floats(library: ModuleType, column: Expr, its: Floats) -> Expr | None:
    inside = _any([(column >= library.lit(lo)) & (column <= library.lit(hi)) for lo, hi in its.ranges])
    numbers = None if inside is None else inside & column.is_not_nan()
    if not its.nan:
        return numbers
    return column.is_nan() if numbers is None else numbers | column.is_nan()


def _part(column: Expr, its: Part) -> Expr:
    parts = [column.bin.size() >= len(its.begin) + len(its.end)]
    if its.begin:
        parts.append(column.bin.starts_with(its.begin))
    if its.end:
        parts.append(column.bin.ends_with(its.end))
    if its.middle:
        parts.append(column.bin.contains(its.middle))
    return reduce(and_, parts if its.begin and its.end else parts[1:] or parts)


def _texts(library: ModuleType, column: Expr, its: Texts) -> Expr | None:
    points, wider = [], []
    for lo, lo_closed, hi, hi_closed in its.ranges:
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
