"""Evaluation of a predicate in one row space: positions that surely match and positions that may match.

Input: a bound predicate with NOT pushed to the leaves and a `SpaceView`. Output: `Bounds`, with
`sure <= TRUE <= maybe`, both within the visible rows. An exact leaf has equal bounds; a truncated key, a
column that no segment serves and a comparison of two columns widen them. Only rows in `maybe - sure` are ever
rechecked on data. FALSE needs no bounds of its own: NOT p is evaluated by negating the leaves.

Example: files a and b of four rows each share a row space; `carrier` is indexed, `dest` is not, and the row
at position 2 is hidden.

    position           0    1    2    3    4    5    6    7
    file, row          a 0  a 1  a 2  a 3  b 0  b 1  b 2  b 3
    carrier            UA   AA   UA   NULL UA   DL   AA   UA
    visible            x    x         x    x    x    x    x

    predicate                          sure       maybe
    carrier = 'UA'                     {0 4 7}    {0 4 7}            its posting {0 2 4 7} less the hidden row
    NOT (carrier = 'UA')               {1 5 6}    {1 5 6}            visible less NULL {3} less the posting
    dest = 'SFO'                       {}         {0 1 3 4 5 6 7}    no segment serves it
    carrier = 'UA' AND dest = 'SFO'    {}         {0 4 7}            three rows are rechecked
    carrier = 'UA' OR dest = 'SFO'     {0 4 7}    {0 1 3 4 5 6 7}    four rows are rechecked
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyroaring import BitMap

from tailbit.base.lazy import lazy
from tailbit.index.evaluation.choice import Choice, choose
from tailbit.index.evaluation.key_selection import keys_of
from tailbit.index.evaluation.row_space import EMPTY, Bounds, SpaceView, intersection, union
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or, shared_in

if TYPE_CHECKING:
    from tailbit.index.evaluation import computed
else:
    computed = lazy("tailbit.index.evaluation.computed")


def evaluate(node: Node, space: SpaceView) -> Bounds:
    """Compute the bounds of the visible rows of one row space where `node` is TRUE.

    Cost: the postings of the keys that the leaves touch, one C call per key; nothing per row or file. A new
    condition on a partition column costs a step per distinct partition text.
    """
    return Evaluation(choose(node, space), space).whole()


class Evaluation:
    """Evaluation of one predicate in one row space; a node with several parents is evaluated once."""

    def __init__(self, choice: Choice, space: SpaceView) -> None:
        self.node, self.bounding = choice.node, choice.bounding
        self.space = space
        self.shared = shared_in(choice.node)
        self.memo: dict[int, Bounds] = {}
        self.decided: list[Node] = []
        """Conjuncts of the predicate with exact bounds: TRUE in each row that the predicate leaves open."""

    def whole(self) -> Bounds:
        """Compute the bounds of the visible rows where the predicate is TRUE."""
        bounds, visible = self.bounds(self.node), self.space.visible
        if bounds.exact:
            return Bounds.exactly(bounds.sure & visible)
        return Bounds.between(bounds.sure & visible, bounds.maybe & visible)

    def bounds(self, node: Node) -> Bounds:
        """Compute the bounds of a node; they may hold rows that are not visible."""
        bounds = self._own_bounds(node)
        if self.bounding and not bounds.exact:
            for access, bounded in self.bounding.get(id(node), ()):
                bounds = _combined(bounds, access.bounds(bounded, self.space))
        return bounds

    def _own_bounds(self, node: Node) -> Bounds:
        if isinstance(node, (And, Or)):
            bounds = self.memo.get(id(node))
            if bounds is None:
                children = [self.bounds(child) for child in node.children]
                bounds = _and(children) if isinstance(node, And) else _or(children)
                if node is self.node and isinstance(node, And):
                    self.decided = [
                        child for child, own in zip(node.children, children, strict=True) if own.exact
                    ]
                if id(node) in self.shared:
                    self.memo[id(node)] = bounds
            return bounds
        if isinstance(node, Constant):
            return Bounds.exactly(self.space.visible if node.value is True else EMPTY)
        if node.column is None:
            return Bounds.between(EMPTY, self.space.visible)
        if node.column.partition:
            sure, open_ = self.space.where_partition(node), self.space.raising_partition(node)
            return Bounds.between(sure, sure | open_) if open_ else Bounds.exactly(sure)
        return (
            computed.computed_bounds(node, self.space)
            if isinstance(node, Computed)
            else _leaf(node, self.space)
        )


def _combined(bounds: Bounds, others: Bounds) -> Bounds:
    """Combine two bounds of the same node: a row is sure if either says so, and open if both leave it open.

    Both may hold rows that are not visible.
    """
    sure = bounds.sure | others.sure
    return Bounds.between(sure, sure | bounds.maybe & others.maybe)


def _and(children: list[Bounds]) -> Bounds:
    sure = intersection([p.sure for p in children])
    if all(p.exact for p in children):
        return Bounds.exactly(sure)
    return Bounds.between(sure, intersection([p.maybe for p in children]))


def _or(children: list[Bounds]) -> Bounds:
    sure = union([p.sure for p in children])
    if all(p.exact for p in children):
        return Bounds.exactly(sure)
    return Bounds.between(sure, union([p.maybe for p in children]))


def _leaf(leaf: Leaf, space: SpaceView) -> Bounds:
    column, values = leaf.column.id, leaf.true
    segments = space.serving(leaf.column)
    if not segments:
        return Bounds.between(EMPTY, space.visible)
    sure_parts: list[BitMap] = []
    maybe_parts: list[BitMap] = []
    for segment in segments:
        keys, truncated = keys_of(leaf.column, values, segment)
        sure_parts += keys.bitmaps()
        maybe_parts += truncated.bitmaps() if truncated is not None else []
    sure = union(sure_parts)
    posted = Bounds.between(sure, union([sure, *maybe_parts])) if maybe_parts else Bounds.exactly(sure)
    if values.complement or values.nulls:
        nulls = union([bits for s in segments if (bits := s.lookup(column, None)) is not None])
        posted = _less(space.visible - nulls, posted) if values.complement else posted
        posted = _or([posted, Bounds.exactly(nulls)]) if values.nulls else posted
    unposted = space.unposted(column)
    return posted if unposted is None else Bounds.between(posted.sure - unposted, posted.maybe | unposted)


def _less(present: BitMap, bounds: Bounds) -> Bounds:
    """Return the positions of `present` that lie outside of bounds.

    Positions between the bounds may be inside, so they are not in `sure`.
    """
    stays = present - bounds.maybe
    return Bounds.exactly(stays) if bounds.exact else Bounds.between(stays, present - bounds.sure)
