from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from tailbit.index.index_files import GROUP_BYTES
from tailbit.index.postings.codes import CODES, codes_of
from tailbit.index.postings.postings import Postings, write_segment
from tailbit.index.postings.segment import Segment
from tailbit.tables.positions import bitmap_of
from tailbit.tables.storage import LocalStorage

ROWS, KEYS = 3_000_000, 6


def test_bitsets_of_several_row_groups_over_the_same_positions_become_codes_without_loss(
    tmp_path: Path,
) -> None:
    numbers = np.random.default_rng(1).integers(0, KEYS, ROWS)
    bitmaps = [bitmap_of(np.flatnonzero(numbers == key)) for key in range(KEYS)]
    stored = [bits.serialize() for bits in bitmaps]
    assert sum(map(len, stored)) > 2 * GROUP_BYTES
    storage, keys = LocalStorage(str(tmp_path)), pa.array([b"%d" % key for key in range(KEYS)], pa.binary())
    cardinality = np.array([len(bits) for bits in bitmaps], dtype=np.int64)
    part = Postings("a", "string", keys, cardinality, pa.array(stored, pa.binary()))
    segment = Segment(storage, write_segment(storage, "space", ROWS, [part]).path)
    for _ in range(10):
        CODES.clear()
        assert np.array_equal(codes_of(segment, "a").codes, numbers + 1)
