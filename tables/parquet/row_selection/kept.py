"""A cache of decoded pages, for repeated questions that need few rows of them.

For few rows, the pages are the cost: a dictionary and some ten thousand values are decoded for a handful of
rows. So when few rows of a page are read for the second time, its decoded values are cached, and the third
question takes its rows from the cache. Questions for many rows do not evict cached pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, decoded
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column
from tailbit.tables.parquet.layout import Layout, Pages

if TYPE_CHECKING:
    from tailbit.tables.parquet.row_selection.mask import Groups

FEW_PAGES, _FEW_BYTES = 8, 16 << 20
"""Most pages, and most decompressed bytes, of a column in a file that are cached for one question."""

FEW_COLUMNS = 64
"""Most columns of a question that caches pages: finding the pages of each has a cost too."""

_Chunk = tuple[int, int, int]
_DECODED: Cache[tuple[int, int, int, int, Column], pa.Array] = Cache(share(3 / 64))
"""Decoded values by layout number, row group, leaf, page and the column they were decoded for."""
_ASKED: Cache[_Chunk, bool] = Cache(1 << 14)
"""Chunks of which few rows were read before, by layout number, row group and leaf."""

CACHES = (_DECODED, _ASKED)
"""The caches of decoded pages."""


class Cut(NamedTuple):
    """A column that can be read by pages: its leaf, and the pages of each row group with wanted rows."""

    column: Column
    leaf: int
    pages: list[Pages]


def kept(layout: Layout, cut: Cut, groups: Groups) -> pa.ChunkedArray | None:
    """Return the values of a column at wanted rows from the cache, or None if a page is not cached.

    `layout`: of the file. `cut`: the column and its pages. `groups`: row groups, each with its wanted rows.
    """
    out = []
    for group, number, rows in _wanted(cut, groups):
        values = _DECODED.held((layout.number, group, cut.leaf, number, cut.column))
        if values is None:
            return None
        # One page may have been cached as codes, the next as values.
        out.append(decoded(pc.take(values, arrow_array(rows))))
    return pa.chunked_array(out) if out else None


def is_asked_again(layout: Layout, cut: Cut, groups: Groups) -> bool:
    """Return whether few rows are wanted, all of chunks that were read before; record these chunks.

    The result is False for a file whose layout is not cached.
    """
    if not layout.cached:
        return False
    size = pages = 0
    for cut_pages, (_, rows) in zip(cut.pages, groups, strict=True):
        numbers = cut_pages.holding(rows)
        size, pages = size + int(cut_pages.unpacked[numbers].sum()), pages + len(numbers)
    if pages > FEW_PAGES or size > _FEW_BYTES:
        return False
    before = [_ASKED.held((layout.number, group, cut.leaf)) for group, _ in groups]
    for group, _ in groups:
        _ASKED.hold((layout.number, group, cut.leaf), True)
    return all(before)


def keep(
    layout: Layout, cut: Cut, groups: Groups, numbers: Sequence[Longs], decoded: pa.ChunkedArray
) -> None:
    """Cache decoded pages: per row group those of `numbers`; `decoded` holds them all in order."""
    at = 0
    for pages, (group, _), some in zip(cut.pages, groups, numbers, strict=True):
        for number in some.tolist():
            rows = int(pages.firsts[number + 1] - pages.firsts[number])
            # Copied, because a slice would keep everything that was decoded alive.
            values = pa.concat_arrays(decoded.slice(at, rows).chunks)
            _DECODED.hold((layout.number, group, cut.leaf, number, cut.column), values, values.nbytes + 64)
            at += rows


def _wanted(cut: Cut, groups: Groups) -> Iterator[tuple[int, int, Longs]]:
    """Yield the row group and number of each page with wanted rows, and the rows' places in the page."""
    for pages, (group, rows) in zip(cut.pages, groups, strict=True):
        if len(pages.starts) == 1:
            yield group, 0, rows
            continue
        cuts = np.searchsorted(rows, pages.firsts)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            yield group, number, rows[cuts[number] : cuts[number + 1]] - pages.firsts[number]
