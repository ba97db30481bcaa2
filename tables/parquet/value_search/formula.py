"""Formulas over whole numbers: integers, days, microseconds, unscaled decimals, and lengths of texts.

A formula is computed in 64 bits without overflow checks. So the caller first proves, from the bounds of its
columns, that nothing overflows: neither 64 bits nor the type that an operation has in the table.

Example: price * (100 - discount) > 500, where price is a decimal(5,2) and discount a decimal(2,2), with
unscaled values 0 to 2000 and 0 to 10:

    100 - discount             90 to 100
    price * ...                 0 to 200000          as decimal(8,4): within 10 ** 8
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tailbit.imports.dataclass import dataclass
from tailbit.tables.model import Column

LEAST, MOST = -(1 << 63), (1 << 63) - 1
"""The range of 64-bit integers."""
TEXTUAL = ("string", "binary")
"""Types of columns that a formula uses only by their length."""


@dataclass(frozen=True, eq=False)
class Op:
    """An operation of a formula, by name, with its operands.

    On numbers: `+`, `-`, `*`, `abs`, `is` (the number itself), and by one positive constant `//` (rounded
    down) and `%` (of numbers that are not negative). On days: the PARTS of their date. On a text `characters`
    and on bytes `octets`, both their count. On numbers or booleans: `case` (pairs of condition and value,
    then the default) and `coalesce`. With boolean results: `=`, `<>`, `<`, `<=`, `>`, `>=`, `<=>`, `and`,
    `or`, `not`, `null number` and `null truth`. `low`, `high`: the range in which a number must lie.
    """

    name: str
    args: tuple[Term, ...]
    low: int = LEAST
    high: int = MOST


Term = Op | Column | int | bool | None
"""An operation, a column, a number, a boolean, or NULL."""

PARTS = {
    "year": 9999, "quarter": 4, "month": 12, "day": 31,
    "dayofyear": 366, "dayofweek": 7, "weekday": 6, "weekofyear": 53,
}  # fmt: skip
"""The greatest value of each part of a date."""

Span = tuple[int, int]
"""The least and the greatest number that a term can be; for a text, its length."""


@dataclass(frozen=True, eq=False)
class Formula:
    """A boolean term; a row passes if the term's value is one of `passing` (None: NULL)."""

    term: Term
    passing: frozenset[bool | None]

    @property
    def columns(self) -> Sequence[Column]:
        """The columns that the formula reads, each once, in order of appearance."""
        return list({column.id: column for column in _columns(self.term, set())}.values())


def _columns(term: Term, seen: set[int]) -> Iterator[Column]:
    if isinstance(term, Column):
        yield term
    elif isinstance(term, Op) and id(term) not in seen:
        seen.add(id(term))
        for arg in term.args:
            yield from _columns(arg, seen)


def fits(formula: Formula, bounds: Mapping[str, Span]) -> bool:
    """Return whether no number of a formula can leave its range; `bounds` of each column by id."""
    try:
        _Spans(bounds).of(formula.term)
    except OverflowError:
        return False
    return True


class _Spans:
    """The ranges of a formula's terms, each computed once."""

    def __init__(self, bounds: Mapping[str, Span]) -> None:
        self.bounds = bounds
        self.known: dict[int, Span] = {}

    def of(self, term: Term) -> Span:
        """Return the range of a term; raise OverflowError if a number may be out of range."""
        if isinstance(term, Op):
            if id(term) not in self.known:
                self.known[id(term)] = self._within(term, self._of(term))
            return self.known[id(term)]
        if isinstance(term, Column):
            return self.bounds[term.id]
        number = 0 if term is None else int(term)
        if not LEAST <= number <= MOST:
            raise OverflowError(number)
        return number, number

    def _within(self, op: Op, span: Span) -> Span:
        if span[0] < max(op.low, LEAST) or span[1] > min(op.high, MOST):
            raise OverflowError(op.name)
        return span

    def _of(self, op: Op) -> Span:
        spans = [self.of(arg) for arg in op.args]
        if op.name in _REACH:
            return _REACH[op.name](*spans)
        values = [*spans[1:-1:2], spans[-1]] if op.name == "case" else spans
        if op.name in ("case", "coalesce"):
            return min(low for low, _ in values), max(high for _, high in values)
        return 0, 1


def _product(a: Span, b: Span) -> Span:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _magnitude(a: Span) -> Span:
    low, high = sorted(map(abs, a))
    return (0 if a[0] <= 0 <= a[1] else low), high


def _quotient(a: Span, b: Span) -> Span:
    if b[0] != b[1] or b[0] <= 0:
        raise OverflowError(b)
    return a[0] // b[0], a[1] // b[0]


def _remainder(a: Span, b: Span) -> Span:
    if a[0] < 0 or b[0] != b[1] or b[0] <= 0:
        raise OverflowError(b)
    return 0, min(a[1], b[0] - 1)


_CALENDAR = -719162, 2932896
"""The days of the years 1 to 9999."""


def _within_calendar(most: int) -> Callable[[Span], Span]:
    def reach(days: Span) -> Span:
        if days[0] < _CALENDAR[0] or days[1] > _CALENDAR[1]:
            raise OverflowError(days)
        return 0, most

    return reach


_REACH: Mapping[str, Callable[..., Span]] = {
    "+": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "-": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "*": _product,
    "abs": _magnitude,
    "is": lambda a: a,
    "//": _quotient,
    "%": _remainder,
    **{name: _within_calendar(most) for name, most in PARTS.items()},
    "characters": lambda a: a,
    "octets": lambda a: a,
}
"""The range of each operation's result, from the ranges of its arguments."""
