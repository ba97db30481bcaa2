"""Bounds of conditions on columns, from the postings of an expression that reads these columns.

Example, for the term `date_trunc('HOUR', ts)`: `ts >= '10:30'` is TRUE for every row of 11:00 and later; it
may be TRUE for rows of 10:00, which are rechecked.
"""

from __future__ import annotations

from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.bounds import EMPTY, Bounds
from tailbit.index.evaluation.choice import Choice
from tailbit.index.evaluation.evaluate import Evaluation
from tailbit.index.evaluation.row_space import Access, SpaceView
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.implication.implied import implied, implies
from tailbit.index.model import Definition
from tailbit.index.predicate.tree import Node, columns_of


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
        """Return the bounds of a condition by the term's keys.

        Raises:
            CorruptIndexError: a segment is damaged.
        """
        implication = implied(node, self.term)
        if implication is None:
            return Bounds.between(EMPTY, space.visible)
        maybe = Evaluation(Choice(implication.maybe), space).whole().maybe
        if implication.sure is None:
            return Bounds.between(EMPTY, maybe)
        return Bounds.between(Evaluation(Choice(implication.sure), space).whole().sure, maybe)
