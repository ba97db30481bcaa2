"""Which keys are kept as gaps: those for whom it pays."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap

from tailbit.index.roaring.bitmaps import bitmaps
from tailbit.index.roaring.containers import BLOCK, LIMIT, pays, roaring_bytes


@pytest.mark.parametrize("blocks", [1, 2, 3, 16])
@pytest.mark.parametrize("values", [3, 12, 18, 26, 300])
def test_keys_of_more_than_fifteen_even_values_are_sparse(blocks: int, values: int) -> None:
    codes = np.random.default_rng(blocks).integers(0, values, blocks * BLOCK).astype(np.uint16)
    chosen = [its for slab in bitmaps(codes, 0, values, pays) for its in slab.sparse.tolist()]
    assert set(chosen) == {values > 15}


@pytest.mark.parametrize("step", [1, 2, 5, 700])
def test_the_size_of_a_bitmap_is_that_of_its_bytes(step: int) -> None:
    parts = [np.arange(n, 40_000 + n, step, dtype=np.uint32) for n in (0, BLOCK - 3, 5 * BLOCK)]
    sizes = []
    for part in parts:
        bits = BitMap(part.tolist())
        bits.run_optimize()
        sizes.append(len(bits.serialize()))
    counts = np.array([len(part) for part in parts], dtype=np.int64)
    assert np.abs(roaring_bytes(np.concatenate(parts), counts) - sizes).max() <= 16


def chosen(positions: range) -> bool:
    bits = BitMap(positions)
    bits.run_optimize()
    sizes = np.array([[len(bits), bits.min(), bits.max(), len(bits.serialize())]], dtype=np.int64)
    return bool(pays(*sizes.T)[0])


def test_a_key_of_one_position_or_of_few_far_apart_is_sparse() -> None:
    assert chosen(range(7, 8))
    assert chosen(range(0, 1 << 26, 1 << 20))


def test_a_key_of_neighbours_and_one_of_every_fifteenth_row_are_not() -> None:
    assert not chosen(range(100_000))
    assert not chosen(range(0, 1 << 20, 15))
    assert chosen(range(0, 1 << 20, 17))


def test_positions_beyond_31_bits_are_never_gaps() -> None:
    assert chosen(range(5, LIMIT, LIMIT - 6))
    assert not chosen(range(5, LIMIT + 1, LIMIT - 5))
