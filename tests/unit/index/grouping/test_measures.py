"""Sums, extremes and averages by group: the same from the index, from the data, and from DuckDB."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import index_of
from tailbit.errors import AggregateError, ColumnTypeError, UnknownColumnError
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.grouping.facets import as_facets
from tailbit.index.grouping.grouping import count_groups
from tailbit.index.grouping.measures import Totals
from tailbit.index.grouping.rows import Rows
from tailbit.index.postings.codes import codes_of
from tailbit.tables.model import Column, DataType
from tailbit.tables.positions import positions_in

ROWS = 4_000
TYPES = {
    "i": pa.int32(),
    "l": pa.int64(),
    "m": pa.decimal128(9, 2),
    "w": pa.decimal128(30, 4),
    "f": pa.float64(),
    "s": pa.string(),
}


def _rows(seed: int) -> pa.Table:
    rng = random.Random(seed)

    def some(make: Any) -> list[Any]:
        return [None if rng.random() < 0.1 else make() for _ in range(ROWS)]

    return pa.table(
        {
            "g": pa.array(some(lambda: rng.choice("abcd"))),
            "h": pa.array(some(lambda: rng.randint(0, 2)), pa.int32()),
            "i": pa.array(some(lambda: rng.randint(-50, 50)), TYPES["i"]),
            "l": pa.array(some(lambda: rng.randint(-(2**50), 2**50)), TYPES["l"]),
            "m": pa.array(some(lambda: Decimal(rng.randint(-9999, 9999)) / 100), TYPES["m"]),
            "w": pa.array(some(lambda: Decimal(rng.randint(-(10**24), 10**24)) / 10**4), TYPES["w"]),
            "f": pa.array(some(lambda: rng.uniform(-5, 5)), TYPES["f"]),
            "s": pa.array(some(lambda: rng.choice(["x", "yy", "Ä", ""]))),
        }
    )


@pytest.fixture(scope="module", params=["all indexed", "groups indexed", "partly covered", "no index"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tailbit.IndexedTable:
    path = str(tmp_path_factory.mktemp("measures") / "t")
    deltalake.write_deltalake(path, _rows(1))
    columns = ["g", "h", *TYPES] if request.param in ("all indexed", "partly covered") else ["g", "h"]
    if request.param != "no index":
        index_of(path, columns)
    deltalake.write_deltalake(path, _rows(2), mode="append")
    if request.param in ("all indexed", "groups indexed"):
        index_of(path, columns)
    return tailbit.open(path)


def test_measures_have_the_types_that_spark_gives_them(table: tailbit.IndexedTable) -> None:
    found = table.where().facet_table("g", sum=["i", "m", "w", "f"], avg=["i", "m", "w"], min="s")
    types = {field.name: field.type for field in found.schema}
    assert types == {
        "g": pa.string(),
        "count": pa.int64(),
        "sum(i)": pa.int64(),
        "sum(m)": pa.decimal128(19, 2),
        "sum(w)": pa.decimal128(38, 4),
        "sum(f)": pa.float64(),
        "min(s)": pa.string(),
        "avg(i)": pa.float64(),
        "avg(m)": pa.decimal128(13, 6),
        "avg(w)": pa.decimal128(34, 8),
    }


def test_a_record_of_facets_holds_the_count_and_the_measures_by_name(table: tailbit.IndexedTable) -> None:
    found: Any = table.where().facets("g", sum="i", max=["i", "s"])
    counts = table.where().facets("g")
    assert {value: record["count"] for value, record in found.items()} == counts
    assert list(found) == list(counts)
    assert list(found["a"]) == ["count", "sum(i)", "max(i)", "max(s)"]
    assert found.to_pandas()["count"].tolist() == found.to_arrow()["count"].to_pylist()
    assert found.to_polars().rows() == [tuple(row.values()) for row in found.to_arrow().to_pylist()]
    assert "sum(i)" in found._repr_html_()


@pytest.mark.parametrize("indexed", [True, False])
def test_a_sum_of_a_group_beyond_its_type_is_refused(tmp_path: Path, indexed: bool) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"g": ["a", "a", "b"], "n": [2**62, 2**62, 5]}))
    if indexed:
        index_of(path, ["g", "n"])
    table = tailbit.open(path)
    with pytest.raises(AggregateError, match="BIGINT"):
        table.where().facets("g", sum="n")
    assert table.where("g = 'b'").facets("g", sum="n") == {"b": {"count": 1, "sum(n)": 5}}
    assert table.where().facets("g", max="n")["a"] == {"count": 2, "max(n)": 2**62}


def test_a_measure_of_no_number_or_no_column_is_refused(table: tailbit.IndexedTable) -> None:
    with pytest.raises(ColumnTypeError, match="sum takes"):
        table.where().facets("g", sum="s")
    with pytest.raises(UnknownColumnError, match="nearest: i"):
        table.where().facets("g", max="ii")


def test_a_cross_tab_shows_its_labels_and_gives_them_to_pandas(table: tailbit.IndexedTable) -> None:
    found = table.where("g IN ('a', 'b') AND h > 0").crosstab("g", "h")
    first, *lines = repr(found).splitlines()
    assert first.split() == ["g", "/", "h", "1", "2"]
    assert [line.split()[0] for line in lines] == ["a", "b"]
    frame = found.to_pandas()
    assert (frame.index.name, frame.columns.name) == ("g", "h")
    assert (list(frame.index), list(frame.columns)) == (["a", "b"], [1, 2])
    assert frame.to_numpy().tolist() == found.counts.tolist()


@pytest.mark.parametrize("indexed", [True, False])
def test_nan_is_one_group_whatever_files_and_columns_it_is_met_in(tmp_path: Path, indexed: bool) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"f": [float("nan"), 1.0, float("nan")], "i": [1, 2, 3], "l": [4, 5, None]})
    for _ in range(2):
        deltalake.write_deltalake(path, rows, mode="append")
    if indexed:
        index_of(path, ["f", "i", "l"])
    answer = tailbit.open(path).where()
    (nan, counts), (one, others) = answer.facets("f", sum=["i", "l"]).items()
    assert (nan != nan, counts) == (True, {"count": 4, "sum(i)": 8, "sum(l)": 8})
    assert (one, others) == (1.0, {"count": 2, "sum(i)": 4, "sum(l)": 10})
    connection = duckdb.connect()
    connection.register("twice", pa.concat_tables([rows, rows]))
    judged = connection.sql("SELECT f, i, count(*), sum(l) FROM twice GROUP BY f, i ORDER BY i").fetchall()
    by_two = answer.facet_table("f", "i", sum="l").sort_by("i").to_pylist()
    assert str([tuple(row.values()) for row in by_two]) == str(judged)


@pytest.mark.parametrize("count", [1, (1 << 31) - 1, 1 << 31, 3_000_000_000, 1 << 45])
def test_sums_over_very_many_rows_are_exact(count: int) -> None:
    rng = random.Random(count)
    for type_, bits in ((pa.int64(), 63), (pa.decimal128(38, 2), 120)):
        numbers = [-1, 7, *(rng.randrange(-(1 << bits - 46), 1 << bits - 46) for _ in range(9))]
        whole = pa.types.is_integer(type_)
        values = pa.array(numbers if whole else [Decimal(n).scaleb(-2) for n in numbers], type_)
        column = Column(("x",), ("x",), DataType("long") if whole else DataType("decimal", 38, 2))
        counts = np.array([count, *[1] * (len(numbers) - 1)], dtype=np.int64)
        assert Totals.of(column, values, counts).sum == sum(numbers) + (count - 1) * numbers[0]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_the_range_of_doubles_is_infinite(tmp_path: Path, sign: int) -> None:
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"x": [sign * 1e308] * 2, "k": [1, 1]}))
    answer = tailbit.open(tmp_path / "t").where()
    assert (answer.sum("x"), answer.avg("x")) == (sign * math.inf, sign * 1e308)
    assert answer.facets("k", sum="x") == {1: {"count": 2, "sum(x)": sign * math.inf}}


def test_a_sum_with_an_infinity_does_not_ask_for_the_others() -> None:
    column = Column(("x",), ("x",), DataType("double"))
    large, infinite = (Totals.of(column, pa.array(values)) for values in ([1.7e308] * 3, [math.inf]))
    assert [(large + infinite).sum, (infinite + large).sum] == [math.inf, math.inf]


PARTED = pa.schema([("k", pa.int64()), ("p", pa.string())])


def indexed_and_not(path: str, column: str, before: int, after: int) -> list[dict[Any, tuple[int, int]]]:
    """Transitions without an index and with one, as plain tuples."""
    found = [tailbit.open(path).transitions(column, before, after)]
    index_of(path, ["k"])
    found.append(tailbit.open(path).transitions(column, before, after))
    return [{value: tuple(moved) for value, moved in one.items()} for one in found]


def test_rows_whose_file_gets_another_partition_value_leave_one_and_come_to_the_other(
    table_path: str,
) -> None:
    builder = DeltaBuilder(table_path).create(PARTED, partition_by=["p"])
    builder.commit([builder.data_file(pa.table({"k": [1, 2, 3]}), "a.parquet", {"p": "x"})])
    (path,) = builder.live
    builder.commit([{"add": {**builder.live[path], "partitionValues": {"p": "y"}}}])
    assert indexed_and_not(table_path, "p", 1, 2) == [{"x": (3, 0), "y": (0, 3)}] * 2
    assert indexed_and_not(table_path, "k", 1, 2) == [{}] * 2


@pytest.mark.parametrize("parted_first", [True, False])
def test_values_that_are_partition_values_in_one_version_alone_are_told_of_both(
    table_path: str, parted_first: bool
) -> None:
    rows = pa.table({"k": pa.array([1, 2], pa.int64()), "p": ["x", "y"]})
    parts = [["p"], None] if parted_first else [None, ["p"]]
    for partition_by in parts:
        write_deltalake(
            table_path, rows, mode="overwrite", schema_mode="overwrite", partition_by=partition_by
        )
    assert indexed_and_not(table_path, "p", 0, 1) == [{"x": (1, 1), "y": (1, 1)}] * 2


def test_a_column_of_two_types_of_which_neither_is_wider_has_no_transitions(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"k": ["a"]}))
    write_deltalake(table_path, pa.table({"k": [1]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ColumnTypeError, match="string at version 0 and long at version 1"):
        tailbit.open(table_path).transitions("k", 0, 1)


VALUES = [n % 3 for n in range(15)]


@pytest.fixture
def grown(tmp_path: Path) -> tailbit.IndexedTable:
    """Column v came to the index while the second of two files was not live; RESTORE has put it back."""
    path = str(tmp_path / "t")
    builder = DeltaBuilder(path).create(pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    rows = pa.table({"k": list(range(15)), "v": VALUES})
    builder.commit([builder.data_file(rows[:10], "a.parquet"), builder.data_file(rows[10:], "b.parquet")])
    index_of(path, ["k"])
    kept = builder.live["b.parquet"]
    builder.commit([builder.remove("b.parquet")])
    index_of(path, ["k"])
    tailbit.open(path).alter(add=["v"])
    drive = index_of(path, ["k", "v"])
    builder.commit([{"add": kept}])
    drive.drain()
    return tailbit.open(path)


def test_rows_beyond_those_of_a_segment_are_counted_by_another(grown: tailbit.IndexedTable) -> None:
    selection = grown.where("k <> 3")._selection
    v, k = (selection.schema.resolve(name) for name in ("v", "k"))
    (space,) = selection.coverage.spaces
    assert sorted(s.rows for s in space.serving(v)) == [10, 15]
    expected = dict(Counter(VALUES[:3] + VALUES[4:]))
    assert as_facets(count_groups(Rows.of(selection), [v], CountingWay.CODES)) == expected
    assert count_groups(Rows.of(selection), [v, k], CountingWay.CODES).counts.tolist() == [1] * 14


def test_rows_of_a_file_that_has_left_the_table_are_in_no_group(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = DeltaBuilder(path).create(pa.schema([("a", pa.string()), ("b", pa.int64())]))
    for name in ("x", "y"):
        rows = pa.table({"a": [name] * 10, "b": [n % 2 for n in range(10)]})
        builder.commit([builder.data_file(rows, f"{name}.parquet")])
    index_of(path, ["a", "b"])
    both = {(name, n): 5 for name in ("x", "y") for n in (0, 1)}
    before = builder.version
    builder.commit([builder.remove("x.parquet")])
    left = {("y", 0): 5, ("y", 1): 5}
    opened = tailbit.open(path)
    for _ in range(2):
        assert dict(opened.where().facets("a", "b")) == left
        assert dict(opened.where("b <> 7").facets("a", "b")) == left
        assert dict(opened.where(version=before).facets("a", "b")) == both
    assert opened.where().count_distinct("a", "b") == 2


def test_rows_beyond_those_of_a_segment_are_within_no_span_of_its_codes(grown: tailbit.IndexedTable) -> None:
    (space,) = grown.where()._selection.coverage.spaces
    v = grown.where()._selection.schema.resolve("v")
    every = positions_in(space.visible)
    within = {s.rows: codes_of(s, v.id).count_within([(1, 4)], every) for s in space.serving(v)}
    assert within == {10: 10, 15: 5}
