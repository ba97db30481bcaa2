"""Formulas of whole numbers: of integers, days, microseconds, unscaled decimals, and lengths of texts.

A formula is reckoned in 64 bits without a look at what overflows. So whoever asks for it proves first, from
the bounds of its columns, that nothing does: neither 64 bits nor the type that an operation has in the table.

By hand, price * (100 - discount) > 500, the price a decimal(5,2), the discount a decimal(2,2), of unscaled
values 0 to 2000 and 0 to 10:

    100 - discount             90 to 100
    price * ...                 0 to 200000          of decimal(8,4): within 10 ** 8
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tailbit.tables.model import Column

LEAST, MOST = -(1 << 63), (1 << 63) - 1
"""The range of 64 bits."""
TEXTUAL = ("string", "binary")
"""Types of columns of which a formula knows the length alone."""


@dataclass(frozen=True, eq=False)
class Op:
    """An operation, by its name.

    Of numbers `+`, `-`, `*`, `abs`, `is` (the number itself), and by one constant above 0 `//` (down to a
    whole number) and `%` (of numbers that are not below 0); of days the PARTS of their date; of a text
    `characters` and of bytes `octets`, both how many there are; of numbers or truths `case` (pairs of a
    condition and a value, and the value else) and `coalesce`. Truths are `=`, `<>`, `<`, `<=`, `>`, `>=`,
    `<=>`, `and`, `or`, `not`, `null number` and `null truth`. `low`, `high`: what a number must be between.
    """

    name: str
    args: tuple[Term, ...]
    low: int = LEAST
    high: int = MOST


Term = Op | Column | int | bool | None
"""An operation, a column, a number, a truth, or NULL."""

PARTS = {
    "year": 9999, "quarter": 4, "month": 12, "day": 31,
    "dayofyear": 366, "dayofweek": 7, "weekday": 6, "weekofyear": 53,
}  # fmt: skip
"""The greatest value of each part of a date."""

Span = tuple[int, int]
"""The least and the greatest number that a term may be; of a text, how long."""


@dataclass(frozen=True, eq=False)
class Formula:
    """A term that is a truth; a row passes where that is one of `passing` (None: NULL)."""

    term: Term
    passing: frozenset[bool | None]

    @property
    def columns(self) -> Sequence[Column]:
        """The columns that it reads, each once, in order of appearance."""
        return list({column.id: column for column in _columns(self.term, set())}.values())


def _columns(term: Term, seen: set[int]) -> Iterator[Column]:
    if isinstance(term, Column):
        yield term
    elif isinstance(term, Op) and id(term) not in seen:
        seen.add(id(term))
        for arg in term.args:
            yield from _columns(arg, seen)


def fits(formula: Formula, bounds: Mapping[str, Span]) -> bool:
    """Whether no number in a formula can be out of its range; `bounds`: of each column, by id."""
    try:
        _Spans(bounds).of(formula.term)
    except OverflowError:
        return False
    return True


class _Spans:
    """What the numbers of a formula are between, each found once."""

    def __init__(self, bounds: Mapping[str, Span]) -> None:
        self.bounds = bounds
        self.known: dict[int, Span] = {}

    def of(self, term: Term) -> Span:
        """Raises OverflowError where a number may be out of range."""
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
"""Days of the years 1 to 9999."""


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
"""Within which numbers the result of an operation is."""
