"""Bounds of a condition from column statistics: row groups where the condition may be or surely is TRUE.

Example: a row space of two files, `a` of two row groups and `b` of one, and the condition `k > 60`.

    position       0         100       200       300
    row group      a 0       a 1       b 0
    k from, to     3, 50     40, 90    70, 99    no row of b is NULL
    may be TRUE              x         x
    surely TRUE                        x

A file without statistics may match anywhere.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

import numpy as np
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.base.once import once
from tailbit.index.evaluation.bounds import EMPTY, Bounds, Stated
from tailbit.index.evaluation.row_space import Access, SpaceView, claims
from tailbit.index.expression.indexed_term import IndexedTerm
from tailbit.index.implication.implied import implied, implies
from tailbit.index.kinds.column_stats.reader import ColumnStats
from tailbit.index.kinds.files.places import RecordedPlaces
from tailbit.index.kinds.rows import stored_type
from tailbit.index.model import Definition
from tailbit.index.ordered import SIGN
from tailbit.index.predicate.tree import And, Constant, Leaf, Node, Or
from tailbit.tables import compute as pc
from tailbit.tables.arrow import filled, numpy_of
from tailbit.tables.cache import Cache
from tailbit.tables.model import Column

_LEAVES = 64
"""Number of conditions whose row groups are kept."""


class Placed(NamedTuple):
    """The row groups of a row space that have statistics, and the positions of all other rows (`unknown`).

    `units`: number of each row group in the statistics. `files`: index of its file in the row space. `bases`,
    `rows`: its first position in the row space, and its row count.
    """

    units: Longs
    files: Longs
    bases: Longs
    rows: Longs
    unknown: BitMap


@dataclass(eq=False)
class StatsOfClaims:
    """Column statistics, placed in the row spaces of one state of an index. Threads may share it."""

    stats: ColumnStats
    places: RecordedPlaces
    _placed: dict[SpaceView, Placed] = field(default_factory=dict)
    _judged: Cache[Leaf, tuple[Mask, Mask]] = field(default_factory=lambda: Cache(_LEAVES))

    def judged(self, node: Node) -> tuple[Mask, Mask]:
        """Return, per unit, whether a condition may be TRUE for a row, and whether it surely is for all."""
        if isinstance(node, Leaf):
            return self._judged.get(node, lambda: (self._judge(node), 1))
        if isinstance(node, Constant):
            every = np.full(self.stats.units, node.value is True)
            return every, every
        if not isinstance(node, (And, Or)):
            return self._nothing_known
        parts = [self.judged(child) for child in node.children]
        joined = np.logical_and if isinstance(node, And) else np.logical_or
        return joined.reduce([may for may, _ in parts]), joined.reduce([surely for _, surely in parts])

    def _judge(self, leaf: Leaf) -> tuple[Mask, Mask]:
        bounds = self.stats.bounds(leaf.column)
        return self._nothing_known if bounds is None else (bounds.can_match(leaf), bounds.all_match(leaf))

    @once
    def _nothing_known(self) -> tuple[Mask, Mask]:
        return np.ones(self.stats.units, dtype=bool), np.zeros(self.stats.units, dtype=bool)

    def bounds(self, judged: tuple[Mask, Mask], space: SpaceView) -> Bounds:
        """Return the rows of the row groups that may match, and of those that surely do."""
        placed = self.placed(space)
        may, surely = (mask[placed.units] for mask in judged)
        sure = claims(placed.bases[surely], placed.rows[surely])
        if may.all():
            return Bounds.between(sure & space.visible, space.visible)
        maybe = claims(placed.bases[may], placed.rows[may]) | placed.unknown
        return Bounds.between(sure & space.visible, maybe & space.visible)

    def placed(self, space: SpaceView) -> Placed:
        """Return where the row groups of a row space's files lie. Cost: once per row space, vectorised."""
        placed = self._placed.get(space)
        if placed is None:
            placed = self._placed[space] = self._place(space)
        return placed

    def _place(self, space: SpaceView) -> Placed:
        files = self._files_at(space)
        counts = np.zeros(len(files), dtype=np.int64)
        counts[files >= 0] = np.diff(self.stats.starts)[files[files >= 0]]
        first = np.repeat(np.cumsum(counts) - counts, counts)
        units = np.repeat(self.stats.starts[files], counts) + np.arange(len(first)) - first
        rows = self.stats.rows[units]
        before = np.cumsum(rows) - rows
        bases = np.repeat(space.bases, counts) + before - before[first]
        unknown = counts == 0
        files = np.repeat(np.arange(len(files)), counts)
        return Placed(units, files, bases, rows, claims(space.bases[unknown], space.rows[unknown]))

    def stated(self, column: Column, space: SpaceView) -> Stated | None:
        """Return extremes and NULLs of a column per file; None without statistics of its present key type."""
        key_type = stored_type(column)
        cells = next((cells for cells in self.stats.cells(column.id) if cells.key_type == key_type), None)
        if cells is None:
            return None
        placed, every = self.placed(space), len(space.files)
        tight = space.hidden_ids == ""
        low, high = np.full(every, SIGN - 1, dtype=np.int64), np.full(every, -SIGN, dtype=np.int64)
        bounded, whole = np.zeros(every, dtype=bool), np.zeros(every, dtype=bool)
        whole[placed.files] = True
        ends = cells.bounded[placed.units]
        bounded[placed.files[ends]] = True
        if isinstance(cells.low, np.ndarray) and isinstance(cells.high, np.ndarray):
            np.minimum.at(low, placed.files[ends], cells.low[placed.units[ends]])
            np.maximum.at(high, placed.files[ends], cells.high[placed.units[ends]])
        else:
            bounded[:] = False
        some_nulls = cells.nulls[placed.units]
        nulls = np.zeros(every, dtype=np.int64)
        np.add.at(nulls, placed.files, np.maximum(some_nulls, 0))
        open_ = np.zeros(every, dtype=bool)
        open_[placed.files[~ends & (some_nulls != placed.rows)]] = True
        inexact = np.zeros(every, dtype=bool)
        inexact[placed.files[~cells.exact[placed.units]]] = True
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

    def _files_at(self, space: SpaceView) -> Longs:
        """Return the number in `stats.footers` of each file of a row space; -1 if it has no statistics."""
        at = self.places.rows_at(space)
        return np.where(at >= 0, self._numbers[at], -1) if len(self._numbers) else at

    @once
    def _numbers(self) -> Longs:
        """Return, per recorded file, the number of its footer in `stats.footers`, or -1."""
        footers = self.places.recorded["footer"]
        return numpy_of(filled(pc.index_in(footers, value_set=self.stats.footers), -1), np.int64)


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
        """Return extremes and NULLs of a column of the definition in the files of a row space.

        Raises:
            CorruptIndexError: a file of column statistics is damaged.
        """
        mine = self.columns is None or column.id in self.columns
        return self.of_claims.stated(column, space) if mine and not column.partition else None

    def bounds(self, node: Node, space: SpaceView) -> Bounds:
        """Return the row groups where a condition may be and surely is TRUE.

        Raises:
            CorruptIndexError: a file of column statistics is damaged.
        """
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

        Raises:
            CorruptIndexError: a file of column statistics is damaged.
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
