"""Lookup of keys in the postings of a row space.

Each row found is given by its file and its position there; hidden rows are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.imports.dataclass import dataclass
from tailbit.index.evaluation.row_space import SpaceView
from tailbit.index.postings.paged.lookup import placed
from tailbit.index.postings.segment import Segment
from tailbit.once import once
from tailbit.tables.positions import bitmap_of, positions_in

_MANY_KEYS, _ROWS_A_KEY = 1 << 16, 4
"""65,536 keys with their postings are read in 50 ms; one key takes as long as four rows of a scan."""


class Places(NamedTuple):
    """Rows that have keys: the key's number, the row number of the file in the snapshot, and the position.

    All int64, an entry per row.
    """

    keys: Longs
    files: Longs
    positions: Longs


@dataclass(frozen=True, eq=False)
class Lookup:
    """Keys that are looked up in the postings of a column or tuple.

    `codes`: the keys as bytes, ascending; `numbers`: the caller's number (int64) of each key. `segments`: the
    segments with the postings.
    """

    space: SpaceView
    id: str
    codes: pa.BinaryArray
    numbers: Longs
    segments: Sequence[Segment]

    @once
    def spans(self) -> list[list[tuple[int, int, int]]]:
        """Return per segment (row group, low, high): the row group may hold the keys `codes[low:high]`."""
        listed = self.codes.to_pylist()
        return [segment.spans(self.id, listed) for segment in self.segments]

    @property
    def costs_a_scan(self) -> bool:
        """Return whether reading the key columns of all rows is quicker than reading uncached postings."""
        unread = sum(
            segment.unread_keys([number for number, *_ in spans])
            for segment, spans in zip(self.segments, self.spans, strict=True)
            if not segment.is_paged
        )
        return unread > _MANY_KEYS and unread * _ROWS_A_KEY > self.space.extent

    def places(self) -> Places:
        """Return the visible rows that have the keys."""
        keys, positions = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.uint32)]
        for segment, spans in zip(self.segments, self.spans, strict=True):
            if spans and segment.is_paged:
                owners, at = placed(segment, self.id, spans, self.codes)
                keys.append(self.numbers[owners])
                positions.append(at)
                continue
            groups = segment.in_order([number for number, *_ in spans])
            for group, (_, low, high) in zip(groups, spans, strict=True):
                owners, at = group.placed(self.codes[low:high])
                keys.append(self.numbers[low + owners])
                positions.append(at)
        return visible_rows(self.space, np.concatenate(keys), np.concatenate(positions).astype(np.int64))


def visible_rows(space: SpaceView, keys: Longs, at: Longs) -> Places:
    """Return the visible rows among positions `at` of a row space; `keys`: the key's number per position."""
    seen = positions_in(bitmap_of(at) & space.visible)
    shown = (
        np.append(seen, 0)[np.searchsorted(seen, at)] == at if len(seen) else np.zeros(len(at), dtype=bool)
    )
    at = at[shown]
    files = np.searchsorted(space.bases, at, side="right") - 1
    return Places(keys[shown], space.files[files], at - space.bases[files])
