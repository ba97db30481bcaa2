"""The codes of few rows by the postings themselves, where to make those of all rows would cost more.

Only where each key has many rows: sparse keys would all have to be decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.index.kinds.bitmap_index.row_group import RowGroup
from tailbit.index.kinds.bitmap_index.segment import Segment
from tailbit.tables.positions import BitPositions


@dataclass(frozen=True, eq=False)
class AskedPostings:
    """One column of one segment: what `SegmentCodes` says of any rows, at a cost a row and key.

    `keys`: as stored, ascending, null (NULL) first. `rows`: those that the segment is about. `groups`: its
    row groups, each with the place of its first key.
    """

    keys: pa.BinaryArray
    rows: int
    groups: Sequence[tuple[int, RowGroup]]

    def take(self, positions: BitPositions) -> Longs:
        """Per ascending position 1 + the place of its key, 0 where it has none.

        Raises:
            CorruptIndexError: two postings share a position, or one does not decode.
        """
        out = np.zeros(len(positions), dtype=np.int64)
        inside = int(np.searchsorted(positions, self.rows))
        if inside:
            for first, group in self.groups:
                group.place(positions[:inside], 1 + first, out[:inside])
        return out


def asked_postings(segment: Segment, column: str) -> AskedPostings:
    """The postings of a column of a segment, to be asked for rows. Cost: reads them, and decodes none.

    Raises:
        CorruptIndexError: the segment is damaged.
    """
    groups = list(segment.groups(column))
    firsts = np.cumsum([0, *(len(group.keys) for group in groups)]).tolist()
    keys = pa.concat_arrays([pa.nulls(0, pa.binary()), *(group.keys for group in groups)])
    return AskedPostings(keys, segment.rows, list(zip(firsts, groups, strict=False)))
