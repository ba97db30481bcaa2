"""What a footer says of row groups; doubt says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.delta_builder import DeltaBuilder
from support.scans import scanned
from tailbit.tables.model import Column, DataType, FileBounds
from tailbit.tables.parquet.bounds import row_group_bounds
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.storage import LocalStorage

LEAST, MOST = 0x1111111111111111, 0x1111111111111119


def bounds(folder: Path, type_: str = "long") -> list[FileBounds | None]:
    layout = open_layout(LocalStorage(str(folder)), "f.parquet")
    return row_group_bounds(layout, "f.parquet", Column(("k",), ("k",), DataType(type_)))


def written(folder: Path, values: pa.Array, **options: Any) -> Path:
    pq.write_table(pa.table({"k": values}), folder / "f.parquet", row_group_size=2, **options)
    return folder


def test_bounds_and_nulls_are_those_of_each_row_group(tmp_path: Path) -> None:
    written(tmp_path, pa.array([3, None, 5, 7, None, None], pa.int32()))
    assert bounds(tmp_path) == [FileBounds(3, 3, 1, None), FileBounds(5, 7, 0, None), None]


def test_nothing_is_known_without_statistics(tmp_path: Path) -> None:
    written(tmp_path, pa.array([1, 2]), write_statistics=False)
    assert bounds(tmp_path) == [None]


def test_nothing_is_known_of_numbers_whose_order_has_nan(tmp_path: Path) -> None:
    assert bounds(written(tmp_path, pa.array([1.0, 2.0])), "double") == [None]


def test_nothing_is_known_of_a_column_that_the_file_lacks(tmp_path: Path) -> None:
    written(tmp_path, pa.array([1, 2, 3]))
    layout = open_layout(LocalStorage(str(tmp_path)), "f.parquet")
    column = Column(("z",), ("z",), DataType("long"))
    assert row_group_bounds(layout, "f.parquet", column) == [None, None]


def with_footer(path: Path, old: bytes, new: bytes) -> None:
    """Put other bytes in place of some in the footer of a file."""
    data = path.read_bytes()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert old in data[begin:]
    path.write_bytes(data[:begin] + data[begin:].replace(old, new))


def swapped(folder: Path) -> None:
    """Change least and most of the only row group."""
    least, most, other = (number.to_bytes(8, "little") for number in (LEAST, MOST, 0))
    for old, new in ((least, other), (most, least), (other, most)):
        with_footer(folder / "f.parquet", old, new)


def test_bounds_in_the_wrong_order_say_nothing(tmp_path: Path) -> None:
    written(tmp_path, pa.array([LEAST, MOST]), use_dictionary=False)
    swapped(tmp_path)
    assert bounds(tmp_path) == [None]


def test_a_chunk_of_another_type_than_its_column_has_no_bounds_and_ends_no_process(table_path: str) -> None:
    builder = DeltaBuilder(table_path).create(pa.schema([("k", pa.int64())]), [])
    add = builder.data_file(pa.table({"k": [LEAST, MOST]}), "f.parquet", use_dictionary=False)
    builder.commit([add])
    with_footer(Path(table_path, "f.parquet"), b"\x1c\x15\x04\x19", b"\x1c\x15\x02\x19")
    assert bounds(Path(table_path)) == [None]
    assert scanned(table_path, "k > 5", by_polars=True) == scanned(table_path, "k > 5", False) == [[0, 1]]
