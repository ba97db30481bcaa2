"""Ranges over many keys, evaluated without uniting the posting of each key.

The keys of a segment are sorted, so a range is a span of keys, and of codes: the code of a position is the
number of its key. Where the whole row space is visible, the recorded cardinalities of the span add up to the
count, and no posting is read. Otherwise one pass over the codes by position finds the rows of the span, if
the codes are cached or worth making. To find a small part of very many keys, only the row groups of the range
are read, and their postings united.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from tailbit.base.lazy import lazy
from tailbit.index.evaluation.bounds import union
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.keys import KeyRange, posting_type_of
from tailbit.index.model import is_of_term
from tailbit.index.postings.segment import Segment
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.key_ranges import KeyRanges, key_ranges
from tailbit.index.predicate.tree import Leaf, Node
from tailbit.tables.cache import Cache
from tailbit.tables.model import Column
from tailbit.tables.positions import BitPositions, positions_in

if TYPE_CHECKING:
    from tailbit.index.evaluation import costs, unions
    from tailbit.index.postings import codes as row_codes
    from tailbit.index.postings import paged_lookup as lookup
    from tailbit.index.postings import sorted_keys
    from tailbit.index.postings.codes import Span
else:
    lookup = lazy("tailbit.index.postings.paged_lookup")
    sorted_keys = lazy("tailbit.index.postings.sorted_keys")
    row_codes = lazy("tailbit.index.postings.codes")
    costs = lazy("tailbit.index.evaluation.costs")
    unions = lazy("tailbit.index.evaluation.unions")

_VERY_MANY, _NARROW = 1 << 17, 8
"""A column with more keys is not read whole for ranges whose row groups hold under an eighth of its keys."""

_FEW_ROWS = 32
"""Keys are looked up if one row in 32 has one, or fewer; those of more rows may be found by codes."""

_MANY_RANGES = 16
"""From this many ranges on, codes are not used: each range is a pass over all codes."""


def covering(segment: Segment, column: str, ranges: KeyRanges) -> list[BitMap]:
    """Return bitmaps whose union is that of the postings of the keys in the sure ranges.

    Many sparse postings come as one bitmap.
    """
    if segment.is_paged or segment.sparse_positions(column):
        return matching(segment, column, ranges)
    return segment.cover(column, ranges.sure)


def matching(segment: Segment, column: str, ranges: KeyRanges) -> list[BitMap]:
    """Return what `covering` does, with dense postings as one bitmap too where ranges have many keys.

    Single keys of few rows are looked up together.
    """
    if ranges.points is not None and _are_looked_up(segment, column, len(ranges.points)):
        keys = sorted_keys.LookupKeys(ranges.points)
        return lookup.covered(segment, column, keys)
    many = united(segment, column, ranges.sure)
    return segment.cover(column, ranges.sure) if many is None else [many]


def _are_looked_up(segment: Segment, column: str, points: int) -> bool:
    """Return whether to look up single keys: they are record keys, or many of few rows each."""
    if segment.is_paged:
        return True
    if points < _MANY_RANGES:
        return False
    positions = points * segment.sparse_positions(column) / max(1, segment.weight(column)[0])
    return 0 < positions * _FEW_ROWS < segment.rows


def united(segment: Segment, column: str, ranges: Sequence[KeyRange]) -> BitMap | None:
    """Return the cached union of the postings of ranges over many keys; None if the keys are few."""
    looked_up = _key_spans(segment, column, ranges)
    if looked_up is None:
        return unions.of_ranges(segment, column, ranges)
    wanted_ranges = tuple(ranges)
    if looked_up.narrow:
        return unions.cached(segment, column, wanted_ranges, lambda: union(segment.cover(column, ranges)))
    spans = list(looked_up.spans)
    if not spans:
        return None
    rows = _rows(segment.keys(column)[1], spans)
    return unions.cached(
        segment, column, wanted_ranges, lambda: _united(segment, column, ranges, spans, rows)
    )


def _united(
    segment: Segment, column: str, ranges: Sequence[KeyRange], spans: list[Span], rows: int
) -> BitMap:
    """Unite the postings of ranges by codes, or posting by posting if that is cheaper."""
    one_by_one = costs.uniting(segment, column, _share(segment, column, spans))
    codes = costs.comparing(segment, rows) + costs.making(segment, column)
    has_codes = row_codes.held_codes(segment, column) is not None
    if one_by_one <= codes and (has_codes or not costs.is_due(segment.name, column, one_by_one, codes)):
        return union(segment.cover(column, ranges))
    return row_codes.codes_of(segment, column).within(spans)


def reading(node: Leaf | Computed, space: SpaceView) -> float:
    """Estimate the ms to read and unite the postings of a condition on one column or term.

    Caches do not count, so the estimate is the same whatever was asked before. Cost: for a range, one read of
    the column's keys, unless these are very many.
    """
    column = node.column
    if column is None or column.partition:
        return 0.0
    return sum(_reading_of(node, column, segment) for segment in space.serving(column))


def _reading_of(node: Leaf | Computed, column: Column, segment: Segment) -> float:
    """Estimate the ms to read and unite the postings of a condition in one segment."""
    if isinstance(node, Computed):
        return costs.reading(segment, column.id, None, 1.0)
    of_keys = key_ranges(node.true, posting_type_of(column.type), segment.columns[column.id])
    ranges = [*of_keys.sure, *of_keys.maybe]
    if _are_points(node) or segment.weight(column.id)[0] > _VERY_MANY:
        share = costs.share_of(segment, column.id, ranges)
    else:
        share = _share(segment, column.id, row_codes.spans_of(segment.keys(column.id)[0], ranges))
    return costs.reading(segment, column.id, ranges, share)


def key_cardinalities(node: Node, space: SpaceView) -> int | None:
    """Count the rows of a leaf over many keys by recorded cardinalities; None unless all rows are visible.

    Cost: the keys and cardinalities of the column, once; then binary searches.
    """
    if not isinstance(node, Leaf) or node.column.partition or _are_points(node):
        return None
    column = node.column.id
    segments = space.serving(node.column)
    if not segments or any(len(space.visible) != segment.rows for segment in segments):
        return None
    if is_of_term(column) and space.unposted(column) is not None:
        return None
    total = present = 0
    for segment in segments:
        spans = _exactly(node, segment)
        if spans is None:
            return None
        keys, cardinality = segment.keys(column)
        null = int(cardinality[0]) if len(keys) and not keys[0].is_valid else 0
        there = _rows(cardinality, spans)
        whole = int(cardinality.sum())
        present += whole
        total += (whole - null - there if node.true.complement else there) + null * node.true.nulls
    return total if present == len(space.visible) else None


class CodeFilter:
    """A condition over many keys as spans of codes: the matching rows are exactly those with such codes."""

    def __init__(self, spans: Sequence[tuple[Segment, list[Span]]], column: str) -> None:
        self._spans, self._column = spans, column

    @property
    def keys(self) -> int:
        """Return the number of keys in the spans."""
        return sum(high - low for _, spans in self._spans for low, high in spans)

    def pays(self, rows: BitMap) -> bool:
        """Return whether counting rows by codes is cheaper than intersecting the posting of each key."""
        by_codes = by_keys = 0.0
        for segment, spans in self._spans:
            share = _share(segment, self._column, spans)
            by_codes += min(
                costs.looking_up(len(rows), 0), costs.comparing(segment, int(share * segment.rows))
            )
            by_keys += costs.intersecting(segment, self._column, len(rows), share)
        return by_codes < by_keys

    def count(self, rows: BitMap) -> int:
        """Count the rows in a bitmap that match the condition. Cost: one lookup per row if the rows are few.

        More rows than a quarter of the row space cost one pass over all codes.
        """
        total = 0
        positions: BitPositions | None = None
        for segment, spans in self._spans:
            codes = row_codes.codes_of(segment, self._column)
            if len(rows) * 4 > segment.rows:
                total += codes.within(spans).intersection_cardinality(rows)
                continue
            if positions is None:
                positions = positions_in(rows)
            total += codes.count_within(spans, positions)
        return total


def filter_of(node: Node, space: SpaceView) -> CodeFilter | None:
    """Return a leaf over many keys as a filter by codes, if the codes are cached or due; else None."""
    if not isinstance(node, Leaf) or node.column.partition or node.true.complement or node.true.nulls:
        return None
    if _are_points(node):
        return None
    column, spans_by_segment = node.column.id, []
    segments = space.serving(node.column)
    if not segments or space.unposted(column) is not None:
        return None
    for segment in segments:
        spans = _exactly(node, segment)
        if spans is None:
            return None
        if row_codes.held_codes(segment, column) is None and not _is_due(segment, column, spans):
            return None
        spans_by_segment.append((segment, spans))
    return CodeFilter(spans_by_segment, column)


def _exactly(leaf: Leaf, segment: Segment) -> list[Span] | None:
    """Return the key spans where a leaf is TRUE; None if keys are few or truncated keys leave rows open."""
    column = leaf.column.id
    ranges = key_ranges(leaf.true, posting_type_of(leaf.column.type), segment.columns[column])
    looked_up = _key_spans(segment, column, ranges.sure)
    spans = list(looked_up.spans) if looked_up is not None else []
    if not spans or (ranges.maybe and segment.select(column, ranges.maybe)[0]):
        return None
    return spans


def _are_points(leaf: Leaf) -> bool:
    """Return whether a leaf lists single values, as = and IN do, or very many ranges.

    Spans do not help then.
    """
    intervals = leaf.true.intervals
    return len(intervals) > _MANY_RANGES or all(i.lo is not None and i.lo == i.hi for i in intervals)


class _KeySpans(NamedTuple):
    """Key spans of some ranges; empty if the keys are few, or if `narrow`: the spans were not looked up."""

    spans: tuple[Span, ...]
    narrow: bool = False


_SPANS: Cache[tuple[str, str, tuple[KeyRange, ...]], _KeySpans] = Cache(4096)
"""Key spans per segment and ranges; a segment never changes, and a question needs them more than once."""


def _key_spans(segment: Segment, column: str, ranges: Sequence[KeyRange]) -> _KeySpans | None:
    """Look up the key spans of some ranges; None if the ranges are single keys, or too many."""
    if len(ranges) > _MANY_RANGES or all(low is not None and low == high for low, _, high, _ in ranges):
        return None
    cache_key = segment.name, column, tuple(ranges)
    return _SPANS.get(cache_key, lambda: (_looked_for(segment, column, ranges), 1))


def _looked_for(segment: Segment, column: str, ranges: Sequence[KeyRange]) -> _KeySpans:
    keys, some = segment.weight(column)[0], segment.weight(column, ranges)[0]
    if keys > _VERY_MANY and some * _NARROW < keys and not segment.holds_keys(column):
        return _KeySpans((), narrow=True)
    if some < unions.MANY_KEYS:
        return _KeySpans(())
    spans = row_codes.spans_of(segment.keys(column)[0], ranges)
    return _KeySpans(tuple(spans) if sum(high - low for low, high in spans) >= unions.MANY_KEYS else ())


def _is_due(segment: Segment, column: str, spans: Sequence[Span]) -> bool:
    spent = costs.uniting(segment, column, _share(segment, column, spans))
    return costs.is_due(segment.name, column, spent, costs.making(segment, column))


def _share(segment: Segment, column: str, spans: Sequence[Span]) -> float:
    """Return the share of a column's keys that lie in some spans."""
    return sum(high - low for low, high in spans) / max(1, segment.weight(column)[0])


def _rows(cardinality: npt.NDArray[np.int64], spans: Sequence[Span]) -> int:
    return sum(int(cardinality[low - 1 : high - 1].sum()) for low, high in spans)
