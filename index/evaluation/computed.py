"""A computed condition on one indexed column: evaluated once per distinct key, then postings are united.

Input: a condition on one column that is no partition column, and a row space. Output: bounds. A truncated key
does not hold its whole value, and a key for which the condition raises has no outcome: the rows of both are
left open and rechecked on data. The recheck decides whether such a row is visible and whether other
conditions already rule it out; keys that occur only in hidden rows raise nothing.

Cached values of costly functions for each distinct key of a segment, reused when only constants differ.

A segment never changes, so neither do these values. They share one cache with a fixed part of the process's
memory; repeated texts are cached as a dictionary array.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.index.evaluation.elements import element_bounds
from tailbit.index.evaluation.key_selection import OPEN, KeyOutcomes, KeySelection, Outcomes
from tailbit.index.evaluation.row_space import EMPTY, Bounds, SpaceView, union
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Vector
from tailbit.index.keys import MAX_KEY, decode_keys, is_textual, key_type_of, widen_keys
from tailbit.index.postings.segment import Segment
from tailbit.index.predicate.computed import Computed, judge
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, decoded, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column

COSTLY = frozenset(
    (
        *("regexp_extract", "regexp_replace", "substring_index", "split_part", "split item", "split size"),
        *("digest", "hash", "hex", "locate", "lpad", "rpad", "strip", "translate", "upper", "lower"),
        *("date_format", "parsed time", "cast", "try_cast", "date_trunc", "trunc", "add_months", "replace"),
    )
)
"""Calls whose values are cached; all others are computed as quickly as they are looked up."""

_LIMIT = share(3 / 64)
_VALUES: Cache[Hashable, Vector] = Cache(_LIMIT)


class KeyValues:
    """Cached values of calls on one column of a segment; `keys` identifies segment, column and type."""

    def __init__(self, keys: Hashable) -> None:
        self._keys = keys

    def of(self, call: Call, compute: Callable[[], Vector]) -> Vector:
        """Return the values of a call, computed once. Cost if cached: decoding of repeated texts."""
        if call.name not in COSTLY:
            return compute()
        key = (self._keys, call.key)
        cached = _VALUES.cached(key)
        if cached is not None:
            return cached._replace(values=decoded(cached.values))
        computed = compute()
        small = computed._replace(values=_small(computed.values))
        size = small.values.nbytes + (0 if small.raised is None else small.raised.nbytes) + 200
        if size <= _LIMIT:
            _VALUES.hold(key, small, size)
        return computed


_SAMPLE = 4000
"""Sampled pairs of neighbours: if one text in a hundred repeats, all texts are encoded."""


def _small(values: pa.Array) -> pa.Array:
    """Dictionary-encode texts that repeat often. Cost if none repeats: a look at a sample."""
    if not pa.types.is_string(values.type) or not _repeat(values):
        return values
    coded = pc.dictionary_encode(values)
    return coded if len(coded.dictionary) * 4 <= len(values) else values


def _repeat(values: pa.Array) -> bool:
    """Return whether texts repeat, judged by pairs of neighbours all over the values."""
    if len(values) <= 2 * _SAMPLE:
        return True
    first = np.linspace(0, len(values) - 2, _SAMPLE).astype(np.int64)
    sample = pc.take(values, arrow_array(np.concatenate([first, first + 1])))
    return bool(pc.count_distinct(sample, mode="all").as_py() * 100 <= 2 * _SAMPLE * 99)


_REST, _TRUE = 0, 1
"""The outcomes of a condition for a key beside `OPEN`."""


def computed_bounds(node: Computed, space: SpaceView) -> Bounds:
    """Compute the bounds of a condition on one column that is no partition column."""
    column = _column(node)
    if column.type.name == "array":
        return element_bounds(node, space)
    segments = space.serving(column)
    if not segments:
        return Bounds.between(EMPTY, space.visible)
    verdicts = [_outcomes(node, segment) for segment in segments]

    def rows(outcome: int) -> list[BitMap]:
        return [bits for of in verdicts for bits in of.keys(outcome).bitmaps()]

    open_, unposted = union(rows(OPEN)), space.unposted(column.id)
    if unposted is not None:
        open_ = open_ | unposted
    if _few_true(verdicts):
        sure = union(rows(_TRUE))
    else:
        sure = space.visible - union([open_, *rows(_REST)])
    if not open_:
        return Bounds.exactly(sure)
    return Bounds.between(sure - open_, sure | open_)


def exact_keys(node: Computed, segments: Sequence[Segment]) -> Sequence[KeySelection] | None:
    """Return the keys whose rows are exactly those where a condition is TRUE.

    None for arrays, if some key is left open, or if more keys make the condition TRUE than do not.
    """
    column = _column(node)
    if column.type.name == "array":
        return None
    verdicts = [_outcomes(node, segment) for segment in segments]
    if not _few_true(verdicts) or any(OPEN in of.counts for of in verdicts):
        return None
    return [of.keys(_TRUE) for of in verdicts]


def _few_true(verdicts: Sequence[KeyOutcomes]) -> bool:
    """Return whether at most as many keys make a condition TRUE as do not."""
    true, rest = (sum(of.counts.get(outcome, 0) for of in verdicts) for outcome in (_TRUE, _REST))
    return true <= rest


def _column(node: Computed) -> Column:
    assert node.column is not None
    return node.column


def _outcomes(node: Computed, segment: Segment) -> KeyOutcomes:
    """Return the outcome of a condition for each key of a segment, cached."""
    column = _column(node)
    question = str(column.type), column.type.char_length, node.key
    return KeyOutcomes.of(segment, column.id, question, partial(_judged, node, segment))


def _judged(node: Computed, segment: Segment) -> Outcomes:
    column = _column(node)
    every = segment.keys(column.id)[0]
    keys = pc.drop_null(every)
    stored, current = segment.columns[column.id], key_type_of(column.type)
    short = np.ones(len(keys), dtype=np.bool_)
    if is_textual(stored):
        short = numpy_of(pc.binary_length(keys)) <= MAX_KEY
    short_keys = keys if short.all() else pc.filter(keys, arrow_array(short))
    values = decode_keys(widen_keys(short_keys, stored, current), current, column.type)
    values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    kept_values = KeyValues((segment.name, column.id, str(column.type), column.type.char_length))
    truths, raised = judge(node, {column.id: values}, len(values), kept_values.of)
    null = len(every) - len(keys)
    judged = np.where(raised, OPEN, np.where(truths, _TRUE, _REST)).astype(np.int8)
    outcomes = np.full(len(every), OPEN, dtype=np.int8)
    outcomes[:null] = judged[-1]
    outcomes[null:][short] = judged[:-1]
    return outcomes
