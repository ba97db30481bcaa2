"""A Parquet file is opened only where its footer agrees with itself."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.delta_builder import DeltaBuilder
from tailbit.errors import DataFileError, MalformedLogError
from tailbit.tables import open_table
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.data_file import open_data_file, read_columns
from tailbit.tables.parquet.file import ParquetFile, arrow_buffer, open_parquet, read_leaves
from tailbit.tables.storage import LocalStorage

ROWS = pa.table({"a": [1, 2, 3], "n": [{"x": 1, "y": [1, 2]}, None, {"x": None, "y": []}]})


def written(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


def opened(data: bytes) -> ParquetFile:
    return open_parquet(pa.BufferReader(data))


def flipped(data: bytes, name: bytes, occurrence: int) -> bytes:
    """The bytes with the first letter of a name changed, at one of its places in the footer."""
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for _ in range(occurrence + 1):
        at = data.index(name, at) + 1
    return data[: at - 1] + b"Z" + data[at:]


@pytest.mark.parametrize("occurrence", [0, 1])
def test_a_column_name_that_a_flipped_bit_changed_is_refused(occurrence: int) -> None:
    data = written(ROWS.rename_columns(["amount", "n"]), store_schema=False)
    with pytest.raises(ValueError, match=r"amount|Zmount"):
        opened(flipped(data, b"amount", occurrence))


def test_a_hidden_rows_column_that_lost_its_name_does_not_bring_rows_back(tmp_path: Path) -> None:
    builder = DeltaBuilder(str(tmp_path / "t")).create(
        pa.schema([("a", pa.int64())]), features=["deletionVectors"]
    )
    builder.commit([builder.data_file(pa.table({"a": [1, 2, 3]}), "f.parquet")])
    builder.commit(builder.hide("f.parquet", builder.inline_vector([1])))
    (checkpoint,) = builder.checkpoint()
    for commit in builder.log.glob("*.json"):
        commit.unlink()
    assert len(open_table(builder.path).snapshot().files.with_hidden) == 1
    checkpoint.write_bytes(flipped(checkpoint.read_bytes(), b"deletionVector", 0))
    with pytest.raises(MalformedLogError, match="eletionVector"):
        open_table(builder.path).snapshot()


def test_a_data_file_whose_column_lost_its_name_is_refused_not_null(tmp_path: Path) -> None:
    data = written(pa.table({"amount": [1, 2]}), store_schema=False)
    (tmp_path / "f.parquet").write_bytes(flipped(data, b"amount", 0))
    with pytest.raises(DataFileError, match="mount"):
        open_data_file(LocalStorage(str(tmp_path)), "f.parquet")


def test_names_with_dots_at_any_level_are_no_damage() -> None:
    inner = pa.array([{"b.c": 1, "d": [{"e.f": 2}]}])
    data = written(pa.table({"a.b": [1], "a": inner, "a.": [[1]], "": [1], "é.": [{"": 2}]}))
    assert opened(data).metadata.num_rows == 1


def test_nested_columns_and_many_row_groups_are_no_damage() -> None:
    maps = pa.array([[("k", [{"x": 1}])]] * 3, pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.int8())]))))
    table = ROWS.append_column("m", maps)
    for options in ({"row_group_size": 1}, {"data_page_version": "2.0"}, {"use_dictionary": False}):
        file = opened(written(table, **options))
        found = read_leaves(file, range(file.metadata.num_columns), None, use_threads=False)
        assert found.to_pylist() == table.to_pylist()


def test_files_without_rows_and_without_row_groups_are_no_damage() -> None:
    empty = ROWS.slice(0, 0)
    assert opened(written(empty)).metadata.num_rows == 0
    out = io.BytesIO()
    pq.ParquetWriter(out, ROWS.schema).close()
    assert opened(out.getvalue()).metadata.num_row_groups == 0


def test_a_file_of_another_writer_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "duck.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS \"a.b\", [1, 2] AS l, {{'x': 1}} AS s, map {{'k': 1}} AS m) TO '{path}'")
    assert opened(path.read_bytes()).metadata.num_rows == 1


def test_a_row_count_that_differs_from_the_row_groups_is_refused() -> None:
    data = written(pa.table({"a": list(range(100))}), row_group_size=50, store_schema=False)
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    at = data.index(b"\x16\xc8\x01", footer)
    with pytest.raises(ValueError, match="100 rows, its footer says 101"):
        opened(data[:at] + b"\x16\xca\x01" + data[at + 3 :])


@pytest.mark.parametrize("cut", [0, 3, 8, 11, 100])
def test_a_file_that_is_too_short_is_refused(cut: int) -> None:
    data = written(ROWS)
    with pytest.raises((ValueError, OSError)):
        opened(data[:cut])


def test_a_deep_column_is_read_from_a_checked_file(tmp_path: Path) -> None:
    (tmp_path / "f.parquet").write_bytes(written(ROWS))
    file = open_data_file(LocalStorage(str(tmp_path)), "f.parquet")
    found = read_columns(file, [Column(("n", "x"), ("n", "x"), DataType("long"))])
    assert found.column(0).to_pylist() == [1, None, None]


_DECODERS = """
import io, os, sys
import pyarrow as pa, pyarrow.parquet as pq
from tailbit.tables.parquet.file import ParquetFile, read_leaves

out = io.BytesIO()
pq.write_table(pa.table({f"c{n}": list(range(100)) for n in range(9)}), out, row_group_size=50)
opened = pa.PythonFile(out, mode="r") if sys.argv[1] == "Python" else pa.BufferReader(out.getvalue())
before = len(os.listdir("/proc/self/task"))
file = ParquetFile(opened)
found = [file.read(), read_leaves(file, range(9), None, use_threads=True)]
found += [file.read_row_groups([0, 1]), pa.concat_tables([file.read_row_group(n) for n in range(2)])]
assert all(rows == found[0] and len(rows) == 100 for rows in found)
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.parametrize("owner", ["Python", "Arrow"])
def test_a_file_of_pythons_is_decoded_by_the_thread_that_asks_for_it(owner: str) -> None:
    """Arrow starts as many threads of its own as it finds work for: on a busy machine that may be one."""
    started = subprocess.run(
        [sys.executable, "-c", _DECODERS, owner],
        env={**os.environ, "OMP_NUM_THREADS": "4"},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert (int(started.stdout) > 0) == (owner == "Arrow")


def test_what_arrows_threads_may_read_lies_in_arrows_memory() -> None:
    before = pa.total_allocated_bytes()
    found = arrow_buffer([b"a" * 100_000, b"", b"b"])
    assert 100_001 <= pa.total_allocated_bytes() - before < 100_200
    assert found.to_pybytes() == b"a" * 100_000 + b"b"


@pytest.mark.parametrize("owner", ["Python", "Arrow"])
@pytest.mark.parametrize(
    ("groups", "columns"),
    [([], None), ([0], ["n"]), ([2, 0], None), ([1], None), ([0, 1, 2], ["a"]), ([2, 1, 0, 2], []), ([], [])],
)
def test_whoever_reads_a_file_reads_the_same(
    owner: str, groups: list[int], columns: list[str] | None
) -> None:
    out = io.BytesIO()
    with pq.ParquetWriter(out, ROWS.schema) as writer:
        for rows in (ROWS, ROWS.slice(0, 0), ROWS.slice(1)):
            writer.write_table(rows)
    data = out.getvalue()
    source = pa.PythonFile(io.BytesIO(data), mode="r") if owner == "Python" else pa.BufferReader(data)
    file = open_parquet(source, read_dictionary=["a"])
    parts = [(ROWS, ROWS.slice(0, 0), ROWS.slice(1))[group] for group in groups]
    expected = pa.concat_tables([ROWS.slice(0, 0), *parts])
    expected = expected if columns is None else expected.select(columns)
    leaves = {"a": [0], "n": [1, 2]}
    wanted = [leaf for name in expected.column_names for leaf in leaves[name]]
    for found in (file.read_row_groups(groups, columns), read_leaves(file, wanted, groups, use_threads=True)):
        assert found.num_rows == expected.num_rows
        assert found.to_pylist() == expected.to_pylist()
    if groups == [0, 1, 2]:
        assert file.read(columns).equals(expected)


def test_a_footer_that_names_no_known_codec_is_refused_before_a_chunk_is_asked_for() -> None:
    data = written(pa.table({"amount": [1, 2]}), compression="snappy", store_schema=False)
    at = data.rindex(b"\x06amount") + len(b"\x06amount")
    assert data[at : at + 2] == b"\x15\x02"
    with pytest.raises(ValueError, match="'amount' has no known codec in row group 0"):
        opened(data[: at + 1] + bytes([2 * 15]) + data[at + 2 :])
