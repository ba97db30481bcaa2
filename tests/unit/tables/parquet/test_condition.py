"""A column is put to a test as it is stored only where its bytes are the values that the table means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailbit.base.arrays import Mask
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.condition import Floats, Numbers, Stored, Test, Texts, form_of
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.storage import LocalStorage

NUMBERS, FLOATS, TEXTS = Numbers([(1, 1)]), Floats([(1.0, 1.0)], False), Texts([(b"1", True, b"1", True)])
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
    found = form_of(storage, open_layout(storage, "f.parquet"), "f.parquet", asked, [0], "0")
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
        (FEW.cast(pa.string()), DataType("string"), TEXTS, "stored"),
        (FEW.cast(pa.large_string()), DataType("string"), TEXTS, "stored"),
        (FEW.cast(pa.string()), DataType("string"), None, "codes"),
        (FEW.cast(pa.string()), DataType("string", char_length=5), TEXTS, "codes"),
        (FEW.cast(pa.string()).cast(pa.binary()), DataType("binary"), TEXTS, "stored"),
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


def test_dictionaries_of_many_values_and_columns_without_one_are_not_tested(tmp_path: Path) -> None:
    many, long = pa.array(range(100), pa.int32()), DataType("long")
    assert form(tmp_path, many, long, NUMBERS) is None
    assert form(tmp_path, FEW.cast(pa.int32()), long, NUMBERS, use_dictionary=False) is None


def test_codecs_whose_damage_polars_does_not_see_are_left_to_others(tmp_path: Path) -> None:
    assert form(tmp_path, FEW, DataType("long"), NUMBERS, compression="gzip") is None
    assert form(tmp_path, FEW, DataType("long"), NUMBERS, compression="lz4") is None


def test_nested_and_repeated_values_are_left_to_others(tmp_path: Path) -> None:
    assert form(tmp_path, pa.array([[1], [2, 3]]), DataType("long"), NUMBERS) is None
    assert form(tmp_path, pa.array([{"x": 1}]), DataType("long"), NUMBERS) is None


def test_days_of_the_legacy_calendar_are_not_tested_as_stored(tmp_path: Path) -> None:
    marked = {b"org.apache.spark.legacyDateTime": b""}
    pq.write_table(pa.table({"v": DAY}).replace_schema_metadata(marked), tmp_path / "f.parquet")
    storage, column = LocalStorage(str(tmp_path)), Column(("v",), ("v",), DataType("date"))
    asked = Test(column, every, NUMBERS, False, False)
    found = form_of(storage, open_layout(storage, "f.parquet"), "f.parquet", asked, [0], "0")
    assert found is not None
    assert found.coded
