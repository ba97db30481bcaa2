"""Decoding of postings of row groups, on all cores if they are many; sparse postings become one bitmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from pyroaring import BitMap

from tailbit.base.lazy import lazy
from tailbit.index.postings.row_group import Cover
from tailbit.tables.ahead import in_order, shared_out

if TYPE_CHECKING:
    from tailbit.index.roaring import masks
else:
    masks = lazy("tailbit.index.roaring.masks")

_WORTH_A_THREAD = 1 << 19
"""Number of sparse positions whose decoding takes some ten times as long as starting a thread."""


def covered(work: Sequence[tuple[int, Callable[[], Cover]]], rows: int) -> list[BitMap]:
    """Decode postings to bitmaps: one per dense posting, and one of all sparse postings together, if any.

    `work`: functions that decode, each with an estimate of the sparse positions that it decodes. `rows`: the
    row count of the row space.
    """
    sizes = [size for size, _ in work]
    if sum(sizes) < 2 * _WORTH_A_THREAD:
        decoded = [call() for _, call in work]
    else:
        batches = shared_out([call for _, call in work], sizes, _WORTH_A_THREAD)
        decoded = list(chain.from_iterable(in_order(partial(_done, some) for some in batches)))
    dense = [bits for bitmaps, _ in decoded for bits in bitmaps]
    sparse = [positions for _, listed in decoded for positions in listed]
    return [*dense, masks.union_of(sparse, rows)] if sparse else dense


def _done(calls: Sequence[Callable[[], Cover]], _: bool) -> list[Cover]:
    return [call() for call in calls]
