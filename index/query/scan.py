"""Scan of data files for the rows where a predicate is TRUE.

A scan serves uncovered files, and the rows that the index leaves open. Row groups that the footer or its
Bloom filters rule out are pruned. For many rows, stored values are tested (see `stored_conditions`). For few
rows, and for the residual filter, values are decoded, and the predicate is evaluated on all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.lazy import lazy
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.pruning import ColumnBounds, Pruning
from tailbit.index.predicate.tree import Constant, Leaf, Node, columns_of
from tailbit.index.query.stored_conditions import condition_of
from tailbit.tables.ahead import in_order
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.bloom import MOST_VALUES
from tailbit.tables.parquet.bounds import row_group_bounds
from tailbit.tables.parquet.condition import Condition
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.parquet.row_selection import in_many_pages
from tailbit.tables.parquet.rows import Positions, pieces, without
from tailbit.tables.parquet.value_search import Search, count_passing, find
from tailbit.tables.storage import Storage, at_once, one_look

if TYPE_CHECKING:
    from tailbit.index.predicate import truth
    from tailbit.tables.parquet import bloom as bloom_pruning
else:
    bloom_pruning = lazy("tailbit.tables.parquet.bloom")
    truth = lazy("tailbit.index.predicate.truth")

_Search = tuple[int, Search, Node]
"""Number of a scan, its search over stored values, and the residual filter."""

_TRUE = Constant(True)
_NONE: Positions = np.zeros(0, np.uint64)


@dataclass(frozen=True, eq=False)
class Scan:
    """Search of one file: its visible rows where `node` is TRUE.

    `among`: the only positions to search, `groups`: the only row groups to search; None for all.
    """

    slice_: FileSlice
    node: Node
    hidden: BitMap | None = None
    among: Positions | None = None
    groups: Sequence[int] | None = None


def scan(storage: Storage, scans: Sequence[Scan], stored: bool | None = None) -> list[Positions]:
    """Return the ascending physical positions of matching rows, file by file.

    `stored`: True: all conditions that can be are tested on stored values; False: none is; None: all that are
    not of few rows alone.

    Cost: decodes the predicate's columns in the row groups that may match, or in the pages that hold `among`;
    independent of the number of files but for reading each footer.
    """
    with one_look():
        return _matching_rows(storage, *_prepared(storage, scans, stored))


def count(storage: Storage, scans: Sequence[Scan], stored: bool | None = None) -> int:
    """Count the positions that `scan` would return.

    Cost: less than `scan` if no row is hidden and the whole predicate is tested on stored values.
    """
    with one_look():
        return _counted(storage, *_prepared(storage, scans, stored))


def _counted(storage: Storage, narrowed: list[Scan], searches: list[_Search]) -> int:
    """Return the number of matching rows of prepared scans."""
    whole = {
        number: search for number, search, rest in searches if rest == _TRUE and not narrowed[number].hidden
    }
    total = count_passing(storage, list(whole.values())) if whole else None
    if total is not None:
        narrowed = [
            replace(scan, among=_NONE) if number in whole else scan for number, scan in enumerate(narrowed)
        ]
        searches = [scan for scan in searches if scan[0] not in whole]
    return (total or 0) + sum(len(positions) for positions in _matching_rows(storage, narrowed, searches))


def _prepared(
    storage: Storage, scans: Sequence[Scan], stored: bool | None
) -> tuple[list[Scan], list[_Search]]:
    """Prune the scans, and return them with the searches over stored values."""
    if storage.remote:
        storage.look_at([storage.resolve(scan.slice_.path) for scan in scans])
    narrowed = list(at_once(storage, [partial(_narrowed, storage, scan) for scan in scans]))
    searches = [] if stored is False else _searches(storage, narrowed, bool(stored))
    for number, search, _ in searches:
        narrowed[number] = _within(storage, narrowed[number], search.groups)
    return narrowed, searches


def _matching_rows(storage: Storage, scans: Sequence[Scan], searches: Sequence[_Search]) -> list[Positions]:
    """Return the visible positions per scan; raises as `scan`."""
    remaining = list(scans)
    passing_rows = find(storage, [search for _, search, _ in searches])
    for (number, _, rest), passing in zip(searches, passing_rows, strict=True):
        if passing is not None:
            left_over = rest if passing.all_tested else scans[number].node
            remaining[number] = replace(
                remaining[number], among=passing.positions, groups=None, node=left_over
            )
    return [without(rows, by.hidden) for rows, by in zip(_judged(storage, remaining), scans, strict=True)]


def _narrowed(storage: Storage, scan: Scan) -> Scan:
    """Restrict a scan to the row groups that may match."""
    layout = open_layout(storage, scan.slice_.path, scan.slice_.size)
    may = can_match(scan.node, layout, scan.slice_, storage)
    return scan if may.all() else _within(storage, scan, np.flatnonzero(may).tolist())


def _within(storage: Storage, scan: Scan, groups: Sequence[int]) -> Scan:
    """Restrict a scan to some of its row groups."""
    if scan.among is None:
        return replace(scan, groups=groups)
    layout = open_layout(storage, scan.slice_.path, scan.slice_.size)
    return replace(scan, among=scan.among[np.isin(layout.groups_of(scan.among), groups)])


def _searches(storage: Storage, scans: Sequence[Scan], whatever: bool) -> list[_Search]:
    """Return the searches over stored values, for those scans that have one.

    `whatever`: also search among few positions.
    """
    conditions: dict[tuple[object, ...], tuple[Condition | bool | None, Node | None]] = {}
    out: list[_Search] = []
    for number, scan in enumerate(scans):
        layout = open_layout(storage, scan.slice_.path, scan.slice_.size)
        columns = columns_of(scan.node)
        if scan.among is not None and not (whatever or in_many_pages(layout, scan.among)):
            continue
        texts = tuple(scan.slice_.partition.get(c.physical[0]) for c in columns if c.partition)
        groups = layout.groups_with(scan.among) if scan.groups is None else scan.groups
        key = id(scan.node), texts
        if key not in conditions:
            conditions[key] = condition_of(scan.node, scan.slice_.partition)
        condition, rest = conditions[key]
        if condition is None or isinstance(condition, bool):
            continue
        search = Search(scan.slice_, condition, groups, scan.among)
        out.append((number, search, _TRUE if rest is None else rest))
    return out


_Judged = tuple[int, Positions, Positions, pa.Table]
"""Number of a scan: rows where its predicate is TRUE, rows that raise, and the table of the first such row.
"""


def _judged(storage: Storage, scans: Sequence[Scan]) -> list[Positions]:
    """Return, per scan, the positions where its predicate is TRUE, hidden rows included."""
    hits_of_scans: list[list[Positions]] = [
        [scan.among if scan.among is not None and scan.node == _TRUE else _NONE] for scan in scans
    ]
    for number, hits, raising, row in in_order(_work(storage, scans)):
        scan = scans[number]
        if len(raising):
            truth.raise_error(scan.node, row, scan.slice_.partition, scan.slice_.path, int(raising[0]))
        hits_of_scans[number].append(hits)
    return [
        pieces_of_scan[0] if len(pieces_of_scan) == 1 else np.concatenate(pieces_of_scan)
        for pieces_of_scan in hits_of_scans
    ]


def _work(storage: Storage, scans: Sequence[Scan]) -> Iterator[partial[_Judged]]:
    """Yield one task per piece of each scan; the task evaluates the predicate."""
    for number, scan in enumerate(scans):
        if scan.among is not None and (not len(scan.among) or scan.node == _TRUE):
            continue
        columns = [column for column in columns_of(scan.node) if not column.partition]
        positions = scan.among
        if scan.groups is not None:
            positions = open_layout(storage, scan.slice_.path, scan.slice_.size).positions(scan.groups)
        for positions_read, read in pieces(storage, scan.slice_, columns, positions):
            yield partial(_piece, number, scan, positions_read, read)


def _piece(
    number: int, scan: Scan, positions: Positions, read: Callable[[bool], pa.Table], alone: bool
) -> _Judged:
    table = read(alone)
    true, open_ = truth.judged(scan.node, table, scan.slice_.partition)
    raising = positions[:0] if open_ is None else without(positions[open_], scan.hidden)
    row = table.slice(int(np.searchsorted(positions, raising[0])), 1) if len(raising) else table.slice(0, 0)
    return number, positions[true], raising, row


def can_match(node: Node, layout: Layout, slice_: FileSlice, storage: Storage) -> Mask:
    """Return, per row group, whether one of its rows may make `node` TRUE; True when in doubt.

    Cost: the footer; for a condition that lists values, a read of 32 bytes per value in each Bloom filter.
    """
    return _RowGroups(layout, slice_, storage).may(node)


class _RowGroups(Pruning):
    """Row groups of one file, judged by the footer and the filters in the file."""

    def __init__(self, layout: Layout, slice_: FileSlice, storage: Storage) -> None:
        super().__init__(layout.metadata.num_row_groups)
        self._layout, self._slice, self._storage = layout, slice_, storage
        self._bounds: dict[str, ColumnBounds] = {}

    def leaf_may(self, leaf: Leaf) -> Mask:
        """Return, per row group, whether a row may make a leaf TRUE."""
        column = leaf.column
        if column.id not in self._bounds:
            bounds = row_group_bounds(self._layout, self._slice.path, column)
            self._bounds[column.id] = ColumnBounds.of(column, bounds)
        may = self._bounds[column.id].can_match(leaf)
        values = leaf.true.listed(MOST_VALUES) if may.any() else None
        if values is None:
            return may
        candidates = np.flatnonzero(may)
        file = self._storage, self._layout, self._slice.path
        may[candidates] = bloom_pruning.groups_with_any(*file, column, candidates.tolist(), values)
        return may

    def partition(self, node: Leaf | Computed) -> tuple[Mask, Mask]:
        """Return masks of one value: a condition is TRUE for the file's partition value; it may raise."""
        if isinstance(node, Computed):
            return self.every(False), self.every(True)
        assert node.column is not None
        text = self._slice.partition.get(node.column.physical[0])
        return self.every(truth.partition_value_matches(node, text)), self.every(False)
