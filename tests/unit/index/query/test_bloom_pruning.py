"""Filters in data files leave row groups out that do not hold a value, and never one that does."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import (
    BloomFilterProperties,
    ColumnProperties,
    DeltaTable,
    WriterProperties,
    convert_to_deltalake,
    write_deltalake,
)

import tailbit
from tailbit.index.query.scan import can_match
from tailbit.tables.parquet.data_file import open_layout

ROWS, GROUPS = 3000, 6
NUMBERS = np.random.default_rng(0).permutation(10 * ROWS)[:ROWS]
EPOCH = datetime.datetime(2020, 1, 1)  # noqa: DTZ001

COLUMNS: dict[str, tuple[pa.DataType, Any, str]] = {
    "b": (pa.int8(), lambda n: n % 200 - 100, "{}"),
    "i": (pa.int32(), lambda n: n * 7 - 9000, "{}"),
    "l": (pa.int64(), lambda n: n * 2**40 - 9, "{}"),
    "s": (pa.string(), lambda n: f"{n:x}" * (n % 12), "'{}'"),
    "x": (pa.binary(), lambda n: str(n).encode() * (n % 5), None),
    "d": (pa.date32(), lambda n: EPOCH.date() + datetime.timedelta(n), "DATE'{}'"),
    "t": (pa.timestamp("us"), lambda n: EPOCH + datetime.timedelta(milliseconds=n), "TIMESTAMP_NTZ'{}'"),
    "p": (pa.decimal128(9, 2), lambda n: Decimal(n - 900) / 100, "{}"),
    "q": (pa.decimal128(30, 3), lambda n: Decimal(n * 10**15 - 10**16) / 1000, "{}"),
    "f": (pa.float32(), lambda n: n / 4 - 3000, "{}"),
    "g": (pa.float64(), lambda n: n / 3 - 1000, "{!r}D"),
}
"""By column its type, the value of a number, and how a condition has it."""


def rows() -> pa.Table:
    values = {
        name: pa.array([None if n % 50 == 3 else of(n) for n in NUMBERS.tolist()], type_)
        for name, (type_, of, _) in COLUMNS.items()
    }
    return pa.table(values)


def written(path: Path, **options: Any) -> str:
    path.mkdir()
    filters = {name: {"ndv": ROWS // GROUPS, "fpp": 0.01} for name in COLUMNS}
    options = {"row_group_size": ROWS // GROUPS, "bloom_filter_options": filters, **options}
    pq.write_table(rows(), path / "f.parquet", **options)
    convert_to_deltalake(str(path))
    return str(path)


@pytest.fixture(scope="module", params=[{}, {"use_dictionary": False}, {"store_decimal_as_integer": True}])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("bloom") / "t", **request.param)


def left(path: str, condition: str) -> int:
    """How many row groups may match."""
    selection = tailbit.open(path).where(condition)._selection
    (slice_,) = [selection.snapshot.files[n] for n in range(len(selection.snapshot.files))]
    layout = open_layout(selection.storage, slice_.path, slice_.size)
    return int(np.count_nonzero(can_match(selection.node, layout, slice_, selection.storage)))


def conditions(name: str, number: int) -> tuple[str, str]:
    """A condition that a column has the value of a number, for tailbit and for DuckDB."""
    value, form = COLUMNS[name][1](number), COLUMNS[name][2]
    if form is None:
        return f"{name} = X'{value.hex()}'", f"{name} = from_hex('{value.hex()}')"
    text = form.format(value)
    return f"{name} = {text}", f"{name} = {text.replace('TIMESTAMP_NTZ', 'TIMESTAMP').rstrip('D')}"


@pytest.mark.parametrize("name", COLUMNS)
def test_values_are_found_and_other_values_leave_row_groups_out(table: str, name: str) -> None:
    groups = 0
    for number in [*NUMBERS[:12].tolist(), *range(10 * ROWS, 10 * ROWS + 12)]:
        ours, theirs = conditions(name, number)
        found = duckdb.sql(f"SELECT count(*) FROM '{table}/f.parquet' WHERE {theirs}").fetchall()[0][0]
        assert tailbit.open(table).where(ours).count() == found
        groups += left(table, ours)
    assert groups < 24 * GROUPS * (1.0 if name in ("b", "x") else 0.5)


def test_lists_zeros_and_nan_are_found(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.mkdir()
    numbers = pa.table({"g": [0.0, -0.0, float("nan"), 1.5, None], "f": pa.array([0.0] * 5, pa.float32())})
    filters = {name: {"ndv": 5, "fpp": 0.01} for name in ("g", "f")}
    pq.write_table(numbers, path / "f.parquet", bloom_filter_options=filters, use_dictionary=False)
    convert_to_deltalake(str(path))
    opened = tailbit.open(str(path))
    asked = {
        "g = 0.0D": 2,
        "g = -0.0D": 2,
        "f = -0.0D": 5,
        "g = DOUBLE('NaN')": 1,
        "g IN (7D, 1.5D)": 1,
        "g IN (7D, 8D)": 0,
        "g <=> NULL": 1,
        "NOT (g = 7D)": 4,
        "g = 7D OR f = 0.0D": 5,
    }
    assert {text: opened.where(text).count() for text in asked} == asked


def test_a_file_whose_filters_rule_it_out_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    there = str(COLUMNS["s"][1](int(NUMBERS[0])))
    absent = [f"'{n:x}!'" for n in range(20)]
    one = sum(left(path, f"s = {text}") for text in absent)
    assert one < 20, "one filter in a hundred passes a value by chance"
    assert left(path, f"s IN ('{there}', {absent[0]})") in (1, 2)
    (file,) = tailbit.open(path).where(f"s = {absent[0]}").explain()["files"]
    assert (file["row_groups"], file["row_groups_read"]) == (GROUPS, 0)


def test_a_damaged_filter_is_as_good_as_none(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    file = Path(path) / "f.parquet"
    data, footer = bytearray(file.read_bytes()), pq.read_metadata(file)
    for group in range(GROUPS):
        at = footer.row_group(group).column(3).bloom_filter_offset
        data[at : at + 4] = b"\xff\xff\xff\xff"
    file.write_bytes(data)
    assert left(path, "s = '7!'") == GROUPS
    assert tailbit.open(path).where("s = '7!'").count() == 0


def test_filters_of_duckdb_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.mkdir()
    with duckdb.connect() as engine:
        engine.register("rows", rows())
        size = 2048
        engine.execute(f"COPY rows TO '{path}/f.parquet' (FORMAT parquet, ROW_GROUP_SIZE {size})")
    convert_to_deltalake(str(path))
    for number in NUMBERS[:20].tolist():
        ours, theirs = conditions("i", number)
        found = duckdb.sql(f"SELECT count(*) FROM '{path}/f.parquet' WHERE {theirs}").fetchall()[0][0]
        assert tailbit.open(str(path)).where(ours).count() == found
    footer = pq.read_metadata(path / "f.parquet")
    assert footer.row_group(0).column(0).bloom_filter_offset is not None
    assert sum(left(str(path), f"b = {n}") for n in range(101, 111)) == 0


def test_filters_of_delta_rs_are_read(tmp_path: Path) -> None:
    path, filters = str(tmp_path / "t"), BloomFilterProperties(True, fpp=0.01, ndv=ROWS)
    properties = WriterProperties(
        max_row_group_size=ROWS // GROUPS,
        default_column_properties=ColumnProperties(bloom_filter_properties=filters),
    )
    write_deltalake(path, rows(), writer_properties=properties)
    (file,) = DeltaTable(path).file_uris()
    for name in COLUMNS:
        for number in (*NUMBERS[:3].tolist(), 10 * ROWS):
            ours, theirs = conditions(name, number)
            found = duckdb.sql(f"SELECT count(*) FROM '{file}' WHERE {theirs}").fetchall()[0][0]
            assert tailbit.open(path).where(ours).count() == found
    footer = pq.read_metadata(file)
    assert footer.row_group(0).column(3).bloom_filter_offset is not None
    assert sum(left(path, f"s = '{n:x}!'") for n in range(20)) < 20
