"""The kernel at its edges: where a container changes its form, fills, or is cut; judged by pyroaring."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from pyroaring import BitMap

from tailbit.index.postings.written import check_bitmaps
from tailbit.index.roaring.bitmaps import bitmaps
from tailbit.index.roaring.containers import BLOCK, LIMIT, bitmap_where, pays, roaring_bytes, union_of

Codes = npt.NDArray[np.uint32]
LIMITS = (2, 17, 300)
COUNTS = (1, 2, 3, 4, 4095, 4096, 4097, BLOCK - 1, BLOCK)
RUNS = (1, 2, 2046, 2047, 2048, 2049)
"""Up to 2,047 runs take fewer words than a bitset; 2,048 do not."""


def checked(codes: Codes, limit: int) -> None:
    """Every bitmap has the positions of its code, in some bytes more than pyroaring would write at most."""
    found: list[bytes] = []
    for slab in bitmaps(codes, 0, limit, lambda counts, *_: counts < 0):
        check_bitmaps("s", "c", slab.cardinality, slab.arrow(), len(codes))
        data, ends = slab.data.tobytes(), slab.offsets.tolist()
        found += [data[a:b] for a, b in itertools.pairwise(ends)]
    order = np.argsort(codes, kind="stable")
    cuts = np.searchsorted(codes[order], np.arange(limit + 1))
    for code, (a, b) in enumerate(itertools.pairwise(cuts.tolist())):
        wanted = BitMap(order[a:b].tolist())
        wanted.run_optimize()
        assert BitMap.deserialize(found[code]) == wanted
        assert len(found[code]) <= len(wanted.serialize()) + 16


def around(block: Codes, limit: int) -> Iterator[Codes]:
    """A block alone, between two others, and before a block that is cut short."""
    others = np.random.default_rng(limit).integers(0, limit, BLOCK).astype(np.uint32)
    yield block
    yield np.concatenate([others, block, others])
    yield np.concatenate([block, others[:777]])


def scattered(count: int, limit: int) -> Codes:
    """A full block where code 0 has `count` positions, as far apart as they can be; the rest are even."""
    codes = (1 + np.arange(BLOCK) % max(1, limit - 1)).astype(np.uint32)
    codes[np.linspace(0, BLOCK - 1, count).astype(np.int64)] = 0
    return codes


def in_runs(runs: int, length: int, limit: int) -> Codes:
    """A full block where code 0 has `runs` runs of `length` positions, and the others stand between them."""
    codes = (1 + np.arange(BLOCK) % max(1, limit - 1)).astype(np.uint32)
    starts = np.arange(runs) * (BLOCK // runs)
    codes[(starts[:, None] + np.arange(length)).ravel()] = 0
    return codes


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("count", COUNTS)
def test_a_value_of_any_number_of_positions_in_a_block_is_written_as_roaring_would(
    count: int, limit: int
) -> None:
    for codes in around(scattered(count, limit), limit):
        checked(codes, limit)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("length", [2, 3, 31])
@pytest.mark.parametrize("runs", RUNS)
def test_runs_at_their_break_even_are_written_as_roaring_would(runs: int, length: int, limit: int) -> None:
    for codes in around(in_runs(runs, length, limit), limit):
        checked(codes, limit)


@pytest.mark.parametrize("limit", LIMITS)
def test_positions_without_a_row_are_in_no_bitmap_at_any_cardinality(limit: int) -> None:
    for count in COUNTS:
        codes = scattered(count, limit)
        codes[codes == 1] = limit
        checked(codes, limit)


def test_sixteen_even_values_over_many_blocks_are_all_sound() -> None:
    codes = np.random.default_rng(5).integers(0, 16, 60 * BLOCK).astype(np.uint32)
    checked(codes, 16)


@pytest.mark.parametrize("rows", [1, 2, 4095, 4096, 4097, BLOCK - 1, BLOCK, BLOCK + 1])
def test_a_column_of_one_value_or_of_as_many_values_as_rows(rows: int) -> None:
    checked(np.zeros(rows, dtype=np.uint32), 1)
    checked(np.arange(rows, dtype=np.uint32)[::-1].copy(), rows)


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
