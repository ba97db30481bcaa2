"""A row group that is read in batches has the values that it has as a whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.odd_parquet import COLUMNS, LAYOUTS, ROWS, TABLE
from tailbit.errors import DataFileError
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.data_file import open_data_file, read_columns, read_in_batches
from tailbit.tables.storage import LocalStorage


@pytest.mark.parametrize("rows", [700, ROWS, 2 * ROWS])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_of_any_layout_are_the_row_group(tmp_path: Path, layout: str, rows: int) -> None:
    pq.write_table(TABLE, tmp_path / "f.parquet", **LAYOUTS[layout])
    file = open_data_file(LocalStorage(str(tmp_path)), "f.parquet", coded=COLUMNS)
    absent = Column(("absent",), ("absent",), DataType("long"))
    for group in range(file.metadata.num_row_groups):
        for column in [*COLUMNS, absent]:
            found = [
                value for part in read_in_batches(file, column, group, rows) for value in part.to_pylist()
            ]
            assert found == read_columns(file, [column], [group])[column.id].to_pylist()


def test_int96_is_read_in_batches_too(tmp_path: Path) -> None:
    times = pa.table({"k": pa.array(range(10), pa.timestamp("us", "UTC"))})
    pq.write_table(times, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    file = open_data_file(LocalStorage(str(tmp_path)), "f.parquet")
    column = Column(("k",), ("k",), DataType("timestamp"))
    assert pa.chunked_array(
        [chunk for part in read_in_batches(file, column, 0, 3) for chunk in part.chunks]
    ).equals(times["k"])


def test_a_damaged_page_is_named_by_its_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": range(5000)}), tmp_path / "f.parquet", compression="zstd")
    chunk = pq.read_metadata(tmp_path / "f.parquet").row_group(0).column(0)
    with (tmp_path / "f.parquet").open("r+b") as damaged:
        damaged.seek(chunk.data_page_offset)
        damaged.write(b"\xff" * 100)
    file = open_data_file(LocalStorage(str(tmp_path)), "f.parquet")
    with pytest.raises(DataFileError, match=r"f\.parquet"):
        list(read_in_batches(file, Column(("k",), ("k",), DataType("long")), 0, 100))
