"""Rows of data files by position: hidden ones left out, row groups read only where they hold a wanted row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from tailbit.errors import DataFileError
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.rows import fetch, visible_positions, without
from tailbit.tables.storage import LocalStorage

K = Column(("k",), ("k",), DataType("long"))
P = Column(("p",), ("p",), DataType("integer"), partition=True)


@pytest.fixture
def slice_(tmp_path: Path) -> FileSlice:
    pq.write_table(pa.table({"k": range(100)}), tmp_path / "f.parquet", row_group_size=30)
    size = (tmp_path / "f.parquet").stat().st_size
    return FileSlice("f.parquet", size, 0, None, {"p": "7"})


def at(*positions: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(positions, dtype=np.uint64)


def test_hidden_positions_are_left_out() -> None:
    assert without(at(1, 2, 3), None).tolist() == [1, 2, 3]
    assert without(at(1, 2, 3), BitMap([2, 9])).tolist() == [1, 3]
    assert visible_positions(4, BitMap([0, 3])).tolist() == [1, 2]
    assert without(at(), BitMap([1])).tolist() == []


def test_all_rows_are_fetched_without_positions(tmp_path: Path, slice_: FileSlice) -> None:
    storage = LocalStorage(str(tmp_path))
    assert sum(t.num_rows for t in fetch(storage, slice_, [K], None)) == 100
    assert sum(t.num_rows for t in fetch(storage, slice_, [P], None)) == 100
    assert list(fetch(storage, slice_, [K], at())) == []
    assert [t.to_pydict() for t in fetch(storage, slice_, [P], at(3, 4))] == [{"p": [7, 7]}]


def test_a_file_of_another_size_than_the_log_says_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1]}), tmp_path / "f.parquet")
    with pytest.raises(DataFileError, match="the log says 5"):
        list(fetch(LocalStorage(str(tmp_path)), FileSlice("f.parquet", 5, 0, 1), [K], None))
