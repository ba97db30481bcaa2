"""Filters of an index say where values are not, at any lag, and never of a value that is there."""

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
from deltalake import DeltaTable, WriterProperties, convert_to_deltalake, write_deltalake

import tailbit
from support.drive import Drive
from support.tables import flipped_pages, index_files
from tailbit.errors import ColumnTypeError, StatementError
from tailbit.index.kinds.bloom_filter import SCHEMA, Filters, needed
from tailbit.index.kinds.settings import BLOOM_FORMAT

ROWS, GROUP = 1200, 200
EPOCH = datetime.date(2020, 1, 1)
COLUMNS = ("l", "i", "s", "d", "p", "g")


def rows_of(seed: int, count: int = ROWS) -> pa.Table:
    numbers = np.random.default_rng(seed).choice(100_000, count, replace=False).tolist()
    nulls = np.array([n % 40 == 7 for n in numbers])
    columns: dict[str, Any] = {
        "l": pa.array([n * 2**35 - 17 for n in numbers], mask=nulls),
        "i": pa.array([n - 40_000 for n in numbers], pa.int32(), mask=nulls),
        "s": pa.array([f"{n:x}" * (1 + n % 90) for n in numbers], mask=nulls),
        "d": pa.array([EPOCH + datetime.timedelta(n) for n in numbers], pa.date32(), mask=nulls),
        "p": pa.array([Decimal(n - 300) / 100 for n in numbers], pa.decimal128(20, 2), mask=nulls),
        "g": pa.array([n / 7 - 3 for n in numbers], pa.float64(), mask=nulls),
        "part": [n % 2 for n in numbers],
        "listed": [[n] for n in numbers],
    }
    return pa.table(columns)


def append(path: str, rows: pa.Table, **options: Any) -> None:
    properties = WriterProperties(max_row_group_size=GROUP, write_batch_size=GROUP)
    write_deltalake(path, rows, mode="append", writer_properties=properties, **options)


def asked(rng: np.random.Generator, rows: pa.Table, name: str, count: int) -> str:
    """A condition on values, of which some are in the rows."""
    own = rows[name].drop_null().take(pa.array(rng.integers(0, 1000, count))).to_pylist()
    other = rows_of(int(rng.integers(1 << 20)), 300)[name].drop_null().to_pylist()[:count]
    values = [
        rng.choice([a, b]) if name != "s" else [a, b][rng.integers(2)]
        for a, b in zip(own, other, strict=True)
    ]
    listed = [f"'{v}'" if name == "s" else f"DATE'{v}'" if name == "d" else f"{v!s}" for v in values]
    if name == "g":
        listed = [f"{float(v)!r}D" for v in values]
    return f"{name} IN ({', '.join(listed)})" if count > 1 else f"{name} = {listed[0]}"


def check(path: str, seed: int, times: int = 3) -> None:
    """Compare what conditions find with DuckDB."""
    rng, opened = np.random.default_rng(seed), tailbit.open(path)
    every = tailbit.open(path).where().to_arrow().cast(rows_of(0, 1).schema)
    with duckdb.connect() as engine:
        engine.register("t", every)
        for name in rng.choice(COLUMNS, 3, replace=False).tolist():
            for count in (5, 1, 1)[:times]:
                condition = asked(rng, every, name, count)
                theirs = condition.replace("D,", ",").replace("D)", ")").removesuffix("D")
                found = engine.sql(f"SELECT count(*) FROM t WHERE {theirs}").fetchall()[0][0]
                assert opened.where(condition).count() == found, condition


def rows_left(path: str, condition: str) -> int:
    """How many rows the index leaves open."""
    return sum(len(bounds.maybe) for _, bounds in tailbit.open(path).where(condition)._selection.bounds)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    for seed in range(3):
        append(path, rows_of(seed))
    tailbit.sql(f"CREATE INDEX f ON '{path}' USING bloom_filter (l, i, s, d)")
    tailbit.sql(f"CREATE INDEX g ON '{path}' USING bloom_filters (p, g)")
    return path


def test_answers_are_those_of_duckdb_while_the_table_changes(table: str) -> None:
    check(table, 1)
    assert tailbit.open(table)._needed().state.settings.format == BLOOM_FORMAT
    append(table, rows_of(10))
    check(table, 2, 1)
    drive = Drive(table, f"{table}/_tailbit")
    drive.drain()
    check(table, 3, 1)
    DeltaTable(table).delete("part = 1")
    check(table, 4, 1)
    drive.drain()
    DeltaTable(table).optimize.compact()
    drive.drain()
    check(table, 5, 2)
    for seed in range(20, 28):
        append(table, rows_of(seed, 30))
        drive.drain()
    files = len(index_files(table, "bloom_filter"))
    assert tailbit.open(table).compact()
    assert len(index_files(table, "bloom_filter")) < files
    check(table, 6, 2)
    assert tailbit.open(table).verify().problems == []


def test_other_values_leave_row_groups_out(table: str) -> None:
    absent = [rows_left(table, f"l = {n * 2**35 + 5}") for n in range(40)]
    assert sum(absent) < 0.05 * 40 * 3 * ROWS
    there = rows_of(0)["s"].drop_null()[3].as_py()
    assert GROUP <= rows_left(table, f"s = '{there}'") <= 3 * GROUP
    answer = tailbit.open(table).where(f"l = {5 * 2**35 + 5}")
    assert answer.count() == 0
    assert answer.explain()["conditions"][0]["by"] == ["f"]


def test_filters_in_the_files_are_not_built_again(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    append(path, rows_of(0))
    own = tmp_path / "u"
    own.mkdir()
    filters = {"l": {"ndv": GROUP, "fpp": 0.01}}
    pq.write_table(rows_of(1), own / "f.parquet", row_group_size=GROUP, bloom_filter_options=filters)
    convert_to_deltalake(str(own))
    for where, built in ((path, True), (str(own), False)):
        tailbit.sql(f"CREATE INDEX f ON '{where}' USING bloom_filter (l, i)")
        (file,) = index_files(where, "bloom_filter")
        rows = pq.ParquetFile(file).read().to_pylist()
        assert {row["filter"] is not None for row in rows if row["column"] == "l"} == {built}
        assert all(row["filter"] for row in rows if row["column"] == "i")
        check(where, 7, 2)
    assert sum(rows_left(str(own), f"l = {n * 2**35 + 5}") for n in range(5)) == 5 * ROWS


def test_of_equal_rows_one_is_kept_and_of_equal_footers_every_filter() -> None:
    a, b = bytes(32), bytes(31) + b"1"
    footers = [
        ("x", 1, a),
        ("x", 0, b),
        ("x", 1, b),
        ("x", 1, a),
        ("y", 0, None),
        ("y", 0, None),
        ("z", 0, a),
    ]
    columns = [("k", "integer", footer, unit, 9, held) for footer, unit, held in footers]
    rows = pa.table([pa.array(values) for values in zip(*columns, strict=True)], schema=SCHEMA)
    left = needed(rows, pa.array(["x", "y"]), ["k"])
    assert left.select(["footer", "unit", "filter"]).to_pylist() == [
        {"footer": footer, "unit": unit, "filter": held}
        for footer, unit, held in (("x", 0, b), ("x", 1, a), ("x", 1, b), ("y", 0, None))
    ]
    assert not len(needed(rows, pa.array([], pa.string()), ["k"]))


@pytest.mark.parametrize("unit", [-1, 2, 1 << 40])
def test_a_filter_of_a_row_group_that_no_file_has_is_damage(unit: int) -> None:
    columns = [("k", "integer", "x", number, 9, bytes(32)) for number in (0, unit)]
    rows = pa.table([pa.array(values) for values in zip(*columns, strict=True)], schema=SCHEMA)
    with pytest.raises(ValueError, match="row groups are numbered"):
        Filters.of(rows)


def test_damage_is_set_aside_and_told(table: str) -> None:
    for file in index_files(table, "bloom_filter"):
        flipped_pages(file)
    check(table, 8, 2)
    assert tailbit.open(table).verify().problems


def test_a_dropped_definition_takes_its_filters_along(table: str) -> None:
    for name in ("f", "g"):
        tailbit.sql(f"DROP INDEX {name} ON '{table}'")
    append(table, rows_of(40, 10))
    Drive(table, f"{table}/_tailbit").drain()
    tailbit.open(table).compact()
    assert not index_files(table, "bloom_filter")
    check(table, 9, 1)


@pytest.mark.parametrize(
    ("terms", "error", "said"),
    [
        ("lower(s)", StatementError, "Bloom filters are of columns"),
        ("*", StatementError, "not of all columns"),
        ("listed", ColumnTypeError, "listed"),
        ("part", StatementError, "a partition column"),
        ("l, i, s, d, p", StatementError, "4 terms at most"),
    ],
)
def test_what_has_no_filters_is_refused(
    tmp_path: Path, terms: str, error: type[Exception], said: str
) -> None:
    path = str(tmp_path / "t")
    append(path, rows_of(0, 20), partition_by=["part"])
    with pytest.raises(error, match=said):
        tailbit.sql(f"CREATE INDEX f ON '{path}' USING bloom_filter ({terms})")
