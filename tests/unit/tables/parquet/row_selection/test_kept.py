"""Pages of which few rows are asked again are decoded once, and each question gets its own rows of them."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.odd_parquet import COLUMNS, LAYOUTS, ROWS, TABLE
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.layout import CACHES
from tailbit.tables.parquet.row_selection import kept, rows
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.storage import LocalStorage

VALUES = TABLE.to_pydict()
K = Column(("k",), ("k",), DataType("long"))


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    for cache in kept.CACHES:
        cache.clear()


def _read(folder: Path, columns: list[Column], at: list[int]) -> dict[str, list[object]]:
    slice_ = FileSlice("f.parquet", (folder / "f.parquet").stat().st_size, 0, ROWS)
    tables = fetch(LocalStorage(str(folder)), slice_, columns, np.array(at, np.uint64))
    return pa.concat_tables(tables).to_pydict()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_of_kept_pages_are_the_rows_of_the_file(tmp_path: Path, layout: str) -> None:
    pq.write_table(TABLE, tmp_path / "f.parquet", **{"row_group_size": 1100, **LAYOUTS[layout]})
    for at in ([5, 80], [5, 80], [80], [3, 5, 99], [5, 1150, 2300], [5, 1150, 2300], [1151, 2299]):
        assert _read(tmp_path, COLUMNS, at) == {
            column.id: [VALUES[column.id][place] for place in at] for column in COLUMNS
        }


def test_the_third_question_for_few_rows_of_a_page_decodes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"k": range(ROWS)}), tmp_path / "f.parquet")
    assert [_read(tmp_path, [K], at) for at in ([1], [2000])] == [{"k": [1]}, {"k": [2000]}]
    monkeypatch.setattr(rows, "read_columns", None)
    assert _read(tmp_path, [K], [7, 8]) == {"k": [7, 8]}
    with pytest.raises(TypeError):
        _read(tmp_path, [Column(("k",), ("k",), DataType("decimal", 20, 0))], [7, 8])


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    for start in (0, 1, 2):
        pq.write_table(pa.table({"k": range(start, start + ROWS)}), tmp_path / "f.parquet")
        assert [_read(tmp_path, [K], [7]) for _ in range(3)] == [{"k": [start + 7]}] * 3


def test_many_rows_and_large_pages_are_not_kept(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"k": range(ROWS)}), tmp_path / "f.parquet", data_page_size=1, write_batch_size=100
    )
    every = list(range(0, ROWS, 100))
    assert [_read(tmp_path, [K], every) for _ in range(3)] == [{"k": every}] * 3
    assert not kept.CACHES[0].items()


def test_pages_kept_as_codes_and_pages_kept_as_values_are_read_together(tmp_path: Path) -> None:
    texts = [f"some text {n % 1700}" for n in range(60_000)]
    pq.write_table(pa.table({"t": texts}), tmp_path / "f.parquet")
    column = Column(("t",), ("t",), DataType("string"))
    for at in ([5], [5], [25_000, 45_000], [5, 25_000, 45_000]):
        assert _read(tmp_path, [column], at) == {"t": [texts[place] for place in at]}
    coded = [isinstance(page, pa.DictionaryArray) for _, page in kept.CACHES[0].items()]
    assert sorted(coded) == [False, True, True]


def test_a_kept_page_holds_no_more_bytes_than_it_counts(tmp_path: Path) -> None:
    texts = [f"{n:>{n // 10}}" for n in range(ROWS)]
    pq.write_table(pa.table({"t": texts}), tmp_path / "f.parquet", data_page_size=1, write_batch_size=500)
    column, at = Column(("t",), ("t",), DataType("string")), list(range(0, ROWS, 500))
    assert [_read(tmp_path, [column], at) for _ in range(2)] == [{"t": [texts[n] for n in at]}] * 2
    pages = [page for _, page in kept.CACHES[0].items()]
    assert len(pages) == len(at)
    assert all(page.get_total_buffer_size() < page.nbytes + 512 for page in pages)


def test_what_is_kept_of_a_file_does_not_keep_its_footer(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": range(ROWS)}), tmp_path / "f.parquet")
    assert [_read(tmp_path, [K], [7]) for _ in range(3)] == [{"k": [7]}] * 3
    footer = weakref.ref(open_layout(LocalStorage(str(tmp_path)), "f.parquet"))
    assert footer() is not None
    CACHES[0].clear()
    gc.collect()
    assert footer() is None


def test_columns_are_not_compared_with_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"c{n}" for n in range(100)]
    pq.write_table(pa.table({name: range(ROWS) for name in names}), tmp_path / "f.parquet")
    columns = [Column((name,), (name,), DataType("long")) for name in names]
    compared, equal = [0], Column.__eq__

    def counted(one: Column, other: object) -> bool:
        compared[0] += 1
        return equal(one, other)

    monkeypatch.setattr(Column, "__eq__", counted)
    assert [_read(tmp_path, columns, [7]) for _ in range(3)] == [{name: [7] for name in names}] * 3
    assert compared[0] < 10 * len(names)


def test_pages_of_very_many_columns_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FEW_COLUMNS", 1)
    pq.write_table(pa.table({"k": range(ROWS), "j": range(ROWS)}), tmp_path / "f.parquet")
    j = Column(("j",), ("j",), DataType("long"))
    assert [_read(tmp_path, [K, j], [7]) for _ in range(3)] == [{"k": [7], "j": [7]}] * 3
    assert not kept.CACHES[0].items()
