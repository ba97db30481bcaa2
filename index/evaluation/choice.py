"""Choice of the indexes that serve a condition in a row space.

The postings of a condition's own column come first: they are exact. Where a row space has none, or where the
condition computes values of that column, the postings of another definition may decide an equivalent
condition, which replaces the condition in the tree. Of several equivalents, the one that leaves fewest
conditions open is chosen, and among these the one whose postings are read and united quickest, as if nothing
were cached. Without an equivalent, definitions may still bound the rows where the condition is TRUE: all
their bounds are intersected. Rows left open are rechecked with the original condition.

Example: `lower(city)` and `(country, zip)` are indexed, no column alone is.

    lower(city) = 'rome'                     =>  a key of the term lower(city): exact
    city = 'Rome'                            =>  may be TRUE where lower(city) is 'rome'
    country = 'IT' AND zip > 100 AND x = 1   =>  a range of keys of (country, zip), AND x = 1
    country = 'IT' AND zip <> 100            =>  all keys of (country, zip) but one; if both columns have
                                                 postings of their own, those of two keys
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tailbit.base.errors import CorruptIndexError
from tailbit.index.evaluation import costs
from tailbit.index.evaluation.key_selection import keys_of
from tailbit.index.evaluation.row_space import Access, SpaceView
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or


class Bounding(NamedTuple):
    """An access, and a condition that it bounds."""

    access: Access
    node: Node


_NOTHING: Mapping[int, Sequence[Bounding]] = MappingProxyType({})


class Choice(NamedTuple):
    """A condition as the indexes of a row space serve it best.

    `node`: TRUE for the same rows as the original condition, wherever the indexes leave no row open.
    `bounding`: by `id` of a part of `node`, accesses whose bounds are intersected with those of the part.
    """

    node: Node
    bounding: Mapping[int, Sequence[Bounding]] = _NOTHING


def choose(node: Node, space: SpaceView) -> Choice:
    """Choose the indexes that serve a condition in a row space; the choice is cached with the row space.

    Cost: reads footers of segments and, where an AND has alternatives with ranges, the keys of their columns.
    """
    if not space.accesses:
        return Choice(node)
    cached: _CachedChoice = space.choices.get(
        id(node), lambda: (_CachedChoice(node, _chosen(node, space)), 1)
    )
    return cached.choice


class _CachedChoice(NamedTuple):
    """A choice with its condition, which is kept alive so that its `id` stays unique."""

    node: Node
    choice: Choice


def _chosen(node: Node, space: SpaceView) -> Choice:
    choosing = _Choosing(space)
    try:
        return Choice(choosing.best(node), choosing.bounding)
    except CorruptIndexError:
        # The evaluation of the condition meets the same damage, and reports it.
        return Choice(node)


class _Choosing:
    """Choice for the parts of one condition; each part is decided once, even if it has several parents."""

    def __init__(self, space: SpaceView) -> None:
        self.space = space
        self.bounding: dict[int, Sequence[Bounding]] = {}
        self._memo: dict[int, tuple[Node, Node]] = {}
        self._weighed: list[Node] = []
        """Conditions that were weighed, so that no later one gets the identity of one that was noted."""

    def best(self, node: Node) -> Node:
        """Return the best equivalent of a condition and its parts; note the accesses that bound them."""
        if id(node) not in self._memo:
            best = self._connected(node) if isinstance(node, (And, Or)) else self._single(node)
            # Each condition is kept, so that no later one gets its identity.
            self._memo[id(node)] = node, best
        return self._memo[id(node)][1]

    def _connected(self, node: And | Or) -> Node:
        children = tuple(map(self.best, node.children))
        same = all(new is old for new, old in zip(children, node.children, strict=True))
        best = node if same else And(children) if isinstance(node, And) else Or(children)
        if not isinstance(node, And):
            return best
        others = [self._completed(other) for other in self._alternatives(node)]
        whole = min([*others, best], key=self._cost) if others else best
        if whole is best:
            self._note(best, node)
        return whole

    def _completed(self, node: Node) -> Node:
        """Replace further parts of an AND by their equivalents, the cheapest first, while that is cheaper.

        So two indexes of several columns that share one are weighed with what each leaves to others.
        """
        while isinstance(node, And):
            best = And(tuple(map(self.best, node.children)))
            cheapest = min([*self._alternatives(node), best], key=self._cost)
            self._weighed += (node, best)
            if cheapest is best:
                self._note(best, node)
                return best
            node = cheapest
        return self.best(node)

    def _cost(self, node: Node) -> tuple[int, float]:
        """Return the number of conditions that postings leave open, and the ms to read and unite postings."""
        if isinstance(node, (And, Or)):
            of_children = [self._cost(self.best(child)) for child in node.children]
            return sum(open_ for open_, _ in of_children), sum(ms for _, ms in of_children)
        if not self._is_posted(node):
            return 1, 0.0
        return 0, _reading(node, self.space) if isinstance(node, (Leaf, Computed)) else 0.0

    def _single(self, node: Node) -> Node:
        posted = self._is_posted(node)
        if posted and not isinstance(node, Computed):
            return node
        # A computed condition reads all postings of its column, those of a term only its own.
        best = min([*self._alternatives(node), node], key=self._cost)
        if best is node and not posted:
            self._note(node, node)
        return best

    def _alternatives(self, node: Node) -> Iterator[Node]:
        """Yield the equivalent conditions on definitions whose postings cover all rows of the row space."""
        for access in self.space.accesses:
            same = access.same(node)
            if same is not None and same is not node and self._says_all(access.definition.id):
                yield same

    def _note(self, best: Node, node: Node) -> None:
        """Note the accesses that bound the condition `node`, for which `best` was chosen."""
        serving = [Bounding(access, node) for access in self.space.accesses if access.serves(node)]
        if serving:
            self.bounding[id(best)] = serving

    def _is_posted(self, node: Node) -> bool:
        """Return whether the postings of a condition's own column decide for each row whether it is TRUE."""
        if isinstance(node, Constant):
            return True
        column = None if isinstance(node, (And, Or)) else node.column
        if column is None:
            return False
        return column.partition or (bool(self.space.serving(column)) and self._says_all(column.id))

    def _says_all(self, id_: str) -> bool:
        return self.space.posts(id_) and self.space.unposted(id_) is None


def _reading(node: Leaf | Computed, space: SpaceView) -> float:
    """Estimate the ms to read and unite the postings of a condition on one column or term.

    Caches do not count, so the estimate is the same whatever was asked before. Cost: for a range, one read of
    the column's keys, unless these are very many.
    """
    column = node.column
    if column is None or column.partition:
        return 0.0
    segments = space.serving(column)
    if isinstance(node, Computed):
        return sum(costs.reading(segment, column.id, None, 1.0) for segment in segments)
    selections = [keys for segment in segments for keys in keys_of(column, node.true, segment)]
    return sum(keys.reading() for keys in selections if keys is not None)
