"""Cached values of costly functions for each distinct key of a segment, reused when only constants differ.

A segment never changes, so neither do these values. They share one cache with a fixed part of the process's
memory; repeated texts are cached as a dictionary array.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import pyarrow as pa

from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import Vector
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, decoded
from tailbit.tables.cache import Cache, share

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
