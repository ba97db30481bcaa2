"""Columns of a data file at rows of its row groups, read by the planned method (see `ways`).

By mask: columns that Polars decodes to the same values. By pages: columns with one leaf and no repeated
values, as an excerpt. All other columns are read as whole row groups, and so is a file whose pages cannot be
determined or whose excerpt cannot be decoded: reading whole row groups then gives the values, or the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.errors import DataFileError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.data_file import (
    DataFile,
    field_of,
    file_in_memory,
    may_be_coded,
    named_file,
    open_data_file,
    read_columns,
)
from tailbit.tables.parquet.layout import Layout, Pages
from tailbit.tables.parquet.row_assembly.excerpt import Excerpt, Picked, can_be_cut, pick
from tailbit.tables.parquet.row_selection.mask import Groups, Part, read_masked
from tailbit.tables.parquet.row_selection.ways import Way, note_pages, quicker_by_mask
from tailbit.tables.schema import arrow_type
from tailbit.tables.storage import Storage

_MANY = 8
"""If more than one row in 8 is wanted, filtering by a mask is quicker than taking row numbers."""


class Cut(NamedTuple):
    """A column that can be read by pages: its leaf, and the pages of each row group with wanted rows."""

    column: Column
    leaf: int
    pages: list[Pages]


class OpenFile(NamedTuple):
    """A data file to read rows from: its slice, and the layout with which the reads were planned."""

    slice: FileSlice
    layout: Layout


def read_picked(
    storage: Storage,
    parts: Sequence[tuple[OpenFile, Groups]],
    columns: Sequence[Column],
    method: Way | None,
    threads: bool,
) -> list[pa.Table]:
    """Return for each part the columns (no partition columns), named by id, at the part's rows.

    `method`: the method that was planned. `threads`: whether columns may be decoded on several cores.

    Raises:
        DataFileError, LegacyCalendarError, ColumnTypeError: a value cannot be decoded (see `read_columns`).
    """
    known = [Part(file.layout, file.slice.path, groups) for file, groups in parts]
    masked = read_masked(storage, known, columns) if method is Way.MASK else [{} for _ in parts]
    return [
        _completed(storage, file.slice, part, columns, decoded, threads, method is None)
        for (file, _), part, decoded in zip(parts, known, masked, strict=True)
    ]


def _completed(
    storage: Storage,
    slice_: FileSlice,
    part: Part,
    columns: Sequence[Column],
    decoded: dict[str, pa.ChunkedArray],
    threads: bool,
    choose: bool,
) -> pa.Table:
    """Return the columns of a part: those not decoded by mask are read by pages, else by whole row groups.

    `choose`: whether large pages may still be read by mask.
    """
    layout, path, groups = part
    rest = [column for column in columns if column.id not in decoded]
    if rest:
        with named_file(storage, path), storage.open(storage.resolve(path)) as source:
            cuts = _cuttable(layout, source, path, rest, groups)
            if choose and _by_mask(cuts, groups):
                decoded = read_masked(storage, [part], rest)[0]
                cuts = [cut for cut in cuts if cut.column.id not in decoded]
            try:
                decoded = decoded | _excerpted(layout, source, path, cuts, groups, threads)
            except DataFileError:
                pass
        rest = [column for column in columns if column.id not in decoded]
    if rest:
        decoded = decoded | _by_row_groups(storage, slice_, layout, rest, groups)
    return pa.table({column.id: decoded[column.id] for column in columns})


def _by_row_groups(
    storage: Storage, slice_: FileSlice, layout: Layout, columns: Sequence[Column], groups: Groups
) -> dict[str, pa.ChunkedArray]:
    file = open_data_file(storage, slice_.path, slice_.size)
    numbers = [group for group, _ in groups]
    sizes = np.diff(layout.starts)[numbers]
    before = np.cumsum(sizes) - sizes
    places = np.concatenate([rows + base for (_, rows), base in zip(groups, before.tolist(), strict=True)])
    table = _taken(read_columns(file, columns, numbers), places)
    return {column.id: table[column.id] for column in columns}


def _cuttable(
    layout: Layout, source: pa.NativeFile, path: str, columns: Sequence[Column], groups: Groups
) -> list[Cut]:
    out = []
    for column in columns:
        steps = field_of(layout, column, path)
        if not steps or len(steps[-1].leaves) != 1 or steps[-1].children:
            continue
        leaf = steps[-1].first
        pages = [layout.pages(source, group, leaf) for group, _ in groups if can_be_cut(layout, leaf, group)]
        known = [cut for cut in pages if cut is not None]
        if len(known) == len(groups):
            out.append(Cut(column, leaf, known))
    return out


def _by_mask(cuts: Sequence[Cut], groups: Groups) -> bool:
    """Return whether these pages are read more quickly by mask, from the exact sizes of the wanted pages."""
    size = values = 0
    for cut in cuts:
        for pages, (_, rows) in zip(cut.pages, groups, strict=True):
            numbers = pages.holding(rows)
            size += int(pages.unpacked[numbers].sum())
            size += 0 if pages.dictionary is None else pages.dictionary.unpacked
            values += int((pages.firsts[numbers + 1] - pages.firsts[numbers]).sum())
    quicker = quicker_by_mask(size, values)
    if not quicker:
        note_pages(size, values)
    return quicker


class _Part(NamedTuple):
    """Columns whose pages hold the same rows, and the row groups of an excerpt that hold these pages.

    `places`: the wanted rows among the rows of the selected pages; None for all rows.
    """

    members: Sequence[Cut]
    at: Sequence[int]
    places: Longs | None


def _excerpted(
    layout: Layout, source: pa.NativeFile, path: str, cuts: Sequence[Cut], groups: Groups, threads: bool
) -> dict[str, pa.ChunkedArray]:
    """Read columns, by id, from an excerpt of their pages."""
    alike: dict[tuple[bytes, ...], list[Cut]] = {}
    for cut in cuts:
        alike.setdefault(tuple(pages.same_rows for pages in cut.pages), []).append(cut)
    if not cuts:
        return {}
    excerpt = Excerpt(layout, source)
    parts: list[_Part] = []
    coded: dict[str, str] = {}
    try:
        for members in alike.values():
            numbers, places = _picked(members[0].pages, groups)
            pages_of_leaf = {cut.leaf: Picked(cut.leaf, cut.pages, numbers) for cut in members}
            for cut in members:
                if may_be_coded(cut.column) and pages_of_leaf[cut.leaf].coded:
                    coded[cut.column.id] = layout.metadata.schema.column(cut.leaf).path
            at = excerpt.add(list(pages_of_leaf.values()), [group for group, _ in groups])
            parts.append(_Part(members, at, places))
        file = file_in_memory(excerpt.done(), path, layout.tree, coded)
    except (pa.ArrowException, OSError, ValueError, KeyError) as wrong:
        raise DataFileError(file=path, reason=f"its pages cannot be read: {wrong}") from wrong
    return _decoded(file, parts, threads)


def _picked(pages: Sequence[Pages], groups: Groups) -> tuple[Sequence[Longs], Longs | None]:
    """Return pages and places as `pick` does; the places are None if all rows are wanted."""
    if all(len(rows) == of.firsts[-1] for of, (_, rows) in zip(pages, groups, strict=True)):
        return [np.arange(len(of.starts)) for of in pages], None
    return pick(pages, [rows for _, rows in groups])


def _decoded(file: DataFile, parts: Sequence[_Part], threads: bool) -> dict[str, pa.ChunkedArray]:
    out: dict[str, pa.ChunkedArray] = {}
    for members, at, places in parts:
        whole = read_columns(file, [cut.column for cut in members], at, threads)
        table = whole if places is None else _taken(whole, places)
        out |= {cut.column.id: _plain(table[cut.column.id], cut.column) for cut in members}
    return out


def _plain(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    if pa.types.is_dictionary(values.type):
        return pc.cast(values, arrow_type(column.type, column.label))
    return values


def _taken(table: pa.Table, places: Longs) -> pa.Table:
    """Take the rows at ascending places; nested arrays get offset 0, which DuckDB and delta-rs need."""
    n, rows = len(places), table.num_rows
    if n == rows:
        return table
    nested = any(pa.types.is_nested(column) for column in table.schema.types)
    if n and int(places[-1] - places[0]) + 1 == n and not nested:
        return table.slice(int(places[0]), n)
    if n * _MANY > rows:
        mask = np.zeros(rows, bool)
        mask[places] = True
        return pc.filter(table, arrow_array(mask))
    return pc.take(table, arrow_array(places))
