"""Whatever way rows are read, they are the rows that stand there; the way that costs least is chosen."""

from __future__ import annotations

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
from tailbit.errors import DataFileError
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet import row_selection
from tailbit.tables.parquet.assembly import wanted_rows
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.row_selection import (
    Group,
    ReadMethod,
    batched,
    load_for,
    note_pages,
    planned,
    quicker_by_mask,
)
from tailbit.tables.parquet.rows import fetch, fetch_files
from tailbit.tables.schema import arrow_type
from tailbit.tables.storage import LocalStorage

VALUES = TABLE.to_pydict()


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
