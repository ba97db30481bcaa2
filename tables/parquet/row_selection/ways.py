"""The choice of the method that reads a file's wanted rows, by estimated cost, and the batches to read.

By pages: pyarrow decodes the pages that hold wanted rows (see `excerpt`). By mask: Polars decodes the wanted
rows of row groups (see `mask`). Few small pages are quicker by pages. A first estimate uses only row groups
and positions, so that pages need not be found if a mask is quicker anyway; a second one uses the pages, if
they were found.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tailbit.base.arrays import Longs
from tailbit.tables.model import Column
from tailbit.tables.parquet.data_file import field_of
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.row_assembly.by_polars import polars

if TYPE_CHECKING:
    from tailbit.tables.parquet.row_selection.mask import Groups


class Way(enum.Enum):
    """A method of decoding wanted rows."""

    PAGES = "pages"
    """Decode the pages that hold wanted rows, with pyarrow."""

    MASK = "mask"
    """Decode the wanted rows of whole row groups, with Polars."""


# Seconds of CPU time, measured on lineitem; only their ratios matter.
_BY_BYTE = 0.8e-9
"""Extra cost of a decompressed byte if read by pages and not by mask."""
_BY_VALUE = 1.7e-9
"""Extra cost of a page's value if read by pages and not by mask."""
_BY_TESTED_VALUE = 0.5e-9
"""Extra cost of a stored value if tested by pyarrow and numpy and not by Polars."""
_BY_FILE = 1.0e-3
"""Cost of each further file that is read on its own."""
_BY_QUESTION = 1.0e-3
"""Cost of Polars's plan for a file minus that of opening an excerpt."""
_LOADING = 0.12
"""Cost of loading Polars: it is loaded once doing without it has cost as much."""
_BATCH = 16 << 20
"""Most decompressed bytes, as far as known, that are decoded at once by pages."""
_MASKED_BATCH = 64 << 20
"""Most decompressed bytes of the row groups that are decoded at once by mask."""
_PACKED_BATCH = 28 << 20
"""Most compressed bytes of such a batch: the C library maps blocks over 32 MiB anew each time."""
_BATCH_ROWS = 1 << 20
_FEW_PAGES, _FEW_COLUMNS = 8, 64
"""The most pages, and columns, of which the pages are found before a method is chosen."""
_PAGE = 20_000
"""Assumed rows per page before the pages are found; usual writers make such pages or smaller ones."""
_SAMPLED = 16
"""If many rows are wanted, one in 16 is sampled to estimate which pages are touched."""


_missed = 0.0
"""Seconds that this process would have saved so far by using Polars."""


class Group(NamedTuple):
    """A row group with wanted rows: row count, number of rows in pages that hold a wanted row, and bytes.

    `leaves`: how many columns of Parquet are read.
    """

    number: int
    wanted: Longs
    rows: int
    touched: int
    leaves: int
    unpacked: int
    packed: int

    @property
    def cut(self) -> int:
        """Decompressed bytes of the pages to be read."""
        return self.unpacked * self.touched // self.rows

    @property
    def values(self) -> int:
        """Values of the pages to be read."""
        return self.leaves * self.touched


def planned(
    layout: Layout,
    path: str,
    columns: Sequence[Column],
    positions: npt.NDArray[np.uint64] | None,
    method: Way | None = None,
) -> tuple[Way | None, list[Group]]:
    """Return the row groups that hold wanted rows, and the method to read them.

    Method None means by pages, unless the pages turn out to be large. The argument `method`, if given, is
    used without an estimate.
    """
    leaves = tuple(leaf for column in columns for leaf in _leaves(layout, column, path))
    groups = [_measured(layout, leaves, *wanted) for wanted in _wanted(layout, positions)]
    if method is None and not _is_few(groups) and quicker_by_mask(*_sums(groups)):
        method = Way.MASK
    return method, groups


def load_for(files: Iterable[Sequence[Group]]) -> bool:
    """Load Polars if loading costs less than it saves for some files together; return whether it does.

    If it does, each file is planned anew: for one file alone, Polars was not worth loading.
    """
    many = [groups for groups in files if not _is_few(groups)]
    return quicker_by_mask(*_sums([group for groups in many for group in groups]), len(many))


def _is_few(groups: Sequence[Group]) -> bool:
    """Return whether a file's wanted pages are so few that they are found before a method is chosen."""
    touched = sum(group.touched for group in groups)
    return touched <= _FEW_PAGES * _PAGE and all(group.leaves <= _FEW_COLUMNS for group in groups)


def _sums(groups: Sequence[Group]) -> tuple[int, int]:
    return sum(group.cut for group in groups), sum(group.values for group in groups)


T = TypeVar("T")


def batched(
    files: Iterable[tuple[T, Way | None, Sequence[Group]]],
) -> Iterator[tuple[Way | None, list[tuple[T, Groups]]]]:
    """Yield batches of row groups that are read at once, of bounded size, with their method.

    By mask a batch may span several files, else it holds one file. T is the type of a file.
    """
    batch: _Batch[T] | None = None
    for file, method, groups in files:
        if batch and not method is batch.way is Way.MASK:
            yield batch.done()
            batch = None
        for at, group in enumerate(groups):
            if batch and not batch.takes(group):
                yield batch.done()
                batch = None
            batch = batch or _Batch(method)
            batch.add(file, group, anew=not at)
    if batch:
        yield batch.done()


class _Batch(Generic[T]):
    """A batch of row groups under construction."""

    def __init__(self, method: Way | None) -> None:
        self.way = method
        self._parts: list[tuple[T, list[tuple[int, Longs]]]] = []
        self._size = self._packed = self._rows = 0

    def takes(self, group: Group) -> bool:
        """Return whether the batch has room for the group."""
        masked, (size, rows) = self.way is Way.MASK, self._counted(group)
        return (
            self._size + size <= (_MASKED_BATCH if masked else _BATCH)
            and self._rows + rows <= _BATCH_ROWS
            and (not masked or self._packed + group.packed <= _PACKED_BATCH)
        )

    def add(self, file: T, group: Group, anew: bool) -> None:
        """Add a row group; `anew`: it is the first one of its file."""
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
        """Return the method, and the row groups of each file."""
        return self.way, [(file, groups) for file, groups in self._parts]

    def _counted(self, group: Group) -> tuple[int, int]:
        masked = self.way is Way.MASK
        return (group.unpacked, len(group.wanted)) if masked else (group.cut, group.touched)


def quicker_by_mask(size: int, values: int, files: int = 1) -> bool:
    """Return whether pages of `size` decompressed bytes and `values` values are read more quickly by mask.

    `files`: the number of files that the pages are in. The mask needs Polars, which must be loaded already,
    or cost less to import than it saves.
    """
    return _saves(size, values, files) > _needed() and polars() is not None


def quicker_tested(size: int, values: int, files: int) -> bool:
    """Return whether Polars tests stored values more quickly than pyarrow; arguments as `quicker_by_mask`."""
    saved = size * _BY_BYTE + values * _BY_TESTED_VALUE + (files - 1) * _BY_FILE - _BY_QUESTION
    return saved > _needed() and polars() is not None


def saves_by_mask(size: int, values: int, files: int) -> bool:
    """Return whether pages would be read more quickly by mask if Polars were loaded; as `quicker_by_mask`."""
    return _saves(size, values, files) > 0


def _saves(size: int, values: int, files: int) -> float:
    return _saved(size, values) + (files - 1) * _BY_FILE


def in_many_pages(layout: Layout, positions: npt.NDArray[np.uint64]) -> bool:
    """Return whether the wanted rows are so dense that hardly any page is without one."""
    return bool(len(positions) * _PAGE > layout.starts[-1])


def measured(layout: Layout, path: str, columns: Sequence[Column], groups: Iterable[int]) -> tuple[int, int]:
    """Return the decompressed bytes and the number of values of columns in row groups."""
    leaves = tuple(leaf for column in columns for leaf in _leaves(layout, column, path))
    size = values = 0
    for group in groups:
        size += _sizes(layout, group, leaves)[0]
        values += len(leaves) * int(layout.starts[group + 1] - layout.starts[group])
    return size, values


def note_pages(size: int, values: int) -> None:
    """Record the time lost by reading pages without Polars, in which a mask would have been quicker.

    Once the lost time exceeds the time that the import takes, `quicker_by_mask` allows Polars to be imported.
    `size`: decompressed bytes of the pages; `values`: number of values decoded.
    """
    global _missed
    if _needed():
        _missed += max(0.0, _saved(size, values))


def _saved(size: int, values: int) -> float:
    return size * _BY_BYTE + values * _BY_VALUE - _BY_QUESTION


def is_loaded() -> bool:
    """Return whether this process has imported Polars."""
    return "polars" in sys.modules


def _needed() -> float:
    return 0.0 if is_loaded() else max(0.0, _LOADING - _missed)


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
    return Group(group, wanted, total, touched, len(leaves), *_sizes(layout, group, leaves))


def _sizes(layout: Layout, group: int, leaves: tuple[int, ...]) -> tuple[int, int]:
    """Return the decompressed and compressed bytes of a row group's chunks, cached for the last leaves."""
    known_leaves, of = layout.derived.get(("sizes",), ((), {}))
    if known_leaves != leaves:
        of = {}
        layout.derived["sizes",] = leaves, of
    if group not in of:
        chunks = [layout.chunk(group, leaf) for leaf in leaves]
        of[group] = sum(chunk.unpacked for chunk in chunks), sum(chunk.packed for chunk in chunks)
    size: tuple[int, int] = of[group]
    return size
