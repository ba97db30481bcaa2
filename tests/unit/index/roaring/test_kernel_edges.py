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
from tailbit.index.roaring.containers import BLOCK

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
