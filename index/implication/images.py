"""The values of a rising function where its argument lies in a set: surely, and possibly.

Worked example, for `date_trunc('HOUR', ts)`, `year(day)` and `substr(s, 1, 2)`:

    condition on the argument      values that are sure           values that are possible
    ts >= 10:00                    >= 10:00                       >= 10:00
    ts >= 10:30                    > 10:00                        >= 10:00
    day < 1996-01-01               <= 1995                        <= 1995
    s LIKE 'ab%'                   from 'ab' until before 'ac'    the same
    s > 'abc'                      > 'ab'                         >= 'ab'

A value is sure if the least argument that has it and the last one lie in the set. The function is NULL where
its argument is NULL, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tailbit.arrays import Longs
from tailbit.index.expression.evaluate import evaluate
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.functions.tree import Expression, columns_in
from tailbit.index.functions.vectors import canonical, from_canonical
from tailbit.index.implication import beginnings, least
from tailbit.index.implication.least import NotRising, domain_of, edge_days
from tailbit.index.ordered import Value, float_at, ordered_int
from tailbit.index.predicate.value_sets import Interval, Span, ValueSet
from tailbit.tables.model import Column

MOST_SPANS = 1000
"""From this many spans on, only the first and the last end of a set are considered."""

Image = tuple[ValueSet, ValueSet]
"""Values of a function that only arguments in a set have, and those that such arguments may have."""


def image(term: IndexedTerm, arguments: ValueSet) -> Image:
    """Return the values of a term for a set of its only column's values.

    Raises:
        NotRising: the term is not known to rise with one column.
    """
    columns = columns_in(term.expression)
    if len(columns) != 1:
        raise NotRising
    spans = arguments.spans()
    if len(spans) > MOST_SPANS:
        return ValueSet(), _image(term, columns[0], [(spans[0][0], spans[-1][1])], arguments)[1]
    return _image(term, columns[0], spans, arguments)


def _image(term: IndexedTerm, column: Column, spans: Sequence[Span], arguments: ValueSet) -> Image:
    if column.type.name == "string":
        characters = beginnings.beginning(term.expression)
        parts = [beginnings.image(characters, span) for span in spans]
        sure, possible = ([part[n] for part in parts] for n in (0, 1))
        return ValueSet.of(sure, nulls=arguments.nulls), ValueSet.of(possible, nulls=arguments.nulls)
    return _rising(_Same(term)).image(spans, arguments)


class _Same:
    """A term as a cache key: terms that hold the same expression are the same."""

    def __init__(self, term: IndexedTerm) -> None:
        self.term = term

    def __hash__(self) -> int:
        return hash(self.term.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.term.key == self.term.key


@lru_cache(maxsize=256)
def _rising(same: _Same) -> _Rising:
    return _Rising(same.term.expression)


class _Edges(NamedTuple):
    """Arguments at one end of the domain where the function does not rise, with their values.

    `known`: what each value has for arguments; `lonely`: the values that no other argument has.
    """

    days: list[Value]
    values: list[Value | None]
    lonely: frozenset[Value]


class _Rising:
    """A function of one column that rises between two arguments, which are its ranks: `first` and `last`.

    A rank is the whole number itself, or of a double the integer in the order of doubles.
    """

    def __init__(self, expression: Expression) -> None:
        least.least(expression, 0)
        (self.column,) = columns_in(expression)
        self.expression = expression
        self.double = self.column.type.name == "double"
        low, high = domain_of(self.column.type)
        self.first, self.last = self._rank(low), self._rank(math.nan if self.double else high)
        self.edges: _Edges | None = None
        days = edge_days(expression)
        if days is not None:
            self._leave_out(days)

    def _leave_out(self, days: Longs) -> None:
        """End the domain before the days at its end where the function overflows."""
        values = self._values(days.tolist())
        within = {value: self._arguments(value) for value in set(values) if value is not None}
        odd = np.array([v is None or day not in within[v] for day, v in zip(days, values, strict=True)])
        if not odd.any():
            return
        if days[0] == self.first:
            end = int(np.flatnonzero(odd)[-1]) + 1
            self.first, kept = int(days[end - 1]) + 1, slice(0, end)
        else:
            end = int(np.flatnonzero(odd)[0])
            self.last, kept = int(days[end]) - 1, slice(end, None)
        lonely = frozenset(v for v in values[kept] if v is not None and not self._arguments(v))
        self.edges = _Edges(days[kept].tolist(), values[kept], lonely)

    def _rank(self, value: Value) -> int:
        assert not isinstance(value, bytes)
        return ordered_int(value, "double") if self.double else int(value)

    def _values(self, ranks: Sequence[int]) -> list[Value | None]:
        """Return the values of the function for some arguments; None where it raises."""
        arguments = [float_at(rank) for rank in ranks] if self.double else ranks
        given = {self.column.id: from_canonical(arguments, self.column.type)}
        return canonical(evaluate(self.expression, given, len(ranks)).values, self.expression.type)

    def _arguments(self, value: Value) -> range:
        """Return the ranks of the arguments with a value, or all ranks if they are not known."""
        assert isinstance(value, (int, float))
        try:
            ends = least.ends(self.expression, value)
        except NotRising:
            return range(self.first, self.last + 1)
        low, high = (min(max(self._rank(at) + behind, self.first), self.last + 1) for at, behind in ends)
        return range(low, high)

    def image(self, spans: Sequence[Span], arguments: ValueSet) -> Image:
        """Return the values that only arguments in the spans have, and those that they may have."""
        ranges = [found for span in spans if (found := self._ranks(span))]
        lows = {found[0] for found in ranges if found[0] > self.first}
        ends = sorted(lows.union(found[-1] for found in ranges if found[-1] < self.last))
        known = dict(zip(ends, self._values(ends), strict=True)) if ends else {}
        parts = [self._interval(found, known) for found in ranges]
        sure = ValueSet.of([part for part, _ in parts if part is not None], nulls=arguments.nulls)
        possible = ValueSet.of([part for _, part in parts], nulls=arguments.nulls)
        return (sure, possible) if self.edges is None else _at_edges(self.edges, arguments, sure, possible)

    def _ranks(self, span: Span) -> range:
        """Return the ranks of the arguments in a span."""
        (low_end, low, behind), (high_end, high, closed) = span
        start = self.first if low_end else max(self.first, int(low) + behind)
        stop = self.last + 1 if high_end else min(self.last + 1, int(high) + closed)
        if self.double and start < stop <= self.last:
            stop = min(stop, self._rank(math.inf) + 1)
        return range(start, stop)

    def _interval(self, ranks: range, known: dict[int, Value | None]) -> tuple[Interval | None, Interval]:
        """Return the values that only arguments of a range have, and those that they may have.

        The first and the last argument of the range have the least and the greatest value; nothing is sure
        where the function raises for one of these two.
        """
        least_known, last_known = ranks[0] > self.first, ranks[-1] < self.last
        low = known[ranks[0]] if least_known else None
        high = known[ranks[-1]] if last_known else None
        possible = Interval(low, low is not None, high, high is not None)
        if (least_known and low is None) or (last_known and high is None):
            return None, possible
        whole_low = low is not None and self._arguments(low).start >= ranks[0]
        whole_high = high is not None and self._arguments(high).stop <= ranks.stop
        return Interval(low, whole_low, high, whole_high), possible


def _at_edges(edges: _Edges, arguments: ValueSet, sure: ValueSet, possible: ValueSet) -> Image:
    """Correct the image, value by value, for the arguments where the function does not rise."""
    inside: dict[Value, list[bool]] = {}
    for day, value in zip(edges.days, edges.values, strict=True):
        if value is not None:
            inside.setdefault(value, []).append(arguments.contains(day))
    whole = [v for v, held in inside.items() if all(held) and (v in edges.lonely or sure.contains(v))]
    held_too = [v for v in inside if v not in edges.lonely and possible.contains(v)]
    touched = [*held_too, *(v for v, held in inside.items() if any(held))]
    others = ValueSet.points(inside, complement=True, nulls=True)
    return (
        sure.intersect(others).union(ValueSet.points(whole)),
        possible.intersect(others).union(ValueSet.points(touched)),
    )
