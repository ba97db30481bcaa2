"""Cached unions of the postings of many scattered keys, made from the indexes of the keys.

Sparse postings are decoded before they are united. Key by key, that costs some 50 us each, and a list or a
function of a column may need tens of thousands of keys; given the indexes, all are decoded together.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Mask
from tailbit.base.lazy import lazy
from tailbit.index.evaluation.bounds import union
from tailbit.index.keys import KeyRange
from tailbit.index.postings.segment import Segment
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, numpy_of
from tailbit.tables.cache import Cache, share

if TYPE_CHECKING:
    from tailbit.index.evaluation import costs
    from tailbit.index.postings import codes as row_codes
else:
    costs = lazy("tailbit.index.evaluation.costs")
    row_codes = lazy("tailbit.index.postings.codes")

MANY_KEYS = 256
"""From this many keys on, alternatives to uniting postings are considered."""

_READ = 1024
"""All keys of a column are read to find some, unless fewer than one in 1,024 are wanted."""

_A_RANGE = 300
"""Bytes that a range occupies in Python, for the cache's accounting."""

UNIONS: Cache[tuple[str, str, Hashable], BitMap] = Cache(share(1 / 32))
"""Unions of this process, by segment, column and question; a segment never changes."""


def cached(
    segment: Segment, column: str, question: Hashable, make: Callable[[], BitMap], ranges: int = 0
) -> BitMap:
    """Return the cached union for the cache key `question`; `make` computes a missing one.

    `ranges`: number of key ranges that `question` holds, which count for the size of the entry.
    """

    def sized() -> tuple[BitMap, int]:
        bits = make()
        return bits, min(2 * len(bits), segment.rows // 8) + 1024 + _A_RANGE * ranges

    return UNIONS.get((segment.name, column, question), sized)


def of_keys(segment: Segment, column: str, marked: Mask) -> BitMap:
    """Unite the postings of the keys that `marked` marks: one flag per key of `Segment.keys`."""
    codes, many = row_codes.held_codes(segment, column), int(np.count_nonzero(marked))
    share_ = many / max(1, len(marked))
    if codes is not None and costs.comparing(segment, int(share_ * segment.rows)) < costs.uniting(
        segment, column, share_
    ):
        return codes.among(marked)
    return union(segment.cover_keys(column, marked))


def of_ranges(segment: Segment, column: str, ranges: Sequence[KeyRange]) -> BitMap | None:
    """Return the union of the postings of many ranges, cached; None where no union is cached.

    None: the ranges are few, the keys are dense, or unread postings of far more keys would have to be read.
    """
    if len(ranges) < MANY_KEYS or not segment.sparse_positions(column):
        return None
    if len(ranges) * _READ < segment.weight(column)[0] and not segment.holds_keys(column):
        return None
    return cached(
        segment,
        column,
        tuple(ranges),
        lambda: of_keys(segment, column, _are_listed(segment.keys(column)[0], ranges)),
        len(ranges),
    )


def _are_listed(keys: pa.BinaryArray, ranges: Sequence[KeyRange]) -> Mask:
    """Return the mask of the keys that lie in some ranges."""
    if all(low is not None and low == high for low, _, high, _ in ranges):
        listed: Mask = numpy_of(pc.is_in(keys, arrow_array([low for low, _, _, _ in ranges], keys.type)))
        return listed
    out = np.zeros(len(keys), dtype=np.bool_)
    for low, high in row_codes.spans_of(keys, ranges):
        out[low - 1 : high - 1] = True
    return out
