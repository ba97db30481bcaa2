"""Rows that Polars decodes by a mask are the rows of the file, or it is not asked."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.odd_parquet import COLUMNS, LAYOUTS, ROWS, TABLE
from tailbit.errors import DataFileError, LegacyCalendarError, StorageError
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet import row_selection
from tailbit.tables.parquet.assembly import polars, wanted_rows
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.row_selection import (
    FileRows,
    Group,
    ReadMethod,
    batched,
    load_for,
    note_pages,
    planned,
    quicker_by_mask,
    read_masked,
)
from tailbit.tables.parquet.rows import fetch, fetch_files
from tailbit.tables.schema import arrow_type
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


@st.composite
def _reads(draw: st.DrawFn) -> tuple[dict[str, Any], list[int], list[Column], ReadMethod | None]:
    layout = {**LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))]}
    layout["row_group_size"] = draw(
        st.sampled_from([1, 7, 130, 999, ROWS]) if draw(st.booleans()) else st.just(800)
    )
    runs = draw(
        st.lists(
            st.tuples(st.integers(0, ROWS - 1), st.integers(1, 400), st.integers(1, 50)),
            min_size=1,
            max_size=4,
        )
    )
    at = sorted(
        {place for start, size, step in runs for place in range(start, min(start + size, ROWS), step)}
    )
    columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=5, unique_by=lambda c: c.id))
    return layout, at, columns, draw(st.sampled_from([None, *ReadMethod]))


@settings(max_examples=40, deadline=None)
@given(_reads())
def test_any_rows_of_any_layout_by_any_way_are_the_rows_that_were_written(
    read: tuple[dict[str, Any], list[int], list[Column], ReadMethod | None],
) -> None:
    layout, at, columns, way = read
    rows = ROWS if layout["row_group_size"] > 50 else 60
    at = [place % rows for place in at]
    at = sorted(set(at))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f.parquet"
        pq.write_table(TABLE.slice(0, rows), path, **layout)
        slice_ = FileSlice("f.parquet", path.stat().st_size, 0, rows)
        wanted = np.array(at, dtype=np.uint64)
        for _ in range(3):
            found = pa.concat_tables(fetch(LocalStorage(folder), slice_, columns, wanted, way))
            assert found.to_pydict() == {c.id: [VALUES[c.id][place] for place in at] for c in columns}
            assert all(found.schema.field(c.id).type == arrow_type(c.type, c.label) for c in columns)


def _plan(
    folder: Path, rows: int, at: list[int], **options: Any
) -> list[tuple[ReadMethod | None, list[int]]]:
    table = pa.table({"k": np.random.default_rng(1).integers(0, 1 << 60, rows)})
    pq.write_table(table, folder / "f.parquet", use_dictionary=False, **options)
    layout = open_layout(LocalStorage(str(folder)), "f.parquet")
    column = Column(("k",), ("k",), DataType("long"))
    batches = batched([("f", *planned(layout, "f.parquet", [column], np.array(at, dtype=np.uint64)))])
    return [(way, [group for group, _ in groups]) for way, ((_, groups),) in batches]


def test_rows_of_one_page_are_read_by_pages(tmp_path: Path) -> None:
    assert _plan(tmp_path, 900_000, [5, 9], row_group_size=300_000) == [(None, [0])]


def test_rows_of_most_pages_are_read_by_mask_and_row_groups_without_any_are_not_read(tmp_path: Path) -> None:
    at = [*range(0, 300_000, 1000), *range(600_000, 900_000, 1000)]
    import polars  # noqa: F401

    assert _plan(tmp_path, 1_200_000, at, row_group_size=300_000) == [(ReadMethod.MASK, [0, 2])]


def test_a_batch_by_mask_has_bounded_bytes(tmp_path: Path) -> None:
    import polars  # noqa: F401

    at = list(range(0, 10_000_000, 10_000))
    batches = _plan(tmp_path, 10_000_000, at, row_group_size=1 << 20, compression="none")
    assert [group for _, groups in batches for group in groups] == list(range(10))
    assert [len(groups) for _, groups in batches] == [3, 3, 3, 1]


def test_row_groups_of_several_files_are_one_batch_by_mask_and_never_by_pages() -> None:
    group = Group(0, np.arange(3), 100, 100, 1, 1 << 20, 1 << 19)
    files = [("a", ReadMethod.MASK, [group, group]), ("b", ReadMethod.MASK, [group]), ("c", None, [group])]
    files += [("d", None, [group]), ("e", ReadMethod.MASK, [])]
    found = [
        (way, [(file, len(groups)) for file, groups in parts]) for way, parts in batched([*files, *files[:2]])
    ]
    of_many = (ReadMethod.MASK, [("a", 2), ("b", 1)])
    assert found == [of_many, (None, [("c", 1)]), (None, [("d", 1)]), of_many]


def test_a_batch_of_many_files_has_bounded_bytes_too() -> None:
    group = Group(0, np.arange(3), 100, 100, 1, 60 << 20, 10 << 20)
    found = list(batched((n, ReadMethod.MASK, [group]) for n in range(3)))
    assert [[file for file, _ in parts] for _, parts in found] == [[0], [1], [2]]


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("damaged", [False, True])
def test_files_of_other_types_columns_and_partitions_are_read_together_as_each_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool, remote: bool
) -> None:
    monkeypatch.setattr(row_selection, "_BY_QUESTION", -1.0)
    monkeypatch.setattr(row_selection, "_FEW_PAGES", -1)
    questions = list[bytes]()
    monkeypatch.setattr(
        row_selection,
        "wanted_rows",
        lambda polars, data: (questions.append(data), wanted_rows(polars, data))[1],
    )
    columns = [Column((name,), (name,), DataType(of)) for name, of in (("k", "long"), ("t", "string"))]
    columns.append(Column(("p",), ("p",), DataType("integer"), partition=True))
    k, t = list(range(50)), [f"text {n}" for n in range(50)]
    stored = [
        pa.table({"k": pa.array(k, pa.int64()), "t": t}),
        pa.table({"k": pa.array(k, pa.int64()), "t": t}),
        pa.table({"k": pa.array(k, pa.int32()), "t": t}),
        pa.table({"k": pa.array(k, pa.int64())}),
        pa.table({"k": pa.array(k, pa.int64()), "t": pa.array(t, pa.large_string())}),
    ]
    wanted = []
    for n, table in enumerate(stored):
        path = tmp_path / f"{n}.parquet"
        pq.write_table(table, path, row_group_size=20)
        if damaged and n == 1:
            at = pq.read_metadata(path).row_group(1).column(0).data_page_offset
            data = path.read_bytes()
            path.write_bytes(data[:at] + b"\xff" * 30 + data[at + 30 :])
        slice_ = FileSlice(path.name, path.stat().st_size, 0, 50, partition={"p": str(n)})
        wanted.append((slice_, np.array([3, 30 + n, 49], np.uint64)))
    storage = LocalStorage(str(tmp_path))
    object.__setattr__(storage, "remote", remote)
    tables = fetch_files(storage, wanted, columns)
    if damaged:
        with pytest.raises(DataFileError, match=r"1\.parquet"):
            list(tables)
        return
    read = pa.concat_tables(tables)
    assert len(questions) == 4
    at = [place for _, places in wanted for place in places.tolist()]
    assert read["k"].to_pylist() == at
    assert read["t"].to_pylist() == [None if 9 <= n < 12 else t[place] for n, place in enumerate(at)]
    assert read["p"].to_pylist() == [n for n in range(5) for _ in range(3)]


def test_polars_is_loaded_once_pages_have_cost_what_loading_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_selection, "_missed", 0.0)
    monkeypatch.setattr(row_selection, "sys", SimpleNamespace(modules={}))
    size, values, times = 8 << 20, 2 << 20, 0
    while not quicker_by_mask(size, values):
        note_pages(size, values)
        times += 1
    assert times == row_selection._LOADING // row_selection._saved(size, values) == 12
    assert quicker_by_mask(400 << 20, 1)


@pytest.mark.parametrize(("files", "is_wanted"), [(1, False), (8, True)])
def test_polars_is_loaded_at_once_where_files_together_save_what_loading_costs(
    monkeypatch: pytest.MonkeyPatch, files: int, is_wanted: bool
) -> None:
    loaded = list[bool]()
    monkeypatch.setattr(row_selection, "_missed", 0.0)
    monkeypatch.setattr(row_selection, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(row_selection, "polars", lambda: loaded.append(True))
    group = Group(0, np.arange(3), 750_000, 750_000, 3, 32 << 20, 16 << 20)
    few = Group(0, np.arange(3), 750_000, 20_000, 3, 32 << 20, 16 << 20)
    load_for([[few]] * 100)
    assert not loaded
    load_for([[group]] * files)
    assert bool(loaded) == is_wanted
