"""Whatever way rows are read, they are the rows that stand there; the way that costs least is chosen."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from support.odd_parquet import COLUMNS, LAYOUTS, ROWS, TABLE
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.picked.ways import Way, planned
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.storage import LocalStorage

VALUES = TABLE.to_pydict()


@st.composite
def _reads(draw: st.DrawFn) -> tuple[dict[str, Any], list[int], list[Column], Way | None]:
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
    return layout, at, columns, draw(st.sampled_from([None, *Way]))


@settings(max_examples=40, deadline=None)
@given(_reads())
def test_any_rows_of_any_layout_by_any_way_are_the_rows_that_were_written(
    read: tuple[dict[str, Any], list[int], list[Column], Way | None],
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
        found = pa.concat_tables(fetch(LocalStorage(folder), slice_, columns, wanted, way)).to_pydict()
    assert found == {column.id: [VALUES[column.id][place] for place in at] for column in columns}


def _plan(folder: Path, rows: int, at: list[int], **options: Any) -> list[tuple[Way | None, list[int]]]:
    table = pa.table({"k": np.random.default_rng(1).integers(0, 1 << 60, rows)})
    pq.write_table(table, folder / "f.parquet", use_dictionary=False, **options)
    layout = open_layout(LocalStorage(str(folder)), "f.parquet")
    column = Column(("k",), ("k",), DataType("long"))
    batches = planned(layout, "f.parquet", [column], np.array(at, dtype=np.uint64))
    return [(way, [group for group, _ in groups]) for way, groups in batches]


def test_rows_of_one_page_are_read_by_pages(tmp_path: Path) -> None:
    assert _plan(tmp_path, 900_000, [5, 9], row_group_size=300_000) == [(None, [0])]


def test_rows_of_most_pages_are_read_by_mask_and_row_groups_without_any_are_not_read(tmp_path: Path) -> None:
    at = [*range(0, 300_000, 1000), *range(600_000, 900_000, 1000)]
    import polars  # noqa: F401

    assert _plan(tmp_path, 1_200_000, at, row_group_size=300_000) == [(Way.MASK, [0, 2])]


def test_a_batch_by_mask_has_bounded_bytes(tmp_path: Path) -> None:
    import polars  # noqa: F401

    at = list(range(0, 10_000_000, 10_000))
    batches = _plan(tmp_path, 10_000_000, at, row_group_size=1 << 20, compression="none")
    assert [group for _, groups in batches for group in groups] == list(range(10))
    assert [len(groups) for _, groups in batches] == [3, 3, 3, 1]
