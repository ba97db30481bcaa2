"""What a row group in memory keeps of its postings: what was asked for, within what it is accounted for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from support.encodings import stored
from tailbit.index.postings.row_group import RowGroup

ROWS = 1 << 20


def row_group(bits: list[BitMap], sparse: list[bool]) -> RowGroup:
    keys = pa.array([n.to_bytes(4, "big") for n in range(len(bits))], pa.binary())
    return RowGroup(stored(bits, sparse).add_column(0, "key", keys), ROWS, "a segment")


def key(number: int) -> bytes:
    return number.to_bytes(4, "big")


def covered(group: RowGroup, low: int, high: int) -> tuple[list[BitMap], BitMap]:
    """The bitmaps that come for the keys of a range, both ends in it, and the union of all that comes."""
    bitmaps, positions = group.cover((key(low), True, key(high), True))
    loose = [BitMap(part.tolist()) for part in positions]
    return bitmaps, BitMap.union(BitMap(), *bitmaps, *loose)


@pytest.fixture
def bits() -> list[BitMap]:
    rng = np.random.default_rng(1)
    return [BitMap(rng.integers(0, ROWS, 1000).tolist()) for _ in range(300)]


def test_few_sparse_keys_are_decoded_once(bits: list[BitMap]) -> None:
    group = row_group(bits, [True] * len(bits))
    first, found = covered(group, 3, 5)
    assert first == bits[3:6]
    assert found == BitMap.union(*bits[3:6])
    again, _ = covered(group, 3, 5)
    assert [one is other for one, other in zip(first, again, strict=True)] == [True] * 3
    assert group.find(key(4)) is first[1]


def test_of_sparse_keys_no_more_is_kept_than_some_bytes_a_position() -> None:
    bits = [BitMap(range(number, ROWS, 1 << 16)) for number in range(60)]
    group = row_group(bits, [True] * len(bits))
    for number in range(len(bits)):
        assert group.find(key(number)) == bits[number]
    kept = [number for number in range(len(bits)) if group.find(key(number)) is group.find(key(number))]
    assert 1 <= len(kept) <= len(bits) // 4
    for low, high in ((0, 0), (0, 20), (40, 50), (0, 59), (58, 59)):
        assert covered(group, low, high)[1] == BitMap.union(*bits[low : high + 1])


def test_many_sparse_keys_come_as_positions_and_dense_ones_as_bitmaps(bits: list[BitMap]) -> None:
    group = row_group(bits, [number % 2 == 0 for number in range(len(bits))])
    bitmaps, found = covered(group, 0, 299)
    assert bitmaps == bits[1::2]
    assert found == BitMap.union(*bits)
    assert covered(group, 10, 19)[0] == bits[10:20]


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_keys_by_their_places_are_those_of_their_ranges(bits: list[BitMap], step: int) -> None:
    group = row_group(bits, [number % 3 > 0 for number in range(len(bits))])
    wanted = np.arange(len(bits)) % step == 0
    dense, positions = group.cover_some(wanted)
    assert dense == [one for n, one in enumerate(bits) if wanted[n] and n % 3 == 0]
    found = BitMap.union(BitMap(), *dense, *(BitMap(part.tolist()) for part in positions))
    assert found == BitMap.union(BitMap(), *(one for n, one in enumerate(bits) if wanted[n]))
    assert group.cover_some(np.zeros(len(bits), dtype=bool)) == ([], [])
