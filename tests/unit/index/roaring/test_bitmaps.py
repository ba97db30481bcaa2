"""The bitmaps of codes are those of pyroaring, in whatever ranges the rows are sorted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from pyroaring import BitMap

from tailbit.base.arrays import Mask
from tailbit.index.roaring.bitmaps import bitmaps
from tailbit.index.roaring.containers import BLOCK


def all_dense(counts: npt.NDArray[np.int64], *_: object) -> Mask:
    return np.zeros(len(counts), dtype=np.bool_)


LIMITS = (1, 2, 17, 300)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("rows", [0, 1, 9, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17])
@pytest.mark.parametrize("in_order", [False, True], ids=["random", "in order"])
def test_codes_of_any_number_have_the_bitmaps_of_roaring(rows: int, limit: int, in_order: bool) -> None:
    codes = np.random.default_rng(rows + limit).integers(0, limit + 2, rows).astype(np.uint16)
    codes = np.sort(codes) if in_order else codes
    wanted = [BitMap(np.flatnonzero(codes == code).tolist()).shift(BLOCK) for code in range(limit)]
    for bits in wanted:
        bits.run_optimize()
    made = [slab.arrow() for slab in bitmaps(codes, BLOCK, limit, all_dense, 1 << 16)]
    found = pa.concat_arrays(made).to_pylist()
    assert [BitMap.deserialize(data) for data in found] == wanted
    # A bitmap of one run has a few bytes more or less at its ends.
    assert all(len(data) <= len(bits.serialize()) + 16 for data, bits in zip(found, wanted, strict=True))


def test_the_worked_example_gives_the_positions_that_it_says() -> None:
    codes = np.array([3, 0, 2, 1, 0, 4, 2, 1], dtype=np.uint8)
    first, second = bitmaps(codes, 0, 5, all_dense, range_rows=4)
    assert (first.first, first.cardinality.tolist()) == (0, [2, 2])
    assert (second.first, second.cardinality.tolist()) == (2, [2, 1, 1])
    assert [list(BitMap.deserialize(some)) for some in first.arrow().to_pylist()] == [[1, 4], [3, 7]]


def test_bitmaps_of_arrow_are_null_for_sparse_codes() -> None:
    (slab,) = bitmaps(np.array([0, 1, 1, 2], dtype=np.uint8), 0, 3, lambda counts, *_: counts == 2)
    made: pa.BinaryArray = slab.arrow()
    assert made.is_null().to_pylist() == [False, True, False]
    assert slab.positions.tolist() == [1, 2]
