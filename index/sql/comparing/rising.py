"""Conditions on functions of one date or time that never fall as it rises: ranges of the column itself.

`year(day) = 1995` is TRUE from 1995-01-01 on, before 1996-01-01. For each such function f and each value y it
is known which x is the least with f(x) >= y; of a comparison with a constant that is enough.

    f                              the least x with f(x) >= y
    year(day)                      the first day of year y
    CAST(time AS DATE)             the first moment of day y
    date_trunc('MONTH', time)      y, or the first moment of the next month
    last_day(day)                  the first day of the month of y
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tailbit.index.expression.show import show
from tailbit.index.functions.dates import STEPS, days_from, first_day
from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.predicate.leaves import leaf_of
from tailbit.index.predicate.tree import Computed, Constant, Interval, Leaf, ValueSet
from tailbit.index.predicate.value_sets import NULL, VALUES
from tailbit.index.values.literals import WHOLE, Literal
from tailbit.tables.date_text import DAY_US
from tailbit.tables.model import Column
from tailbit.tables.time_zones import fixed_offset

Truth = tuple[ValueSet, ValueSet]
"""The values of a column for which a condition is TRUE, and those for which it is FALSE."""

_LONGEST = {"week": 7, "month": 31, "quarter": 92, "year": 366}
"""The most days of a unit."""
_MOST_YEAR = 6_000_000
"""No date is of such a year."""
_DOMAINS = {"date": WHOLE["integer"], "timestamp": WHOLE["long"], "timestamp_ntz": WHOLE["long"]}


class _NotRising(Exception):
    """A part is of another kind."""


def node_of(found: Expression) -> Leaf | Constant | Computed:
    """A boolean expression as a condition: on the values of a column where it can be, otherwise computed."""
    assert isinstance(found, Call)
    if len(found.columns) == 1 and found.columns[0].type.name in _DOMAINS:
        (column,) = found.columns
        try:
            return leaf_of(column, _Truths(column).of(found), show(found))
        except _NotRising:
            pass
    return Computed(found, show(found))


class _Truths:
    """The truth of the parts of a condition on one column, each found once."""

    def __init__(self, column: Column) -> None:
        self.domain = _DOMAINS[column.type.name]
        self.known: dict[int, Truth] = {}

    def of(self, e: Expression) -> Truth:
        """Raises _NotRising."""
        if not isinstance(e, Call):
            raise _NotRising
        if id(e) not in self.known:
            self.known[id(e)] = self._made(e)
        return self.known[id(e)]

    def _made(self, e: Call) -> Truth:
        if e.name in _COMPARED:
            return self._compared(e.name, *e.args)
        if e.name == "in":
            found = [self._compared("=", e.args[0], item) for item in e.args[1:]]
            true = ValueSet.union_of([its for its, _ in found])
            return true, ValueSet() if e.setting[0] else true.others()
        if e.name in ("and", "or"):
            truths = [self.of(part) for part in e.args]
            trues, falses = [true for true, _ in truths], [false for _, false in truths]
            if e.name == "and":
                return ValueSet.intersection_of(trues), ValueSet.union_of(falses)
            return ValueSet.union_of(trues), ValueSet.intersection_of(falses)
        if e.name == "not":
            true, false = self.of(e.args[0])
            return false, true
        if e.name == "is null":
            _least(e.args[0], 0)
            return NULL, VALUES
        raise _NotRising

    def _compared(self, op: str, left: Expression, right: Expression) -> Truth:
        if isinstance(left, Literal):
            left, op, right = right, _MIRRORED[op], left
        if not isinstance(right, Literal) or not isinstance(right.value, int) or op not in _COMPARED:
            raise _NotRising
        low, high = _least(left, right.value), _least(left, right.value + 1)
        true = {
            "=": self._between(low, high),
            "<=>": self._between(low, high),
            "<": self._between(None, low),
            "<=": self._between(None, high),
            ">": self._between(high, None),
            ">=": self._between(low, None),
        }[op]
        return true, (true.inverse() if op == "<=>" else true.others())

    def _between(self, low: int | None, high: int | None) -> ValueSet:
        """The values from `low` on, below `high`."""
        least, most = self.domain
        if (low is not None and low > most) or (high is not None and high <= least):
            return ValueSet()
        low = None if low is None or low <= least else low
        high = None if high is None or high > most else high
        if low is not None and low == high:
            return ValueSet()
        return VALUES if low is None and high is None else ValueSet.of([_interval(low, high)])


def _interval(low: int | None, high: int | None) -> Interval:
    return Interval(low, low is not None, high, False)


_MIRRORED = {"=": "=", "<=>": "<=>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARED = tuple(_MIRRORED)


def _least(e: Expression, y: int) -> int:
    """The least value of the only column for which a function of it is `y` or more.

    Raises:
        _NotRising: nothing is known of the function.
    """
    while isinstance(e, Call):
        step = _STEPS_DOWN.get(e.name)
        if step is None:
            raise _NotRising
        y, e = step(e, y), e.args[0]
    if not isinstance(e, Ref):
        raise _NotRising
    return y


def _year(call: Call, y: int) -> int:
    return int(days_from(np.array(max(-_MOST_YEAR, min(y, _MOST_YEAR))), np.array(1), np.array(1)))


def _cast(call: Call, y: int) -> int:
    kinds = (call.args[0].type.name, call.type.name)
    if set(kinds) <= set(WHOLE) and WHOLE[kinds[0]][1] <= WHOLE[kinds[1]][1]:
        return y
    if kinds == ("timestamp_ntz", "date"):
        return y * DAY_US
    if kinds == ("timestamp", "date"):
        return y * DAY_US - _offset(str(call.setting[0]))
    if set(kinds) == {"timestamp_ntz", "timestamp"} and _offset(str(call.setting[0])) == 0:
        return y
    raise _NotRising


def _date_trunc(call: Call, y: int) -> int:
    unit, zone = str(call.setting[0]), str(call.setting[1])
    offset = _offset(zone) if call.type.name == "timestamp" else 0
    if unit in STEPS:
        return -(-(y + offset) // STEPS[unit]) * STEPS[unit] - offset
    return _first(unit, -(-(y + offset) // DAY_US)) * DAY_US - offset


def _first(unit: str, day: int) -> int:
    """The first day of a unit that is `day` or later."""
    found = int(first_day(np.array(day), unit))
    return found if found == day else int(first_day(np.array(found + _LONGEST[unit]), unit))


def _offset(zone: str) -> int:
    found = fixed_offset(zone)
    if found is None:
        raise _NotRising
    return found


_STEPS_DOWN: Mapping[str, Callable[[Call, int], int]] = {
    "year": _year,
    "cast": _cast,
    "try_cast": _cast,
    "date_trunc": _date_trunc,
    "trunc": lambda call, y: _first(str(call.setting[0]), y),
    "last_day": lambda call, y: int(first_day(np.array(y), "month")),
}
"""By name of a function, what its argument must be at least for it to be `y` or more."""
