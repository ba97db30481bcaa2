"""Sparse postings are read as they were written, and refused where they cannot be positions of the rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailbit.index.kinds.bitmap_index.gaps import Gaps, encoded, none
from tailbit.index.kinds.bitmap_index.postings import ENCODINGS

ROWS = 8


def _gaps(first: list[int | None], gaps: list[list[int] | None], counts: list[int], rows: int = ROWS) -> Gaps:
    lists = pa.array(gaps, none(0)[1].type)
    return Gaps.of(pa.array(first, pa.int32()), lists, np.array(counts, np.int64), rows)


def test_the_worked_example_is_encoded_as_it_says() -> None:
    first, gaps = encoded(np.array([4, 6, 7, 2], np.uint32), np.array([0, 3, 1], np.int64))
    assert (first.to_pylist(), gaps.to_pylist()) == ([None, 4, 2], [None, [2, 1], []])
    assert _gaps([None, 4, 2], [None, [2, 1], []], [2000, 3, 1]).positions(0, 3).tolist() == [4, 6, 7, 2]


@pytest.mark.parametrize("seed", range(8))
def test_any_slice_of_keys_that_parquet_gives_back_has_the_positions_written(
    tmp_path: Path, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = int(rng.choice([2, 65_537, 1 << 31]))
    parts = [np.unique(rng.integers(0, rows, size)) for size in rng.integers(0, 200, 40)]
    parts[-1] = np.array([0, rows - 1])
    counts = np.array([len(part) for part in parts], np.int64)
    first, gaps = encoded(np.concatenate(parts).astype(np.uint32), counts)
    table = pa.table({"first": first, "gaps": gaps})
    pq.write_table(table, tmp_path / "f", row_group_size=7, use_dictionary=False, column_encoding=ENCODINGS)
    low = int(rng.integers(0, 20))
    read = pq.read_table(tmp_path / "f").slice(low)
    found = Gaps.of(read["first"].combine_chunks(), read["gaps"].combine_chunks(), counts[low:], rows)
    assert found.positions(0, 40 - low).tolist() == np.concatenate(parts[low:]).tolist()
    assert found.positions(3, 9).tolist() == np.concatenate(parts[low + 3 : low + 9]).tolist()


@pytest.mark.parametrize(
    ("first", "gaps", "counts"),
    [
        ([4, 2], [[2, 1], []], [2, 1]),
        ([4, None], [[1], [1]], [2, 9]),
        ([4, 2], [[0], []], [2, 1]),
        ([4, 2], [[-1], []], [2, 1]),
        ([-1, 2], [[1], []], [2, 1]),
        ([4, 2], [[4], []], [2, 1]),
        ([8, 2], [[], []], [1, 1]),
        ([7, 2], [[2**31 - 1, 2**31 - 1], []], [3, 1]),
    ],
)
def test_positions_that_are_too_many_do_not_rise_or_are_beyond_the_rows_are_refused(
    first: list[int | None], gaps: list[list[int] | None], counts: list[int]
) -> None:
    with pytest.raises(ValueError, match=r"posting|beyond"):
        _gaps(first, gaps, counts).positions(0, 2)


def test_keys_that_are_all_dense_have_no_positions() -> None:
    assert _gaps([None] * 3, [None] * 3, [5, 6, 7]).positions(0, 3).tolist() == []
