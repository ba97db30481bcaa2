"""Bitmap records hold, for each column, value and file, the rows of the file that hold the value."""

from __future__ import annotations

import datetime
import math
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake
from pyroaring import BitMap

import tailbit
from support.drive import Drive
from support.hudi import unpack
from support.tables import (
    eight_flights,
    flipped_pages,
    half_built,
    index_files,
    index_of,
    three_commits,
    with_vectors,
)
from tailbit.cli.main import cli
from tailbit.errors import (
    ColumnTypeError,
    DataFileError,
    UnknownColumnError,
    UsageError,
    VersionNotFoundError,
)
from tailbit.outputs.bitmap_records import has_records
from tailbit.tables.open import open_table
from tailbit.tables.parquet.rows import fetch
from tailbit.tables.table import Table

Told = dict[tuple[str, str, str | None], list[int]]
"""Rows by column, file and the value's text."""


def told(batches: Iterable[pa.RecordBatch]) -> Told:
    """What records say; each key stands once."""
    out: Told = {}
    for row in (row for batch in batches for row in batch.to_pylist()):
        key = row["column"], row["file"], row["value"]
        assert key not in out
        assert row["value_is_null"] == (row["value"] is None)
        out[key] = BitMap.deserialize(row["positions"]).to_array().tolist()
        assert len(out[key]) == row["rows"] > 0
    return out


def text(value: Any) -> str | None:
    """A value as Spark casts it to a string; only values whose form needs no thought."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value + 0.0).replace("inf", "Infinity")
    if isinstance(value, datetime.datetime):
        shown = value.replace(tzinfo=None).isoformat(" ")
        return shown.rstrip("0") if "." in shown else shown
    return None if value is None else format(value, "f") if isinstance(value, Decimal) else str(value)


def in_data(table: Table, version: int | None = None) -> Told:
    """The same from the data files, row by row; log blocks are read as files of Parquet."""
    snapshot, out = table.snapshot(version), Told()
    columns = [column for column in snapshot.schema.columns if has_records(column)]
    for slice_ in snapshot.files:
        hidden = slice_.hidden.read(table.storage) if slice_.hidden else BitMap()
        rows = pa.concat_tables(list(fetch(table.storage, slice_, columns, None)))
        if "!" not in slice_.path and not any(column.partition for column in columns):
            assert rows.num_rows == pq.ParquetFile(f"{table.root}/{slice_.path}").metadata.num_rows
        for column in columns:
            for at, value in enumerate(rows[column.id].to_pylist()):
                if at not in hidden:
                    out.setdefault((column.label, slice_.path, text(value)), []).append(at)
    return out


HUDI_TABLES = (
    *(
        "cow_v6_types",
        "cow_v8_folders",
        "cow_v8_hive",
        "cow_v9_clustered",
        "cow_v9_columns",
        "cow_v9_duplicates",
    ),
    *("cow_v9_late", "cow_v9_types", "mor_v6", "mor_v6_duplicates", "mor_v8_event_time", "mor_v9_columns"),
    *("mor_v9_late_compaction", "mor_v9_log_only", "mor_v9_parquet_logs", "mor_v9_partial", "mor_v9_types"),
)


@pytest.mark.parametrize("name", HUDI_TABLES)
def test_the_bitmaps_of_a_hudi_table_are_the_rows_in_its_files_at_any_lag(name: str, tmp_path: Path) -> None:
    packed = unpack(name, tmp_path)
    table = open_table(packed.path)
    columns = [column.label for column in table.snapshot().schema.columns if has_records(column)]
    expected = in_data(table)
    assert told(tailbit.open(packed.path).bitmap_records(columns)) == expected
    half_built(packed.path, columns[::2])
    assert told(tailbit.open(packed.path).bitmap_records(columns)) == expected
    Drive(packed.path, f"{packed.path}/_tailbit", columns[::2]).drain()
    records = tailbit.open(packed.path).bitmap_records(columns)
    assert told(records) == expected
    rows = packed.rows(packed.readable[-1])
    for column in columns:
        by_value = Counter({v: 0 for c, _, v in expected if c == column})
        for (named, _, value), positions in expected.items():
            by_value[value] += len(positions) * (named == column)
        assert by_value == Counter(map(text, rows[column].to_pylist()))


@pytest.mark.parametrize("name", ["cow_v9_late", "mor_v9", "mor_v6"])
def test_every_row_of_an_older_instant_is_in_one_bitmap_of_each_column(name: str, tmp_path: Path) -> None:
    packed = unpack(name, tmp_path)
    Drive(packed.path, f"{packed.path}/_tailbit", ["city"]).drain()
    table = open_table(packed.path)
    for instant in packed.readable[:2]:
        expected = in_data(table, table.version_named(instant.requested))
        records = tailbit.open(packed.path).bitmap_records(version=instant.requested)
        assert told(records) == {key: rows for key, rows in expected.items() if key[0] == "city"}


def test_records_of_a_log_block_name_its_group_and_the_instant_of_the_base_file(tmp_path: Path) -> None:
    packed = unpack("mor_v9", tmp_path)
    (batch,) = tailbit.open(packed.path).bitmap_records(["city"])
    rows = batch.to_pylist()
    assert any("!" in row["file"] for row in rows)
    bases = {row["file_id"]: row["file"] for row in rows if "!" not in row["file"]}
    for row in rows:
        folder, _, file = row["file"].rpartition("/")
        assert row["partition"] == (folder or ".")
        assert file.removeprefix(".").startswith(row["file_id"] + "_")
        assert row["file_id"] not in bases or f"_{row['base_instant']}." in bases[row["file_id"]]


@pytest.mark.parametrize("columns", [["v"], ["k"], ["k", "v"]])
def test_hidden_rows_are_in_no_bitmap(table_path: str, columns: list[str]) -> None:
    builder = with_vectors(table_path, columns)
    expected = in_data(open_table(table_path))
    assert sum(len(rows) for key, rows in expected.items() if key[0] == "v") == 18
    assert told(tailbit.open(table_path).bitmap_records(["k", "v"])) == expected
    (vector,) = builder.stored_vectors([1, 2])
    builder.commit(builder.hide("f1.parquet", vector))
    assert told(tailbit.open(table_path).bitmap_records(["k", "v"])) == in_data(open_table(table_path))


def test_files_that_came_after_the_index_are_read(table_path: str) -> None:
    three_commits(table_path)
    half_built(table_path, ["v"])
    table = tailbit.open(table_path)
    assert 0 < table.where("v = 'v1'").files_scanned < 3
    assert told(table.bitmap_records(["k", "v"])) == in_data(open_table(table_path))
    assert told(table.bitmap_records(["v"], version=1)) == {
        key: rows for key, rows in in_data(open_table(table_path), 1).items() if key[0] == "v"
    }


def test_damaged_postings_are_set_aside_and_the_data_is_read(table_path: str) -> None:
    eight_flights(table_path)
    expected = told(tailbit.open(table_path).bitmap_records(["carrier"]))
    for segment in index_files(table_path, "bitmap_index"):
        flipped_pages(segment)
    assert told(tailbit.open(table_path).bitmap_records(["carrier"])) == expected


def test_partition_values_are_those_of_the_log(table_path: str) -> None:
    rows = {"p": ["a/b", "a/b", None], "d": [datetime.date(2026, 1, 2)] * 3, "k": [1, 2, 3]}
    write_deltalake(table_path, pa.table(rows), partition_by=["p", "d"])
    index_of(table_path, ["k"])
    (batch, *more) = tailbit.open(table_path).bitmap_records(["p", "d"])
    by_value = {(r["value"], r["rows"], r["partition"]) for r in batch.to_pylist()}
    assert by_value == {
        ("a/b", 2, "p=a%2Fb/d=2026-01-02"),
        (None, 1, "p=__HIVE_DEFAULT_PARTITION__/d=2026-01-02"),
    }
    assert [set(b["value"].to_pylist()) for b in more] == [{"2026-01-02"}]


VALUES: dict[str, tuple[pa.Array, list[str | None]]] = {
    "double": (
        pa.array(
            [0.1, -0.0, 0.0, 1e7, 123456.75, -2.5e-4, math.nan, math.inf, -math.inf, None, 1e-3, 5e-324]
        ),
        [
            *("0.1", "0.0", "0.0", "1.0E7", "123456.75", "-2.5E-4", "NaN", "Infinity", "-Infinity"),
            *(None, "0.001", "4.9E-324"),
        ],
    ),
    "float": (pa.array([0.1, 16777216.0, None], pa.float32()), ["0.1", "1.6777216E7", None]),
    "decimal": (
        pa.array([Decimal("1.50"), Decimal("-0.01"), None], pa.decimal128(30, 2)),
        ["1.50", "-0.01", None],
    ),
    "date": (pa.array([datetime.date(1, 1, 1), datetime.date(2026, 1, 2)]), ["0001-01-01", "2026-01-02"]),
    "timestamp": (
        pa.array([0, 1_500_000, -1, None], pa.timestamp("us", "UTC")),
        ["1970-01-01 00:00:00", "1970-01-01 00:00:01.5", "1969-12-31 23:59:59.999999", None],
    ),
    "bool": (pa.array([True, False, None]), ["true", "false", None]),
    "long": (pa.array([-(1 << 63), 7, None]), [str(-(1 << 63)), "7", None]),
    "text": (
        pa.array(["a$b", "", "NULL", None, "x" * 300 + "a", "x" * 300 + "b", "ä\\"]),
        ["a$b", "", "NULL", None, "x" * 300 + "a", "x" * 300 + "b", "ä\\"],
    ),
}


@pytest.mark.parametrize("indexed", [False, True], ids=["read", "posted"])
@pytest.mark.parametrize("kind", list(VALUES))
def test_values_have_the_texts_of_sparks_cast(table_path: str, kind: str, indexed: bool) -> None:
    values, texts = VALUES[kind]
    write_deltalake(table_path, pa.table({"c": values}))
    if indexed:
        index_of(table_path, ["c"])
    expected: dict[str | None, list[int]] = {}
    for at, value in enumerate(texts):
        expected.setdefault(value, []).append(at)
    found = told(tailbit.open(table_path).bitmap_records(["c"]))
    assert {value: rows for (_, _, value), rows in found.items()} == expected


def test_a_key_of_rfc_92_has_a_dollar_of_the_value_behind_a_backslash(
    table_path: str, tmp_path: Path
) -> None:
    write_deltalake(table_path, pa.table({"c": ["a$b", "a\\", None]}))
    file = tmp_path / "records.parquet"
    arguments = ["records", table_path, "--columns", "c", "--keys", "rfc92", "-o", str(file)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    rows = pq.read_table(file).to_pylist()
    (path,) = {row["file"] for row in rows}
    keys = {row["value"]: row["key"] for row in rows}
    assert keys == {"a$b": rf"c$a\$b$.${path}", "a\\": rf"c$a\\$.${path}", None: None}
    assert all(b64decode(row["bitmap"]) == row["positions"] for row in rows)


def test_the_command_shows_the_rows_of_each_value(table_path: str) -> None:
    eight_flights(table_path)
    result = CliRunner().invoke(cli, ["records", table_path, "--version", "1"])
    assert result.stdout.splitlines() == [
        "column\tvalue\tvalue_is_null\tpartition\tfile_id\tbase_instant\tfile\tpositions\trows",
        "carrier\tNULL\ttrue\t.\ta.parquet\tNULL\ta.parquet\t3\t1",
        "carrier\tAA\tfalse\t.\ta.parquet\tNULL\ta.parquet\t1\t1",
        "carrier\tUA\tfalse\t.\ta.parquet\tNULL\ta.parquet\t0 2\t2",
    ]


def test_many_records_come_in_batches_and_wide_bitmaps_are_cut_by_file(table_path: str) -> None:
    for first in (0, 100_000):
        rows = {
            "k": range(first, first + 100_000),
            "c": ["same"] * 100_000,
            "n": [i % 20_000 for i in range(100_000)],
        }
        write_deltalake(table_path, pa.table(rows), mode="append")
    index_of(table_path, ["c", "n"])
    batches = list(tailbit.open(table_path).bitmap_records(["c", "n"]))
    assert [batch.num_rows for batch in batches] == [2, *[8192] * 4, 40_000 - 4 * 8192]
    for batch in batches[:1]:
        assert [BitMap.deserialize(b) for b in batch["positions"].to_pylist()] == [BitMap(range(100_000))] * 2
    for row in batches[1].slice(0, 9).to_pylist():
        assert BitMap.deserialize(row["positions"]) == BitMap(range(int(row["value"]), 100_000, 20_000))


def test_records_come_before_the_files_of_later_ones_are_read(table_path: str) -> None:
    for _ in range(2):
        write_deltalake(table_path, pa.table({"k": range(10_000)}), mode="append")
    records = tailbit.open(table_path).bitmap_records(["k"])
    last = sorted(open_table(table_path).snapshot().files.paths.to_pylist())[-1]
    Path(table_path, last).unlink()
    assert next(records).num_rows == 8192
    with pytest.raises(DataFileError, match=last):
        list(records)


def test_what_has_no_records_is_refused_by_name(table_path: str) -> None:
    rows = {"k": [1], "raw": [b"\xff"], "list": [[1]], "in": [{"s": "x"}]}
    write_deltalake(table_path, pa.table(rows))
    table = tailbit.open(table_path)
    with pytest.raises(UnknownColumnError, match="kk"):
        table.bitmap_records(["kk"])
    for name in ("raw", "list", "in"):
        with pytest.raises(ColumnTypeError, match=f"column `?{name}`? is of type"):
            table.bitmap_records([name])
    with pytest.raises(VersionNotFoundError):
        table.bitmap_records(["k"], version=9)
    with pytest.raises(UsageError, match="no column is named or indexed"):
        table.bitmap_records()
    assert [row for batch in table.bitmap_records(["in.s"]) for row in batch["value"].to_pylist()] == ["x"]
