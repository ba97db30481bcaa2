"""The number of rows of a predicate in one row space, without evaluating its bounds where that is cheaper.

A count is the size of an exact bound. The ways to find it are tried in order of their cost; where none
serves, the caller evaluates the bounds and rechecks open rows on data.

Example: the rows of `evaluate`, where position 2 is hidden.

    carrier = 'UA'                       its posting {0 2 4 7} has 3 visible rows
    carrier <> 'UA'                      none: its rows are no keys' rows
    carrier = 'UA' AND dest = 'SFO'      none: `dest` is not indexed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyroaring import BitMap

from tailbit.base.lazy import lazy
from tailbit.base.once import once
from tailbit.index.evaluation.choice import Choice, choose
from tailbit.index.evaluation.key_selection import KeySelection, keys_of
from tailbit.index.evaluation.row_space import Bounds, SpaceView, intersection, union
from tailbit.index.model import is_of_term
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import And, Leaf, Node
from tailbit.index.predicate.value_sets import VALUES

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
    def bounds(self) -> Bounds:
        """Evaluate the bounds of the visible rows where the predicate is TRUE."""
        return self._evaluation.whole()

    @once
    def _evaluation(self) -> evaluating.Evaluation:
        return evaluating.Evaluation(self._choice, self.space)

    def open_condition(self) -> Node:
        """Return what decides the rows that the bounds leave open: bitmaps have decided other conjuncts."""
        if not isinstance(self._node, And) or self.bounds.exact:
            return self._node
        decided = {id(conjunct) for conjunct in self._evaluation.decided}
        others = tuple(conjunct for conjunct in self._node.children if id(conjunct) not in decided)
        return others[0] if len(others) == 1 else And(others) if decided else self._node

    @property
    def evaluated(self) -> Bounds | None:
        """Return the bounds if they have been evaluated."""
        return self.__dict__.get("bounds")

    def rows_of(self, conjuncts: Sequence[Node]) -> list[BitMap] | None:
        """Return the visible rows, and the rows of some conditions; None if any is not exact."""
        bounds = [self._evaluation.bounds(conjunct) for conjunct in conjuncts]
        return [*(b.sure for b in bounds), self.space.visible] if all(b.exact for b in bounds) else None


def count_true(question: SpaceQuestion) -> int | None:
    """Count the visible rows where a predicate is TRUE; None if only its bounds or data can tell."""
    if question.evaluated is not None and question.evaluated.exact:
        return len(question.evaluated.sure)
    node, space = question.node, question.space
    counted = count_of_nulls(node, space)
    if counted is None:
        counted = count_by_cardinalities(node, space)
    return count_by_keys(question) if counted is None else counted


def count_of_nulls(node: Node, space: SpaceView) -> int | None:
    """Count the rows of `x IS NULL` or `x IS NOT NULL` by the statistics of files; else None."""
    if not space.accesses or not isinstance(node, Leaf) or node.column.partition:
        return None
    if node.true.spans() not in ([], VALUES.spans()) or bool(node.true.spans()) == node.true.nulls:
        return None
    statement = space.stated(node.column)
    if statement is None or (statement.nulls < 0).any():
        return None
    nulls = int(statement.nulls.sum())
    return nulls if node.true.nulls else space.extent - nulls


def count_by_cardinalities(node: Node, space: SpaceView) -> int | None:
    """Count the rows of a range over many keys by recorded cardinalities; None unless all rows are visible.

    Cost: the keys and cardinalities of the column, once; then binary searches. No posting is read.
    """
    if not isinstance(node, Leaf) or node.column.partition or _lists_few(node):
        return None
    id_, segments = node.column.id, space.serving(node.column)
    if not segments or any(len(space.visible) != segment.rows for segment in segments):
        return None
    if is_of_term(id_) and space.unposted(id_) is not None:
        return None
    total = present = 0
    for segment in segments:
        keys, truncated = keys_of(node.column, node.true, segment)
        inside = keys.cardinality()
        if inside is None or (truncated is not None and truncated.bitmaps()):
            return None
        stored, cardinality = segment.keys(id_)
        null = int(cardinality[0]) if len(stored) and not stored[0].is_valid else 0
        every = int(cardinality.sum())
        present += every
        total += (every - null - inside if node.true.complement else inside) + null * node.true.nulls
    return total if present == len(space.visible) else None


def _lists_few(leaf: Leaf) -> bool:
    """Return whether a condition lists few single values, or none."""
    intervals = leaf.true.intervals
    return len(intervals) <= _FEW_KEYS and all(i.lo is not None and i.lo == i.hi for i in intervals)


def count_by_keys(question: SpaceQuestion) -> int | None:
    """Count the rows of the keys of one conjunct, that with most keys, among the rows of all others.

    None if the rows of no conjunct are exactly those of some keys, or the rows of another are not exact.
    """
    node = question.node
    conjuncts = node.children if isinstance(node, And) else (node,)
    selections = [_selections(conjunct, question.space) for conjunct in conjuncts]
    sizes = [-1 if keys is None else sum(of.keys for of in keys) for keys in selections]
    chosen = max(range(len(sizes)), key=sizes.__getitem__, default=None)
    keys = None if chosen is None else selections[chosen]
    if chosen is None or keys is None:
        return None
    rows = question.rows_of([*conjuncts[:chosen], *conjuncts[chosen + 1 :]])
    return None if rows is None else _count_among(keys, rows)


def _count_among(selections: Sequence[KeySelection], sets: list[BitMap]) -> int:
    """Count the rows in all of some sets that have a key of a selection; no row has keys of two.

    Few and small postings are united and intersected first, so that the largest set is only counted.
    """
    sets.sort(key=len)
    if any(keys.has_codes for keys in selections):
        rows = intersection(sets)
        return sum(keys.count(rows) for keys in selections)
    postings = [bits for keys in selections for bits in keys.bitmaps()]
    if len(sets) > 1 and len(postings) <= _FEW_KEYS and sum(map(len, postings)) < len(sets[0]):
        *others, largest = sets
        return int(intersection([union(postings), *others]).intersection_cardinality(largest))
    rows = intersection(sets)
    return sum(rows.intersection_cardinality(posting) for posting in postings)


def _selections(node: Node, space: SpaceView) -> Sequence[KeySelection] | None:
    """Return keys whose rows are exactly those where a condition is TRUE; None if there are no such keys."""
    if not isinstance(node, (Leaf, Computed)) or node.column is None or node.column.partition:
        return None
    if isinstance(node, Leaf) and (node.true.complement or node.true.nulls):
        return None
    segments = space.serving(node.column)
    if not segments or space.unposted(node.column.id) is not None:
        return None
    if isinstance(node, Computed):
        return computed.exact_keys(node, segments)
    selections = [keys_of(node.column, node.true, segment) for segment in segments]
    exact = all(truncated is None or not truncated.bitmaps() for _, truncated in selections)
    return [keys for keys, _ in selections] if exact else None
