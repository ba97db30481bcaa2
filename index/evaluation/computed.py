"""A computed condition on one indexed column: judged once for each distinct key, then postings united.

Input: a condition on one column that is no partition column, and a row space. Output: bounds. A key that was
truncated does not hold its value, and a key for which the condition raises has no answer: both leave their
rows open. Whether a row with such a value is visible and not decided by other conditions is found when it is
rechecked; keys that occur only in hidden rows raise nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from tailbit.arrays import Mask
from tailbit.index.evaluation.bounds import EMPTY, Bounds, union
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.keys import MAX_KEY, KeyRange, decode_keys, is_textual, key_type_of, widen_keys
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.index.predicate.computed import Computed, judge
from tailbit.tables.cache import Cache
from tailbit.tables.model import Column


@dataclass(frozen=True)
class KeyVerdict:
    """The keys of one segment for which a condition is TRUE, those left open, and the rest, as ranges.

    `null`: whether NULL is TRUE (True), open (None) or neither. `counts`: how many keys are TRUE, and how
    many are neither TRUE nor open.
    """

    true: Sequence[KeyRange]
    open: Sequence[KeyRange]
    rest: Sequence[KeyRange]
    null: bool | None
    counts: tuple[int, int]

    @property
    def size(self) -> int:
        """Ranges to account for."""
        return 1 + len(self.true) + len(self.open) + len(self.rest)


_VERDICTS: Cache[object, KeyVerdict] = Cache(1 << 20)
"""What was judged of segments, which never change; bounded by the number of ranges."""


def computed_bounds(node: Computed, space: SpaceView) -> Bounds:
    """Bounds of a condition on one column that is no partition column."""
    column = _column(node)
    segments = space.serving(column)
    if not segments:
        return Bounds.between(EMPTY, space.visible)
    verdicts = [verdict(node, segment) for segment in segments]
    open_ = _open(column, segments, verdicts)
    unposted = space.unposted(column.id)
    if unposted is not None:
        open_ = open_ | unposted
    if sum(v.counts[0] for v in verdicts) <= sum(v.counts[1] for v in verdicts):
        sure = union(_postings(column, segments, verdicts))
    else:
        sure = space.visible - union([open_, *_others(column, segments, verdicts)])
    if not open_:
        return Bounds.exactly(sure)
    return Bounds.between(sure - open_, sure | open_)


def computed_postings(node: Computed, space: SpaceView) -> list[BitMap] | None:
    """The postings of which a condition is exactly the union; None where it is not, or where that is dear."""
    column = node.column
    if column is None or column.partition:
        return None
    segments = space.serving(column)
    if not segments or space.unposted(column.id) is not None:
        return None
    verdicts = [verdict(node, segment) for segment in segments]
    if sum(v.counts[0] for v in verdicts) > sum(v.counts[1] for v in verdicts):
        return None
    if any(v.open or v.null is None for v in verdicts):
        return None
    return _postings(column, segments, verdicts)


def _column(node: Computed) -> Column:
    assert node.column is not None
    return node.column


def _postings(column: Column, segments: Sequence[Segment], verdicts: Sequence[KeyVerdict]) -> list[BitMap]:
    """The postings of the keys that are TRUE."""
    parts: list[BitMap] = []
    for segment, found in zip(segments, verdicts, strict=True):
        parts += segment.cover(column.id, found.true)
        if found.null and (bits := segment.lookup(column.id, None)) is not None:
            parts.append(bits)
    return parts


def _others(column: Column, segments: Sequence[Segment], verdicts: Sequence[KeyVerdict]) -> list[BitMap]:
    """The postings of the keys that are neither TRUE nor open."""
    parts: list[BitMap] = []
    for segment, found in zip(segments, verdicts, strict=True):
        parts += segment.cover(column.id, found.rest)
        if found.null is False and (bits := segment.lookup(column.id, None)) is not None:
            parts.append(bits)
    return parts


def _open(column: Column, segments: Sequence[Segment], verdicts: Sequence[KeyVerdict]) -> BitMap:
    parts: list[BitMap] = []
    for segment, found in zip(segments, verdicts, strict=True):
        if found.open:
            parts += segment.cover(column.id, found.open)
        if found.null is None and (bits := segment.lookup(column.id, None)) is not None:
            parts.append(bits)
    return union(parts)


def verdict(node: Computed, segment: Segment) -> KeyVerdict:
    """What a condition is for each key of a segment. Cost: one evaluation over its distinct keys, once.

    Raises:
        CorruptIndexError: the segment is missing, truncated or altered.
    """

    def judged() -> tuple[KeyVerdict, int]:
        found = _judged(node, segment)
        return found, found.size

    column = _column(node)
    place = (segment.name, column.id, str(column.type), column.type.char_length)
    return _VERDICTS.get((place, node.key), judged)


def _judged(node: Computed, segment: Segment) -> KeyVerdict:
    column = _column(node)
    keys = segment.keys(column.id)[0].drop_null()
    stored, current = segment.columns[column.id], key_type_of(column.type)
    short = np.ones(len(keys), dtype=np.bool_)
    if is_textual(stored):
        short = np.asarray(pc.binary_length(keys)) <= MAX_KEY
    held = keys if short.all() else keys.filter(pa.array(short))
    values = decode_keys(widen_keys(held, stored, current), current, column.type)
    true, open_ = np.zeros(len(keys), dtype=np.bool_), ~short
    null = pa.nulls(1, values.type)
    values = pa.concat_arrays([values, null])
    found, raised = judge(node, {column.id: values}, len(values))
    true[short], open_[short] = found[:-1], raised[:-1]
    counts = int(true.sum()), int((~true & ~open_).sum())
    at_null = None if raised[-1] else bool(found[-1])
    return KeyVerdict(_runs(keys, true), _runs(keys, open_), _runs(keys, ~true & ~open_), at_null, counts)


def _runs(keys: pa.BinaryArray, wanted: Mask) -> list[KeyRange]:
    """Some of the sorted keys of a segment as ranges: neighbours are one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], wanted, [False]]).astype(np.int8)))
    first, last = keys.take(pa.array(edges[::2])), keys.take(pa.array(edges[1::2] - 1))
    pairs = zip(first.to_pylist(), last.to_pylist(), strict=True)
    return [(low, True, high, True) for low, high in pairs]
