"""Bounds of a condition from Bloom filters: the rows of the row groups that may hold one of its values.

Every row may match in a row group without a filter, in a file that is not indexed, and for a condition that
lists no values. No filter proves that a row has a value, so no row surely matches.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from tailbit.base.arrays import Longs, Mask
from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.bounds import EMPTY, Bounds
from tailbit.index.evaluation.row_space import Access, SpaceView, claims
from tailbit.index.kinds.bloom_filter.reader import BloomFilters, Filters, hashes_of_values
from tailbit.index.kinds.files.places import RecordedPlaces
from tailbit.index.kinds.rows import stored_type
from tailbit.index.model import Definition
from tailbit.index.predicate.tree import Leaf, Node
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, in_one, numpy_of
from tailbit.tables.parquet.bloom import MOST_VALUES


@dataclass(frozen=True, eq=False)
class BloomAccess(Access):
    """Access to the Bloom filters of one definition; `columns`: the ids of its columns."""

    definition: Definition
    filters: BloomFilters
    places: RecordedPlaces
    columns: frozenset[str]
    _placed: dict[tuple[SpaceView, str], _Placed] = field(default_factory=dict)

    def serves(self, node: Node) -> bool:
        """Return whether a condition lists values of one column of the definition."""
        if not isinstance(node, Leaf) or node.column.partition or node.column.id not in self.columns:
            return False
        return stored_type(node.column) is not None and node.true.listed(MOST_VALUES) is not None

    def bounds(self, node: Node, space: SpaceView) -> Bounds:
        """Return the rows of the row groups that may hold a value of a condition.

        Raises:
            CorruptIndexError: a file of filters is damaged.
        """
        if not isinstance(node, Leaf) or not self.serves(node):
            return Bounds.between(EMPTY, space.visible)
        filters = self.filters.of(node.column)
        key = space, node.column.id
        placed = self._placed.get(key)
        if placed is None:
            placed = self._placed[key] = self._place(filters, space)
        values = node.true.listed(MOST_VALUES) or []
        may = placed.judged(filters.may_hold(hashes_of_values(values, node.column)))
        maybe = claims(placed.bases[may], placed.rows[may]) | placed.unknown
        return Bounds.between(EMPTY, maybe & space.visible)

    def _place(self, filters: Filters, space: SpaceView) -> _Placed:
        built = np.array([self.definition.id in built for built in space.column_sets], dtype=bool)
        at = self.places.rows_at(space)
        footers = pc.take(in_one(self.places.recorded["footer"]), arrow_array(at, mask=at < 0))
        return _Placed.of(filters, space, footers, built[space.posted])


class _Placed(NamedTuple):
    """The row groups of a row space that have filters, and the positions of all other rows (`unknown`).

    `order`: rows of the filters, sorted by data file and row group. `firsts`: where each row group begins in
    `order`. `groups`: numbers of row groups, as `firsts` counts them; `bases`, `rows`: first position and row
    count of each in the row space.
    """

    order: Longs
    firsts: Longs
    groups: Longs
    bases: Longs
    rows: Longs
    unknown: BitMap

    @classmethod
    def of(cls, filters: Filters, space: SpaceView, footers: pa.StringArray, built: Mask) -> _Placed:
        """Return where the row groups of a row space lie.

        `footers`: per file, the hash of its footer. `built`: per file, whether the definition is built for
        it. A file is unknown unless its filters are of row groups 0, 1, 2 ... with all rows of the file.
        """
        every = pc.unique(filters.footers)
        owners = numpy_of(pc.index_in(filters.footers, value_set=every), dtype=np.int64)
        order = np.lexsort((filters.units, owners))
        owners, units, rows = owners[order], filters.units[order], filters.rows[order]
        firsts = np.flatnonzero(
            np.diff(owners, prepend=-1).astype(bool) | np.diff(units, prepend=-1).astype(bool)
        )
        owners, units, rows = owners[firsts], units[firsts], rows[firsts]
        # One more owner, without row groups, stands for files that have no filters.
        counts = np.bincount(owners, minlength=len(every) + 1)
        starts = np.cumsum(counts) - counts
        total = np.bincount(owners, weights=rows, minlength=len(every) + 1).astype(np.int64)
        total[owners[units != np.arange(len(units)) - starts[owners]]] = -1
        files = numpy_of(filled(pc.index_in(footers, value_set=every), len(every)), dtype=np.int64)
        known = built & (total[files] == space.rows)
        many = np.where(known, counts[files], 0)
        before = np.repeat(np.cumsum(many) - many, many)
        groups = np.repeat(starts[files], many) + np.arange(len(before)) - before
        ends = np.cumsum(rows[groups])
        begins = ends - rows[groups]
        bases = np.repeat(space.bases, many) + begins - begins[before]
        unknown = claims(space.bases[~known], space.rows[~known])
        return cls(order, firsts, groups, bases, rows[groups], unknown)

    def judged(self, may: Mask) -> Mask:
        """Return, per row group, whether it may match; `may`: whether each filter passes a value."""
        if not len(self.firsts):
            return np.zeros(0, dtype=np.bool_)
        passed: Mask = np.logical_or.reduceat(may[self.order], self.firsts)[self.groups]
        return passed
