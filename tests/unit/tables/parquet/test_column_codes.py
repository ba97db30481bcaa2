"""Rows that are read as numbers have the values that the whole file has there, or the file is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.odd_parquet import COLUMNS, LAYOUTS, ROWS, TABLE
from tailbit.errors import DataFileError
from tailbit.tables.model import Column, DataType, FileSlice
from tailbit.tables.parquet.assembly import compressed
from tailbit.tables.parquet.column_codes import Numbered, Read, coded_groups, numbered
from tailbit.tables.storage import LocalStorage

VALUES = TABLE.to_pydict()
FLAT = [column for column in COLUMNS if column.id not in ("point", "list")]
K = Column(("k",), ("k",), DataType("long"))


def _read(folder: Path, at: list[int], name: str = "f.parquet") -> Read:
    slice_ = FileSlice(name, (folder / name).stat().st_size, 0, None)
    return slice_, np.array(at, dtype=np.uint64)


def _values(found: Numbered) -> list[Any]:
    by_number = dict(zip(found.used.tolist(), found.values.to_pylist(), strict=True))
    counted = np.bincount(found.numbers, minlength=1)
    assert dict(zip(found.used.tolist(), found.counts.tolist(), strict=True)) == {
        number: int(n) for number, n in enumerate(counted.tolist()) if n
    }
    return [by_number[number] for number in found.numbers.tolist()]


def _all(
    folder: Path, reads: list[Read], columns: list[Column], masked: bool
) -> tuple[list[list[Any]], list[str]]:
    """Per column the values of all rows, and the files that were left out."""
    out: list[list[Any]] = [[] for _ in columns]
    left: list[str] = []
    for found, rest in numbered(LocalStorage(str(folder)), reads, columns, masked):
        left += [slice_.path for slice_, _ in rest]
        for values, one in zip(out, found, strict=False):
            values += _values(one)
    return out, left


@pytest.mark.parametrize(("chosen", "masked"), [("some", True), ("some", False), ("all", False)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_numbers_of_any_layout_stand_for_the_values_of_the_rows(
    tmp_path: Path, layout: str, chosen: str, masked: bool
) -> None:
    pq.write_table(TABLE, tmp_path / "f.parquet", **{"row_group_size": 1100, **LAYOUTS[layout]})
    some = np.random.default_rng(3).choice(ROWS, 300, replace=False)
    at = {"some": sorted(some.tolist()), "all": list(range(ROWS))}[chosen]
    for column in FLAT:
        (found,), left = _all(tmp_path, [_read(tmp_path, at)], [column], masked)
        assert left or found == [VALUES[column.id][place] for place in at], column.id


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(
    ("codec", "version"),
    [
        ("none", "1.0"),
        ("snappy", "1.0"),
        ("snappy", "2.0"),
        ("gzip", "2.0"),
        ("zstd", "1.0"),
        ("brotli", "2.0"),
    ],
)
def test_numbers_of_every_type_are_those_that_duckdb_groups_by(
    tmp_path: Path, codec: str, version: str, masked: bool
) -> None:
    table, columns = _typed(np.random.default_rng(len(codec)), 3000)
    written: Any = {"compression": codec, "data_page_version": version, "row_group_size": 700}
    pq.write_table(table, tmp_path / "f.parquet", data_page_size=300, **written)
    at = list(range(0, 3000, 7))
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    for column in columns:
        (found,), left = _all(tmp_path, [_read(tmp_path, at)], [column], masked)
        judged = con.sql(
            f"SELECT {column.id} FROM read_parquet('{tmp_path}/f.parquet', file_row_number = true) "
            "WHERE file_row_number % 7 = 0 ORDER BY file_row_number"
        ).to_arrow_table()
        assert not left
        assert found == judged[column.id].to_pylist(), column.id


def _typed(rng: np.random.Generator, rows: int) -> tuple[pa.Table, list[Column]]:
    """Columns of few values and NULLs, of all types that have keys and a dictionary."""
    small = rng.integers(-5, 40, rows)
    gone = rng.random(rows) < 0.2

    def of(type_: pa.DataType) -> pa.Array:
        return pa.array(small, mask=gone).cast(type_)

    typed: dict[str, tuple[pa.Array, str]] = {
        "long": (of(pa.int64()), "long"),
        "short": (of(pa.int16()), "short"),
        "double": (of(pa.float64()), "double"),
        "float": (of(pa.float32()), "float"),
        "text": (of(pa.string()), "string"),
        "long_text": (pa.array([f"{n}" * 200 for n in small.tolist()], mask=gone), "string"),
        "bytes": (of(pa.string()).cast(pa.binary()), "binary"),
        "day": (of(pa.int32()).cast(pa.date32()), "date"),
        "moment": (of(pa.int64()).cast(pa.timestamp("us", "UTC")), "timestamp"),
        "local": (of(pa.int64()).cast(pa.timestamp("us")), "timestamp_ntz"),
        "price": (of(pa.int64()).cast(pa.decimal128(38, 2)), "decimal(38,2)"),
        "no_null": (pa.array(small), "long"),
    }
    table = pa.table({name: array for name, (array, _) in typed.items()})
    return table, [Column((name,), (name,), _type(kind)) for name, (_, kind) in typed.items()]


def _type(kind: str) -> DataType:
    return DataType("decimal", 38, 2) if kind.startswith("decimal") else DataType(kind)


@pytest.mark.parametrize("masked", [True, False])
def test_rows_of_many_files_come_in_the_order_of_files_and_positions(tmp_path: Path, masked: bool) -> None:
    reads, wanted = [], []
    for number in range(5):
        values = [f"{number}-{place % 3}" for place in range(50)]
        name, at = f"{number}.parquet", list(range(number, 50, 4))
        pq.write_table(pa.table({"k": values}), tmp_path / name, row_group_size=20)
        reads.append(_read(tmp_path, at, name))
        wanted += [values[place] for place in at]
    column = Column(("k",), ("k",), DataType("string"))
    (found,), left = _all(tmp_path, reads, [column], masked)
    assert (found, left) == (wanted, [])


@pytest.mark.parametrize("masked", [True, False])
def test_columns_have_numbers_of_their_own_and_partition_columns_too(tmp_path: Path, masked: bool) -> None:
    pq.write_table(pa.table({"a": [1, 2, 1], "b": ["x", None, "y"]}), tmp_path / "f.parquet")
    slice_ = FileSlice("f.parquet", (tmp_path / "f.parquet").stat().st_size, 0, 3, {"p": "EU"})
    columns = [
        Column(("a",), ("a",), DataType("long")),
        Column(("p",), ("p",), DataType("string"), partition=True),
        Column(("b",), ("b",), DataType("string")),
    ]
    found, left = _all(tmp_path, [(slice_, np.array([0, 1], np.uint64))], columns, masked)
    assert (found, left) == ([[1, 2], ["EU", "EU"], ["x", None]], [])


def test_files_of_two_schemas_are_read_one_after_the_other(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": pa.array([1, 2], pa.int32())}), tmp_path / "old.parquet")
    pq.write_table(pa.table({"x": [0, 0], "k": [3, 4]}), tmp_path / "new.parquet")
    reads = [_read(tmp_path, [0, 1], "old.parquet"), _read(tmp_path, [1], "new.parquet")]
    (found,), left = _all(tmp_path, reads, [K], True)
    assert (found, left) == ([1, 2, 4], [])


@pytest.mark.parametrize(
    "written",
    [{"use_dictionary": False}, {"dictionary_pagesize_limit": 100, "data_page_size": 100}],
    ids=["no dictionary", "a dictionary that was given up"],
)
def test_a_file_whose_pages_hold_values_is_left_out(tmp_path: Path, written: dict[str, Any]) -> None:
    pq.write_table(pa.table({"k": list(range(5000))}), tmp_path / "f.parquet", write_batch_size=50, **written)
    assert _all(tmp_path, [_read(tmp_path, [7, 4999])], [K], True) == ([[]], ["f.parquet"])


PAGED: Any = {"data_page_size": 2000, "write_batch_size": 100}


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("at", [[7], [3, 19_998], [*range(500, 900)], [100, *range(9000, 9100), 19_999]])
def test_pages_without_a_wanted_row_are_not_read(tmp_path: Path, at: list[int], masked: bool) -> None:
    values = [f"text {place * 7 % 5000}" if place % 9 else None for place in range(20_000)]
    pq.write_table(pa.table({"k": values}), tmp_path / "f.parquet", **PAGED)
    column, read = Column(("k",), ("k",), DataType("string")), _read(tmp_path, at)
    (group,) = coded_groups(LocalStorage(str(tmp_path)), read, [column])
    whole = pq.read_metadata(tmp_path / "f.parquet").row_group(0).column(0).total_compressed_size
    assert group.packed * 4 < whole
    assert _all(tmp_path, [read], [column], masked) == ([[values[place] for place in at]], [])


def test_columns_whose_pages_hold_other_rows_are_left_to_a_reader_of_pages(tmp_path: Path) -> None:
    table = pa.table({"a": [n % 3000 for n in range(20_000)], "b": [n % 5 for n in range(20_000)]})
    pq.write_table(table, tmp_path / "f.parquet", **PAGED)
    columns = [Column((name,), (name,), DataType("long")) for name in ("a", "b")]
    assert _all(tmp_path, [_read(tmp_path, [5])], columns, True) == ([[], []], ["f.parquet"])
    many = list(range(0, 20_000, 50))
    found, left = _all(tmp_path, [_read(tmp_path, many)], columns, True)
    assert (found, left) == ([[n % 3000 for n in many], [n % 5 for n in many]], [])


def test_columns_whose_pages_hold_the_same_rows_are_cut_together(tmp_path: Path) -> None:
    table = pa.table({"a": [n % 300 for n in range(20_000)], "b": [n * 7 % 290 for n in range(20_000)]})
    pq.write_table(table, tmp_path / "f.parquet", **PAGED)
    columns = [Column((name,), (name,), DataType("long")) for name in ("a", "b")]
    (group,) = coded_groups(LocalStorage(str(tmp_path)), _read(tmp_path, [5, 15_000]), columns)
    assert group.rows < 10_000
    found, left = _all(tmp_path, [_read(tmp_path, [5, 15_000])], columns, True)
    assert (found, left) == ([[5, 0], [35, 15_000 * 7 % 290]], [])


def test_a_file_that_lacks_the_column_is_left_out(tmp_path: Path) -> None:
    pq.write_table(pa.table({"other": [1]}), tmp_path / "f.parquet")
    assert _all(tmp_path, [_read(tmp_path, [0])], [K], True) == ([[]], ["f.parquet"])


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("every", "left"), [(1, []), (2, ["f.parquet"])])
def test_a_dictionary_of_nearly_as_many_values_as_rows_is_left_to_who_decodes_values(
    tmp_path: Path, every: int, left: list[str], masked: bool
) -> None:
    numbers = np.arange(320_000) // 8
    pq.write_table(pa.table({"k": numbers}), tmp_path / "f.parquet", dictionary_pagesize_limit=1 << 24)
    at = list(range(0, 320_000, every))
    (found,), rest = _all(tmp_path, [_read(tmp_path, at)], [K], masked)
    assert rest == left
    assert found == ([] if left else numbers.tolist())


def test_a_nested_column_is_left_out(tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": [{"k": 1}, None]}), tmp_path / "f.parquet")
    column = Column(("s", "k"), ("s", "k"), DataType("long"))
    assert _all(tmp_path, [_read(tmp_path, [0, 1])], [column], True) == ([[]], ["f.parquet"])


@pytest.mark.parametrize("masked", [True, False])
def test_a_day_of_the_legacy_calendar_that_is_wanted_leaves_its_rows_out(
    tmp_path: Path, masked: bool
) -> None:
    days = pa.table({"k": pa.array([0, -200_000], pa.date32())})
    legacy = {b"org.apache.spark.version": b"2.4.0"}
    pq.write_table(days.replace_schema_metadata(legacy), tmp_path / "f.parquet")
    column = Column(("k",), ("k",), DataType("date"))
    ((day,),), left = _all(tmp_path, [_read(tmp_path, [0])], [column], masked)
    assert (day.isoformat(), left) == ("1970-01-01", [])
    assert _all(tmp_path, [_read(tmp_path, [1])], [column], masked) == ([[]], ["f.parquet"])


@pytest.mark.parametrize("codec", ["SNAPPY", "GZIP", "BROTLI", "ZSTD"])
@pytest.mark.parametrize("size", [1, 255, 256, 65_537])
def test_what_is_compressed_is_decompressed_by_arrow(size: int, codec: str) -> None:
    data = np.random.default_rng(size).integers(0, 3, size).astype(np.uint8).tobytes()
    found = pa.decompress(compressed(data, codec), decompressed_size=size, codec=codec.lower(), asbytes=True)
    assert found == data


@pytest.mark.parametrize("more", [0, 1])
def test_the_longest_literal_of_snappy_is_decompressed_by_arrow(more: int) -> None:
    data = bytes((1 << 24) + more)
    found = pa.decompress(
        compressed(data, "SNAPPY"), decompressed_size=len(data), codec="snappy", asbytes=True
    )
    assert found == data


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    slice_ = FileSlice("gone.parquet", 10, 0, 1)
    with pytest.raises(DataFileError, match=r"gone\.parquet"):
        list(numbered(LocalStorage(str(tmp_path)), [(slice_, np.array([0], np.uint64))], [K]))


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("masked", [True, False])
def test_a_damaged_dictionary_or_page_is_no_crash(tmp_path: Path, seed: int, masked: bool) -> None:
    rng = np.random.default_rng(seed)
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"k": rng.integers(0, 50, 3000)}), path, data_page_size=1, write_batch_size=500)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    with path.open("r+b") as damaged:
        damaged.seek(int(rng.integers(chunk.dictionary_page_offset, chunk.total_compressed_size)))
        damaged.write(bytes([int(rng.integers(256))]))
    (found,), left = _all(tmp_path, [_read(tmp_path, [1, 2999])], [K], masked)
    assert len(found) == 2 or left == ["f.parquet"]


@pytest.mark.parametrize("masked", [True, False])
def test_codes_whose_gzip_checksum_is_not_theirs_are_left_to_others(tmp_path: Path, masked: bool) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"k": np.random.default_rng(1).integers(0, 50, 3000)})
    pq.write_table(table, path, compression="gzip")
    data, chunk = bytearray(path.read_bytes()), pq.read_metadata(path).row_group(0).column(0)
    data[chunk.dictionary_page_offset + chunk.total_compressed_size - 8] ^= 1
    path.write_bytes(data)
    assert _all(tmp_path, [_read(tmp_path, list(range(0, 3000, 3)))], [K], masked) == ([[]], ["f.parquet"])
