"""What the postings of an expression say of conditions on the columns that it reads.

Example, for the term `date_trunc('HOUR', ts)`: `ts >= '10:30'` is TRUE for every row of 11:00 and later, may
be TRUE for rows of 10:00, and these are rechecked.
"""

from __future__ import annotations

from tailbit.imports.dataclass import dataclass
from tailbit.index.evaluation.bounds import EMPTY, Bounds
from tailbit.index.evaluation.choice import Choice
from tailbit.index.evaluation.evaluate import Evaluation
from tailbit.index.evaluation.row_space import Access, SpaceView
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.implication.implied import implied, implies
from tailbit.index.model import Definition
from tailbit.index.predicate.tree import Node
from tailbit.index.predicate.walks import columns_of


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
        """Return the condition on the term that is TRUE for the same rows; None if there is no other."""
        if all(column.id == self.term.id for column in columns_of(node)):
            return None
        implication = implied(node, self.term)
        return implication.maybe if implication is not None and implication.exact else None

    def serves(self, node: Node) -> bool:
        """Return whether a condition implies anything for the term, and an AND more than its parts do."""
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
