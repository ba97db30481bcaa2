"""From a sample to the whole: keys, bytes, seconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tailbit.index.advice.estimate import Measure, distinct_keys, estimate

MILLION = 1_000_000

SEEN = Measure(
    rows=MILLION // 2,
    blocks=8,
    distinct=1000,
    nulls=0,
    once=0,
    twice=0,
    positions_bytes=500_000,
    keys_bytes=5000,
    sparse=0.0,
    cut=0.0,
    stored_bytes=400_000.0,
    decode_s=0.1,
    build_s=0.2,
)


def test_what_every_block_has_is_all_there_is() -> None:
    assert distinct_keys(SEEN, 60 * MILLION) == 1000


def test_where_each_block_has_keys_of_its_own_the_unseen_ones_have_too() -> None:
    """As in a sorted column: 1,000 keys in 8 of 960 blocks."""
    assert distinct_keys(replace(SEEN, once=1000), 60 * MILLION) == 1000 + 1000 * (960 - 8) // 8


@pytest.mark.parametrize("distinct", [50, 5000, 100_000, 3_000_000])
def test_of_values_at_random_about_as_many_are_told_as_there_are(distinct: int) -> None:
    rng, rows, blocks = np.random.default_rng(distinct), 20 * MILLION, 8
    seen = [np.unique(rng.integers(0, distinct, 1 << 16)) for _ in range(blocks)]
    present = np.unique(np.concatenate(seen), return_counts=True)[1]
    once, twice = (int((present == n).sum()) for n in (1, 2))
    found = replace(SEEN, rows=blocks << 16, distinct=len(present), once=once, twice=twice)
    assert 0.8 <= distinct_keys(found, rows) / distinct <= 1.25


def test_there_are_never_more_keys_than_rows() -> None:
    every = replace(SEEN, distinct=MILLION // 2, once=MILLION // 2)
    assert distinct_keys(every, 3 * MILLION) == 3 * MILLION


def test_of_a_table_that_is_sampled_as_a_whole_nothing_is_guessed() -> None:
    found = estimate(replace(SEEN, once=900), SEEN.rows)
    assert (found.distinct, found.bytes, found.stored_bytes) == (1000, 505_000, 400_000)
    assert found.build_s == pytest.approx(0.3)


def test_no_rows_take_nothing() -> None:
    assert estimate(replace(SEEN, rows=0), 0).bytes == 0
