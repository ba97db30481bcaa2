"""Bounds of conditions on columns, from the postings of expressions and tuples that read these columns.

Example, for the postings of the term `date_trunc('HOUR', ts)`: `ts >= '10:30'` is TRUE for every row of 11:00
and later; it may be TRUE for rows of 10:00, which are rechecked.

Example, for tuples of (country, lower(city), zip):

    country = 'IT' AND zip > 9 AND x = 1                  country = 'IT' is served; all else is left to others
    country = 'IT' AND lower(city) = 'rome' AND x = 1     one range of tuples, and x = 1
    country IN ('IT', 'FR') AND city = 'Rome'             two ranges of tuples, in which rows are rechecked
"""

from __future__ import annotations

from functools import lru_cache

from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.choice import Choice
from tailbit.index.evaluation.evaluate import Evaluation
from tailbit.index.evaluation.row_space import EMPTY, Access, Bounds, SpaceView
from tailbit.index.expression.indexed_term import IndexedTerm, IndexedTuple
from tailbit.index.keys import key_type_of
from tailbit.index.model import Definition
from tailbit.index.predicate.implied import TermOfNode, TuplePrefix, implied, implies, tuple_prefix
from tailbit.index.predicate.key_ranges import tuple_set
from tailbit.index.predicate.tree import And, Leaf, Node, all_of, columns_of
from tailbit.index.predicate.value_sets import ValueSet


@dataclass(frozen=True)
class TermAccess(Access):
    """The postings of a term of one definition, asked through the columns that the term reads."""

    definition: Definition
    term: IndexedTerm

    @property
    def values(self) -> IndexedTerm:
        """Return the term."""
        return self.term

    def same(self, node: Node) -> Node | None:
        """Return the condition on the term that is TRUE for the same rows as `node`, or None.

        None: there is no such condition, or `node` itself reads only the term.
        """
        if all(column.id == self.term.id for column in columns_of(node)):
            return None
        implication = implied(node, self.term)
        return implication.maybe if implication is not None and implication.exact else None

    def serves(self, node: Node) -> bool:
        """Return whether a condition restricts the term; an AND counts only for a term of several columns."""
        return implies(node, self.term)

    def bounds(self, node: Node, space: SpaceView) -> Bounds:
        """Return the bounds of a condition by the term's keys."""
        implication = implied(node, self.term)
        if implication is None:
            return Bounds.between(EMPTY, space.visible)
        maybe = Evaluation(Choice(implication.maybe), space).whole().maybe
        if implication.sure is None:
            return Bounds.between(EMPTY, maybe)
        return Bounds.between(Evaluation(Choice(implication.sure), space).whole().sure, maybe)


@dataclass(frozen=True)
class TupleAccess(Access):
    """The postings of the tuples of one definition, asked through conditions on their first parts."""

    definition: Definition
    term: IndexedTuple

    @property
    def values(self) -> IndexedTuple:
        """Return the term."""
        return self.term

    def same(self, node: Node) -> Node | None:
        """Return a condition on tuples, AND the rest of `node`, that is TRUE for the same rows, or None."""
        served = _served(TermOfNode(node, self.term))
        return served.whole if served is not None and served.exact else None

    def serves(self, node: Node) -> bool:
        """Return whether a condition, or several parts of an AND together, restrict the tuples."""
        return _served(TermOfNode(node, self.term)) is not None

    def bounds(self, node: Node, space: SpaceView) -> Bounds:
        """Return the bounds of a condition by the keys of the tuples."""
        served = _served(TermOfNode(node, self.term))
        if served is None:
            return Bounds.between(EMPTY, space.visible)
        bounds = Evaluation(Choice(served.leaf), space).whole()
        return bounds if served.exact and served.whole is served.leaf else Bounds.between(EMPTY, bounds.maybe)


@dataclass(frozen=True, eq=False)
class _Served:
    """A condition translated to tuples.

    `leaf`: a condition on the tuples that is TRUE wherever the condition is TRUE. `whole`: the leaf AND the
    parts of the condition that are not translated. `exact`: the whole is TRUE for no other rows than the
    condition.
    """

    leaf: Leaf
    whole: Node
    exact: bool


@lru_cache(maxsize=4096)
def _served(question: TermOfNode[IndexedTuple]) -> _Served | None:
    node, term = question.node, question.term
    conjuncts = node.children if isinstance(node, And) else (node,)
    # Tuples hold the values of partition columns as they are in UTC.
    prefix = tuple_prefix([conjunct for conjunct in conjuncts if _is_in_utc(conjunct)], term.parts)
    if prefix is None or (isinstance(node, And) and len(prefix.served) < 2):
        return None
    conditions = _conditions(prefix)
    values, used = tuple_set(conditions, key_type_of(term.type))
    leaf = Leaf(term, values, values.inverse(), f"({term.label}) in some tuples")
    served = {id(conjunct) for conjunct in prefix.served}
    rest = [conjunct for conjunct in conjuncts if id(conjunct) not in served]
    whole = all_of([leaf, *rest]) if rest else leaf
    return _Served(leaf, whole, prefix.exact and used == len(conditions))


def _is_in_utc(node: Node) -> bool:
    return all(column.zone == "UTC" for column in columns_of(node))


def _conditions(prefix: TuplePrefix) -> list[ValueSet]:
    """Return, for each part of the prefix, the set of its values."""
    points = [
        ValueSet.points([value for value in listed if value is not None], nulls=None in listed)
        for listed in prefix.points
    ]
    return points if prefix.last is None else [*points, prefix.last]
