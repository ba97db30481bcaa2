"""Few positions looked up in serialized bitmaps, as they stand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from tailbit.index.roaring.asked import place_asked
from tailbit.tables.positions import bitmap_of

ROWS, KEYS = 200_000, 3
NUMBERS = np.random.default_rng(2).integers(0, KEYS, ROWS)
POSTINGS = [bitmap_of(np.flatnonzero(NUMBERS == key)) for key in range(KEYS)]
SOME = np.array([0, 1, 65_535, 65_536, 131_071, 199_999], dtype=np.uint32)


def place(postings: Sequence[BitMap], positions: np.ndarray = SOME) -> tuple[bool, list[int]]:
    """What is found with the codes 1, 2 ... of the postings."""
    stored = pa.array([bits.serialize() for bits in postings], pa.binary())
    cardinality = np.array([len(bits) for bits in postings], dtype=np.int64)
    out = np.zeros(len(positions), dtype=np.int64)
    return place_asked(stored, cardinality, 1, positions, out), out.tolist()


def test_each_position_gets_the_code_of_the_bitset_that_holds_it() -> None:
    assert place(POSTINGS) == (True, (NUMBERS[SOME] + 1).tolist())
    assert place(POSTINGS[:1]) == (True, (NUMBERS[SOME] == 0).astype(int).tolist())


def test_one_block_or_the_last_one_may_be_an_array() -> None:
    few = [BitMap([2, 4]), BitMap([3])]
    assert place(few, np.arange(6, dtype=np.uint32)) == (True, [0, 0, 1, 2, 1, 0])


@pytest.mark.parametrize(
    "other",
    [BitMap([7, *range(65_536, ROWS)]), BitMap(range(50_000)), BitMap(range(0, 131_072, 2))],
    ids=["an array", "a run", "a block less"],
)
def test_bitmaps_with_other_containers_are_left_to_who_decodes_them(other: BitMap) -> None:
    other.run_optimize()
    assert place([POSTINGS[0], other]) == (False, [0] * len(SOME))
    assert place([other]) == (False, [0] * len(SOME))


def test_two_bitsets_that_share_an_asked_position_are_refused() -> None:
    with pytest.raises(ValueError, match="share positions"):
        place([POSTINGS[0], POSTINGS[1], POSTINGS[0]])


@pytest.mark.parametrize("harm", [lambda b: b[:-1], lambda b: b[:12], lambda b: b[:8] + b"\1" + b[9:]])
def test_bitmaps_that_are_not_as_they_say_are_refused_or_left(harm: object) -> None:
    stored = pa.array([harm(POSTINGS[0].serialize())], pa.binary())  # type: ignore[operator]
    out = np.zeros(len(SOME), dtype=np.int64)
    try:
        done = place_asked(stored, np.array([len(POSTINGS[0])]), 1, SOME, out)
    except ValueError:
        done = False
    assert not done


def test_a_bitmap_of_other_positions_than_are_recorded_is_refused() -> None:
    stored = pa.array([POSTINGS[0].serialize()], pa.binary())
    with pytest.raises(ValueError, match="recorded"):
        place_asked(stored, np.array([len(POSTINGS[0]) - 1]), 1, SOME, np.zeros(len(SOME), dtype=np.int64))
