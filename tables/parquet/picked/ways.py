"""Which way the wanted rows of a file are read, by what each would cost, and in which batches.

By pages: pyarrow decodes the pages that hold wanted rows (see `excerpt`). By mask: Polars decodes the wanted
rows of row groups (see `mask`). Few small pages are quicker by themselves. The estimate
is made from row groups and positions first, so that pages need not be found where a mask is quicker anyway;
and once more from the pages, where they were found.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tailbit.arrays import Longs
from tailbit.tables.model import Column
from tailbit.tables.parquet.assembled.by_polars import polars
from tailbit.tables.parquet.data_file import field_of
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.picked.kept import FEW_COLUMNS, FEW_PAGES
from tailbit.tables.parquet.picked.mask import Groups


class Way(enum.Enum):
    """How wanted rows are decoded."""

    PAGES = "pages"
    """The pages that hold wanted rows: by pyarrow, unless they were and are kept."""

    MASK = "mask"
    """The wanted rows of whole row groups, by Polars."""


# Seconds of CPU time, measured on lineitem; only their ratios matter.
_BY_BYTE = 2.0e-9
"""What a decompressed byte costs more by pages than by mask."""
_BY_VALUE = 4.0e-9
"""What a value of the pages costs more by pages than by mask."""
_BY_FILE = 1.0e-3
"""What each further file costs more where it is read by itself."""
_BY_QUESTION = 1.0e-3
"""What Polars's plan of a file costs more than opening an excerpt."""
_LOADING = 0.12
"""What loading Polars costs: it is loaded as soon as doing without has cost as much."""
_BATCH = 16 << 20
"""Decompressed bytes, as far as they can be told, that are decoded at once by pages."""
_MASKED_BATCH = 64 << 20
"""Decompressed bytes of row groups of which the wanted rows are decoded at once by a mask."""
_PACKED_BATCH = 28 << 20
"""Compressed bytes of such a batch: the C library gives more than 32 MiB anew from the system each time."""
_BATCH_ROWS = 1 << 20
_PAGE = 20_000
"""Rows that are taken for a page before pages are found; usual writers make such or smaller ones."""
_SAMPLED = 16
"""Where there are many rows, one in 16 tells which pages are touched."""


_missed = 0.0
"""What this process would have saved by Polars so far."""


class Group(NamedTuple):
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
) -> tuple[Way | None, list[Group]]:
    """The row groups that hold wanted rows, and how they are to be read.

    None: by pages, unless these turn out to be large. `way`: the way, where it is not to be chosen.
    """
    leaves = tuple(leaf for column in columns for leaf in _leaves(layout, column, path))
    groups = [_measured(layout, leaves, *wanted) for wanted in _wanted(layout, positions)]
    if way is None:
        cut, touched = sum(group.cut for group in groups), sum(group.touched for group in groups)
        # Pages that may be kept are always looked for.
        few = touched <= FEW_PAGES * _PAGE and len(leaves) <= FEW_COLUMNS
        way = Way.MASK if not few and quicker_by_mask(cut, len(leaves) * touched) else None
    return way, groups


T = TypeVar("T")


def batched(
    files: Iterable[tuple[T, Way | None, Sequence[Group]]],
) -> Iterator[tuple[Way | None, list[tuple[T, Groups]]]]:
    """Row groups that are read at once, of bounded size: by mask those of several files, else of one.

    T: the file.
    """
    batch: _Batch[T] | None = None
    for file, way, groups in files:
        if batch and not way is batch.way is Way.MASK:
            yield batch.done()
            batch = None
        for at, group in enumerate(groups):
            if batch and not batch.takes(group):
                yield batch.done()
                batch = None
            batch = batch or _Batch(way)
            batch.add(file, group, anew=not at)
    if batch:
        yield batch.done()


class _Batch(Generic[T]):
    """What is read at once, as far as it is known."""

    def __init__(self, way: Way | None) -> None:
        self.way = way
        self._parts: list[tuple[T, list[tuple[int, Longs]]]] = []
        self._size = self._packed = self._rows = 0

    def takes(self, group: Group) -> bool:
        """Whether the group has room beside the others."""
        masked, (size, rows) = self.way is Way.MASK, self._counted(group)
        return (
            self._size + size <= (_MASKED_BATCH if masked else _BATCH)
            and self._rows + rows <= _BATCH_ROWS
            and (not masked or self._packed + group.packed <= _PACKED_BATCH)
        )

    def add(self, file: T, group: Group, anew: bool) -> None:
        """`anew`: whether the file is another than that of the group before."""
        if anew or not self._parts:
            self._parts.append((file, []))
        self._parts[-1][1].append((group.number, group.wanted))
        size, rows = self._counted(group)
        self._size, self._rows, self._packed = (
            self._size + size,
            self._rows + rows,
            self._packed + group.packed,
        )

    def done(self) -> tuple[Way | None, list[tuple[T, Groups]]]:
        """The way, and of each file the row groups."""
        return self.way, [(file, groups) for file, groups in self._parts]

    def _counted(self, group: Group) -> tuple[int, int]:
        masked = self.way is Way.MASK
        return (group.unpacked, len(group.wanted)) if masked else (group.cut, group.touched)


def quicker_by_mask(size: int, values: int, files: int = 1) -> bool:
    """Whether pages of `size` bytes, decompressed, and `values` values are read quicker by mask.

    Polars counts as quicker where it is loaded, or where loading it would cost less than is saved.
    """
    return _saved(size, values) + (files - 1) * _BY_FILE > _needed() and polars() is not None


def in_many_pages(layout: Layout, positions: npt.NDArray[np.uint64]) -> bool:
    """Whether rows stand so densely in a file that hardly a page is without one."""
    return bool(len(positions) * _PAGE > layout.starts[-1])


def measured(layout: Layout, path: str, columns: Sequence[Column], groups: Iterable[int]) -> tuple[int, int]:
    """Decompressed bytes and values of columns in row groups."""
    leaves = tuple(leaf for column in columns for leaf in _leaves(layout, column, path))
    size = values = 0
    for group in groups:
        size += _sizes(layout, group, leaves)[0]
        values += len(leaves) * int(layout.starts[group + 1] - layout.starts[group])
    return size, values


def note_pages(size: int, values: int) -> None:
    """So much was read by pages: what that cost more than by mask counts for loading Polars."""
    global _missed
    if _needed():
        _missed += max(0.0, _saved(size, values))


def _saved(size: int, values: int) -> float:
    return size * _BY_BYTE + values * _BY_VALUE - _BY_QUESTION


def _needed() -> float:
    return 0.0 if "polars" in sys.modules else max(0.0, _LOADING - _missed)


def _leaves(layout: Layout, column: Column, path: str) -> Sequence[int]:
    steps = field_of(layout, column, path)
    return steps[-1].leaves if steps else ()


def _wanted(layout: Layout, positions: npt.NDArray[np.uint64] | None) -> Groups:
    starts = layout.starts
    if positions is None or len(positions) == starts[-1]:
        sizes = np.diff(starts).tolist()
        every = np.arange(max(sizes, default=0))
        return [(group, every[:size]) for group, size in enumerate(sizes) if size]
    at = positions.view(np.int64)
    cuts = np.searchsorted(at, starts)
    return [
        (group, at[cuts[group] : cuts[group + 1]] - starts[group])
        for group in np.flatnonzero(np.diff(cuts)).tolist()
    ]


def _measured(layout: Layout, leaves: tuple[int, ...], group: int, wanted: Longs) -> Group:
    total = int(layout.starts[group + 1] - layout.starts[group])
    touched = total
    if len(wanted) < total:
        pages = wanted[:: 1 if len(wanted) < _PAGE else _SAMPLED] // _PAGE
        touched = min(total, _PAGE * (1 + int(np.count_nonzero(pages[1:] != pages[:-1]))))
    return Group(group, wanted, total, touched, *_sizes(layout, group, leaves))


def _sizes(layout: Layout, group: int, leaves: tuple[int, ...]) -> tuple[int, int]:
    """Bytes of chunks of a row group, decompressed and packed; kept for the leaves asked for last."""
    known_leaves, of = layout.found.get(("sizes",), ((), {}))
    if known_leaves != leaves:
        of = {}
        layout.found["sizes",] = leaves, of
    if group not in of:
        chunks = [layout.chunk(group, leaf) for leaf in leaves]
        of[group] = sum(chunk.unpacked for chunk in chunks), sum(chunk.packed for chunk in chunks)
    size: tuple[int, int] = of[group]
    return size
