"""Which way the wanted rows of a file are read, by what each would cost, and in which batches.

By pages: pyarrow decodes the pages that hold wanted rows (see `excerpt`). By mask: Polars decodes the wanted
rows of row groups (see `mask`). Few small pages are quicker by themselves. The estimate
is made from row groups and positions first, so that pages need not be found where a mask is quicker anyway;
and once more from the pages, where they were found.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tailbit.arrays import Longs
from tailbit.tables.model import Column
from tailbit.tables.parquet.data_file import find_column
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.picked.mask import Groups, polars


class Way(enum.Enum):
    """How wanted rows are decoded."""

    PAGES = "pages"
    """The pages that hold wanted rows, by pyarrow."""

    MASK = "mask"
    """The wanted rows of whole row groups, by Polars."""


# Seconds of CPU time, measured on lineitem; only their ratios matter.
_BY_BYTE = 2.0e-9
"""What a decompressed byte costs more by pages than by mask."""
_BY_VALUE = 4.0e-9
"""What a value of the pages costs more by pages than by mask."""
_BY_QUESTION = 1.0e-3
"""What Polars's plan of a file costs more than opening an excerpt."""
_LOADING = 0.02
"""What a batch must save before Polars is loaded for it: a tenth of the loading, since most questions are not
the last."""
_BATCH = 16 << 20
"""Decompressed bytes, as far as they can be told, that are decoded at once by pages."""
_MASKED_BATCH = 64 << 20
"""Decompressed bytes of row groups of which the wanted rows are decoded at once by a mask."""
_PACKED_BATCH = 28 << 20
"""Compressed bytes of such a batch: the C library gives more than 32 MiB anew from the system each time."""
_BATCH_ROWS = 1 << 20
_PAGE = 20_000
"""Rows that are taken for a page before pages are found; usual writers make such or smaller ones."""


class _Group(NamedTuple):
    """A row group with wanted rows: its rows, how many of them stand in pages to be read, and its bytes."""

    number: int
    wanted: Longs
    rows: int
    touched: int
    unpacked: int
    packed: int

    @property
    def cut(self) -> int:
        """Bytes of the pages to be read."""
        return self.unpacked * self.touched // self.rows


def planned(
    layout: Layout,
    path: str,
    columns: Sequence[Column],
    positions: npt.NDArray[np.uint64] | None,
    way: Way | None = None,
) -> Iterator[tuple[Way | None, Groups]]:
    """Batches of row groups that hold wanted rows, with those rows, and how each is to be read.

    None: by pages, unless these turn out to be large. `way`: the way, where it is not to be chosen.
    """
    leaves = [leaf for column in columns for leaf in _leaves(layout, column, path)]
    groups = [_measured(layout, leaves, *its) for its in _wanted(layout, positions)]
    if way is None:
        cut, touched = sum(group.cut for group in groups), sum(group.touched for group in groups)
        way = Way.MASK if quicker_by_mask(cut, len(leaves) * touched) else None
    yield from ((way, batch) for batch in _batched(groups, way))


def quicker_by_mask(size: int, values: int) -> bool:
    """Whether pages of `size` bytes, decompressed, and `values` values are read quicker by mask."""
    saved = size * _BY_BYTE + values * _BY_VALUE - _BY_QUESTION
    return saved > (0.0 if "polars" in sys.modules else _LOADING) and polars() is not None


def groups_of(groups: Sequence[_Group]) -> Groups:
    """Row groups with their wanted rows alone."""
    return [(group.number, group.wanted) for group in groups]


def _leaves(layout: Layout, column: Column, path: str) -> Sequence[int]:
    steps = find_column(layout.tree, column, path)
    return steps[-1].leaves if steps else ()


def _wanted(layout: Layout, positions: npt.NDArray[np.uint64] | None) -> Groups:
    starts = layout.starts
    at = np.arange(starts[-1]) if positions is None else positions.astype(np.int64)
    cuts = np.searchsorted(at, starts)
    return [
        (group, at[cuts[group] : cuts[group + 1]] - starts[group])
        for group in np.flatnonzero(np.diff(cuts)).tolist()
    ]


def _measured(layout: Layout, leaves: Sequence[int], group: int, wanted: Longs) -> _Group:
    row_group = layout.metadata.row_group(group)
    chunks = [row_group.column(leaf) for leaf in leaves]
    total = row_group.num_rows
    pages = wanted // _PAGE
    touched = min(total, _PAGE * (1 + int(np.count_nonzero(pages[1:] != pages[:-1]))))
    unpacked = sum(chunk.total_uncompressed_size for chunk in chunks)
    packed = sum(chunk.total_compressed_size for chunk in chunks)
    return _Group(group, wanted, total, touched, unpacked, packed)


def _batched(groups: Sequence[_Group], way: Way | None) -> Iterator[Groups]:
    """Row groups in batches of bounded size."""
    out: list[_Group] = []
    size = packed = rows = 0
    for group in groups:
        masked = way is Way.MASK
        its, its_rows = (group.unpacked, len(group.wanted)) if masked else (group.cut, group.touched)
        full = size + its > (_MASKED_BATCH if masked else _BATCH) or rows + its_rows > _BATCH_ROWS
        if out and (full or (masked and packed + group.packed > _PACKED_BATCH)):
            yield groups_of(out)
            out, size, packed, rows = [], 0, 0, 0
        out.append(group)
        size, packed, rows = size + its, packed + group.packed, rows + its_rows
    if out:
        yield groups_of(out)
