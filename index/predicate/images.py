"""Values of a monotonic function whose argument lies in a set: the values that are sure, and those possible.

Worked example, for `date_trunc('HOUR', ts)`, `year(day)` and `substr(s, 1, 2)`:

    condition on the argument      values that are sure           values that are possible
    ts >= 10:00                    >= 10:00                       >= 10:00
    ts >= 10:30                    > 10:00                        >= 10:00
    day < 1996-01-01               <= 1995                        <= 1995
    s LIKE 'ab%'                   'ab'                           'ab'
    s > 'abc'                      > 'ab'                         >= 'ab'

A value is possible if it lies between the values of the first and the last argument of a range, and sure if
it is not also the value of an argument next to the range. Where clocks go back, a day may begin twice: the
values at all clock changes nearby are considered, too. The function is NULL only where its argument is NULL.

Columns that a condition pins to few values: a term over these columns then has few values, too.

Worked example, for a term that holds `pmod(hash(k), 64)`:

    k = 7                     term = pmod(hash(7), 64)
    k IN (1, 2, 3)            term IN (up to three values)
    k BETWEEN 10 AND 12       as k IN (10, 11, 12), since k is a whole number

A term may have the same value for other arguments, so that no row is sure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from itertools import product
from typing import NamedTuple

from tailbit.index.expression.evaluate import evaluate
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.functions.tree import Call, Expression, columns_in
from tailbit.index.functions.vectors import canonical, from_canonical
from tailbit.index.keys import Value, float_at, ordered_int
from tailbit.index.predicate import monotonic
from tailbit.index.predicate.monotonic import NotRising, Number, course, domain_of, edge_days
from tailbit.index.predicate.tree import Leaf
from tailbit.index.predicate.value_sets import Interval, Span, ValueSet
from tailbit.index.values.literals import FLOATING, range_of
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import Column, DataType
from tailbit.tables.zones import changes_between

MOST_SPANS = 1000
"""From this many spans on, only the first and the last end of a set are considered."""

Image = tuple[ValueSet, ValueSet]
"""Two sets of a function's values: those that only arguments in a set give, and all that these may give."""


def image(term: IndexedTerm, arguments: ValueSet) -> Image:
    """Return the values of a term for a set of its only column's values."""
    columns = columns_in(term.expression)
    if len(columns) != 1:
        raise NotRising
    spans = arguments.spans()
    if len(spans) > MOST_SPANS:
        return ValueSet(), _image(term, columns[0], [(spans[0][0], spans[-1][1])], arguments)[1]
    return _image(term, columns[0], spans, arguments)


def _image(term: IndexedTerm, column: Column, spans: Sequence[Span], arguments: ValueSet) -> Image:
    if column.type.name == "string":
        characters = monotonic.prefix_length(term.expression)
        images = [monotonic.prefix_image(characters, span) for span in spans]
        sure, possible = ([image[n] for image in images] for n in (0, 1))
        return ValueSet.of(sure, nulls=arguments.nulls), ValueSet.of(possible, nulls=arguments.nulls)
    if not isinstance(term.expression, Call):
        raise NotRising
    return _function(term.expression).image(spans, arguments)


@lru_cache(maxsize=256)
def _function(expression: Call) -> _Function:
    return _Function(expression)


class _Edges(NamedTuple):
    """Arguments at one end of the domain where the function does not rise, with their values.

    `lonely`: the values that no argument outside of `days` has.
    """

    days: list[int]
    values: list[Number | None]
    lonely: frozenset[Number]


class _Cut(NamedTuple):
    """A boundary between two neighbouring arguments of a function: a range of arguments begins or ends there.

    `inner`: the function's value at the argument inside the range. `outer`: its value at the other one. None:
    the function raises there.
    """

    inner: Number | None
    outer: Number | None


_FAR_APART = 3 * DAY_US
"""Two instants this far apart keep their order when both are truncated, whatever clocks change."""


class _Function:
    """A function of one column, monotonic from the argument of rank `first` to that of rank `last`.

    The rank of a double is its integer in the order of doubles; any other argument is its own rank.
    """

    def __init__(self, expression: Expression) -> None:
        self.course = course(expression)
        (self.column,) = columns_in(expression)
        self.expression = expression
        self.double = self.column.type.name == "double"
        low, high = domain_of(self.column.type)
        self.first, self.last = self._rank(low), self._rank(math.nan if self.double else high)
        days = edge_days(expression)
        self.edges = None if days is None else self._left_out(days.tolist())

    def _left_out(self, days: list[int]) -> _Edges | None:
        """Remove from the domain the days at one end where the function overflows; return these, or None."""
        values = self._values(days)
        at_start, before = days[0] == self.first, [values[0], *values[:-1]]
        odd = [
            n for n, (a, b) in enumerate(zip(before, values, strict=True)) if a is None or b is None or b < a
        ]
        if not odd:
            return None
        if not self.course.rising:
            raise NotRising
        inside = slice(0, odd[-1] + 1) if at_start else slice(odd[0], None)
        if at_start:
            self.first = days[odd[-1]] + 1
        else:
            self.last = days[odd[0]] - 1
        low, high = self._values([self.first, self.last])
        distinct = {value for value in values[inside] if value is not None}
        alone = {v for v in distinct if low is not None and high is not None and not low <= v <= high}
        return _Edges(days[inside], values[inside], frozenset(alone))

    def _rank(self, value: Number) -> int:
        return ordered_int(value, "double") if self.double else int(value)

    def _values(self, ranks: Sequence[int]) -> list[Number | None]:
        """Return the values of the function for some arguments; None where it raises."""
        arguments = [float_at(rank) for rank in ranks] if self.double else ranks
        given = {self.column.id: from_canonical(arguments, self.column.type)}
        return canonical(evaluate(self.expression, given, len(ranks)).values, self.expression.type)

    def image(self, spans: Sequence[Span], arguments: ValueSet) -> Image:
        """Return the values that only arguments in the spans give, and all that these arguments may give."""
        ranges = [range_ for span in spans if (range_ := self._ranks(span))]
        near = {cut: self._near(cut) for range_ in ranges for cut in (range_.start, range_.stop)}
        ranks = sorted({rank for sides in near.values() for side in sides for rank in side})
        value_of = dict(zip(ranks, self._values(ranks), strict=True)) if ranks else {}
        intervals = [self._interval(range_, near, value_of) for range_ in ranges]
        sure = ValueSet.of(
            [interval for interval, _ in intervals if interval is not None], nulls=arguments.nulls
        )
        possible = ValueSet.of([interval for _, interval in intervals], nulls=arguments.nulls)
        return (sure, possible) if self.edges is None else _at_edges(self.edges, arguments, sure, possible)

    def _ranks(self, span: Span) -> range:
        (low_end, low, behind), (high_end, high, closed) = span
        start = self.first if low_end else max(self.first, int(low) + behind)
        stop = self.last + 1 if high_end else min(self.last + 1, int(high) + closed)
        if self.double and start < stop <= self.last:
            stop = min(stop, self._rank(math.inf) + 1)
        return range(start, stop)

    def _near(self, cut: int) -> tuple[list[int], list[int]]:
        """Return the arguments before and behind a cut that may have the extreme value on their side.

        For a rising function: the greatest value before, the least behind. Empty at the ends of the domain.
        """
        if not self.first < cut <= self.last:
            return [], []
        low, high = max(self.first, cut - _FAR_APART), min(self.last, cut + _FAR_APART)
        changes = changes_between(low + 1, high, self.course.zone) if self.course.zone else []
        return [cut - 1, *(change - 1 for change in changes if change < cut)], [
            cut,
            *(change for change in changes if change > cut),
        ]

    def _interval(
        self,
        ranks: range,
        near: Mapping[int, tuple[list[int], list[int]]],
        value_of: Mapping[int, Number | None],
    ) -> tuple[Interval | None, Interval]:
        """Return the values that only arguments in a range give, and all that these arguments may give.

        The first is None where the function raises next to an end of the range: no value is sure there.
        """
        start, stop = (
            self._cut(near[ranks.start], value_of, True),
            self._cut(near[ranks.stop], value_of, False),
        )
        low, high = (start, stop) if self.course.rising else (stop, start)
        first, last = (None if side is None else side.inner for side in (low, high))
        possible = Interval(first, first is not None, last, last is not None)
        if any(side is not None and None in side for side in (low, high)):
            return None, possible
        (lo, lo_closed), (hi, hi_closed) = _beyond(low, 1), _beyond(high, -1)
        return Interval(lo, lo_closed, hi, hi_closed), possible

    def _cut(
        self, near: tuple[list[int], list[int]], value_of: Mapping[int, Number | None], begins: bool
    ) -> _Cut | None:
        """Return the values on both sides of one end of a range; None at the ends of the domain.

        `near`: the arguments on both sides. `begins`: whether the range begins there.
        """
        before, behind = ([value_of[rank] for rank in side] for side in near)
        if not before:
            return None
        rising = self.course.rising
        below, above = _extreme(before, greatest=rising), _extreme(behind, greatest=not rising)
        return _Cut(above, below) if begins else _Cut(below, above)


def _extreme(values: Sequence[Number | None], greatest: bool) -> Number | None:
    """Return the greatest or the least of some values; None if any of them is None."""
    finite = [value for value in values if value is not None]
    if len(finite) < len(values):
        return None
    return (max if greatest else min)(finite, key=_order)


def _order(value: Number) -> int:
    return ordered_int(value, "double") if isinstance(value, float) else value


def _beyond(cut: _Cut | None, sign: int) -> tuple[Number | None, bool]:
    """Return the bound of the values that only arguments inside a range have, and whether it is closed.

    `cut`: the boundary of the range on that side. `sign`: 1 for the lower bound, -1 for the upper one. The
    bound is None where there is no cut, or where the function raises next to the cut.
    """
    if cut is None or cut.inner is None or cut.outer is None:
        return None, False
    inner, outer = _order(cut.inner), _order(cut.outer)
    inside = inner > outer if sign > 0 else inner < outer
    return (cut.inner, True) if inside else (cut.outer, False)


def _at_edges(edges: _Edges, arguments: ValueSet, sure: ValueSet, possible: ValueSet) -> Image:
    """Correct the image, value by value, for the arguments at one end where the function does not rise."""
    inside: dict[Number, list[bool]] = {}
    for day, value in zip(edges.days, edges.values, strict=True):
        if value is not None:
            inside.setdefault(value, []).append(arguments.contains(day))
    whole = [
        v for v, memberships in inside.items() if all(memberships) and (v in edges.lonely or sure.contains(v))
    ]
    held_too = [v for v in inside if v not in edges.lonely and possible.contains(v)]
    touched = [*held_too, *(v for v, memberships in inside.items() if any(memberships))]
    others = ValueSet.points(inside, complement=True, nulls=True)
    return (
        sure.intersect(others).union(ValueSet.points(whole)),
        possible.intersect(others).union(ValueSet.points(touched)),
    )


MOST_VALUES = 4096
"""Limit of the values, or combinations of values, for which a term is evaluated."""


def few_values(values: ValueSet, type_: DataType, most: int = MOST_VALUES) -> list[Value | None] | None:
    """Return the values of a set that a column of a type may hold, NULL last; None if they may exceed `most`.

    0.0 is listed with -0.0: they are equal, but some functions tell them apart.
    """
    if type_.fields:
        return None
    listed: list[Value | None]
    bounds = range_of(type_)
    if type_.name == "boolean":
        listed = [truth for truth in (False, True) if values.contains(truth)]
    elif bounds is not None:
        listed = []
        for span in values.spans():
            whole = _whole_numbers(span, *bounds)
            if len(listed) + whole.stop - whole.start > most:
                return None
            listed += whole
    else:
        if values.complement or len(values.intervals) > most or not all(map(is_point, values.spans())):
            return None
        listed = [interval.lo for interval in values.intervals]
        if type_.name in FLOATING and 0.0 in listed:
            listed += [0.0, -0.0]
    return [*listed, None] if values.nulls else listed


def _whole_numbers(span: Span, low: int, high: int) -> range:
    """Return the whole numbers of a span that lie between `low` and `high`, both included."""
    (end, first, behind), (last_end, last, closed) = span
    start = low if end else max(low, int(first) + behind)
    return range(start, (high + 1 if last_end else min(high + 1, int(last) + closed)))


def is_point(span: Span) -> bool:
    """Return whether a span holds one value."""
    (end, first, behind), (last_end, last, closed) = span
    return end == last_end == 0 and first == last and not behind and closed == 1


def pinned(leaves: Sequence[Leaf], term: IndexedTerm, *, raising_is_any: bool = False) -> Leaf | None:
    """Return the condition on a term that leaves, all TRUE, imply; None if they leave a column many values.

    Values for which the term raises are left out; with `raising_is_any` the term may be anything there, so
    that one such value implies nothing. Cost: one evaluation over the combinations of the values.
    """
    if term.type.fields:
        return None
    columns, listed, room = columns_in(term.expression), list[list[Value | None]](), MOST_VALUES
    for column in columns:
        sets = [leaf.true for leaf in leaves if leaf.column.id == column.id]
        values = few_values(reduce(ValueSet.intersect, sets), column.type, room) if sets else None
        if values is None:
            return None
        listed.append(values)
        room //= max(len(values), 1)
    rows = list(product(*listed))
    arrays = {c.id: from_canonical([row[n] for row in rows], c.type) for n, c in enumerate(columns)}
    vector = evaluate(term.expression, arrays, len(rows))
    if raising_is_any and vector.failed.any():
        return None
    outcomes = canonical(vector.values, term.type)
    outcomes_not_raising = [
        value for value, failed in zip(outcomes, vector.failed.tolist(), strict=True) if not failed
    ]
    true = ValueSet.points(
        (value for value in outcomes_not_raising if value is not None), nulls=None in outcomes_not_raising
    )
    read = {column.id for column in columns}
    text = " AND ".join(dict.fromkeys(leaf.text for leaf in leaves if leaf.column.id in read))
    return Leaf(term, true, true.inverse(), text)
