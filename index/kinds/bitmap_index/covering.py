"""Postings of row groups are decoded, on all cores where they are many; sparse ones become one bitmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from pyroaring import BitMap

from tailbit.index.kinds.bitmap_index.row_group import Cover
from tailbit.index.roaring.masks import union_of
from tailbit.tables.ahead import in_order, shared_out

_WORTH_A_THREAD = 1 << 19
"""Sparse positions whose decoding takes some ten times what starting a thread does."""


def covered(work: Sequence[tuple[int, Callable[[], Cover]]], rows: int) -> list[BitMap]:
    """Bitmaps of all that some work gives: dense postings as they are, sparse ones as one, however many.

    Each piece of work says about how many sparse positions it decodes. `rows`: the extent of the row space.
    """
    sizes = [size for size, _ in work]
    if sum(sizes) < 2 * _WORTH_A_THREAD:
        decoded = [call() for _, call in work]
    else:
        parts = shared_out([call for _, call in work], sizes, _WORTH_A_THREAD)
        decoded = list(chain.from_iterable(in_order(partial(_done, some) for some in parts)))
    dense = [bits for bitmaps, _ in decoded for bits in bitmaps]
    sparse = [positions for _, listed in decoded for positions in listed]
    return [*dense, union_of(sparse, rows)] if sparse else dense


def _done(calls: Sequence[Callable[[], Cover]], _: bool) -> list[Cover]:
    return [call() for call in calls]
