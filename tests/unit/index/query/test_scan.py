"""A scan finds the visible rows of a file where a predicate is TRUE."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import tailbit
from support.delta_builder import DeltaBuilder
from tailbit.errors import DataFileError
from tailbit.index.query.scan import scan
from tailbit.tables.parquet.rows import Positions


@pytest.fixture
def path(table_path: str) -> str:
    """A file of ten rows in row groups of three, in the partition p = x."""
    builder = DeltaBuilder(table_path).create(pa.schema([("k", pa.int64()), ("p", pa.string())]), ["p"])
    rows = pa.table({"k": [None, *range(1, 10)]})
    builder.commit([builder.data_file(rows, "f.parquet", row_group_size=3, partition={"p": "x"})])
    return table_path


def found(
    path: str, predicate: str, hidden: BitMap | None = None, among: list[int] | None = None
) -> list[int]:
    selection = tailbit.open(path).where(predicate)._selection
    wanted: Positions | None = None if among is None else np.array(among, dtype=np.uint64)
    at = scan(selection.storage, selection.snapshot.files[0], selection.node, hidden, wanted)
    assert at.dtype == np.uint64
    positions: list[int] = at.tolist()
    return positions


def test_positions_count_on_over_row_groups(path: str) -> None:
    assert found(path, "k IN (2, 3, 9)") == [2, 3, 9]
    assert found(path, "NOT (k = 5)") == [1, 2, 3, 4, 6, 7, 8, 9]


def test_hidden_rows_are_not_found(path: str) -> None:
    assert found(path, "k >= 7", hidden=BitMap([0, 8])) == [7, 9]
    assert found(path, "k >= 7", hidden=BitMap()) == [7, 8, 9]


def test_only_the_rows_that_are_asked_for_are_judged(path: str) -> None:
    assert found(path, "k > 3", among=[0, 1, 5, 9]) == [5, 9]
    assert found(path, "k > 3", among=[]) == []


def test_a_partition_value_counts_for_every_row(path: str) -> None:
    assert found(path, "p = 'x' AND k < 3") == [1, 2]
    assert found(path, "p = 'y' OR k = 4") == [4]


def test_a_predicate_of_the_partition_alone_is_true_of_all_rows(path: str) -> None:
    assert found(path, "p = 'x'") == list(range(10))
    assert found(path, "p = 'x'", among=[1, 4]) == [1, 4]


def test_a_file_that_is_gone_is_named(path: str) -> None:
    selection = tailbit.open(path).where("k = 1")._selection
    slice_ = selection.snapshot.files[0]
    with pytest.raises(DataFileError, match=r"other\.parquet"):
        scan(selection.storage, replace(slice_, path="other.parquet"), selection.node, None)
