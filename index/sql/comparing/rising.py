"""Conditions on monotonic functions of one column, as ranges of the column itself.

Worked example: `year(day) = 1995` is TRUE from 1995-01-01 until before 1996-01-01. The least arguments with
certain values (`tailbit.index.sql.comparing.least`) suffice for every comparison with a constant.
"""

from __future__ import annotations

import numpy as np

from tailbit.arrays import Longs
from tailbit.index.expression.evaluate import evaluate
from tailbit.index.expression.show import show
from tailbit.index.functions.tree import Call, Expression
from tailbit.index.functions.vectors import array_of, is_set
from tailbit.index.ordered import Value
from tailbit.index.predicate.leaves import leaf_of
from tailbit.index.predicate.tree import Computed, Constant, Interval, Leaf, ValueSet
from tailbit.index.predicate.value_sets import NULL, VALUES
from tailbit.index.sql.comparing import beginnings, least
from tailbit.index.sql.comparing.comparisons import Truth
from tailbit.index.sql.comparing.least import End, NotRising, domain_of, edge_days
from tailbit.index.values.coercion import MIRRORED
from tailbit.index.values.literals import BOOLEAN, DATE, Literal
from tailbit.tables import compute as pc
from tailbit.tables.model import Column


def node_of(expression: Expression) -> Leaf | Constant | Computed:
    """Return a boolean expression as a condition: a leaf on a column's values if possible, else computed."""
    assert isinstance(expression, Call)
    if len(expression.columns) == 1:
        (column,) = expression.columns
        try:
            return leaf_of(column, _Truths(column).of(expression), show(expression))
        except NotRising:
            pass
    return Computed(expression, show(expression))


class _Truths:
    """Truth of the parts of a condition on one column, each computed once."""

    def __init__(self, column: Column) -> None:
        self.textual = column.type.name == "string"
        ends: tuple[Value, Value | None] = (b"", None) if self.textual else domain_of(column.type)
        self.first, self.last = ends
        self.id = column.id
        self.known: dict[int, Truth] = {}

    def of(self, e: Expression) -> Truth:
        """Return the cached truth of a part, or raise NotRising."""
        if not isinstance(e, Call):
            raise NotRising
        if id(e) not in self.known:
            self.known[id(e)] = self._made(e)
        return self.known[id(e)]

    def _made(self, e: Call) -> Truth:
        if e.name in _COMPARED:
            return self._compared(e.name, *e.args)
        if e.name == "in":
            matches = [self._compared("=", e.args[0], item) for item in e.args[1:]]
            true = ValueSet.union_of([true_values for true_values, _ in matches])
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
            self._ends(e.args[0], b"" if self.textual else 0)
            return NULL, VALUES
        raise NotRising

    def _compared(self, op: str, left: Expression, right: Expression) -> Truth:
        if isinstance(left, Literal):
            left, op, right = right, MIRRORED[op], left
        if not isinstance(right, Literal):
            raise NotRising
        low, high = self._ends(left, right.value)
        edges = edge_days(left)
        sides = {"=": (low, high), "<=>": (low, high), "<": (None, low), "<=": (None, high)}
        true = self._between(*(sides | {">": (high, None), ">=": (low, None)})[op])
        false = true.inverse() if op == "<=>" else true.others()
        if edges is None:
            return true, false
        return self._at_edges(true, false, Call(op, (left, right), BOOLEAN), edges)

    def _at_edges(self, true: ValueSet, false: ValueSet, condition: Call, days: Longs) -> Truth:
        """Correct the truth at the ends of 32 bits, where the function falls: evaluate those days one by one.

        Days for which the condition raises, the first five of 32 bits in `trunc(day, 'QUARTER')`, are NULL.
        """
        given = array_of(days, np.zeros(len(days), dtype=np.bool_), DATE)
        vector = evaluate(condition, {self.id: given}, len(days))
        kept = _at_days(days).inverse()
        outcomes = (vector.values, pc.invert(vector.values))
        parts = [_at_days(days[is_set(outcome)]) for outcome in outcomes]
        inner = [ValueSet.intersection_of([truth, kept]) for truth in (true, false)]
        now_true, now_false = (ValueSet.union_of(pair) for pair in zip(inner, parts, strict=True))
        return now_true, now_false

    def _ends(self, e: Expression, y: Value | None) -> tuple[End, End]:
        if self.textual and isinstance(y, bytes):
            return beginnings.ends(beginnings.beginning(e), y)
        if not self.textual and isinstance(y, (int, float)):
            return least.ends(e, y)
        raise NotRising

    def _between(self, low: End | None, high: End | None) -> ValueSet:
        """Return the values from one end up to another; None: unbounded."""
        first = (self.first, False)
        low = None if low is None or low <= first else low
        if self.last is not None and (high is None or high >= (self.last, True)):
            high = None
            if low is not None and low > (self.last, False):
                return ValueSet()
        if high is not None and high <= (low or first):
            return ValueSet()
        return VALUES if low is None and high is None else ValueSet.of([_interval(low, high)])


def _at_days(days: Longs) -> ValueSet:
    """Return ascending days as a value set; consecutive days become one interval."""
    if not len(days):
        return ValueSet()
    runs = np.split(days, np.flatnonzero(np.diff(days) != 1) + 1)
    return ValueSet.of([Interval(int(run[0]), True, int(run[-1]), True) for run in runs])


def _interval(low: End | None, high: End | None) -> Interval:
    from_, behind = low or (None, True)
    to, closed = high or (None, False)
    return Interval(from_, not behind, to, closed)


_COMPARED = ("=", "<=>", "<", "<=", ">", ">=")
