"""Codes of few rows looked up in the postings themselves, if codes of all rows would cost more to build.

This pays only if each key has many rows: sparse keys would all have to be decoded.
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
    """Postings of one column of one segment: like `SegmentCodes`, at a cost per requested row and key.

    `keys`: as stored, ascending, null (NULL) first. `rows`: the extent of the segment. `groups`: its row
    groups, each with the index of its first key.
    """

    keys: pa.BinaryArray
    rows: int
    groups: Sequence[tuple[int, RowGroup]]

    def take(self, positions: BitPositions) -> Longs:
        """Return per ascending position 1 + the index of its key, or 0 if it has no key.

        Raises:
            CorruptIndexError: two postings share a position, or a posting does not decode.
        """
        out = np.zeros(len(positions), dtype=np.int64)
        inside = int(np.searchsorted(positions, self.rows))
        if inside:
            for first, group in self.groups:
                group.place(positions[:inside], 1 + first, out[:inside])
        return out


def asked_postings(segment: Segment, column: str) -> AskedPostings:
    """Return the postings of a column of a segment for lookups by row. Cost: reads them, and decodes none.

    Raises:
        CorruptIndexError: the segment is damaged.
    """
    groups = list(segment.groups(column))
    firsts = np.cumsum([0, *(len(group.keys) for group in groups)]).tolist()
    keys = pa.concat_arrays([pa.nulls(0, pa.binary()), *(group.keys for group in groups)])
    return AskedPostings(keys, segment.rows, list(zip(firsts, groups, strict=False)))
