"""Which keys are kept as gaps: those for whom it pays, and by containers the same as by positions."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap

from tailbit.base.arrays import Longs
from tailbit.index.roaring.containers import BLOCK, containers
from tailbit.index.roaring.serialize import bitmaps
from tailbit.index.roaring.sparse import LIMIT, pays, roaring_bytes


def by_positions(codes: Longs, values: int) -> list[bool]:
    positions = np.argsort(codes, kind="stable").astype(np.uint32)
    counts = np.bincount(codes, minlength=values)
    ends = np.cumsum(counts)
    firsts, lasts = positions[ends - counts].astype(np.int64), positions[ends - 1].astype(np.int64)
    return pays(counts, firsts, lasts, roaring_bytes(positions, counts)).tolist()


@pytest.mark.parametrize("blocks", [1, 2, 3, 16])
@pytest.mark.parametrize("values", [3, 12, 18, 26, 300])
def test_by_containers_the_same_keys_are_sparse_as_by_positions(blocks: int, values: int) -> None:
    codes = np.random.default_rng(blocks).integers(0, values, blocks * BLOCK)
    parts = [
        containers(at, codes[at * BLOCK : (at + 1) * BLOCK].astype(np.uint16), values) for at in range(blocks)
    ]
    chosen = [its for slab in bitmaps(parts, values, choose=pays) for its in slab.sparse.tolist()]
    assert chosen == by_positions(codes, values)
    assert all(chosen) == (values > 15)


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
