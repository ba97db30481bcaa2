"""Substitution of indexed terms for the expressions that they hold, so that conditions read their values.

Worked example, for a term that holds `lower(s)`:

    lower(s) = 'x'                  term = 'x'            one key
    lower(s) LIKE 'ab%'             term LIKE 'ab%'       a range of keys
    length(lower(s)) > 3            length(term) > 3      computed once per key
    lower(s) = 'x' OR lower(s) = n  no condition on the term, since it reads n, too
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.functions.tree import Call, Expression, Ref, columns_in, key_of
from tailbit.index.implication.rising import truth_of
from tailbit.index.predicate.computed import IS_FALSE, IS_TRUE, Computed, TruthValue, TruthValues
from tailbit.index.predicate.leaves import Truth
from tailbit.index.predicate.tree import Compare, Leaf, Node, negate
from tailbit.index.predicate.value_sets import ValueSet
from tailbit.index.values.coercion import MIRRORED

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


def _substituted(e: Expression, terms: Mapping[str, Ref], known: dict[int, Expression]) -> Expression:
    if not isinstance(e, Call):
        return terms.get(key_of(e), e) if isinstance(e, Ref) else e
    if id(e) not in known:
        known[id(e)] = terms.get(e.key) or _with_terms(e, terms, known)
    return known[id(e)]


def _with_terms(e: Call, terms: Mapping[str, Ref], known: dict[int, Expression]) -> Call:
    args = tuple(_substituted(arg, terms, known) for arg in e.args)
    null_as = None if e.null_as is None else _with_terms(e.null_as, terms, known)
    if null_as is e.null_as and all(new is old for new, old in zip(args, e.args, strict=True)):
        return e
    return replace(e, args=args, null_as=null_as)


def over_term(node: Computed | Compare, term: IndexedTerm) -> Node | None:
    """Return the condition with the term as its only column; None if the condition reads other columns."""
    if isinstance(node, Compare):
        return _of_comparison(node, term)
    expression = substituted(node.expression, [term])
    if [column.id for column in columns_in(expression)] != [term.id]:
        return None
    truth = None if _may_raise(expression, node) else truth_of(expression)
    if truth is None:
        return Computed(expression, node.text, node.true, node.false)
    return Leaf(term, _where(node.true, truth), _where(node.false, truth), node.text)


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


def _of_comparison(node: Compare, term: IndexedTerm) -> Node | None:
    """Return a comparison of two columns as a condition on a term that is this comparison, or NOT of it."""
    held, negated = term.expression, False
    while isinstance(held, Call) and held.name == "not":
        held, negated = held.args[0], not negated
    if not isinstance(held, Call) or held.name not in MIRRORED or len(held.args) != 2:
        return None
    sides = [_column(arg, node) for arg in held.args]
    column_ids = [node.left.id, node.right.id]
    if sides not in (column_ids, column_ids[::-1]):
        return None
    true = ValueSet.points([not negated])
    condition = Leaf(
        term, true, ValueSet.points([negated]), f"{node.left.label} {node.op} {node.right.label}"
    )
    compared = Compare(
        node.left, held.name if sides == column_ids else MIRRORED[held.name], node.right, node.common
    )
    if compared.op == node.op:
        return condition
    return negate(condition) if negate(compared) == node else None


def _column(side: Expression, node: Compare) -> str:
    """Return the id of the column on one side; empty if the side is not compared in the type of the node."""
    if side.type != node.common:
        return ""
    inner = side.args[0] if isinstance(side, Call) and side.name == "cast" else side
    return "" if not isinstance(inner, Ref) or inner.column.type.char_length else inner.column.id
