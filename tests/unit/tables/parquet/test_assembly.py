"""Only the pages that hold wanted rows are decoded, to the values that the whole file has there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailbit.errors import DataFileError
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.assembly import pick
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.layout import Pages
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.storage import LocalStorage


def test_pages_without_a_wanted_row_are_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"k": pa.array(range(1000), pa.int64())})
    pq.write_table(table, path, use_dictionary=False, data_page_size=1, write_batch_size=100)
    storage, slice_ = LocalStorage(str(tmp_path)), FileSlice("f.parquet", path.stat().st_size, 0, 1000)
    column = Column(("k",), ("k",), DataType("long"))
    layout = open_layout(storage, "f.parquet")
    with storage.open(storage.resolve("f.parquet")) as source:
        pages = layout.pages(source, 0, 0)
    assert pages is not None
    assert pages.firsts.tolist() == list(range(0, 1001, 100))
    with path.open("r+b") as damaged:
        damaged.seek(int(pages.ends[4]) - 20)
        damaged.write(b"\xff" * 20)
    rows = list(fetch(storage, slice_, [column], np.array([350, 720], dtype=np.uint64)))
    assert [t.to_pydict() for t in rows] == [{"k": [350, 720]}]
    with pytest.raises(DataFileError):
        list(fetch(storage, slice_, [column], np.array([450], dtype=np.uint64)))


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    storage, column = LocalStorage(str(tmp_path)), Column(("k",), ("k",), DataType("long"))
    at = np.array([1], dtype=np.uint64)
    for values in ([1, 2, 3], [4, 5, 6]):
        (tmp_path / "f.parquet").unlink(missing_ok=True)
        pq.write_table(pa.table({"k": values}), tmp_path / "f.parquet")
        slice_ = FileSlice("f.parquet", (tmp_path / "f.parquet").stat().st_size, 0, 3)
        assert [t["k"].to_pylist() for t in fetch(storage, slice_, [column], at)] == [[values[1]]]


def test_pages_are_picked_as_the_example_says() -> None:
    three, none = np.zeros(3, np.int64), np.zeros(3, bool)
    pages = Pages(three, three, np.array([0, 3, 6, 9]), three, none, None, b"", three)
    numbers, places = pick([pages], [np.array([1, 7])])
    assert [n.tolist() for n in numbers] == [[0, 2]]
    assert places.tolist() == [1, 4]
