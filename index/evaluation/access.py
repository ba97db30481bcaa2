"""Access paths to the number of rows of a predicate in one row space, and the choice of the cheapest.

A count is the size of an exact bound. Every path but the first finds that size for some predicates without
evaluating the bound. The paths are tried in order of their cost; where none serves, the caller evaluates the
bounds and rechecks open rows on data.

Example: the rows of `evaluate`, where position 2 is hidden.

    carrier = 'UA'                       DisjointPostings   its posting {0 2 4 7} has 3 visible rows
    carrier <> 'UA'                      none               its rows are no union of disjoint postings
    carrier = 'UA' AND dest = 'SFO'      none               `dest` is not indexed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pyroaring import BitMap

from tailbit.base.lazy import lazy
from tailbit.base.once import once
from tailbit.index.evaluation.bounds import Bounds, intersection, union
from tailbit.index.evaluation.choice import Choice, choose
from tailbit.index.evaluation.key_spans import covering, filter_of, key_cardinalities
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.evaluation.stated import count_of_nulls
from tailbit.index.keys import posting_type_of
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.key_ranges import key_ranges
from tailbit.index.predicate.tree import And, Leaf, Node

if TYPE_CHECKING:
    from tailbit.index.evaluation import computed
    from tailbit.index.evaluation import evaluate as evaluating
else:
    evaluating = lazy("tailbit.index.evaluation.evaluate")
    computed = lazy("tailbit.index.evaluation.computed")

_FEW_KEYS = 8
"""Up to this many postings of a leaf, uniting them costs less than it saves for other leaves of an AND."""


class SpaceQuestion:
    """A predicate to be counted in one row space; its bounds are evaluated at most once."""

    def __init__(self, node: Node, space: SpaceView) -> None:
        self._node, self.space = node, space

    @once
    def _choice(self) -> Choice:
        return choose(self._node, self.space)

    @once
    def node(self) -> Node:
        """Return the predicate as the indexes of the row space serve it."""
        return self._choice.node

    @once
    def conjuncts(self) -> Sequence[Node]:
        """Return the parts of an AND, else the predicate alone."""
        return self.node.children if isinstance(self.node, And) else (self.node,)

    @once
    def bounds(self) -> Bounds:
        """Evaluate the bounds of the visible rows where the predicate is TRUE."""
        return self._evaluation.whole()

    @once
    def _evaluation(self) -> evaluating.Evaluation:
        return evaluating.Evaluation(self._choice, self.space)

    @property
    def evaluated(self) -> Bounds | None:
        """Return the bounds if they have been evaluated."""
        return self.__dict__.get("bounds")

    def rows_of_others(self, chosen: int) -> list[BitMap] | None:
        """Return the visible rows and the rows of each conjunct but `chosen`; None if any is not exact."""
        others = [self._evaluation.bounds(p) for i, p in enumerate(self.conjuncts) if i != chosen]
        return [*(p.sure for p in others), self.space.visible] if all(p.exact for p in others) else None


class AccessPath(Protocol):
    """A method to count the rows of a predicate in a row space."""

    def count(self, question: SpaceQuestion) -> int | None:
        """Count the visible rows where the predicate is TRUE; None if this path cannot count them.

        Raises:
            CorruptIndexError: a segment is damaged.
        """


class EvaluatedBounds:
    """The number of rows in exact bounds that this question has evaluated before. Cost: one cardinality."""

    def count(self, question: SpaceQuestion) -> int | None:
        """Count the rows of the bounds."""
        bounds = question.evaluated
        return len(bounds.sure) if bounds is not None and bounds.exact else None


class StatedNulls:
    """The NULL counts in statistics of a column whose rows are all visible. Cost: one sum over files."""

    def count(self, question: SpaceQuestion) -> int | None:
        """Count `x IS NULL` and `x IS NOT NULL`; no row is looked at."""
        return count_of_nulls(question.node, question.space) if question.space.accesses else None


class KeyCardinalities:
    """The recorded cardinalities of a range over many keys, where every row of the row space is visible.

    Cost: the keys and cardinalities of the column, once; then binary searches.
    """

    def count(self, question: SpaceQuestion) -> int | None:
        """Add up the recorded cardinalities of the keys that match the condition; no posting is read."""
        return key_cardinalities(question.node, question.space)


class CodesByPosition:
    """Cached codes (key numbers by position) of one conjunct, which filter the rows of the other conjuncts.

    Serves where codes are cached or due, and the other conjuncts are exact. Cost: a lookup per row of the
    other conjuncts, or one C call per key where that is cheaper.
    """

    def count(self, question: SpaceQuestion) -> int | None:
        """Count the rows of the other conjuncts whose code the widest conjunct allows."""
        of_parts = ((i, filter_of(conjunct, question.space)) for i, conjunct in enumerate(question.conjuncts))
        filters = [(i, key_filter) for i, key_filter in of_parts if key_filter is not None]
        if not filters:
            return None
        chosen, widest = max(filters, key=lambda chosen_filter: chosen_filter[1].keys)
        others = question.rows_of_others(chosen)
        if others is None:
            return None
        other_rows = intersection(others)
        if widest.pays(other_rows):
            return widest.count(other_rows)
        postings = _disjoint(question.conjuncts[chosen], question.space)
        return (
            None
            if postings is None
            else sum(other_rows.intersection_cardinality(posting) for posting in postings)
        )


class DisjointPostings:
    """The postings of a leaf, which are disjoint: each is counted against the rows of the other conjuncts.

    The leaf with most keys is counted key by key, after the other conjuncts are intersected, the smallest
    first. Few and small postings are united instead, so that the largest other set is only counted. Cost: one
    C call per key.
    """

    def count(self, question: SpaceQuestion) -> int | None:
        """Add up the rows that each posting shares with the other conjuncts."""
        of_parts = ((i, _disjoint(conjunct, question.space)) for i, conjunct in enumerate(question.conjuncts))
        listed = [(i, postings) for i, postings in of_parts if postings is not None]
        if not listed:
            return None
        chosen, postings = max(listed, key=lambda chosen_parts: len(chosen_parts[1]))
        others = question.rows_of_others(chosen)
        if others is None:
            return None
        others.sort(key=len)
        if len(others) > 1 and len(postings) <= _FEW_KEYS and sum(map(len, postings)) < len(others[0]):
            largest = others.pop()
            return int(intersection([union(postings), *others]).intersection_cardinality(largest))
        other_rows = intersection(others)
        return sum(other_rows.intersection_cardinality(posting) for posting in postings)


PATHS: Sequence[AccessPath] = (
    EvaluatedBounds(),
    StatedNulls(),
    KeyCardinalities(),
    CodesByPosition(),
    DisjointPostings(),
)
"""The access paths, by rising cost."""


def count_true(question: SpaceQuestion) -> int | None:
    """Count the visible rows where a predicate is TRUE by the cheapest path; None if no path serves it."""
    for path in PATHS:
        counted = path.count(question)
        if counted is not None:
            return counted
    return None


def _disjoint(node: Node, space: SpaceView) -> list[BitMap] | None:
    """Return the disjoint postings whose union is exactly a leaf's rows; None if there are none."""
    if isinstance(node, Computed):
        return computed.computed_postings(node, space)
    if not isinstance(node, Leaf) or node.column.partition or node.true.complement or node.true.nulls:
        return None
    segments = space.serving(node.column)
    if not segments or space.unposted(node.column.id) is not None:
        return None
    postings: list[BitMap] = []
    for segment in segments:
        stored = segment.columns[node.column.id]
        ranges = key_ranges(node.true, posting_type_of(node.column.type), stored)
        if ranges.maybe and segment.select(node.column.id, ranges.maybe)[1]:
            return None
        postings += covering(segment, node.column.id, ranges)
    return postings
