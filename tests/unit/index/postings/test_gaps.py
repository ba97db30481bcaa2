"""Sparse postings are read as they were written, and refused where they cannot be positions of the rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tailbit.index.postings.gaps import PLANES, SCHEMA, Gaps, encoded

ROWS = 8


Planes = list[list[bytes | None]]


def _gaps(first: list[int | None], planes: Planes, counts: list[int], rows: int = ROWS) -> Gaps:
    """Of columns as they stand in a file; those of higher bytes that are not given are null."""
    given = [*planes, *[[None] * len(first)] * (len(PLANES) - len(planes))]
    return Gaps.of(pa.table([first, *given], schema=SCHEMA), np.array(counts, np.int64), rows)


def test_the_worked_example_is_encoded_as_it_says() -> None:
    found = encoded(np.array([4, 6, 7, 300, 2], np.uint32), np.array([0, 4, 1], np.int64))
    assert found.to_pydict() == {
        "first": [None, 4, 2],
        "gaps_0": [None, bytes.fromhex("020125"), None],
        "gaps_1": [None, bytes.fromhex("000001"), None],
        "gaps_2": [None] * 3,
        "gaps_3": [None] * 3,
    }
    assert Gaps.of(found, np.array([2000, 4, 1]), 301).positions(0, 3).tolist() == [4, 6, 7, 300, 2]


@pytest.mark.parametrize("reach", [1, 255, 256, 65_535, 65_536, (1 << 24) - 1, 1 << 24, (1 << 31) - 2])
def test_a_column_of_bytes_is_there_for_keys_whose_gaps_reach_it(reach: int) -> None:
    positions = np.array([1, 2, 0, reach, reach + 1], np.uint32)
    found = encoded(positions, np.array([2, 3], np.int64))
    bytes_needed = (reach.bit_length() + 7) // 8
    for number, name in enumerate(PLANES):
        assert found[name].is_valid().to_pylist() == [number == 0, number < bytes_needed]
    assert Gaps.of(found, np.array([2, 3]), 1 << 31).positions(0, 2).tolist() == positions.tolist()


@pytest.mark.parametrize(
    ("first", "planes", "counts"),
    [
        ([4, 2], [[b"\2\1", None]], [2, 1]),
        ([4, 2], [[b"\2", b"\1"]], [2, 1]),
        ([4, 2], [[None, None]], [2, 1]),
        ([4, None], [[b"\1", b"\1"]], [2, 9]),
        ([4, 2], [[b"\0", None]], [2, 1]),
        ([4, 2], [[b"\1", None], [b"\0\0", None]], [2, 1]),
        ([4, 2], [[b"\1", None], [None, b"\1"]], [2, 1]),
        ([4, 2], [[b"\xff", None], [b"\xff", None], [b"\xff", None], [b"\xff", None]], [2, 1]),
        ([-1, 2], [[b"\1", None]], [2, 1]),
        ([4, 2], [[b"\4", None]], [2, 1]),
        ([8, 2], [[None, None]], [1, 1]),
        ([4, 2], [[None, None]], [0, 1]),
        ([4, 2], [[None, None]], [-3, 1]),
        ([4, 2], [[b"\1", None]], [1 << 36, 1]),
        ([7, 2], [[b"\xff\xff", None]] * 3 + [[b"\x7f\x7f", None]], [3, 1]),
    ],
)
def test_positions_that_are_too_many_do_not_rise_or_are_beyond_the_rows_are_refused(
    first: list[int | None], planes: Planes, counts: list[int]
) -> None:
    with pytest.raises(ValueError, match=r"posting|beyond"):
        _gaps(first, planes, counts).positions(0, 2)
    with pytest.raises(ValueError, match=r"posting|beyond"):
        _gaps(first, planes, counts).apart(0, 2)


def test_keys_that_are_all_dense_have_no_positions() -> None:
    assert _gaps([None] * 3, [], [5, 6, 7]).positions(0, 3).tolist() == []
