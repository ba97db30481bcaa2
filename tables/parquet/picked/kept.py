"""Decoded pages, kept for who asks for few rows of them again.

Of few rows the pages are what costs: a dictionary and some ten thousand values are decoded for a handful.
So pages of which few rows are asked for a second time are kept as they were decoded, and the third question
takes its rows out of them. Questions for many rows do not replace what is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.tables.arrow import arrow_array
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column
from tailbit.tables.parquet.layout import Layout, Pages
from tailbit.tables.parquet.picked.mask import Groups

FEW_PAGES, _FEW_BYTES = 8, 16 << 20
"""Most pages of a column of a file that are kept for one question, and most decompressed bytes of them."""

FEW_COLUMNS = 64
"""Most columns of a question that keeps pages: to find the pages of each costs too."""

_Chunk = tuple[int, int, int]
_DECODED: Cache[tuple[int, int, int, int, Column], pa.Array] = Cache(share(1 / 16))
"""By number of a layout, row group, leaf, page and the column that it was decoded for."""
_ASKED: Cache[_Chunk, bool] = Cache(1 << 14)
"""Chunks of which few rows were asked for, by number of a layout, row group and leaf."""

CACHES = (_DECODED, _ASKED)
"""What this process keeps of the values of data files."""


class Cut(NamedTuple):
    """A column that can be read by pages: its leaf, and the pages of each row group with wanted rows."""

    column: Column
    leaf: int
    pages: list[Pages]


def kept(layout: Layout, cut: Cut, groups: Groups) -> pa.ChunkedArray | None:
    """The column at the wanted rows; None where not all their pages are kept."""
    out = []
    for group, number, rows in _wanted(cut, groups):
        values = _DECODED.held((layout.number, group, cut.leaf, number, cut.column))
        if values is None:
            return None
        out.append(_plain(values.take(arrow_array(rows))))
    return pa.chunked_array(out) if out else None


def _plain(values: pa.Array) -> pa.Array:
    """Values for codes: one page may have been kept as codes, and the next as values."""
    return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values


def is_asked_again(layout: Layout, cut: Cut, groups: Groups) -> bool:
    """Whether few rows of the column are wanted, and of chunks that were asked for before."""
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
    """Keep pages that were decoded: per row group those of `numbers`, all of them in `decoded` in order."""
    at = 0
    for pages, (group, _), some in zip(cut.pages, groups, numbers, strict=True):
        for number in some.tolist():
            rows = int(pages.firsts[number + 1] - pages.firsts[number])
            # A copy: a slice would hold all that was decoded.
            values = pa.concat_arrays(decoded.slice(at, rows).chunks)
            _DECODED.hold((layout.number, group, cut.leaf, number, cut.column), values, values.nbytes + 64)
            at += rows


def _wanted(cut: Cut, groups: Groups) -> Iterator[tuple[int, int, Longs]]:
    """Row group and number of each page with wanted rows, and where in it these stand."""
    for pages, (group, rows) in zip(cut.pages, groups, strict=True):
        if len(pages.starts) == 1:
            yield group, 0, rows
            continue
        cuts = np.searchsorted(rows, pages.firsts)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            yield group, number, rows[cuts[number] : cuts[number + 1]] - pages.firsts[number]
