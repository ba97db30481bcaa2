"""A row space seen by one snapshot: claims, visible rows, and positions given back to their files."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap

from tailbit.index.evaluation.row_space import PartitionTexts, SpaceView, claims, widens
from tailbit.tables.delta.files import DeltaFiles
from tailbit.tables.model import DataType


@pytest.fixture
def worked() -> SpaceView:
    """The view of the module's worked example: a and b, with rows of a file c between that has left."""
    return SpaceView(
        space="s",
        files=np.array([0, 1]),
        bases=np.array([0, 5]),
        rows=np.array([3, 3]),
        posted=np.array([0, 1]),
        column_sets=[frozenset({"k"}), frozenset({"k", "v"})],
        hidden_ids=np.array(["h", ""], dtype=object),
        hidden_of=lambda number: BitMap([1]) if number == 0 else None,
        segments=[],
        partitions=PartitionTexts(DeltaFiles.of([], "a log")),
    )


def test_positions_of_whole_files_are_shared_and_cannot_be_changed(worked: SpaceView) -> None:
    split = worked.split(BitMap([0, 1, 2, 5, 6, 7]), shared=True)
    assert [(number, at.tolist(), at.dtype) for number, at in split] == [
        (0, [0, 1, 2], np.dtype(np.uint64)),
        (1, [0, 1, 2], np.dtype(np.uint64)),
    ]
    with pytest.raises(ValueError, match="read-only"):
        split[0][1][0] = 7
    worked.split(BitMap([0, 1, 2]))[0][1][0] = 7


@pytest.mark.parametrize(
    ("bases", "rows", "expected"),
    [
        ([], [], []),
        ([0, 4], [4, 4], [(0, 8)]),
        ([4, 0], [4, 4], [(0, 8)]),
        ([0, 5], [3, 3], [(0, 3), (5, 8)]),
        ([0, 0, 3], [0, 3, 1], [(0, 4)]),
        ([7], [0], []),
        ([(1 << 32) - 2], [2], [((1 << 32) - 2, 1 << 32)]),
    ],
)
def test_claims_are_the_union_of_their_ranges(
    bases: list[int], rows: list[int], expected: list[tuple[int, int]]
) -> None:
    found = claims(np.array(bases, dtype=np.int64), np.array(rows, dtype=np.int64))
    assert found == BitMap([at for low, high in expected for at in range(low, high)])


def test_keys_serve_a_column_of_their_type_or_a_wider_one() -> None:
    assert widens("integer", DataType("long"))
    assert not widens("long", DataType("integer"))
    assert not widens("string", DataType("long"))
    assert not widens("string", DataType("struct"))
