"""Where a predicate is TRUE in data files, found by reading them.

For uncovered files, and for the rows that the index leaves open. Row groups that the footer rules out are not
read. Of many rows Polars tells which pass what can be asked of stored values (see `conditions`); what is left
over, and few rows, are decoded and judged, on all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.index.predicate.tree import Constant, Node
from tailbit.index.predicate.truth import judged, raise_error
from tailbit.index.predicate.walks import columns_of
from tailbit.index.scanning.conditions import Formulas, condition_of
from tailbit.index.scanning.formulas import fitting_in, formulas_in
from tailbit.index.scanning.row_groups import can_match
from tailbit.tables.ahead import in_order
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.picked.ways import in_many_pages, measured, note_pages, quicker_by_mask
from tailbit.tables.parquet.rows import Positions, pieces, without
from tailbit.tables.parquet.sought.condition import Condition
from tailbit.tables.parquet.sought.find import Sought, count_passing, find
from tailbit.tables.storage import Storage

_TRUE = Constant(True)
_NONE: Positions = np.zeros(0, np.uint64)


@dataclass(frozen=True, eq=False)
class Scan:
    """What is sought in a file: its visible rows where `node` is TRUE.

    Only `among` these, and in these row `groups`, where they are given.
    """

    slice_: FileSlice
    node: Node
    hidden: BitMap | None = None
    among: Positions | None = None
    groups: Sequence[int] | None = None


def scan(storage: Storage, scans: Sequence[Scan], by_polars: bool | None = None) -> list[Positions]:
    """Ascending physical positions, file by file.

    `by_polars`: whether Polars is asked whatever it can tell, or nothing; None: by cost.
    Cost: decodes the predicate's columns in the row groups that may hold such rows, or in the pages that hold
    `among`; independent of the number of files but for a look at each footer.

    Raises:
        DataFileError: a file is missing or is not Parquet.
        EvaluationError: the answer for a visible row depends on an expression that raises there.
    """
    left, asked = _prepared(storage, scans, by_polars)
    return _found(storage, left, asked)


def count(storage: Storage, scans: Sequence[Scan], by_polars: bool | None = None) -> int:
    """How many positions `scan` would give. Cost: less, where no row is hidden and Polars tells all.

    Raises:
        DataFileError, EvaluationError: as `scan`.
    """
    left, asked = _prepared(storage, scans, by_polars)
    whole = {at: sought for at, sought, rest in asked if rest == _TRUE and not left[at].hidden}
    total = count_passing(storage, list(whole.values())) if whole else None
    if total is not None:
        left = [replace(its, among=_NONE) if at in whole else its for at, its in enumerate(left)]
        asked = [its for its in asked if its[0] not in whole]
    return (total or 0) + sum(len(at) for at in _found(storage, left, asked))


_Asked = tuple[int, Sought, Node]
"""A scan, by number: what Polars is asked of stored values, and the predicate that is left over."""


def _prepared(
    storage: Storage, scans: Sequence[Scan], by_polars: bool | None
) -> tuple[list[Scan], list[_Asked]]:
    """The scans of what may hold a match, and what of them Polars is asked."""
    left = [_narrowed(storage, its) for its in scans]
    return left, _askable(storage, left, by_polars) if by_polars is not False else []


def _found(storage: Storage, scans: Sequence[Scan], asked: Sequence[_Asked]) -> list[Positions]:
    """Per scan the visible positions; raises as `scan`."""
    left = list(scans)
    found = find(storage, [sought for _, sought, _ in asked])
    for (at, _, rest), passing in zip(asked, found, strict=True):
        if passing is not None:
            left[at] = replace(left[at], among=passing, groups=None, node=rest)
    return [without(its, by.hidden) for its, by in zip(_judged(storage, left), scans, strict=True)]


def _narrowed(storage: Storage, its: Scan) -> Scan:
    """The scan of the row groups that may hold a match."""
    layout = open_layout(storage, its.slice_.path, its.slice_.size)
    may = can_match(its.node, layout, its.slice_)
    if may.all():
        return its
    if its.among is None:
        return replace(its, groups=np.flatnonzero(may).tolist())
    return replace(its, among=its.among[may[layout.groups_of(its.among)]])


def _askable(storage: Storage, scans: Sequence[Scan], whatever: bool | None) -> list[_Asked]:
    """The scans that Polars can make quicker.

    `whatever`: also those that it cannot make quicker.
    """
    conditions: dict[tuple[object, ...], tuple[Condition | bool | None, Node | None]] = {}
    formulas: dict[int, Formulas] = {}
    out, size, values = [], 0, 0
    for number, its in enumerate(scans):
        layout = open_layout(storage, its.slice_.path, its.slice_.size)
        columns = columns_of(its.node)
        if its.among is not None and not (whatever or in_many_pages(layout, its.among)):
            continue
        texts = tuple(its.slice_.partition.get(c.physical[0]) for c in columns if c.partition)
        groups = layout.groups_with(its.among) if its.groups is None else its.groups
        if id(its.node) not in formulas:
            formulas[id(its.node)] = formulas_in(its.node)
        fitting = fitting_in(formulas[id(its.node)], layout, its.slice_.path, groups)
        key = id(its.node), texts, *fitting
        if key not in conditions:
            conditions[key] = condition_of(its.node, its.slice_.partition, fitting)
        condition, rest = conditions[key]
        if condition is None or isinstance(condition, bool):
            continue
        sizes = measured(layout, its.slice_.path, [c for c in columns if not c.partition], groups)
        size, values = size + sizes[0], values + sizes[1]
        sought = Sought(its.slice_, condition, groups, its.among)
        out.append((number, sought, _TRUE if rest is None else rest))
    if whatever or quicker_by_mask(size, values, len(out)):
        return out
    note_pages(size, values)
    return []


_Judged = tuple[int, Positions, Positions, pa.Table]
"""Of a scan, by number: rows where its predicate is TRUE, rows that raise, and the table of the first one."""


def _judged(storage: Storage, scans: Sequence[Scan]) -> list[Positions]:
    """Per scan the positions, hidden ones too, where its predicate is TRUE.

    Raises:
        EvaluationError: as `scan`.
    """
    found: list[list[Positions]] = [
        [its.among if its.among is not None and its.node == _TRUE else _NONE] for its in scans
    ]
    for number, hits, raising, row in in_order(_work(storage, scans)):
        its = scans[number]
        if len(raising):
            raise_error(its.node, row, its.slice_.partition, its.slice_.path, int(raising[0]))
        found[number].append(hits)
    return [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in found]


def _work(storage: Storage, scans: Sequence[Scan]) -> Iterator[partial[_Judged]]:
    """What judges each piece of each scan."""
    for number, its in enumerate(scans):
        if its.among is not None and (not len(its.among) or its.node == _TRUE):
            continue
        columns = [column for column in columns_of(its.node) if not column.partition]
        positions = its.among
        if its.groups is not None:
            positions = open_layout(storage, its.slice_.path, its.slice_.size).positions(its.groups)
        for at, read in pieces(storage, its.slice_, columns, positions):
            yield partial(_piece, number, its, at, read)


def _piece(number: int, its: Scan, at: Positions, read: Callable[[bool], pa.Table], alone: bool) -> _Judged:
    table = read(alone)
    true, open_ = judged(its.node, table, its.slice_.partition)
    raising = at[:0] if open_ is None else without(at[open_], its.hidden)
    row = table.slice(int(np.searchsorted(at, raising[0])), 1) if len(raising) else table.slice(0, 0)
    return number, at[true], raising, row
