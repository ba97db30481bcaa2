"""The worked example of the module: eight rows of two row spaces meet in one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyroaring import BitMap

from support.encodings import read_postings, stored
from support.index_records import record
from tailbit.index.kinds.bitmap_index.merging.combine import combine
from tailbit.index.kinds.bitmap_index.merging.moves import Input, Moves, lay_out


@pytest.fixture
def moves() -> list[Moves]:
    claims = [
        [
            record("a", space="one", base=0, rows=3),
            record("b", space="one", base=3, rows=3, left=5),
            record("c", space="one", base=6, rows=2),
        ],
        [record("d", space="two", base=0, rows=3)],
    ]
    laid, moved, rows = lay_out(claims, lambda file: file.left is None, "new")
    assert rows == 8
    assert [(claim.path, claim.new_base) for claim in moved] == [("a", 0), ("b", None), ("c", 3), ("d", 5)]
    return laid


def test_the_eight_rows_of_the_docstring_move_as_it_says(moves: list[Moves]) -> None:
    assert [(m.starts.tolist(), m.ends.tolist(), m.targets.tolist()) for m in moves] == [
        ([0, 6], [3, 8], [0, 3]),
        ([0], [3], [5]),
    ]
    assert moves[0].move(BitMap([0, 2, 4, 7])) == BitMap([0, 2, 4])
    assert moves[1].move(BitMap([1])) == BitMap([6])


@pytest.mark.parametrize("sparse", [False, True])
def test_the_postings_of_the_docstring_are_combined_as_it_says(moves: list[Moves], sparse: bool) -> None:
    rows = stored([BitMap(bits) for bits in ([3], [0, 2, 4, 7], [1])], [sparse, False, sparse])
    rows = rows.add_column(0, "key", pa.array([b"AA", b"UA", b"UA"], pa.binary()))
    rows = rows.append_column("source", pa.array([0, 0, 1], pa.int64()))
    combined = combine(rows, [Input(moves[0], "one", 8), Input(moves[1], "two", 3)])
    assert combined["key"].to_pylist() == [b"UA"]
    assert combined["cardinality"].to_pylist() == [4]
    assert read_postings(combined) == [BitMap([0, 2, 4, 6])]
