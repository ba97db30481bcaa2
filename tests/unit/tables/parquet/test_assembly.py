"""Only the pages that hold wanted rows are decoded, to the values that the whole file has there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.odd_parquet import COLUMNS, LAYOUTS, ROWS, TABLE
from tailbit.errors import DataFileError
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.assembly import pick
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.layout import Pages
from tailbit.tables.parquet.row_selection import Way
from tailbit.tables.parquet.rows import fetch, fetch_files
from tailbit.tables.schema import arrow_type
from tailbit.tables.storage import LocalStorage


@pytest.fixture(params=LAYOUTS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> FileSlice:
    path = tmp_path / "f.parquet"
    pq.write_table(TABLE, path, **{"row_group_size": 1100, **LAYOUTS[request.param]})
    return FileSlice("f.parquet", path.stat().st_size, 0, ROWS)


def _positions(chosen: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
    some = {
        "one": [1234],
        "both ends": [0, ROWS - 1],
        "a few": sorted(np.random.default_rng(7).choice(ROWS, 9, replace=False).tolist()),
        "a run": list(range(1040, 1180)),
        "every third": list(range(1, ROWS, 3)),
        "all": list(range(ROWS)),
    }
    return np.array(some[chosen], dtype=np.uint64)


@pytest.mark.by_thirds
@pytest.mark.parametrize("way", [None, *Way])
@pytest.mark.parametrize("chosen", ["one", "both ends", "a few", "a run", "every third", "all"])
def test_rows_of_any_layout_are_those_that_duckdb_reads(
    tmp_path: Path, file: FileSlice, chosen: str, way: Way | None
) -> None:
    at = _positions(chosen)
    found = pa.concat_tables(fetch(LocalStorage(str(tmp_path)), file, COLUMNS, at, way))
    wanted = pa.table({"p": at.astype(np.int64)})  # noqa: F841
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    named = ", ".join(f'"{name}"' for name in TABLE.column_names)
    judged = con.sql(
        f"SELECT {named} FROM read_parquet('{tmp_path}/f.parquet', file_row_number = true) "
        "WHERE file_row_number IN (SELECT p FROM wanted) ORDER BY file_row_number"
    )
    assert found.to_pylist() == judged.to_arrow_table().to_pylist()
    assert found.schema.types[:-2] == [arrow_type(column.type, column.label) for column in COLUMNS[:-2]]


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


def test_rows_of_many_files_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    slices = []
    for number in range(12):
        name = f"{number:02}.parquet"
        pq.write_table(pa.table({"k": range(number * 10, number * 10 + 10)}), tmp_path / name)
        slices.append(FileSlice(name, (tmp_path / name).stat().st_size, 0, 10))
    at = np.array([0, 9], dtype=np.uint64)
    column = Column(("k",), ("k",), DataType("long"))
    tables = fetch_files(LocalStorage(str(tmp_path)), [(slice_, at) for slice_ in slices], [column])
    assert [k for table in tables for k in table["k"].to_pylist()] == [
        k for number in range(12) for k in (number * 10, number * 10 + 9)
    ]


def test_pages_are_picked_as_the_example_says() -> None:
    three, none = np.zeros(3, np.int64), np.zeros(3, bool)
    pages = Pages(three, three, np.array([0, 3, 6, 9]), three, none, None, b"", three)
    numbers, places = pick([pages], [np.array([1, 7])])
    assert [n.tolist() for n in numbers] == [[0, 2]]
    assert places.tolist() == [1, 4]
