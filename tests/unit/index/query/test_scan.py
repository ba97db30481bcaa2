"""A scan finds the visible rows of a file where a predicate is TRUE."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import tailbit
from support.delta_builder import DeltaBuilder
from support.scans import positions, scanned, scans_of
from tailbit.errors import DataFileError, EvaluationError
from tailbit.index.query.scan import Scan, scan
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
    (at,) = scan(selection.storage, [Scan(selection.snapshot.files[0], selection.node, hidden, wanted)])
    assert at.dtype == np.uint64
    positions: list[int] = at.tolist()
    return positions


def test_hidden_rows_are_not_found(path: str) -> None:
    assert found(path, "k >= 7", hidden=BitMap([0, 8])) == [7, 9]
    assert found(path, "k >= 7", hidden=BitMap()) == [7, 8, 9]


def test_only_the_rows_that_are_asked_for_are_judged(path: str) -> None:
    assert found(path, "k > 3", among=[0, 1, 5, 9]) == [5, 9]
    assert found(path, "k > 3", among=[]) == []


def test_a_partition_value_counts_for_every_row(path: str) -> None:
    assert found(path, "p = 'x' AND k < 3") == [1, 2]
    assert found(path, "p = 'y' OR k = 4") == [4]


def test_a_file_that_is_gone_is_named(path: str) -> None:
    selection = tailbit.open(path).where("k = 1")._selection
    slice_ = selection.snapshot.files[0]
    with pytest.raises(DataFileError, match=r"other\.parquet"):
        scan(selection.storage, [Scan(replace(slice_, path="other.parquet"), selection.node)])


RAISING = pa.table({"k": [0 if n in (3, 25) else n for n in range(1, 31)], "p": ["x"] * 30})


@pytest.fixture
def raising(table_path: str) -> str:
    """A file of k = 1 to 30 in row groups of ten, but 0 in rows 2 and 24."""
    builder = DeltaBuilder(table_path).create(RAISING.schema)
    builder.commit([builder.data_file(RAISING, "f.parquet", row_group_size=10)])
    return table_path


@pytest.mark.parametrize("stored", [True, False])
def test_what_raises_only_where_rows_are_hidden_or_decided_does_not_raise(raising: str, stored: bool) -> None:
    table, (its,) = scans_of(raising, "10 / k > 5")
    hidden = replace(its, hidden=BitMap([2, 24]))
    assert positions(table, [hidden], stored) == [[0]]
    assert scanned(raising, "10 / k > 0 AND k BETWEEN 11 AND 12", stored) == [[10, 11]]
    assert scanned(raising, "10 / k > 5 OR k = 0", stored) == [[0, 2, 24]]


@pytest.mark.parametrize("stored", [True, False])
def test_what_raises_names_the_first_visible_row(raising: str, stored: bool) -> None:
    table, (its,) = scans_of(raising, "10 / k > 5 AND p = 'x'")
    with pytest.raises(EvaluationError, match=r"at row 24 of f\.parquet"):
        positions(table, [replace(its, hidden=BitMap([2]))], stored)


def test_threads_share_a_table(raising: str) -> None:
    texts = [f"k > {n} AND p LIKE '%x'" for n in range(10)]
    expected = [scanned(raising, text, stored=False) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: scanned(raising, text, stored=True), texts)) == expected
