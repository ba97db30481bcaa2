"""Only the pages that hold wanted rows are decoded, to the values that the whole file has there."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailbit.errors import DataFileError
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.excerpt import pick
from tailbit.tables.parquet.layout import Pages
from tailbit.tables.parquet.rows import fetch, fetch_files
from tailbit.tables.storage import LocalStorage

ROWS = 3000
RNG = np.random.default_rng(7)


def _with_nulls(values: list[Any]) -> list[Any]:
    return [None if number % 11 == 3 else value for number, value in enumerate(values)]


def _every_type() -> pa.Table:
    numbers = RNG.integers(-(2**31), 2**31, ROWS)
    day = datetime.date(1999, 1, 1)
    moment = datetime.datetime(1999, 1, 1, tzinfo=datetime.timezone.utc)
    few = ["", "AIR", "RAIL", "a longer text than the others"]
    return pa.table(
        {
            "few": pa.array(_with_nulls([few[n % 4] for n in numbers.tolist()])),
            "many": pa.array([f"text {n}" for n in numbers.tolist()]),
            "long": pa.array(_with_nulls(numbers.tolist()), pa.int64()),
            "short": pa.array((numbers % 1000).tolist(), pa.int16()),
            "double": pa.array(_with_nulls((numbers / 7).tolist()), pa.float64()),
            "flag": pa.array(_with_nulls((numbers % 2 == 0).tolist())),
            "price": pa.array([decimal.Decimal(n) / 100 for n in numbers.tolist()], pa.decimal128(15, 2)),
            "day": pa.array(_with_nulls([day + datetime.timedelta(n % 900) for n in numbers.tolist()])),
            "moment": pa.array(
                [moment + datetime.timedelta(microseconds=n) for n in numbers.tolist()],
                pa.timestamp("us", "UTC"),
            ),
            "bytes": pa.array(_with_nulls([n.to_bytes(8, "big", signed=True) for n in numbers.tolist()])),
            "point": pa.array([{"x": n, "y": None if n % 3 else str(n)} for n in numbers.tolist()]),
            "list": pa.array(_with_nulls([list(range(n % 4)) for n in numbers.tolist()])),
        }
    )


TABLE = _every_type()
_NAMES = {
    pa.string(): "string",
    pa.int64(): "long",
    pa.int16(): "short",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.binary(): "binary",
}


def _column(name: str, type_: pa.DataType, above: tuple[str, ...] = ()) -> Column:
    path = (*above, name)
    if pa.types.is_struct(type_):
        inner = tuple(_column(field.name, field.type, path) for field in type_)
        return Column(path, path, DataType("struct", fields=inner))
    if pa.types.is_list(type_):
        return Column(path, path, DataType("array", fields=(_column("element", type_.value_type, path),)))
    if pa.types.is_decimal(type_):
        return Column(path, path, DataType("decimal", type_.precision, type_.scale))
    return Column(path, path, DataType(_NAMES[type_]))


COLUMNS = [_column(field.name, field.type) for field in TABLE.schema]
LAYOUTS: dict[str, dict[str, Any]] = {
    "pages of 100 rows": {"data_page_size": 1, "write_batch_size": 100},
    "pages of the second version": {
        "data_page_version": "2.0",
        "data_page_size": 1,
        "write_batch_size": 70,
        "compression": "zstd",
    },
    "no dictionary": {
        "use_dictionary": False,
        "data_page_size": 1,
        "write_batch_size": 90,
        "compression": "gzip",
    },
    "dictionaries that are given up": {
        "dictionary_pagesize_limit": 2000,
        "data_page_size": 500,
        "write_batch_size": 64,
    },
    "delta encodings": {
        "use_dictionary": False,
        "data_page_size": 1,
        "write_batch_size": 128,
        "column_encoding": {
            "long": "DELTA_BINARY_PACKED",
            "many": "DELTA_BYTE_ARRAY",
            "few": "DELTA_LENGTH_BYTE_ARRAY",
            "double": "BYTE_STREAM_SPLIT",
        },
    },
    "a codec of two names": {"compression": "lz4", "data_page_size": 1, "write_batch_size": 100},
    "row groups of a page": {"row_group_size": 130},
    "page checksums, a page index, no compression": {
        "compression": "none",
        "write_page_checksum": True,
        "write_page_index": True,
        "data_page_size": 1,
        "write_batch_size": 100,
    },
}


@pytest.fixture(params=LAYOUTS)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> FileSlice:
    path = tmp_path / "f.parquet"
    pq.write_table(TABLE, path, **{"row_group_size": 1100, **LAYOUTS[request.param]})
    return FileSlice("f.parquet", path.stat().st_size, 0, ROWS)


def _positions(chosen: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
    some = {
        "one": [1234],
        "both ends": [0, ROWS - 1],
        "a few": sorted(RNG.choice(ROWS, 9, replace=False).tolist()),
        "a run": list(range(1040, 1180)),
        "every third": list(range(1, ROWS, 3)),
        "all": list(range(ROWS)),
    }
    return np.array(some[chosen], dtype=np.uint64)


@pytest.mark.parametrize("chosen", ["one", "both ends", "a few", "a run", "every third", "all"])
def test_rows_of_any_layout_are_those_that_duckdb_reads(tmp_path: Path, file: FileSlice, chosen: str) -> None:
    at = _positions(chosen)
    found = pa.concat_tables(fetch(LocalStorage(str(tmp_path)), file, COLUMNS, at))
    wanted = pa.table({"p": at.astype(np.int64)})  # noqa: F841
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    named = ", ".join(f'"{name}"' for name in TABLE.column_names)
    judged = con.sql(
        f"SELECT {named} FROM read_parquet('{tmp_path}/f.parquet', file_row_number = true) "
        "WHERE file_row_number IN (SELECT p FROM wanted) ORDER BY file_row_number"
    )
    assert found.to_pylist() == judged.to_arrow_table().to_pylist()
    assert found.select(TABLE.column_names[:-2]).schema.types == TABLE.schema.types[:-2]


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
    pages = Pages(three, three, np.array([0, 3, 6, 9]), three, none, None, b"")
    numbers, places = pick([pages], [np.array([1, 7])])
    assert [n.tolist() for n in numbers] == [[0, 2]]
    assert places.tolist() == [1, 4]
