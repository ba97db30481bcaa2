"""A computed condition on one indexed column: evaluated once per distinct key, then postings are united.

Input: a condition on one column that is no partition column, and a row space. Output: bounds. A truncated key
does not hold its whole value, and a key for which the condition raises has no outcome: the rows of both are
left open and rechecked on data. The recheck decides whether such a row is visible and whether other
conditions already rule it out; keys that occur only in hidden rows raise nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.bounds import EMPTY, Bounds, union
from tailbit.index.evaluation.elements import element_bounds
from tailbit.index.evaluation.key_values import KeyValues
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.evaluation.unions import MANY_KEYS, cached, of_keys
from tailbit.index.keys import MAX_KEY, decode_keys, is_textual, key_type_of, widen_keys
from tailbit.index.postings.segment import Segment
from tailbit.index.predicate.computed import Computed, judge
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column


class _Outcome(enum.IntEnum):
    """Outcome of a condition for a key: TRUE, open (needs a recheck), or neither.

    Indexes `KeyVerdict.counts`.
    """

    TRUE = 0
    OPEN = 1
    REST = 2


@dataclass(frozen=True, eq=False)
class KeyVerdict:
    """Outcomes of a condition for the keys of a segment (a file of postings), as masks over the keys.

    `true`, `open`: where the condition is TRUE, and where it needs a recheck. `null`: the outcome for NULL,
    which the masks leave out. `counts`: the number of keys per outcome. `key`: identifies the condition and
    the type in which it was evaluated.
    """

    key: Hashable
    true: Mask
    open: Mask
    null: _Outcome
    counts: tuple[int, int, int]

    def keys(self, outcome: _Outcome) -> Mask:
        """Return the mask of the keys with one outcome. Cost: for REST, a pass over all keys."""
        if outcome is not _Outcome.REST:
            return self.true if outcome is _Outcome.TRUE else self.open
        out = ~self.true & ~self.open
        out[: len(out) - sum(self.counts)] = False
        return out


_VERDICTS: Cache[Hashable, KeyVerdict] = Cache(share(1 / 32))
"""Verdicts per segment and condition; segments never change."""


def computed_bounds(node: Computed, space: SpaceView) -> Bounds:
    """Compute the bounds of a condition on one column that is no partition column."""
    column = _column(node)
    if column.type.name == "array":
        return element_bounds(node, space)
    segments = space.serving(column)
    if not segments:
        return Bounds.between(EMPTY, space.visible)
    verdicts = [verdict(node, segment) for segment in segments]
    open_ = union(_postings(column, segments, verdicts, _Outcome.OPEN))
    unposted = space.unposted(column.id)
    if unposted is not None:
        open_ = open_ | unposted
    if sum(v.counts[_Outcome.TRUE] for v in verdicts) <= sum(v.counts[_Outcome.REST] for v in verdicts):
        sure = union(_postings(column, segments, verdicts, _Outcome.TRUE))
    else:
        sure = space.visible - union([open_, *_postings(column, segments, verdicts, _Outcome.REST)])
    if not open_:
        return Bounds.exactly(sure)
    return Bounds.between(sure - open_, sure | open_)


def computed_postings(node: Computed, space: SpaceView) -> list[BitMap] | None:
    """Return postings whose union is exactly the rows where a condition is TRUE.

    None if no such postings exist, or if more keys make the condition TRUE than do not.
    """
    column = node.column
    if column is None or column.partition or column.type.name == "array":
        return None
    segments = space.serving(column)
    if not segments or space.unposted(column.id) is not None:
        return None
    verdicts = [verdict(node, segment) for segment in segments]
    if sum(v.counts[_Outcome.TRUE] for v in verdicts) > sum(v.counts[_Outcome.REST] for v in verdicts):
        return None
    if any(v.counts[_Outcome.OPEN] or v.null is _Outcome.OPEN for v in verdicts):
        return None
    return _postings(column, segments, verdicts, _Outcome.TRUE)


def _column(node: Computed) -> Column:
    assert node.column is not None
    return node.column


def _postings(
    column: Column, segments: Sequence[Segment], verdicts: Sequence[KeyVerdict], outcome: _Outcome
) -> list[BitMap]:
    """Return bitmaps whose union is the rows of all keys with one outcome, NULL included."""
    bitmaps: list[BitMap] = []
    for segment, verdict in zip(segments, verdicts, strict=True):
        bitmaps += _of_keys(segment, column.id, verdict, outcome)
        if verdict.null is outcome and (bits := segment.lookup(column.id, None)) is not None:
            bitmaps.append(bits)
    return bitmaps


def _of_keys(segment: Segment, column: str, verdict: KeyVerdict, outcome: _Outcome) -> list[BitMap]:
    """Return bitmaps whose union is the postings of some keys.

    Many sparse postings come as one cached bitmap.
    """
    many = verdict.counts[outcome]
    if not many:
        return []
    if many < MANY_KEYS or not segment.sparse_positions(column):
        return segment.cover_keys(column, verdict.keys(outcome))
    kept_key = verdict.key, outcome
    return [cached(segment, column, kept_key, lambda: of_keys(segment, column, verdict.keys(outcome)))]


def verdict(node: Computed, segment: Segment) -> KeyVerdict:
    """Return the outcome of a condition for each key of a segment, cached.

    Cost: one evaluation over the distinct keys, once.
    """

    def judged() -> tuple[KeyVerdict, int]:
        key_verdict = _judged(node, segment, cache_key)
        return key_verdict, key_verdict.true.nbytes + key_verdict.open.nbytes + 200

    column = _column(node)
    cache_key = (str(column.type), column.type.char_length, node.key)
    return _VERDICTS.get((segment.name, column.id, cache_key), judged)


def _judged(node: Computed, segment: Segment, cache_key: Hashable) -> KeyVerdict:
    column = _column(node)
    every = segment.keys(column.id)[0]
    keys = pc.drop_null(every)
    stored, current = segment.columns[column.id], key_type_of(column.type)
    short = np.ones(len(keys), dtype=np.bool_)
    if is_textual(stored):
        short = numpy_of(pc.binary_length(keys)) <= MAX_KEY
    short_keys = keys if short.all() else pc.filter(keys, arrow_array(short))
    values = decode_keys(widen_keys(short_keys, stored, current), current, column.type)
    first = len(every) - len(keys)
    true, open_ = np.zeros(len(every), dtype=np.bool_), np.concatenate([np.zeros(first, np.bool_), ~short])
    null = pa.nulls(1, values.type)
    values = pa.concat_arrays([values, null])
    kept_values = KeyValues((segment.name, column.id, str(column.type), column.type.char_length))
    truths, raised = judge(node, {column.id: values}, len(values), kept_values.of)
    true[first:][short], open_[first:][short] = truths[:-1], raised[:-1]
    many = int(true.sum()), int(open_.sum())
    at_null = _Outcome.OPEN if raised[-1] else _Outcome.TRUE if truths[-1] else _Outcome.REST
    return KeyVerdict(cache_key, true, open_, at_null, (*many, len(keys) - sum(many)))
