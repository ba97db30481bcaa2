"""A Parquet file is opened only where its footer agrees with itself."""

from __future__ import annotations

import io
import itertools
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
from support.odd_parquet import LAYOUTS, TABLE
from tailbit.errors import DataFileError, MalformedLogError
from tailbit.tables import open_table
from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.data_file import open_data_file, open_layout, read_columns
from tailbit.tables.parquet.file import ParquetFile, arrow_buffer, open_parquet, read_footer, read_leaves
from tailbit.tables.parquet.layout import Pages
from tailbit.tables.parquet.thrift import (
    I64,
    LIST,
    TEXT,
    read_struct,
    written_int,
    written_ints,
    written_struct,
    written_text,
)
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


def test_the_footer_of_a_file_is_read_to_its_end() -> None:
    sink = io.BytesIO()
    names = {f"column {n}": [n, None] for n in range(20)}
    pq.write_table(pa.table(names), sink, row_group_size=1)
    footer = read_footer(pa.BufferReader(sink.getvalue()))
    fields, end = read_struct(footer, 0)
    assert end == len(footer)
    assert fields[3] == 2
    assert [element[4].decode() for element in fields[2][1:]] == list(names)
    assert len(fields[4]) == 2


@pytest.mark.parametrize("number", [0, 1, -1, 63, 64, -64, -65, 2**31, -(2**31), 2**62])
def test_numbers_are_read_as_they_were_written(number: int) -> None:
    data = written_struct([(1, I64, written_int(number)), (3, TEXT, written_text(b"abc"))])
    assert read_struct(data, 0) == ({1: number, 3: b"abc"}, len(data))


def test_a_long_list_is_read_as_it_was_written() -> None:
    data = written_struct([(2, LIST, written_ints(range(200)))])
    assert read_struct(data, 0)[0] == {2: list(range(200))}


def test_reading_stops_before_a_field() -> None:
    start = written_struct([(1, I64, written_int(5))])[:-1]
    data = start + written_struct([(4, I64, written_int(6))], before=1)
    assert read_struct(data, 0, until=3) == ({1: 5}, len(start))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15",
        b"\x18\x05ab",
        b"\x19\xfc\xff\xff\x03",
        b"\x1c" * 100,
        b"\x1e\x00",
        b"\x16" + b"\xff" * 12,
    ],
)
def test_what_is_no_struct_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_struct(data, 0)


DATA, DICTIONARY = 0, 2


def _walked(data: bytes, chunk: pq.ColumnChunkMetaData) -> list[tuple[int, int, int, int, int, int]]:
    """Kind, start, end, unpacked bytes, values and encoding of each page, all headers read field by field."""
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    end, out = at + chunk.total_compressed_size, []
    while at < end:
        header, after = read_struct(data, at)
        of: dict[int, Any] = header.get(5) or header.get(7) or header[8]
        encoding = of[4] if 8 in header else of[2]
        out.append((header[1], at, after + header[3], after - at + header[2], of[1], encoding))
        at = after + header[3]
    return out


def _pages_of(pages: Pages) -> list[tuple[int, int, int, int]]:
    firsts = pages.firsts.tolist()
    counts = [after - first for first, after in itertools.pairwise(firsts)]
    return list(zip(pages.starts.tolist(), pages.ends.tolist(), pages.unpacked.tolist(), counts, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pages_of_any_layout_are_those_that_their_headers_say(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(TABLE, path, **{"row_group_size": 1100, **LAYOUTS[layout]})
    data, found = path.read_bytes(), open_layout(LocalStorage(str(tmp_path)), "f.parquet")
    seen = 0
    with pa.OSFile(str(path)) as source:
        for group in range(found.metadata.num_row_groups):
            for leaf in range(found.metadata.num_columns):
                pages = found.pages(source, group, leaf)
                if pages is None:
                    continue
                walked = _walked(data, found.metadata.row_group(group).column(leaf))
                values = [page for page in walked if page[0] != DICTIONARY]
                assert _pages_of(pages) == [page[1:5] for page in values]
                assert pages.coded.tolist() == [page[5] in (2, 8) for page in values]
                dictionary = next((page for page in walked if page[0] == DICTIONARY), None)
                assert (dictionary is None) == (pages.dictionary is None)
                if dictionary is not None and pages.dictionary is not None:
                    assert (pages.dictionary.start, pages.dictionary.end) == dictionary[1:3]
                    assert (pages.dictionary.unpacked, pages.dictionary.values) == dictionary[3:5]
                seen += 1
    assert seen


def test_files_of_one_schema_and_other_texts_have_trees_of_their_own(tmp_path: Path) -> None:
    one = pa.table({"k": pa.array(["a"]).dictionary_encode()})
    pq.write_table(one, tmp_path / "coded.parquet")
    pq.write_table(one, tmp_path / "plain.parquet", store_schema=False)
    storage = LocalStorage(str(tmp_path))
    coded, plain = (open_layout(storage, f"{name}.parquet") for name in ("coded", "plain"))
    assert pa.types.is_dictionary(coded.tree.children[0].field.type)
    assert plain.tree.children[0].field.type == pa.string()


def test_files_whose_schemas_begin_alike_have_heads_of_their_own(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    names = [f"column_{number}" for number in range(20)]
    for last in ("x", "y"):
        pq.write_table(pa.table({name: [1] for name in [*names, last]}), tmp_path / f"{last}.parquet")
    layouts = [open_layout(storage, f"{last}.parquet") for last in ("x", "y", "x")]
    assert [layout.tree.children[-1].field.name for layout in layouts] == ["x", "y", "x"]
    assert len({layout.head for layout in layouts}) == 2
