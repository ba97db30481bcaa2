"""Translation of a condition into a Polars expression over columns in their `forms`.

NULL in Polars counts as FALSE here: only the rows that pass are needed, and no NOT is applied to other parts.
NaN is tested explicitly, so that nothing depends on how Polars orders it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add, and_, eq, floordiv, ge, gt, invert, le, lt, mod, mul, ne, or_, sub
from typing import TYPE_CHECKING, Any

from tailbit.arrays import Longs
from tailbit.tables.model import Column
from tailbit.tables.parquet.value_search.condition import (
    AllOf,
    Condition,
    Floats,
    Numbers,
    Part,
    Test,
    Texts,
    key_of,
)
from tailbit.tables.parquet.value_search.forms import Form
from tailbit.tables.parquet.value_search.formula import TEXTUAL, Formula, Op, Term

if TYPE_CHECKING:
    from types import ModuleType

    from polars import Expr

PASSES, FAILS = 1, 0
"""The values of a replaced dictionary."""
_BITS = {"INT32": 31, "INT64": 63}


Names = Mapping[object, tuple[str, str, Form]]
"""The name in the file, physical type and form of each needed column, by its `key_of`."""

_SIGNS = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def expression(library: ModuleType, condition: Condition, names: Names) -> Expr:
    """Translate a condition into an expression that is true for the rows that pass."""
    if isinstance(condition, Formula):
        columns = {c.id: names[key_of((c, None))][:2] for c in condition.columns}
        return _formula(library, condition, columns)
    if not isinstance(condition, Test):
        parts = [expression(library, part, names) for part in condition.parts]
        return reduce(and_ if isinstance(condition, AllOf) else or_, parts)
    name, physical, form = names[key_of((condition.column, condition))]
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


def _formula(library: ModuleType, formula: Formula, columns: Mapping[str, tuple[str, str]]) -> Expr:
    """Translate a formula that fits; `columns`: name in the file and physical type by column id.

    AND and OR in Polars are those of SQL, and NULL behaves as in SQL's arithmetic and comparisons.
    """
    truth = _Translation(library, columns).truth(formula.term)
    parts = [truth.is_null() if wanted is None else truth if wanted else ~truth for wanted in formula.passing]
    passes: Expr = reduce(or_, [part.fill_null(False) for part in parts], library.lit(False))
    return passes


class _Translation:
    """A translator of a formula's terms into expressions; each term is translated once.

    Columns are 64-bit numbers, or bytes; two columns stored alike are compared as they are stored.
    """

    def __init__(self, library: ModuleType, columns: Mapping[str, tuple[str, str]]) -> None:
        self.library, self.columns = library, columns
        self.known: dict[int, Expr] = {}

    def number(self, term: Term) -> Expr:
        return self._of(term, self.library.Int64)

    def truth(self, term: Term) -> Expr:
        return self._of(term, self.library.Boolean)

    def text(self, term: Term) -> Expr:
        assert isinstance(term, Column)
        stored: Expr = self.library.col(self.columns[term.id][0])
        return stored

    def _of(self, term: Term, dtype: type) -> Expr:
        if isinstance(term, Column):
            return self.text(term) if term.type.name in TEXTUAL else self.text(term).cast(self.library.Int64)
        if not isinstance(term, Op):
            constant: Expr = self.library.lit(term, dtype=dtype)
            return constant
        if id(term) not in self.known:
            self.known[id(term)] = self._translated(term, dtype)
        return self.known[id(term)]

    def _translated(self, op: Op, dtype: type) -> Expr:
        result: Expr
        if op.name == "case":
            result = self._of(op.args[-1], dtype)
            for condition, value in zip(op.args[-3::-2], op.args[-2::-2], strict=True):
                then = self.library.when(self.truth(condition)).then(self._of(value, dtype))
                result = then.otherwise(result)
        elif op.name == "coalesce":
            result = self.library.coalesce([self._of(arg, dtype) for arg in op.args])
        elif op.name == "characters":
            # Bytes that are not UTF-8 raise here: the caller then counts characters as Spark does.
            result = self.text(op.args[0]).cast(self.library.String).str.len_chars().cast(self.library.Int64)
        elif op.name == "octets":
            result = self.text(op.args[0]).bin.size().cast(self.library.Int64)
        elif op.name in _PARTS:
            days = self.number(op.args[0]).cast(self.library.Int32).cast(self.library.Date)
            result = _PARTS[op.name](days.dt).cast(self.library.Int64)
        elif op.name in _LOGIC:
            result = _LOGIC[op.name](*(self.truth(arg) for arg in op.args))
        else:
            stored = {self.columns[arg.id][1] if isinstance(arg, Column) else None for arg in op.args}
            alike = op.name in _SIGNS and len(stored) == 1 and None not in stored
            result = _NUMERIC[op.name](*map(self.text if alike else self.number, op.args))
        return result


_LOGIC: Mapping[str, Callable[..., Any]] = {
    "and": lambda *args: reduce(and_, args),
    "or": lambda *args: reduce(or_, args),
    "not": invert,
    "null truth": lambda a: a.is_null(),
}
"""Boolean operations, by their names in `Op`."""
_PARTS: Mapping[str, Callable[..., Any]] = {
    "year": lambda dates: dates.year(),
    "quarter": lambda dates: dates.quarter(),
    "month": lambda dates: dates.month(),
    "day": lambda dates: dates.day(),
    "dayofyear": lambda dates: dates.ordinal_day(),
    "dayofweek": lambda dates: dates.weekday() % 7 + 1,
    "weekday": lambda dates: dates.weekday() - 1,
    "weekofyear": lambda dates: dates.week(),
}
"""Parts of dates, by their names in `Op`: for the years 1 to 9999 they agree with Spark."""
_NUMERIC: Mapping[str, Callable[..., Any]] = {
    "+": add,
    "-": sub,
    "*": mul,
    **_SIGNS,
    "<=>": lambda a, b: a.eq_missing(b),
    "//": floordiv,
    "%": mod,
    "abs": lambda a: a.abs(),
    "is": lambda a: a,
    "null number": lambda a: a.is_null(),
}
"""Operations on numbers, by their names in `Op`."""
