"""Bounds of conditions from column statistics: row groups where one may be or surely is TRUE.

Reader of column statistics: which units (row groups) a data file has, and the bounds of a column in them.
Units of all index files are numbered together, footer by footer; a data file that several index files
describe counts once. A question reads the directory of each index file once, and then only the row groups of
the columns that the question names.

Example: a row space of two files, `a` of two row groups and `b` of one, and the condition `k > 60`.

    position       0         100       200       300
    row group      a 0       a 1       b 0
    k from, to     3, 50     40, 90    70, 99    no row of b is NULL
    may be TRUE              x         x
    surely TRUE                        x

A file without statistics may match anywhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import field, fields
from functools import reduce
from threading import Lock
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.once import once
from tailbit.index.evaluation.row_space import EMPTY, Access, Bounds, SpaceView, Stated, claims
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.index_files import open_index_file, sort, starts
from tailbit.index.keys import SIGN, key_type_of, ordered_int, widening_factor, widens
from tailbit.index.kinds.files import RecordedPlaces, RowGroupLayout, RowGroups
from tailbit.index.kinds.kind import reading, stored_type
from tailbit.index.model import Definition
from tailbit.index.predicate.implied import implied, implies
from tailbit.index.predicate.pruning import ColumnBounds
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or
from tailbit.index.predicate.value_sets import Rank
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, in_one, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.model import Column
from tailbit.tables.parquet.file import ParquetFile
from tailbit.tables.storage import Storage

_STATS: Cache[tuple[str, Hashable, Hashable], Any] = Cache(share(3 / 64))
"""Column statistics that this process has read, by root of the index, index file or files, and column.

Of one index file: rows of a column, or the directory. Of all files together: cells and bounds of a column.
"""

_OPEN = 8
"""Index files that stay open between the columns of a question: in an object store, opening is a request."""

_FOOTER = 1 << 20
"""Bytes of the end of an index file that are fetched first: the footer of 200 columns is 200 KB.

A smaller file takes one request.
"""

_CELLS = ("column", "key_type", "unit", "low", "high", "low_text", "high_text", "nulls", "bytes", "exact")

_NO_ROWS = np.zeros(0, dtype=np.int64)

_DIRECTORY = ""
"""Used in place of a column id for the directory of an index file."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Statistics of one column per unit, as stored.

    `known`: units with a row. `bounded`: units with bounds. `low`, `high`: the bounds, as int64 ranks; those
    of texts as Arrow arrays of bytes, null where unbounded. `nulls`, `packed`: numbers of NULLs and bytes, -1
    if unknown.
    """

    key_type: str
    recorded: Mask
    bounded: Mask
    low: Longs | pa.Array
    high: Longs | pa.Array
    nulls: Longs
    packed: Longs
    exact: Mask

    @property
    def nbytes(self) -> int:
        """Return the bytes of all arrays."""
        return sum(getattr(self, field_.name).nbytes for field_ in fields(self) if field_.name != "key_type")

    def same(self, units: slice, other: Cells) -> bool:
        """Return whether the statistics of `units` equal those of all units of `other`."""
        if any(getattr(self, name)[units].tolist() != getattr(other, name).tolist() for name in _COMPARED):
            return False
        # Bounds are compared only where there are any: without any, their arrays have no certain type.
        units_bounded = np.flatnonzero(other.bounded).tolist()
        pairs = (
            (self.low[units].tolist(), other.low.tolist()),
            (self.high[units].tolist(), other.high.tolist()),
        )
        return all(own[n] == theirs[n] for own, theirs in pairs for n in units_bounded)

    def hold(self, units: slice, other: Cells) -> bool:
        """Return whether the statistics of `units` are true of the rows that `other` was computed from.

        `other`: statistics of the same column or expression, whose units are those of `units` in order.
        Recorded statistics of an expression may be wider: they cover all files with one footer, see
        `rows.united`.
        """
        ours = enumerate(range(units.start, units.stop))
        return all(
            self.same(slice(unit, unit + 1), other._only(n)) or self._wider(unit, other, n)
            for n, unit in ours
        )

    def _only(self, unit: int) -> Cells:
        arrays = [getattr(self, field_.name) for field_ in fields(self) if field_.name != "key_type"]
        return Cells(self.key_type, *(array[unit : unit + 1] for array in arrays))

    def _wider(self, unit: int, other: Cells, theirs: int) -> bool:
        """Return whether the bounds of a unit are inexact and contain those of unit `theirs` of `other`."""
        if self.exact[unit] or not self.recorded[unit] or self.nulls[unit] not in (-1, other.nulls[theirs]):
            return False
        if not (self.bounded[unit] and other.bounded[theirs]):
            return True
        low, high = (
            (side[unit], others[theirs]) for side, others in ((self.low, other.low), (self.high, other.high))
        )
        return bool(_plain(low[0]) <= _plain(low[1]) and _plain(high[0]) >= _plain(high[1]))


def _plain(bound: Any) -> Any:
    """Return a bound as a Python value that compares like the values of the column."""
    return bound.as_py() if isinstance(bound, pa.Scalar) else bound


_COMPARED = ("recorded", "bounded", "nulls", "packed", "exact")


class ColumnStats:
    """Column statistics of the index files `paths`. Threads may share it."""

    def __init__(self, storage: Storage, paths: Iterable[str]) -> None:
        self._storage, self.paths = storage, frozenset(paths)
        self._root = str(storage.root)
        self._lock, self._open = Lock(), Cache[str, ParquetFile](_OPEN, dropped=ParquetFile.close)

    @property
    def row_groups(self) -> RowGroups:
        """Return the row groups of the data files."""
        return self._directory[0]

    @property
    def numbers(self) -> Mapping[str, Longs]:
        """Map each index file to the numbers of its units, counted through all index files."""
        return self._directory[1]

    @once
    def _directory(self) -> tuple[RowGroups, Mapping[str, Longs]]:
        """Return `row_groups` and `numbers`, from the directories of all index files."""
        paths = sorted(self.paths)
        tables = [self._rows_of_file(path, _DIRECTORY) for path in paths]
        chunks = [chunk for table in tables for chunk in table["footer"].chunks]
        footers = in_one(pa.chunked_array(chunks, pa.string()))
        codes = numpy_of(pc.dictionary_encode(footers).indices, dtype=np.int64)
        ends = np.cumsum([len(table) for table in tables], dtype=np.int64)
        first = np.r_[True, codes[1:] != codes[:-1]][: len(codes)]
        first[ends[:-1][ends[:-1] < len(codes)]] = True
        begins = np.flatnonzero(first)
        indexes = np.arange(len(codes)) - np.repeat(begins, np.diff(np.r_[begins, len(codes)]))
        rows = np.concatenate([_NO_ROWS, *(numpy_of(table["rows"], dtype=np.int64) for table in tables)])
        groups = RowGroups.of(footers, indexes, rows)
        return groups, dict(zip(paths, np.split(groups.numbers, ends[:-1]), strict=False))

    def bounds(self, column: Column) -> ColumnBounds | None:
        """Return the bounds of a column per unit; None without statistics that fit its present type.

        Cost: reads the column's rows of the index files that were not read before; one sort.
        """
        (bounds,) = _STATS.get((self._root, self.paths, column), lambda: self._bounds(column))
        return cast("ColumnBounds | None", bounds)

    def _bounds(self, column: Column) -> tuple[tuple[ColumnBounds | None], int]:
        bounds = self._bounds_of_cells(column)
        return (bounds,), 1 if bounds is None else bounds.size

    def _bounds_of_cells(self, column: Column) -> ColumnBounds | None:
        cells = [stats for stats in self.cells(column.id) if widens(stats.key_type, column.type)]
        if not cells:
            return None
        rows = self.row_groups.rows
        nulls, only = np.ones(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
        for stats in cells:
            nulls[stats.recorded] = stats.nulls[stats.recorded] != 0
            only[stats.recorded] = ((stats.nulls == rows) & (rows > 0))[stats.recorded]
        bounded = [stats for stats in cells if stats.bounded.any()]
        if len(bounded) == 1 and isinstance(bounded[0].low, np.ndarray):
            stats = bounded[0]
            if stats.key_type == key_type_of(column.type):
                assert isinstance(stats.high, np.ndarray)
                return ColumnBounds.of_numbers(stats.low, stats.high, stats.bounded, nulls, only)
        low, high = list[Rank | None]([None] * len(rows)), list[Rank | None]([None] * len(rows))
        for stats in bounded:
            for unit, least, most in _ranks(stats, key_type_of(column.type)):
                low[unit], high[unit] = least, most
        return ColumnBounds.of_ranks(low, high, nulls, only)

    def nothing_stated(self, term: Column) -> Mask:
        """Return, per unit, whether no statistics of an expression are known; it may raise in such a unit."""
        stated = [stats.bounded | (stats.nulls >= 0) for stats in self.cells(term.id)]
        return ~np.logical_or.reduce(stated) if stated else np.ones(len(self.row_groups.rows), dtype=bool)

    def cells(self, column_id: str) -> list[Cells]:
        """Return the stored statistics of a column, for each key type that it had."""
        cells: list[Cells] = _STATS.get(
            (self._root, self.paths, column_id), lambda: self._read_cells(column_id)
        )
        return cells

    def _read_cells(self, column_id: str) -> tuple[list[Cells], int]:
        tables = [
            table.set_column(2, "unit", arrow_array(common[numpy_of(table["unit"], dtype=np.int64)]))
            for path, common in self.numbers.items()
            if len(table := self._rows_of_file(path, column_id))
        ]
        if not tables:
            return [], 1
        every = pa.concat_tables(tables).combine_chunks()
        key_types, distinct = pc.unique(every["key_type"]).to_pylist(), united(every)
        cells = [cells_of(distinct, key_type, len(self.row_groups.rows)) for key_type in key_types]
        return cells, sum(stats.nbytes for stats in cells)

    def _rows_of_file(self, path: str, column_id: str) -> pa.Table:
        rows: pa.Table = _STATS.get((self._root, path, column_id), lambda: self._read(path, column_id))
        return rows

    def _read(self, path: str, column_id: str) -> tuple[pa.Table, int]:
        """Read the rows of one column, or the directory, of an index file."""
        with self._lock, reading(path):
            file = self._open.get(path, lambda: (open_index_file(self._storage, path, _FOOTER), 1))
            groups = _groups(file, column_id)
            names = _CELLS if column_id else ("column", "footer", "rows")
            rows = file.read_row_groups(groups, columns=names)
        column = rows["column"]
        of_column = pc.equal(column, arrow_scalar(column_id)) if column_id else pc.is_null(column)
        rows = pc.filter(rows, of_column)
        return rows, rows.nbytes


def _groups(file: ParquetFile, column_id: str) -> list[int]:
    """Return the row groups that may hold a column, or the directory."""
    out = []
    for group in range(file.metadata.num_row_groups):
        stated = file.metadata.row_group(group).column(0).statistics
        if stated is None or not stated.has_null_count:
            out.append(group)
        elif not column_id:
            out += [group] * (stated.null_count > 0)
        elif stated.has_min_max and stated.min <= column_id <= stated.max:
            out.append(group)
    return out


def cells_of(every: pa.Table, key_type: str, units: int) -> Cells:
    """Return the statistics of a column from its rows of one key type."""
    of_type = pc.filter(every, pc.equal(every["key_type"], arrow_scalar(key_type))).combine_chunks()
    unit_numbers = numpy_of(of_type["unit"], dtype=np.int64)
    recorded, bounded = np.zeros(units, dtype=bool), np.zeros(units, dtype=bool)
    textual = of_type["low_text"].null_count < len(of_type)
    names = ("low_text", "high_text") if textual else ("low", "high")
    recorded[unit_numbers], bounded[unit_numbers] = True, numpy_of(pc.is_valid(of_type[names[0]]), dtype=bool)
    low, high = (_spread(of_type[name], unit_numbers, units) for name in names)
    exact = np.zeros(units, dtype=bool)
    exact[unit_numbers] = numpy_of(filled(of_type["exact"], False), dtype=bool)
    nulls, packed = (np.full(units, -1, dtype=np.int64) for _ in range(2))
    nulls[unit_numbers] = numpy_of(filled(of_type["nulls"], -1), dtype=np.int64)
    packed[unit_numbers] = numpy_of(filled(of_type["bytes"], -1), dtype=np.int64)
    return Cells(key_type, recorded, bounded, low, high, nulls, packed, exact)


def _spread(values: pa.ChunkedArray, unit_numbers: Longs, units: int) -> Longs | pa.Array:
    """Return an array with a value for each of `units` units: `values[i]` at place `at[i]`.

    Units without a value hold 0, or null in an array of texts.
    """
    whole = values.combine_chunks()
    if pa.types.is_binary(whole.type):
        indexes = np.full(units, len(whole), dtype=np.int64)
        indexes[unit_numbers] = np.arange(len(whole))
        return pc.take(pa.concat_arrays([whole, pa.nulls(1, whole.type)]), arrow_array(indexes))
    out = np.zeros(units, dtype=np.int64)
    out[unit_numbers] = numpy_of(filled(whole, 0), dtype=np.int64)
    return out


def _ranks(cells: Cells, key_type: str) -> Iterator[tuple[int, Rank, Rank]]:
    """Yield (unit, low rank, high rank) of the bounded units, with ranks of the wider type `key_type`."""
    bounded_units = np.flatnonzero(cells.bounded)
    if isinstance(cells.low, np.ndarray) and isinstance(cells.high, np.ndarray):
        factor = 1 if key_type == "double" else widening_factor(cells.key_type, key_type)
        sides = [side[bounded_units].tolist() for side in (cells.low, cells.high)]
        low, high = ([_widened(value, factor, key_type) for value in side] for side in sides)
    else:
        low, high = (
            pc.take(side, arrow_array(bounded_units)).to_pylist() for side in (cells.low, cells.high)
        )
    yield from zip(bounded_units.tolist(), low, high, strict=True)


def _widened(value: int, factor: int, key_type: str) -> int:
    return ordered_int(float(value), key_type) if key_type == "double" else value * factor


def united(rows: pa.Table) -> pa.Table:
    """Return one row per column, key type and unit, sorted; rows that differ are united to hold both bounds.

    Cost: one sort, and a step for each row that is not equal to its neighbour of the same unit.
    """
    ordered = sort(rows, _UNIT).combine_chunks()
    first = starts(ordered, _UNIT)
    if len(first) == len(ordered):
        return ordered
    ends = np.r_[first[1:], len(ordered)]
    single = ordered.take(arrow_array(first))
    several = np.flatnonzero(ends - first > 1).tolist()
    changed: dict[int, dict[str, Any]] = {}
    for number in several:
        alike = ordered.slice(first[number], ends[number] - first[number]).to_pylist()
        if any(row != alike[0] for row in alike):
            changed[number] = reduce(_both, alike)
    if not changed:
        return single
    unchanged = np.ones(len(single), dtype=bool)
    unchanged[list(changed)] = False
    others = pa.Table.from_pylist(list(changed.values()), schema=single.schema)
    return sort(pa.concat_tables([single.filter(arrow_array(unchanged)), others]), _UNIT)


_UNIT = ["column", "key_type", "unit"]


def _both(first: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Unite two rows of one unit into statistics that hold for the data of both."""
    out = dict(first, exact=False)
    for low, high in (("low", "high"), ("low_text", "high_text")):
        bounded = first[low] is not None and other[low] is not None
        out[low] = min(first[low], other[low]) if bounded else None
        out[high] = max(first[high], other[high]) if bounded else None
    if first["nulls"] != other["nulls"]:
        out["nulls"] = None
    return out


_LEAVES = 64
"""Number of conditions whose row groups are kept."""


@dataclass(eq=False)
class StatsOfClaims:
    """Column statistics, placed in the row spaces of one state of an index. Threads may share it."""

    stats: ColumnStats
    recorded_files: RecordedPlaces
    _judged: Cache[Leaf, tuple[Mask, Mask]] = field(default_factory=lambda: Cache(_LEAVES))

    def judged(self, node: Node) -> tuple[Mask, Mask]:
        """Return, per unit, whether a condition may be TRUE for a row, and whether it surely is for all."""
        if isinstance(node, Leaf):
            return self._judged.get(node, lambda: (self._judge(node), 1))
        if isinstance(node, Constant):
            every = np.full(len(self.stats.row_groups.rows), node.value is True)
            return every, every
        if not isinstance(node, (And, Or)):
            return self._nothing_known
        verdicts = [self.judged(child) for child in node.children]
        joined = np.logical_and if isinstance(node, And) else np.logical_or
        return joined.reduce([may for may, _ in verdicts]), joined.reduce([surely for _, surely in verdicts])

    def _judge(self, leaf: Leaf) -> tuple[Mask, Mask]:
        bounds = self.stats.bounds(leaf.column)
        return self._nothing_known if bounds is None else (bounds.can_match(leaf), bounds.all_match(leaf))

    @once
    def _nothing_known(self) -> tuple[Mask, Mask]:
        units = len(self.stats.row_groups.rows)
        return np.ones(units, dtype=bool), np.zeros(units, dtype=bool)

    @once
    def layout(self) -> RowGroupLayout:
        """Return where the row groups lie in row spaces."""
        return RowGroupLayout(self.stats.row_groups, self.recorded_files)

    def bounds(self, judged: tuple[Mask, Mask], space: SpaceView) -> Bounds:
        """Return the rows of the row groups that may match, and of those that surely do."""
        placed = self.layout.placed(space)
        may, surely = (mask[placed.numbers] for mask in judged)
        sure = claims(placed.bases[surely], placed.rows[surely])
        if may.all():
            return Bounds.between(sure & space.visible, space.visible)
        maybe = claims(placed.bases[may], placed.rows[may]) | placed.unknown
        return Bounds.between(sure & space.visible, maybe & space.visible)

    def stated(self, column: Column, space: SpaceView) -> Stated | None:
        """Return extremes and NULLs of a column per file; None without statistics of its present key type."""
        key_type = stored_type(column)
        cells = next((cells for cells in self.stats.cells(column.id) if cells.key_type == key_type), None)
        if cells is None:
            return None
        placed, every = self.layout.placed(space), len(space.files)
        tight = space.hidden_ids == ""
        low, high = np.full(every, SIGN - 1, dtype=np.int64), np.full(every, -SIGN, dtype=np.int64)
        bounded, whole = np.zeros(every, dtype=bool), np.zeros(every, dtype=bool)
        whole[placed.files] = True
        ends = cells.bounded[placed.numbers]
        bounded[placed.files[ends]] = True
        if isinstance(cells.low, np.ndarray) and isinstance(cells.high, np.ndarray):
            np.minimum.at(low, placed.files[ends], cells.low[placed.numbers[ends]])
            np.maximum.at(high, placed.files[ends], cells.high[placed.numbers[ends]])
        else:
            bounded[:] = False
        some_nulls = cells.nulls[placed.numbers]
        nulls = np.zeros(every, dtype=np.int64)
        np.add.at(nulls, placed.files, np.maximum(some_nulls, 0))
        open_ = np.zeros(every, dtype=bool)
        open_[placed.files[~ends & (some_nulls != placed.rows)]] = True
        inexact = np.zeros(every, dtype=bool)
        inexact[placed.files[~cells.exact[placed.numbers]]] = True
        empty = space.rows == 0
        unknown = ~whole & ~empty
        unknown[placed.files[some_nulls < 0]] = True
        return Stated(
            low,
            high,
            bounded & ~open_ & whole,
            np.asarray(tight & ~inexact & ~open_ & (whole | empty), dtype=bool),
            np.where(np.asarray(tight & ~unknown, dtype=bool), nulls, -1),
        )


@dataclass(frozen=True, eq=False)
class StatsAccess(Access):
    """The column statistics of one definition; `columns`: ids of its columns, None for all."""

    definition: Definition
    of_claims: StatsOfClaims
    columns: frozenset[str] | None

    def serves(self, node: Node) -> bool:
        """Return whether a condition is on one column of the definition."""
        if not isinstance(node, Leaf) or node.column.partition:
            return False
        return self.columns is None or node.column.id in self.columns

    def stated(self, column: Column, space: SpaceView) -> Stated | None:
        """Return extremes and NULLs of a column of the definition in the files of a row space."""
        is_covered = self.columns is None or column.id in self.columns
        return self.of_claims.stated(column, space) if is_covered and not column.partition else None

    def bounds(self, node: Node, space: SpaceView) -> Bounds:
        """Return the row groups where a condition may be and surely is TRUE."""
        return self.of_claims.bounds(self.of_claims.judged(node), space)


@dataclass(frozen=True, eq=False)
class TermStatsAccess(Access):
    """The statistics of an expression of one definition, asked through the columns that it reads."""

    definition: Definition
    of_claims: StatsOfClaims
    term: IndexedTerm

    def serves(self, node: Node) -> bool:
        """Return whether a condition restricts the term; an AND counts only for a term of several columns."""
        return implies(node, self.term)

    def bounds(self, node: Node, space: SpaceView) -> Bounds:
        """Return the row groups where a condition may be and surely is TRUE.

        A row group in which the term raises may match, whatever the condition implies for values of the term;
        so may any row of a file for which the definition is not built, even if another file with an equal
        footer has statistics.
        """
        shown = implied(node, self.term)
        if shown is None:
            return Bounds.between(EMPTY, space.visible)
        may, surely = self.of_claims.judged(shown.maybe)
        if not shown.exact:
            surely = self.of_claims.judged(shown.sure or Constant(False))[1]
        open_ = self.of_claims.stats.nothing_stated(self.term)
        bounds = self.of_claims.bounds((may | open_, surely & ~open_), space)
        lacking = np.array([self.definition.id not in built for built in space.column_sets])[space.posted]
        if not lacking.any():
            return bounds
        unknown = claims(space.bases[lacking], space.rows[lacking]) & space.visible
        return Bounds.between(bounds.sure - unknown, bounds.maybe | unknown)
