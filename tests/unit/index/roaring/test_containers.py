"""The worked example of the module: eight positions by both ways."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tailbit.index.roaring.containers import FEW_CODES, Block, by_comparing, by_sorting, containers

EIGHT = np.array([1, 0, 2, 2, 2, 2, 0, 1], dtype=np.uint8)


@pytest.mark.parametrize("way", [by_comparing, by_sorting])
def test_the_eight_positions_of_the_docstring_become_the_containers_it_says(
    way: Callable[..., Block],
) -> None:
    block = way(0, EIGHT, 3)
    assert block.codes.tolist() == [0, 1, 2]
    assert block.counts.tolist() == [2, 2, 4]
    assert block.sizes.tolist() == [2, 2, 3]
    assert block.runs.tolist() == [False, False, True]
    assert block.words.tolist() == [1, 6, 0, 7, 1, 2, 3]


def test_a_block_is_the_same_by_either_way() -> None:
    codes = np.random.default_rng(1).integers(0, FEW_CODES, 5000).astype(np.uint8)
    few, many = containers(7, codes, FEW_CODES), containers(7, codes, FEW_CODES + 1)
    assert few.number == many.number == 7
    for a, b in zip(few[1:], many[1:], strict=True):
        assert np.array_equal(a, b)
