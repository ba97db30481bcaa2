"""Sums, extremes and averages by group: the same from the index, from the data, and from DuckDB."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tailbit
from support.tables import index_of
from tailbit.errors import AggregateError, ColumnTypeError, UnknownColumnError
from tailbit.index.grouping.measures import Totals
from tailbit.tables.model import Column, DataType

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
