"""Keys of every shape are located where a join finds them, by page and by row group, without reading data."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.key_places import joined, located_in
from tailbit.index.evaluation import costs
from tailbit.index.postings import paged_lookup, pages, postings, segment
from tailbit.index.query import key_join, locate
from tailbit.index.query import lookup as lookups
from tailbit.tables.parquet import assembly

ROWS, FILES = 3_000, 2

PAGE_ROWS = 64
"""Keys in a page of these tests: a row group has many."""

SHAPES = (
    "four",
    "clustered",
    "skewed",
    "link",
    "amount",
    "flag",
    "flag, four",
    "four, note",
    "note, four, flag",
    "blob",
    "ratio",
    "day, second",
    "varied",
    "long_link",
    "page",
    "four, page",
)
"""Columns of keys: several rows a key, a few keys of most rows, NULLs, texts, and tuples of any of these."""


def rows_of(first: int, count: int) -> pa.Table:
    """Rows whose keys have two rows or more, in many files and pages."""
    numbers = np.random.default_rng(first).permutation(count) + first
    four = numbers % (ROWS // 4)
    listed, null = four.tolist(), four % 50 == 3
    doubles = np.where(four % 7 == 0, np.nan, np.where(four % 7 == 1, -0.0 * (numbers % 2), four / 3))
    return pa.table(
        {
            "four": four,
            "clustered": (np.arange(count) + first) // 60,
            "skewed": np.where(numbers % 3 > 0, numbers % 2, numbers),
            "link": [f"https://shop.example/o/{number * 2654435761 % 2**40:012x}" for number in listed],
            "amount": pa.array([Decimal(number) / 4 - 300 for number in listed], pa.decimal128(20, 2)),
            "flag": pa.array(numbers % 2 == 0, mask=numbers % 900 == 1),
            "note": pa.array([f"n{number % 9}" for number in listed], mask=null),
            "blob": pa.array([b"a" + bytes(number % 40) for number in listed], mask=null),
            "ratio": doubles,
            "day": pa.array((four % 90).astype(np.int32), pa.date32()),
            "second": pa.array(four * 1_000_000, pa.timestamp("us", "UTC")),
            "varied": [str(number) * (30 if number % 40 == 0 else 1) for number in listed],
            "page": ["<html>" * 45 + str(number) * (number % 3) for number in listed],
            "long_link": ["x" * 180 + str(number) for number in listed],
        }
    )


@pytest.fixture(autouse=True, scope="module")
def small_row_groups() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "PAGED_GROUP_ROWS", 9 * PAGE_ROWS)
        for module in (postings, pages):
            patch.setattr(module, "PAGE_ROWS", PAGE_ROWS)
        yield


@pytest.fixture(scope="module", params=["record_key", "bitmap"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("shapes") / "t")
    for first in range(0, ROWS, ROWS // FILES):
        write_deltalake(path, rows_of(first, ROWS // FILES), mode="append")
    for number, columns in enumerate(SHAPES):
        tailbit.sql(f"CREATE INDEX key_{number} ON '{path}' USING {request.param} ({columns})")
    return path


def keys_of(table: str, columns: str, count: int) -> pa.Table:
    """Distinct keys of rows, and some that no row has."""
    names = columns.split(", ")
    files = f"read_parquet({DeltaTable(table).file_uris()})"
    valued = " AND ".join(f"{name} IS NOT NULL" for name in names)
    keys = duckdb.sql(f"SELECT DISTINCT {columns} FROM {files} WHERE {valued} ORDER BY ALL").to_arrow_table()
    chosen = np.random.default_rng(count).permutation(len(keys))[:count]
    absent = rows_of(10 * ROWS + 4, 40).select(names).cast(keys.schema).drop_null()
    return pa.concat_tables([keys.take(chosen), absent]).group_by(names).aggregate([])


@pytest.mark.by_thirds
@pytest.mark.parametrize("columns", SHAPES)
def test_keys_of_every_shape_are_located_where_a_join_finds_them(
    table: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate.Keys, "_read", lambda *_: pytest.fail("data was read"))
    opened = tailbit.open(table)
    for count in (1, 2, 300, 300, 3):
        keys = keys_of(table, columns, count)
        assert located_in(opened, keys) == joined(table, keys)


@pytest.mark.by_thirds
@pytest.mark.parametrize("columns", SHAPES)
def test_a_first_lookup_of_many_keys_scans_and_finds_what_a_second_finds_by_postings(
    table: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"_SHORT": 0.0, "_A_ROW": 1e-9}.items():
        monkeypatch.setattr(lookups, name, value)
    monkeypatch.setattr(costs, "_PATIENCE", 1e12)
    read, scanned = list[str](), locate.Keys._scanned
    monkeypatch.setattr(
        locate.Keys, "_scanned", lambda *of: (read.extend(view.space for view in of[1]), scanned(*of))[1]
    )
    segment.POSTINGS.clear()
    costs.SPENT.clear()
    keys = keys_of(table, columns, 200)
    expected = joined(table, keys)
    assert located_in(tailbit.open(table), keys) == expected
    assert read
    read.clear()
    assert located_in(tailbit.open(table), keys) == expected
    assert not read


@pytest.mark.by_thirds
@pytest.mark.parametrize("columns", SHAPES)
def test_most_keys_are_found_by_a_join_with_all_rows_however_many_are_held(
    table: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (key_join, locate):
        monkeypatch.setattr(module, "MANY", 1)
    monkeypatch.setattr(lookups, "_ROWS_A_KEY", 1e9)
    few, most = keys_of(table, columns, 3), keys_of(table, columns, ROWS)
    assert located_in(tailbit.open(table), few) == joined(table, few)
    expected = joined(table, most)
    monkeypatch.setattr(locate, "rows_of_keys", lambda *_: pytest.fail("postings were read"))
    for sparse, library in product((key_join._SPARSE, 0), (assembly.polars, lambda: None)):
        monkeypatch.setattr(key_join, "_SPARSE", sparse)
        monkeypatch.setattr(key_join, "polars", library)
        assert located_in(tailbit.open(table), pa.concat_tables([most, most.slice(1, 9)])) == expected


@pytest.mark.by_thirds
@pytest.mark.parametrize(
    "column", ["four", "clustered", "skewed", "link", "amount", "blob", "ratio", "varied", "long_link"]
)
@pytest.mark.parametrize("count", [1, 3, 200])
def test_lists_of_keys_have_the_rows_that_a_join_finds(table: str, column: str, count: int) -> None:
    keys = keys_of(table, column, count)
    values = keys[column].to_pylist()
    expected = sum(row[1] != "None" for row in joined(table, keys))
    opened = tailbit.open(table)
    for condition in (tailbit.col(column).isin(*values), ~tailbit.col(column).isin(*values)):
        answer = opened.where(condition)
        assert answer.files_scanned == 0
        valued = opened.where(f"{column} IS NOT NULL").count()
        assert answer.count() == (expected if "NOT" not in str(condition) else valued - expected)


@pytest.mark.parametrize("table", ["record_key"], indirect=True)
def test_a_key_in_a_condition_decodes_a_page_of_each_segment(
    table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, whole = [], paged_lookup.decoded
    monkeypatch.setattr(paged_lookup, "decoded", lambda parts: (read.extend(parts), whole(parts))[1])
    monkeypatch.setattr(segment.Segment, "stored", lambda *_: pytest.fail("a row group was read"))
    monkeypatch.setattr(segment.Segment, "_read_group", lambda *_: pytest.fail("a row group was read"))
    segment.POSTINGS.clear()
    assert tailbit.open(table).where("four = 7").count() == 4
    # A column of NULLs alone has large pages.
    assert {part.rows for part in read if part.name in ("number", "first")} == {PAGE_ROWS}
