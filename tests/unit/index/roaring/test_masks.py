"""Positions in any order become the bitmap of them, however many there are among the rows."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap

from tailbit.index.roaring.masks import bitmap_where, union_of

ROWS = 200_000


@pytest.mark.parametrize("many", [0, 1, 3_000, 3_125, 3_126, 12_500, 12_501, 150_000, ROWS])
@pytest.mark.parametrize("pieces", [1, 7])
def test_positions_in_any_order_and_pieces_become_one_bitmap(many: int, pieces: int) -> None:
    positions = np.random.default_rng(many).permutation(ROWS)[:many].astype(np.uint32)
    found = union_of(np.array_split(positions, pieces), ROWS)
    assert found == BitMap(positions.tolist())
    assert BitMap.deserialize(found.serialize()) == found


def test_positions_that_come_twice_are_in_the_bitmap_once() -> None:
    twice = np.array([7, 3, 7], np.uint32)
    assert union_of([twice], 8) == union_of([twice], ROWS) == BitMap([3, 7])


@pytest.mark.parametrize("share", [0.0, 0.01, 0.06, 0.07, 0.5, 1.0])
def test_a_mask_becomes_the_bitmap_of_its_true_positions(share: float) -> None:
    there = np.random.default_rng(1).random(3 * 65_536 + 5) < share
    assert bitmap_where(there) == BitMap(np.flatnonzero(there).tolist())
