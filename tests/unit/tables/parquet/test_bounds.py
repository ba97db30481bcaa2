"""What a footer says of row groups; doubt says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.delta_builder import DeltaBuilder
from support.scans import scanned
from tailbit.base.arrays import Mask
from tailbit.tables.model import Column, DataType, FileBounds
from tailbit.tables.parquet.bounds import ChunkStatistics, column_statistics, row_group_bounds
from tailbit.tables.parquet.condition import Floats, Numbers, Stored, Test, form_of
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
    assert scanned(table_path, "k > 5", stored=True) == scanned(table_path, "k > 5", False) == [[0, 1]]


def statistics_of(folder: Path, type_: str, *path: str) -> list[ChunkStatistics]:
    layout = open_layout(LocalStorage(str(folder)), "f.parquet")
    (groups,) = column_statistics([(layout, "f.parquet")], Column(path, path, DataType(type_)))
    return groups


def test_statistics_name_nulls_rows_and_exact_bounds_of_every_row_group(tmp_path: Path) -> None:
    written(tmp_path, pa.array([3, None, 5, 7, None, None], pa.int32()))
    found = [group._replace(packed=0) for group in statistics_of(tmp_path, "long", "k")]
    assert found == [
        ChunkStatistics(3, 3, 1, 2, 0, True),
        ChunkStatistics(5, 7, 0, 2, 0, True),
        ChunkStatistics(None, None, 2, 2, 0, True),
    ]
    assert all(group.packed > 0 for group in statistics_of(tmp_path, "long", "k"))


def test_bounds_of_texts_are_not_exact_because_writers_may_shorten_them(tmp_path: Path) -> None:
    written(tmp_path, pa.array(["a", "b"]))
    assert statistics_of(tmp_path, "string", "k")[0][:4] == ("a", "b", 0, 2)
    assert not statistics_of(tmp_path, "string", "k")[0].exact


def test_of_numbers_with_nan_only_the_nulls_are_known(tmp_path: Path) -> None:
    written(tmp_path, pa.array([1.0, None]))
    (group,) = statistics_of(tmp_path, "double", "k")
    assert (group.low, group.high, group.nulls, group.exact) == (None, None, 1, False)


def test_a_column_that_the_file_lacks_is_null_in_every_row(tmp_path: Path) -> None:
    written(tmp_path, pa.array([1, 2, 3]))
    assert statistics_of(tmp_path, "long", "z") == [
        ChunkStatistics(None, None, 2, 2, 0, True),
        ChunkStatistics(None, None, 1, 1, 0, True),
    ]


def test_a_field_of_a_struct_has_bounds_and_is_null_where_the_struct_is(tmp_path: Path) -> None:
    first = pa.array([True, False, False, False])
    struct = pa.StructArray.from_arrays([pa.array([1, 2, None, 4])], ["a"], mask=first)
    pq.write_table(pa.table({"s": struct}), tmp_path / "f.parquet")
    (group,) = statistics_of(tmp_path, "long", "s", "a")
    assert (group.low, group.high, group.nulls, group.rows) == (2, 4, 2, 4)


def test_nothing_is_known_of_the_elements_of_an_array(tmp_path: Path) -> None:
    written(tmp_path, pa.array([[1, 2], [3]]))
    (group,) = statistics_of(tmp_path, "array", "k")
    assert (group.low, group.nulls, group.rows) == (None, None, 2)


def test_bounds_of_one_file_that_cannot_be_decoded_leave_those_of_others(tmp_path: Path) -> None:
    """One file was written in Spark's legacy calendar and has a date before 1582."""
    days = pa.array([-200_000, 0], pa.int32()).cast(pa.date32())
    layouts = []
    for name, old in (("old", b"old"), ("older", b"older"), ("new", None)):
        metadata = {} if old is None else {b"org.apache.spark.legacyDateTime": b""}
        values = days if name == "older" else days[1:]
        table = pa.table({"k": values}).replace_schema_metadata(metadata)
        pq.write_table(table, tmp_path / f"{name}.parquet")
        layouts.append((open_layout(LocalStorage(str(tmp_path)), f"{name}.parquet"), name))
    groups = column_statistics(layouts, Column(("k",), ("k",), DataType("date")))
    assert [(g.low, g.high) for (g,) in groups] == [(0, 0), (None, None), (0, 0)]


NUMBERS, FLOATS = Numbers([(1, 1)]), Floats([(1.0, 1.0)], False)
FEW = pa.array([None if n % 5 == 3 else n % 3 for n in range(100)], pa.int64())


def form(
    folder: Path,
    values: pa.Array,
    type_: DataType,
    stored: Stored | None,
    **options: Any,
) -> str | None:
    """How the column of a file is asked for: as stored, by its codes, or (None) not."""
    pq.write_table(pa.table({"v": values}), folder / "f.parquet", **options)
    storage = LocalStorage(str(folder))
    column = Column(("v",), ("v",), type_)
    asked = Test(column, every, stored, False, False)
    found = form_of(storage, open_layout(storage, "f.parquet"), "f.parquet", asked, [0])
    return None if found is None else "codes" if found.coded else "stored"


def every(values: pa.Array) -> Mask:
    return np.ones(len(values), bool)


SMALL = FEW.cast(pa.int8()).cast(pa.decimal128(18, 2))
UTC = pa.timestamp("us", "UTC")
DAY = FEW.cast(pa.int32()).cast(pa.date32())


@pytest.mark.parametrize(
    ("values", "type_", "stored", "expected"),
    [
        (FEW, DataType("long"), NUMBERS, "stored"),
        (FEW.cast(pa.int32()), DataType("long"), NUMBERS, "codes"),
        (FEW.cast(pa.int8()), DataType("byte"), NUMBERS, "stored"),
        (FEW.cast(pa.uint32()), DataType("long"), NUMBERS, "codes"),
        (DAY, DataType("date"), NUMBERS, "stored"),
        (DAY, DataType("timestamp_ntz"), NUMBERS, "codes"),
        (FEW.cast(UTC), DataType("timestamp"), NUMBERS, "stored"),
        (FEW.cast(pa.timestamp("us")), DataType("timestamp"), NUMBERS, "codes"),
        (FEW.cast(pa.timestamp("ms", "UTC")), DataType("timestamp"), NUMBERS, "codes"),
        (FEW.cast(pa.timestamp("ns", "UTC")), DataType("timestamp"), NUMBERS, "codes"),
        (FEW.cast(pa.float64()), DataType("double"), FLOATS, "stored"),
        (FEW.cast(pa.float32()), DataType("double"), FLOATS, "codes"),
        (FEW.cast(pa.decimal128(30, 2)), DataType("decimal", 30, 2), None, "codes"),
        (SMALL, DataType("decimal", 18, 2), NUMBERS, "codes"),
        (FEW.cast(pa.string()), DataType("string"), None, "codes"),
        (FEW.cast(pa.large_string()), DataType("string"), None, "codes"),
        (FEW.cast(pa.string()), DataType("string", char_length=5), None, "codes"),
        (FEW.cast(pa.string()).cast(pa.binary()), DataType("binary"), None, "codes"),
    ],
)
def test_other_types_than_the_tables_are_tested_by_their_dictionaries(
    tmp_path: Path, values: pa.Array, type_: DataType, stored: Stored | None, expected: str
) -> None:
    assert form(tmp_path, values, type_, stored) == expected


def test_decimals_that_are_stored_as_integers_are_tested_as_these(tmp_path: Path) -> None:
    values, type_ = SMALL, DataType("decimal", 18, 2)
    assert form(tmp_path, values, type_, NUMBERS, store_decimal_as_integer=True) == "stored"
    wider = DataType("decimal", 18, 4)
    assert form(tmp_path, values, wider, NUMBERS, store_decimal_as_integer=True) == "codes"


def test_columns_that_have_no_dictionary_or_give_it_up_are_not_tested(tmp_path: Path) -> None:
    many, long = pa.array(range(100), pa.int32()), DataType("long")
    assert form(tmp_path, many, long, NUMBERS, dictionary_pagesize_limit=40, write_batch_size=10) is None
    assert form(tmp_path, FEW.cast(pa.int32()), long, NUMBERS, use_dictionary=False) is None


def test_a_codec_that_has_two_meanings_is_left_to_others(tmp_path: Path) -> None:
    assert form(tmp_path, FEW, DataType("long"), NUMBERS, compression="gzip") == "stored"
    assert form(tmp_path, FEW, DataType("long"), NUMBERS, compression="lz4") is None


def test_nested_and_repeated_values_are_left_to_others(tmp_path: Path) -> None:
    assert form(tmp_path, pa.array([[1], [2, 3]]), DataType("long"), NUMBERS) is None
    assert form(tmp_path, pa.array([{"x": 1}]), DataType("long"), NUMBERS) is None


def test_days_of_the_legacy_calendar_are_not_tested_as_stored(tmp_path: Path) -> None:
    marked = {b"org.apache.spark.legacyDateTime": b""}
    pq.write_table(pa.table({"v": DAY}).replace_schema_metadata(marked), tmp_path / "f.parquet")
    storage, column = LocalStorage(str(tmp_path)), Column(("v",), ("v",), DataType("date"))
    asked = Test(column, every, NUMBERS, False, False)
    found = form_of(storage, open_layout(storage, "f.parquet"), "f.parquet", asked, [0])
    assert found is not None
    assert found.coded
