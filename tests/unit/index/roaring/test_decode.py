"""Serialized bitmaps become the codes that their positions have, or are refused."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from tailbit.index.roaring.decode import place_codes, positions_of

ROWS = 3 * 65536 + 1000


def shared_out(rng: random.Random, rows: int) -> list[BitMap]:
    """Disjoint bitmaps of every form: singles, arrays, bitsets, runs, and several of them in one."""
    owners = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 40, rows)
    owners[owners > 30] = 0
    for _ in range(rng.randrange(8)):
        start = rng.randrange(rows)
        owners[start : start + rng.randrange(1, 30_000)] = rng.randrange(40, 50)
    owners[rng.randrange(rows)] = 50
    found = [BitMap(np.flatnonzero(owners == owner).astype(np.uint32)) for owner in np.unique(owners)]
    for bits in found:
        if rng.random() < 0.7:
            bits.run_optimize()
    rng.shuffle(found)
    return found


def placed(bitmaps: list[BitMap], rows: int, first: int = 1) -> np.ndarray:
    out = np.zeros(rows, dtype=np.uint16)
    data = pa.array([b"odd", *(bits.serialize() for bits in bitmaps)], pa.binary())[1:]
    codes = np.arange(first, first + len(bitmaps))
    place_codes(data, np.array([len(bits) for bits in bitmaps], dtype=np.int64), codes, out)
    return out


@pytest.mark.parametrize("seed", range(12))
def test_every_position_gets_the_code_of_its_bitmap(seed: int) -> None:
    rng = random.Random(seed)
    rows = rng.choice([ROWS, 70_000, 900])
    bitmaps = shared_out(rng, rows)
    kept = [bits for bits in bitmaps if rng.random() < 0.9]
    expected = np.zeros(rows, dtype=np.uint16)
    for code, bits in enumerate(kept, 7):
        expected[np.array(bits.to_array(), dtype=np.int64)] = code
    assert np.array_equal(placed(kept, rows, 7), expected)


def test_many_bitmaps_of_one_position_are_placed() -> None:
    at = np.random.default_rng(3).permutation(100_000)
    out = np.zeros(100_000, dtype=np.uint32)
    data = pa.array([BitMap([int(p)]).serialize() for p in at], pa.binary())
    place_codes(data, np.ones(len(at), dtype=np.int64), np.arange(1, len(at) + 1), out)
    assert np.array_equal(out[at], np.arange(1, 100_001))


@pytest.mark.parametrize("seed", range(12))
def test_the_positions_of_bitmaps_come_bitmap_after_bitmap(seed: int) -> None:
    rng = random.Random(seed)
    rows = rng.choice([ROWS, 70_000, 900])
    bitmaps = [bits for bits in shared_out(rng, rows) if rng.random() < 0.9]
    sizes = np.array([len(bits) for bits in bitmaps], dtype=np.int64)
    data = pa.array([b"odd", *(bits.serialize() for bits in bitmaps)], pa.binary())[1:]
    expected = [position for bits in bitmaps for position in bits]
    assert positions_of(data, sizes, rows).tolist() == expected
    with pytest.raises(ValueError, match="beyond the end"):
        positions_of(data, sizes, max(expected))
    with pytest.raises(ValueError, match="other positions"):
        positions_of(data, sizes + 1, rows)


def test_no_bitmap_has_no_positions() -> None:
    assert positions_of(pa.array([], pa.binary()), np.zeros(0, dtype=np.int64), 9).tolist() == []


def test_no_bitmap_writes_nothing() -> None:
    assert not placed([], 10).any()


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_are_refused_or_change_nothing_of_the_cardinality(seed: int) -> None:
    rng = random.Random(seed)
    bitmaps = shared_out(rng, ROWS)
    sizes = np.array([len(bits) for bits in bitmaps], dtype=np.int64)
    for _ in range(60):
        parts = [bytearray(bits.serialize()) for bits in bitmaps]
        part = rng.choice(parts)
        if rng.random() < 0.3:
            del part[rng.randrange(len(part)) :]
        else:
            part[rng.randrange(min(len(part), 200))] ^= 1 << rng.randrange(8)
        out = np.zeros(ROWS, dtype=np.uint16)
        try:
            place_codes(
                pa.array([bytes(p) for p in parts], pa.binary()), sizes, np.arange(1, len(parts) + 1), out
            )
        except ValueError:
            continue
        assert np.count_nonzero(out) <= sizes.sum()


def test_a_position_beyond_the_rows_is_refused() -> None:
    for bits in (BitMap([5, 99]), BitMap(range(50, 101)), BitMap(range(0, 60_000, 2))):
        bits.run_optimize()
        with pytest.raises(ValueError, match=r"beyond|other positions"):
            placed([bits], 99)


def test_a_wrong_cardinality_is_refused() -> None:
    data = pa.array([BitMap([1, 2]).serialize()])
    with pytest.raises(ValueError, match="other positions"):
        place_codes(data, np.array([3]), np.array([1]), np.zeros(9, dtype=np.uint8))
