"""Rows that Polars decodes by a mask are the rows of the file, or it is not asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.odd_parquet import COLUMNS, LAYOUTS, ROWS, TABLE
from tailbit.errors import DataFileError, LegacyCalendarError, StorageError
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.assembly import polars
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.row_selection import FileRows, ReadMethod, planned, quicker_by_mask, read_masked
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.storage import LocalStorage

VALUES = TABLE.to_pydict()
NESTED = ("point", "list")
K = Column(("k",), ("k",), DataType("long"))


def _masked(folder: Path, columns: list[Column], at: list[int]) -> dict[str, pa.ChunkedArray]:
    storage = LocalStorage(str(folder))
    layout = open_layout(storage, "f.parquet")
    wanted = np.array(at, dtype=np.uint64)
    groups = [(its.number, its.rows_wanted) for its in planned(layout, "f.parquet", columns, wanted)[1]]
    return read_masked(storage, [FileRows(layout, "f.parquet", groups)], columns)[0]


@pytest.mark.parametrize(
    "layout",
    [name for name, its in LAYOUTS.items() if its.get("compression", "snappy") not in ("lz4", "gzip")],
)
def test_all_columns_but_nested_ones_are_read_by_mask(tmp_path: Path, layout: str) -> None:
    pq.write_table(TABLE, tmp_path / "f.parquet", **{"row_group_size": 1100, **LAYOUTS[layout]})
    at = sorted(np.random.default_rng(3).choice(ROWS, 300, replace=False).tolist())
    found = _masked(tmp_path, COLUMNS, at)
    assert set(found) == {column.id for column in COLUMNS} - set(NESTED)
    assert {name: its.to_pylist() for name, its in found.items()} == {
        name: [VALUES[name][place] for place in at] for name in found
    }


def test_a_codec_of_two_names_is_not_read_by_mask(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "f.parquet", compression="lz4")
    assert _masked(tmp_path, COLUMNS, [5]) == {}


def test_times_that_are_not_in_microseconds_are_left_to_pyarrow(tmp_path: Path) -> None:
    times = pa.table({"k": pa.array([1, 2, 3], pa.timestamp("ms", "UTC"))})
    pq.write_table(times, tmp_path / "f.parquet")
    column = Column(("k",), ("k",), DataType("timestamp"))
    assert _masked(tmp_path, [column], [1]) == {}
    slice_ = FileSlice("f.parquet", (tmp_path / "f.parquet").stat().st_size, 0, 3)
    found = fetch(LocalStorage(str(tmp_path)), slice_, [column], np.array([1], np.uint64), ReadMethod.MASK)
    assert [t["k"].cast(pa.int64()).to_pylist() for t in found] == [[2000]]


def test_int96_is_left_to_pyarrow(tmp_path: Path) -> None:
    times = pa.table({"k": pa.array([1, 2, 3], pa.timestamp("us", "UTC"))})
    pq.write_table(times, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    assert _masked(tmp_path, [Column(("k",), ("k",), DataType("timestamp"))], [1]) == {}


def test_older_narrower_types_are_cast_up_by_mask_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([1, None, 3], pa.int16())}), tmp_path / "f.parquet")
    found = _masked(tmp_path, [K], [1, 2])
    assert found["k"].type == pa.int64()
    assert found["k"].to_pylist() == [None, 3]


@pytest.mark.parametrize("way", [None, *ReadMethod])
def test_a_value_that_does_not_fit_its_type_names_the_file_by_every_way(
    tmp_path: Path, way: ReadMethod
) -> None:
    pq.write_table(pa.table({"k": pa.array([1, 1 << 40], pa.int64())}), tmp_path / "f.parquet")
    column, at = Column(("k",), ("k",), DataType("integer")), np.array([0, 1], np.uint64)
    slice_ = FileSlice("f.parquet", (tmp_path / "f.parquet").stat().st_size, 0, 2)
    with pytest.raises(DataFileError, match=r"f\.parquet.*not in range"):
        list(fetch(LocalStorage(str(tmp_path)), slice_, [column], at, way))


def test_text_that_is_no_utf8_is_the_same_bytes_by_mask_as_by_pages(tmp_path: Path) -> None:
    odd = pa.array([b"a", b"\xff\xfe", b"b" * 40], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"k": odd}), tmp_path / "f.parquet")
    column, at = Column(("k",), ("k",), DataType("string")), np.array([0, 1, 2], np.uint64)
    slice_ = FileSlice("f.parquet", (tmp_path / "f.parquet").stat().st_size, 0, 3)
    by_way = [
        [
            t["k"].chunk(0).view(pa.binary()).to_pylist()
            for t in fetch(LocalStorage(str(tmp_path)), slice_, [column], at, way)
        ]
        for way in ReadMethod
    ]
    assert by_way[0] == by_way[1] == [[b"a", b"\xff\xfe", b"b" * 40]]


def test_a_wanted_day_of_the_legacy_calendar_is_refused_by_mask_too(tmp_path: Path) -> None:
    days = pa.table({"k": pa.array([0, -200_000], pa.date32())})
    legacy = {b"org.apache.spark.version": b"2.4.0"}
    pq.write_table(days.replace_schema_metadata(legacy), tmp_path / "f.parquet")
    column = Column(("k",), ("k",), DataType("date"))
    assert len(_masked(tmp_path, [column], [0])["k"]) == 1
    with pytest.raises(LegacyCalendarError):
        _masked(tmp_path, [column], [1])


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_page_is_an_error_by_mask_where_it_is_one_by_pages(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = pa.table({"k": pa.array(rng.integers(0, 50, 5000), pa.int64())})
    path = tmp_path / "f.parquet"
    pq.write_table(table, path, data_page_size=1, write_batch_size=500, compression="snappy")
    chunk = pq.read_metadata(path).row_group(0).column(0)
    with path.open("r+b") as damaged:
        damaged.seek(int(rng.integers(chunk.dictionary_page_offset, chunk.total_compressed_size)))
        damaged.write(b"\xff" * 60)
    slice_ = FileSlice("f.parquet", path.stat().st_size, 0, 5000)

    def read(way: ReadMethod) -> Any:
        try:
            at = np.arange(0, 5000, 3, dtype=np.uint64)
            return pa.concat_tables(fetch(LocalStorage(str(tmp_path)), slice_, [K], at, way)).to_pydict()
        except DataFileError:
            return "refused"

    assert read(ReadMethod.MASK) == read(ReadMethod.PAGES)


@pytest.mark.parametrize("way", [None, *ReadMethod])
def test_a_gzip_page_whose_checksum_is_not_its_own_is_refused_by_every_way(
    tmp_path: Path, way: ReadMethod
) -> None:
    path, table = tmp_path / "f.parquet", pa.table({"k": np.random.default_rng(1).integers(0, 1 << 60, 5000)})
    pq.write_table(table, path, compression="gzip", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[pq.read_metadata(path).row_group(0).column(0).total_compressed_size // 2] ^= 1
    path.write_bytes(data)
    slice_, at = FileSlice("f.parquet", len(data), 0, 5000), np.arange(0, 5000, 3, dtype=np.uint64)
    with pytest.raises(DataFileError, match=r"f\.parquet"):
        list(fetch(LocalStorage(str(tmp_path)), slice_, [K], at, way))


def test_a_forked_process_does_not_use_the_polars_of_its_parent(tmp_path: Path) -> None:
    assert polars() is not None
    child = os.fork()
    if not child:
        os._exit(0 if polars() is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_few_pages_are_read_by_pyarrow_and_many_by_mask() -> None:
    assert polars() is not None
    assert not quicker_by_mask(1 << 16, 1000)
    assert quicker_by_mask(8 << 20, 1 << 20)


@pytest.mark.parametrize("refusal", [FileNotFoundError(2, "gone"), StorageError(path="r", reason="HTTP 403")])
@pytest.mark.parametrize("way", ReadMethod)
def test_a_file_that_goes_between_two_looks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: ReadMethod, refusal: Exception
) -> None:
    pq.write_table(pa.table({"k": range(50)}), tmp_path / "f.parquet")
    storage, slice_ = (
        LocalStorage(str(tmp_path)),
        FileSlice("f.parquet", (tmp_path / "f.parquet").stat().st_size, 0, 50),
    )
    at = np.array([7], np.uint64)
    assert [t.to_pydict() for t in fetch(storage, slice_, [K], at, way)] == [{"k": [7]}]

    def refused(*_: object) -> None:
        raise refusal

    monkeypatch.setattr(LocalStorage, "open", refused)
    monkeypatch.setattr(LocalStorage, "is_of_one_file", lambda *_: True)
    with pytest.raises(DataFileError, match=r"f\.parquet"):
        list(fetch(storage, slice_, [K], at, way))
