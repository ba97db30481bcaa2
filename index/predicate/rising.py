"""Conditions on one column or a monotonic function of it, as ranges of the column itself.

Worked example: `year(day) = 1995` is TRUE from 1995-01-01 until before 1996-01-01. For every comparison with
a constant it suffices to know the least argument with at least a given value
(`tailbit.index.predicate.monotonic`).

Substitution of indexed terms for the expressions that they hold, so that conditions read their values.

Worked example, for a term that holds `lower(s)`:

    lower(s) = 'x'                  term = 'x'            one key
    lower(s) LIKE 'ab%'             term LIKE 'ab%'       a range of keys
    length(lower(s)) > 3            length(term) > 3      computed once per key
    lower(s) = 'x' OR lower(s) = n  no condition on the term, since it reads n, too
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tailbit.base.arrays import Longs
from tailbit.base.lazy import lazy
from tailbit.index.expression.show import show
from tailbit.index.functions.tree import Call, Expression, Ref, columns_in, key_of
from tailbit.index.keys import Value
from tailbit.index.predicate.computed import IS_FALSE, IS_TRUE, Computed, TruthValue, TruthValues
from tailbit.index.predicate.tree import (
    COMPARED,
    Constant,
    Leaf,
    Node,
    Truth,
    all_of,
    any_of,
    leaf_of,
    negate,
    texts_from,
    texts_like,
)
from tailbit.index.predicate.value_sets import EVERYTHING, NOTHING, NULL, VALUES, Interval, ValueSet
from tailbit.index.values.coercion import MIRRORED
from tailbit.index.values.literals import BOOLEAN, DATE, Literal
from tailbit.tables import compute as pc

if TYPE_CHECKING:
    from tailbit.index.expression import evaluate as evaluation
    from tailbit.index.expression.indexed_term import IndexedTerm
    from tailbit.index.functions import vectors
    from tailbit.index.predicate import monotonic
else:
    evaluation = lazy("tailbit.index.expression.evaluate")
    monotonic = lazy("tailbit.index.predicate.monotonic")
    vectors = lazy("tailbit.index.functions.vectors")


def node_of(expression: Expression) -> Node:
    """Return a boolean expression as a condition: a leaf on a column's values if possible, else computed.

    AND and NOT are split, and OR where an operand is a leaf. Values for which the expression raises are also
    computed, so that reading such a row raises the error.
    """
    if isinstance(expression, Literal):
        return Constant(None if expression.value is None else bool(expression.value))
    text = show(expression)
    try:
        truths = _Truths(expression, days_as_times=True)
        leaf = leaf_of(truths.column, truths.of(expression), text)
    except monotonic.NotRising:
        return _split(expression) or Computed(expression, text)
    if truths.raising == NOTHING:
        return leaf
    raising = leaf_of(truths.column, (truths.raising, truths.raising.others()), f"{text} raises")
    return any_of([leaf, all_of([raising, Computed(expression, text)])])


def _split(expression: Expression) -> Node | None:
    """Return AND, NOT and some OR as the node of their operands; None for other expressions."""
    if not isinstance(expression, Call) or expression.name not in _CONNECTED:
        return None
    nodes = [node_of(operand) for operand in expression.args]
    if expression.name == "or" and not any(isinstance(node, Leaf) for node in nodes):
        return None
    return _CONNECTED[expression.name](nodes)


def truth_of(condition: Expression) -> Truth | None:
    """Return the values of its only column where a condition is TRUE and FALSE; None if these are no sets."""
    try:
        return _Truths(condition).of(condition)
    except monotonic.NotRising:
        return None


class _Truths:
    """Truth of the parts of a condition on one column, each computed once.

    `days_as_times`: whether the cast of days to times is inverted where they are compared, although it raises
    for days too far away: Spark removes it where it can.
    """

    def __init__(self, condition: Expression, days_as_times: bool = False) -> None:
        columns = columns_in(condition)
        if len(columns) != 1:
            raise monotonic.NotRising
        self.column, self.textual = columns[0], columns[0].type.name == "string"
        self.days_as_times = days_as_times
        self.memo: dict[int, Truth] = {}
        self.raising = ValueSet()

    def of(self, e: Expression) -> Truth:
        """Return the cached truth of a part, or raise monotonic.NotRising."""
        if isinstance(e, Ref) and e.type == BOOLEAN:
            return ValueSet.points([True]), ValueSet.points([False])
        if isinstance(e, Literal) and e.type == BOOLEAN:
            holds = NOTHING if e.value is None else EVERYTHING
            return (holds, NOTHING) if e.value is not False else (NOTHING, holds)
        if not isinstance(e, Call):
            raise monotonic.NotRising
        if id(e) not in self.memo:
            self.memo[id(e)] = self._of_call(e)
        return self.memo[id(e)]

    def _of_call(self, e: Call) -> Truth:
        if e.name in _COMPARED:
            return self._compared(e.name, *e.args)
        if e.name == "in":
            true = self._one_of(e.args[0], e.args[1])
            return true, ValueSet() if e.setting[0] else true.others()
        if e.name in ("and", "or"):
            truths = [self.of(arg) for arg in e.args]
            trues, falses = [true for true, _ in truths], [false for _, false in truths]
            if e.name == "and":
                return ValueSet.intersection_of(trues), ValueSet.union_of(falses)
            return ValueSet.union_of(trues), ValueSet.intersection_of(falses)
        if e.name == "not":
            true, false = self.of(e.args[0])
            return false, true
        if e.name == "is null":
            if not isinstance(e.args[0], Ref):
                self._ends(e.args[0], b"" if self.textual else 0, monotonic.least)
            return NULL, VALUES
        if e.name in ("like", "startswith") and isinstance(e.args[0], Ref):
            true = _beginning_with(e)
            return true, true.others()
        raise monotonic.NotRising

    def _one_of(self, value: Expression, listed: Expression) -> ValueSet:
        assert isinstance(listed, Literal)
        assert isinstance(listed.value, tuple)
        if isinstance(_unchanged(value), Ref):
            return ValueSet.points(listed.value)
        type_ = listed.type.fields[0].type
        if self.days_as_times:
            self.raising = self.raising.union(monotonic.far_days(value))
        equal = [self._compared("=", value, Literal(type_, constant))[0] for constant in listed.value]
        return ValueSet.union_of(equal)

    def _compared(self, op: str, lhs: Expression, rhs: Expression) -> Truth:
        if isinstance(lhs, Literal):
            lhs, op, rhs = rhs, MIRRORED[op], lhs
        if not isinstance(rhs, Literal):
            raise monotonic.NotRising
        if isinstance(_unchanged(lhs), Ref) and rhs.value is not None:
            true = ValueSet((COMPARED[op](rhs.value, rhs.value, True),))
            return true, true.inverse() if op == "<=>" else true.others()
        least = monotonic.least_of_days if self.days_as_times else monotonic.least
        low, high = self._ends(lhs, rhs.value, least)
        edges = monotonic.edge_days(lhs)
        sides = {"=": (low, high), "<=>": (low, high), "<": (None, low), "<=": (None, high)}
        true = self._between(*(sides | {">": (high, None), ">=": (low, None)})[op])
        false = true.inverse() if op == "<=>" else true.others()
        if edges is None:
            return true, false
        return self._at_edges(true, false, Call(op, (lhs, rhs), BOOLEAN), edges)

    def _at_edges(self, true: ValueSet, false: ValueSet, condition: Call, days: Longs) -> Truth:
        """Correct the truth at the ends of 32 bits, where the function falls: evaluate those days one by one.

        Days for which the condition raises, as the first 32-bit days in `trunc(day, 'QUARTER')`, are added to
        `raising`.
        """
        given = vectors.array_of(days, np.zeros(len(days), dtype=np.bool_), DATE)
        vector = evaluation.evaluate(condition, {self.column.id: given}, len(days))
        if vector.failed.any():
            self.raising = self.raising.union(_at_days(days[vector.failed]))
        inside = _at_days(days).inverse()
        outcomes = (vector.values, pc.invert(vector.values))
        edges = [_at_days(days[vectors.is_set(outcome)]) for outcome in outcomes]
        inner = [ValueSet.intersection_of([truth, inside]) for truth in (true, false)]
        now_true, now_false = (ValueSet.union_of(pair) for pair in zip(inner, edges, strict=True))
        return now_true, now_false

    def _ends(
        self, e: Expression, y: Value | None, least: monotonic.Least
    ) -> tuple[monotonic.End, monotonic.End]:
        if self.textual and isinstance(y, bytes):
            return monotonic.prefix_ends(monotonic.prefix_length(e), y)
        if not self.textual and isinstance(y, (int, float)):
            monotonic.domain_of(self.column.type)
            return monotonic.ends(e, y, least)
        raise monotonic.NotRising

    def _between(self, low: monotonic.End | None, high: monotonic.End | None) -> ValueSet:
        ends = (b"", None) if self.textual else monotonic.domain_of(self.column.type)
        first, last = (ends[0], False), ends[1]
        low = None if low is None or low <= first else low
        if last is not None and (high is None or high >= (last, True)):
            high = None
            if low is not None and low > (last, False):
                return ValueSet()
        if high is not None and high <= (low or first):
            return ValueSet()
        return VALUES if low is None and high is None else ValueSet.of([_interval(low, high)])


def _unchanged(value: Expression) -> Expression:
    """Return the operand of casts that leave values as they are."""
    while isinstance(value, Call) and value.name == "cast":
        (inner,) = value.args
        if not monotonic.is_unchanged(inner.type, value.type):
            return value
        value = inner
    return value


def _beginning_with(e: Call) -> ValueSet:
    """Return the texts that match LIKE a constant pattern, or begin with a constant."""
    (pattern,) = e.args[1:]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, bytes):
        raise monotonic.NotRising
    try:
        text = pattern.value.decode()
    except UnicodeDecodeError:
        raise monotonic.NotRising from None
    texts = texts_from(pattern.value) if e.name == "startswith" else texts_like(text, str(e.setting[0]))
    if texts is None:
        raise monotonic.NotRising
    return texts


def _at_days(days: Longs) -> ValueSet:
    """Return ascending days as a value set; consecutive days become one interval."""
    if not len(days):
        return ValueSet()
    runs = np.split(days, np.flatnonzero(np.diff(days) != 1) + 1)
    return ValueSet.of([Interval(int(run[0]), True, int(run[-1]), True) for run in runs])


def _interval(low: monotonic.End | None, high: monotonic.End | None) -> Interval:
    from_, behind = low or (None, True)
    to, closed = high or (None, False)
    if isinstance(from_, int) and (behind, to, closed) == (False, from_ + 1, False):
        return Interval(from_, True, from_, True)
    return Interval(from_, not behind, to, closed)


_CONNECTED: Mapping[str, Callable[[Sequence[Node]], Node]] = {
    "and": all_of,
    "or": any_of,
    "not": lambda nodes: negate(nodes[0]),
}

_COMPARED = ("=", "<=>", "<", "<=", ">", ">=")


_OVERFLOWING = ("trunc", "last_day")
"""Functions of days that may raise although their conditions are ranges of days."""


def term_of(expression: Expression, terms: Sequence[IndexedTerm]) -> IndexedTerm | None:
    """Return the term that holds an expression; None if there is none."""
    key = key_of(expression)
    return next((term for term in terms if term.key == key), None)


def substituted(expression: Expression, terms: Sequence[IndexedTerm]) -> Expression:
    """Replace each part of an expression that a term holds by a reference to the term, read as a column.

    Cost: one visit per distinct call. An operand used in several places stays one object.
    """
    return _substituted(expression, {term.key: Ref(term) for term in terms}, {})


def _substituted(e: Expression, terms: Mapping[str, Ref], memo: dict[int, Expression]) -> Expression:
    if not isinstance(e, Call):
        return terms.get(key_of(e), e) if isinstance(e, Ref) else e
    if id(e) not in memo:
        memo[id(e)] = terms.get(e.key) or _with_terms(e, terms, memo)
    return memo[id(e)]


def _with_terms(e: Call, terms: Mapping[str, Ref], memo: dict[int, Expression]) -> Call:
    args = tuple(_substituted(arg, terms, memo) for arg in e.args)
    null_as = None if e.null_as is None else _with_terms(e.null_as, terms, memo)
    if null_as is e.null_as and all(new is old for new, old in zip(args, e.args, strict=True)):
        return e
    return replace(e, args=args, null_as=null_as)


def over_term(node: Computed, term: IndexedTerm) -> Node | None:
    """Return the condition with the term as its only column; None if the condition reads other columns."""
    condition, inverted = _as_held(node.expression, term)
    expression = substituted(condition, [term])
    if [column.id for column in columns_in(expression)] != [term.id]:
        return None
    true, false = (_inverse(node.true), _inverse(node.false)) if inverted else (node.true, node.false)
    truth = None if _may_raise(expression, node) else truth_of(expression)
    if truth is None:
        return Computed(expression, node.text, true, false)
    return Leaf(term, _where(true, truth), _where(false, truth), node.text)


def _as_held(condition: Expression, term: IndexedTerm) -> tuple[Expression, bool]:
    """Return a comparison as the term holds it, with its sides swapped or its outcome inverted.

    Also return whether the outcome is inverted. A condition that the term does not hold is returned as it is.
    """
    question, stored = _without_not(condition), _without_not(term.expression)
    inverted = question[1] != stored[1]
    if isinstance(question[0], Call) and question[0].name in MIRRORED and len(question[0].args) == 2:
        name, sides = question[0].name, question[0].args
        same = [(name, sides, inverted), (MIRRORED[name], sides[::-1], inverted)]
        same += [(_OPPOSITE[op], args, not inverted) for op, args, _ in same if op in _OPPOSITE]
        for op, args, other in same:
            if Call(op, args, BOOLEAN).key == key_of(stored[0]):
                return term.expression, other
    return condition, False


_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def _without_not(condition: Expression) -> tuple[Expression, bool]:
    negated = False
    while isinstance(condition, Call) and condition.name == "not":
        condition, negated = condition.args[0], not negated
    return condition, negated


def _inverse(outcomes: TruthValues) -> TruthValues:
    swapped = {TruthValue.TRUE: TruthValue.FALSE, TruthValue.FALSE: TruthValue.TRUE}
    return frozenset(swapped.get(outcome, outcome) for outcome in outcomes)


def _may_raise(expression: Expression, node: Computed) -> bool:
    """Return whether the condition is TRUE or FALSE for a NULL that may stand for an error."""
    if TruthValue.NULL not in node.true | node.false or not isinstance(expression, Call):
        return False
    return expression.name in _OVERFLOWING or any(_may_raise(arg, node) for arg in expression.args)


def _where(outcomes: TruthValues, truth: Truth) -> ValueSet:
    """Return the values for which a condition has one of some outcomes.

    `truth`: the values for which the condition is TRUE, and those for which it is FALSE.
    """
    true, false = truth
    if outcomes == IS_TRUE or outcomes == IS_FALSE:
        return true if outcomes == IS_TRUE else false
    sets = {TruthValue.TRUE: true, TruthValue.FALSE: false, TruthValue.NULL: true.union(false).inverse()}
    return ValueSet.union_of([sets[outcome] for outcome in outcomes])
