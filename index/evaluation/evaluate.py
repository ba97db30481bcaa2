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

from pyroaring import BitMap

from tailbit.index.evaluation.bounds import EMPTY, Bounds, intersection, union
from tailbit.index.evaluation.computed import computed_bounds, computed_postings
from tailbit.index.evaluation.key_spans import counted_whole, covering, filter_of, united
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.keys import posting_type_of
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.predicate.tree import (
    And,
    Compare,
    Computed,
    Constant,
    Leaf,
    Node,
    Or,
    ValueSet,
    key_ranges,
)
from tailbit.index.predicate.walks import shared_in

_FEW_KEYS = 8
"""Up to this many postings of a leaf, their union costs less than it saves the other leaves of an AND."""


def evaluate(node: Node, space: SpaceView) -> Bounds:
    """Compute the bounds of the visible rows of one row space where `node` is TRUE.

    Cost: the postings of the keys that the leaves touch, one C call per key; nothing per row or file. A new
    condition on a partition column costs a step per distinct partition text.

    Raises:
        CorruptIndexError: a segment that does not check; the caller scans the files of this row space.
    """
    bounds = _Evaluation(node, space).bounds(node)
    if bounds.exact:
        return Bounds.exactly(bounds.sure & space.visible)
    return Bounds.between(bounds.sure & space.visible, bounds.maybe & space.visible)


def count_true(node: Node, space: SpaceView) -> int | None:
    """Count the visible rows where `node` is TRUE without uniting postings; None where `evaluate` is needed.

    A leaf's postings are disjoint, so the leaf with most keys in a conjunction is counted key by key against
    the rows that the other leaves keep; the smallest set is intersected first. Cost: one C call per key, no
    allocation.

    Raises:
        CorruptIndexError: as `evaluate`.
    """
    whole = counted_whole(node, space)
    if whole is not None:
        return whole
    conjuncts: list[Node] = [*node.children] if isinstance(node, And) else [node]
    filtered = _filtered(node, conjuncts, space)
    if filtered is not None:
        return filtered
    listed = [(i, parts) for i, part in enumerate(conjuncts) if (parts := _disjoint(part, space)) is not None]
    if not listed:
        return None
    chosen, parts = max(listed, key=lambda item: len(item[1]))
    evaluation = _Evaluation(node, space)
    rest = [evaluation.bounds(part) for i, part in enumerate(conjuncts) if i != chosen]
    if not all(bounds.exact for bounds in rest):
        return None
    others = sorted([*(bounds.sure for bounds in rest), space.visible], key=len)
    if len(others) > 1 and len(parts) <= _FEW_KEYS and sum(map(len, parts)) < len(others[0]):
        largest = others.pop()
        return int(intersection([union(parts), *others]).intersection_cardinality(largest))
    left = intersection(others)
    return sum(left.intersection_cardinality(part) for part in parts)


def _filtered(node: Node, conjuncts: list[Node], space: SpaceView) -> int | None:
    """Count by filtering the rows of the other conjuncts with the cached codes of a conjunct over many keys.

    None where no conjunct has such codes, or where the others are not exact.
    """
    filters_of_parts = [(i, filter_of(part, space)) for i, part in enumerate(conjuncts)]
    filters = [(i, key_filter) for i, key_filter in filters_of_parts if key_filter is not None]
    if not filters:
        return None
    chosen, widest = max(filters, key=lambda filters_of_parts: filters_of_parts[1].keys)
    evaluation = _Evaluation(node, space)
    rest = [evaluation.bounds(part) for i, part in enumerate(conjuncts) if i != chosen]
    if not all(bounds.exact for bounds in rest):
        return None
    left = intersection([*(bounds.sure for bounds in rest), space.visible])
    if widest.pays(left):
        return widest.count(left)
    parts = _disjoint(conjuncts[chosen], space)
    return None if parts is None else sum(left.intersection_cardinality(part) for part in parts)


def _disjoint(node: Node, space: SpaceView) -> list[BitMap] | None:
    """Return the disjoint postings whose union is exactly a leaf's rows; None if there are none."""
    if isinstance(node, Computed):
        return computed_postings(node, space)
    if not isinstance(node, Leaf) or node.column.partition or node.true.complement or node.true.nulls:
        return None
    segments = space.serving(node.column)
    if not segments or space.unposted(node.column.id) is not None:
        return None
    parts: list[BitMap] = []
    for segment in segments:
        stored = segment.columns[node.column.id]
        ranges = key_ranges(node.true, posting_type_of(node.column.type), stored)
        if ranges.maybe and segment.select(node.column.id, ranges.maybe)[1]:
            return None
        parts += covering(segment, node.column.id, ranges.sure)
    return parts


class _Evaluation:
    """Evaluation of one predicate in one row space; a node with several parents is evaluated once."""

    def __init__(self, node: Node, space: SpaceView) -> None:
        self.space = space
        self.shared = shared_in(node)
        self.known: dict[int, Bounds] = {}

    def bounds(self, node: Node) -> Bounds:
        if isinstance(node, (And, Or)):
            known = self.known.get(id(node))
            if known is None:
                parts = [self.bounds(child) for child in node.children]
                known = _and(parts) if isinstance(node, And) else _or(parts)
                if id(node) in self.shared:
                    self.known[id(node)] = known
            return known
        if isinstance(node, Constant):
            return Bounds.exactly(self.space.visible if node.value is True else EMPTY)
        if isinstance(node, Compare) or node.column is None:
            return Bounds.between(EMPTY, self.space.visible)
        if node.column.partition:
            sure, open_ = self.space.where_partition(node), self.space.raising_partition(node)
            return Bounds.between(sure, sure | open_) if open_ else Bounds.exactly(sure)
        return computed_bounds(node, self.space) if isinstance(node, Computed) else _leaf(node, self.space)


def _and(parts: list[Bounds]) -> Bounds:
    sure = intersection([p.sure for p in parts])
    if all(p.exact for p in parts):
        return Bounds.exactly(sure)
    return Bounds.between(sure, intersection([p.maybe for p in parts]))


def _or(parts: list[Bounds]) -> Bounds:
    sure = union([p.sure for p in parts])
    if all(p.exact for p in parts):
        return Bounds.exactly(sure)
    return Bounds.between(sure, union([p.maybe for p in parts]))


def _leaf(leaf: Leaf, space: SpaceView) -> Bounds:
    segments = space.serving(leaf.column)
    if not segments:
        return Bounds.between(EMPTY, space.visible)
    posted = _postings(leaf.true, leaf, segments, space)
    unposted = space.unposted(leaf.column.id)
    if unposted is None:
        return posted
    return Bounds.between(posted.sure - unposted, posted.maybe | unposted)


def _postings(wanted: ValueSet, leaf: Leaf, segments: list[Segment], space: SpaceView) -> Bounds:
    column = leaf.column.id
    sure_parts: list[BitMap] = []
    maybe_parts: list[BitMap] = []
    for segment in segments:
        ranges = key_ranges(wanted, posting_type_of(leaf.column.type), segment.columns[column])
        many = united(segment, column, ranges.sure)
        sure_parts += segment.cover(column, ranges.sure) if many is None else [many]
        if ranges.maybe:
            maybe_parts += segment.cover(column, ranges.maybe)
    sure = union(sure_parts)
    bounds = Bounds.between(sure, union([sure, *maybe_parts])) if maybe_parts else Bounds.exactly(sure)
    if not wanted.complement and not wanted.nulls:
        return bounds
    nulls = union([bits for s in segments if (bits := s.lookup(column, None)) is not None])
    if wanted.complement:
        bounds = _less(space.visible - nulls, bounds)
    return _or([bounds, Bounds.exactly(nulls)]) if wanted.nulls else bounds


def _less(present: BitMap, bounds: Bounds) -> Bounds:
    """Return the positions of `present` that lie outside of bounds.

    Positions between the bounds may be inside, so they are not in `sure`.
    """
    stays = present - bounds.maybe
    return Bounds.exactly(stays) if bounds.exact else Bounds.between(stays, present - bounds.sure)
