from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from pyroaring import BitMap

from tailbit.index.roaring.containers import BLOCK, FEW_CODES, containers
from tailbit.index.roaring.serialize import bitmaps

Codes = npt.NDArray[np.uint32]


def serialized(codes: Codes, limit: int, slab_bytes: int = 1 << 20) -> list[bytes]:
    blocks = [containers(at // BLOCK, codes[at : at + BLOCK], limit) for at in range(0, len(codes), BLOCK)]
    out: list[bytes] = []
    for slab in bitmaps(blocks, limit, slab_bytes):
        assert slab.first == len(out)
        data, ends = slab.data.tobytes(), slab.offsets.tolist()
        out += [data[a:b] for a, b in itertools.pairwise(ends)]
        assert [len(BitMap.deserialize(b)) for b in out[slab.first :]] == slab.cardinality.tolist()
    return out


def by_roaring(codes: Codes, limit: int) -> list[bytes]:
    made = [BitMap(np.flatnonzero(codes == code).tolist()) for code in range(limit)]
    for bits in made:
        bits.run_optimize()
    return [bits.serialize() for bits in made]


def random_codes(rows: int, limit: int) -> Codes:
    return np.random.default_rng(rows + limit).integers(0, limit, rows).astype(np.uint32)


LIMITS = (1, 2, FEW_CODES, FEW_CODES + 1, 300)
ROWS = (0, 1, 9, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("rows", ROWS)
def test_bitmaps_are_byte_for_byte_those_of_roaring(rows: int, limit: int) -> None:
    codes = random_codes(rows, limit)
    assert serialized(codes, limit) == by_roaring(codes, limit)


@pytest.mark.parametrize("limit", LIMITS)
def test_sorted_codes_become_runs(limit: int) -> None:
    codes = np.sort(random_codes(3 * BLOCK + 5, limit))
    assert serialized(codes, limit) == by_roaring(codes, limit)


@pytest.mark.parametrize("length", [2, 3, 5, 40, 70_000])
def test_short_and_long_runs_take_the_smallest_form(length: int) -> None:
    codes = (np.arange(4 * BLOCK) // length % 41).astype(np.uint32)
    assert serialized(codes, 41) == by_roaring(codes, 41)


@pytest.mark.parametrize("limit", [3, 200])
def test_codes_beyond_the_limit_stand_for_no_row(limit: int) -> None:
    codes = random_codes(2 * BLOCK, limit + 5)
    assert serialized(codes, limit) == by_roaring(codes, limit)


@pytest.mark.parametrize("limit", [3, 200])
def test_a_code_without_positions_has_an_empty_bitmap(limit: int) -> None:
    codes = (random_codes(BLOCK + 1, limit) // 2 * 2).astype(np.uint32)
    assert BitMap.deserialize(serialized(codes, limit)[1]) == BitMap()


def test_one_frequent_code_among_many_rare_ones_is_a_bitset() -> None:
    codes = random_codes(2 * BLOCK, 500)
    codes[np.random.default_rng(1).random(len(codes)) < 0.4] = 7
    assert serialized(codes, 500) == by_roaring(codes, 500)


def test_more_codes_than_a_block_has_positions() -> None:
    codes = np.random.default_rng(0).permutation(3 * BLOCK).astype(np.uint32)
    found = serialized(codes, 3 * BLOCK)
    at = np.array([BitMap.deserialize(b)[0] for b in found])
    assert np.array_equal(codes[at], np.arange(3 * BLOCK))


def test_slabs_of_any_size_hold_the_same_bitmaps() -> None:
    codes = np.sort(random_codes(3 * BLOCK, 90))
    assert serialized(codes, 90, slab_bytes=1) == serialized(codes, 90, slab_bytes=1 << 30)


def test_the_eight_positions_of_the_docstring_are_laid_out_as_it_says() -> None:
    made = serialized(np.array([1, 0, 2, 2, 2, 2, 0, 1], dtype=np.uint32), 3)
    words = [np.frombuffer(bitmap, "<u2").tolist() for bitmap in made[:2]]
    assert words == [[12346, 0, 1, 0, 0, 1, 16, 0, 1, 6], [12346, 0, 1, 0, 0, 1, 16, 0, 0, 7]]
    assert made[2][:5] == np.array([12347, 0], "<u2").tobytes() + b"\x01"
    assert np.frombuffer(made[2][5:], "<u2").tolist() == [0, 3, 1, 2, 3]
    assert len(made[2]) == 15
