"""Lookup of the records of a row space's files, for kinds whose rows are stored by footer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Longs
from tailbit.base.dataclass import dataclass
from tailbit.base.once import once
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, in_one, numpy_of


@dataclass(eq=False)
class RecordedPlaces:
    """The places of the files of one state of an index. Threads may share it.

    `recorded`: the rows of kind `files` of that state.
    """

    recorded: pa.Table

    def rows_at(self, space: SpaceView) -> Longs:
        """Return, per file of a row space, its row in `recorded`, int64; -1 if it has no rows or no record.

        Cost: vectorised; the first time, one pass over all files.
        """
        known = self._by_space.get(space.space)
        if known is None:
            return np.full(len(space.bases), -1, dtype=np.int64)
        bases, rows = known
        at = np.minimum(np.searchsorted(bases, space.bases), len(bases) - 1)
        # A file without rows begins where the next one does.
        return np.where((bases[at] == space.bases) & (space.rows > 0), rows[at], -1)

    @once
    def _by_space(self) -> dict[str, tuple[Longs, Longs]]:
        """Map row space to the bases of its claims, ascending, and the row of `recorded` of each."""
        table = self.recorded
        claimed = pc.and_(pc.is_valid(table["space"]), pc.greater(table["rows"], arrow_scalar(0)))
        own = np.flatnonzero(numpy_of(filled(claimed, False)))
        if not len(own):
            return {}
        table = pc.take(table.select(["space", "base"]), arrow_array(own))
        spaces = pc.dictionary_encode(in_one(table["space"]))
        codes, bases = numpy_of(spaces.indices, dtype=np.int64), numpy_of(table["base"], dtype=np.int64)
        order = np.lexsort((bases, codes))
        cuts = np.flatnonzero(np.diff(codes[order])) + 1
        names = pc.take(spaces.dictionary, arrow_array(codes[order][np.r_[0, cuts]])).to_pylist()
        parts = zip(np.split(bases[order], cuts), np.split(own[order], cuts), strict=True)
        return dict(zip(names, parts, strict=True))
