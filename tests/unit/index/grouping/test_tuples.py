"""Recorded counts of tuples group rows by any of their parts; what they cannot tell is counted otherwise."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.racers import merge_everything
from support.tables import index_of
from support.tuples import define_tuples
from tailbit.errors import EvaluationError
from tailbit.index.grouping.choice import CountingWay
from tailbit.index.grouping.facets import as_facets
from tailbit.index.grouping.grouping import count_groups
from tailbit.index.grouping.rows import Rows
from tailbit.index.keys import MAX_KEY

WAYS = [["a"], ["s"], ["p"], ["a", "s"], ["s", "a"], ["p", "d"], ["d", "s", "p"], ["d", "p", "a", "s"]]


def some_rows(seed: int, many: int = 60, longest: int = 3) -> pa.Table:
    rng = random.Random(seed)
    texts = [None, "", "\0", *(rng.choice("xyz") * rng.randint(1, longest) for _ in range(4))]
    rows = {
        "a": pa.array([rng.choice([None, 1, 2, 3]) for _ in range(many)], pa.int64()),
        "s": pa.array(rng.choices(texts, k=many), pa.string()),
        "d": pa.array([rng.choice([None, 0.0, -0.0, 1.5]) for _ in range(many)], pa.float64()),
        "p": pa.array(rng.choices(["north", "south", None], k=many), pa.string()),
    }
    return pa.table(rows)


def counted(path: str, columns: Sequence[str]) -> Counter[Any]:
    rows = DeltaTable(path).to_pyarrow_table(columns=list(columns)).to_pylist()
    if len(columns) == 1:
        return Counter(row[columns[0]] for row in rows)
    return Counter(tuple(row[column] for column in columns) for row in rows)


def ways(path: str, columns: Sequence[str], where: str | None = None) -> set[str]:
    steps = tailbit.open(path).where(where).explain(facets=columns)["facets"]
    return {step["way"] for step in steps}


def built(path: str) -> str:
    write_deltalake(path, some_rows(1), partition_by=["p"])
    index_of(path, ["s"])
    define_tuples(path, "p", "a", "s", "d")
    write_deltalake(path, some_rows(2), mode="append")
    DeltaTable(path).delete("a = 2 AND s = 'x'")
    index_of(path)
    return path


@pytest.fixture
def table(table_path: str) -> str:
    return built(table_path)


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same table for the tests that only ask."""
    return built(str(tmp_path_factory.mktemp("t") / "tuples"))


@pytest.mark.parametrize("columns", WAYS, ids=",".join)
def test_facets_of_any_parts_come_from_the_counts_of_tuples(still: str, columns: list[str]) -> None:
    assert dict(tailbit.open(still).where().facets(*columns)) == counted(still, columns)
    assert ways(still, columns) == {"recorded counts"}


def test_a_condition_or_an_index_that_lags_is_answered_by_other_methods(table: str) -> None:
    assert "recorded counts" not in ways(table, ["a", "s"], "s = 'x'")
    write_deltalake(table, some_rows(3), mode="append")
    assert "data" in ways(table, ["a", "s"])
    assert dict(tailbit.open(table).where().facets("a", "s")) == counted(table, ["a", "s"])
    index_of(table)
    assert ways(table, ["a", "s"]) == {"recorded counts"}
    assert dict(tailbit.open(table).where().facets("a", "s")) == counted(table, ["a", "s"])


@pytest.mark.parametrize("way", [CountingWay.CODES, CountingWay.INTERSECTIONS])
def test_columns_without_postings_are_grouped_by_the_postings_of_tuples(still: str, way: CountingWay) -> None:
    selection = tailbit.open(still).where("s = 'x'")._selection
    columns = selection.schema.resolve_all(["d", "a"])
    by_tuples = count_groups(Rows.of(selection), columns, way)
    assert [step.method for step in by_tuples.steps] == [way] * len(by_tuples.steps) != []
    by_data = count_groups(Rows.of(selection), columns, CountingWay.DATA)
    assert {step.method for step in by_data.steps} == {CountingWay.DATA}
    assert as_facets(by_tuples) == as_facets(by_data)
    by_key = count_groups(Rows.of(selection), columns[1:], way)
    in_data = count_groups(Rows.of(selection), columns[1:], CountingWay.DATA)
    assert (by_key.values_of(), by_key.counts.tolist()) == (in_data.values_of(), in_data.counts.tolist())


def test_tuples_with_a_truncated_part_are_counted_on_the_rows(table_path: str) -> None:
    write_deltalake(table_path, some_rows(4, longest=MAX_KEY * 2))
    index_of(table_path, ["d"])
    define_tuples(table_path, "s", "a")
    assert "data" in ways(table_path, ["a", "s"])
    assert dict(tailbit.open(table_path).where().facets("s", "a")) == counted(table_path, ["s", "a"])


def test_tuples_whose_expression_raises_for_a_row_group_nothing(table_path: str) -> None:
    write_deltalake(table_path, some_rows(5))
    index_of(table_path, ["d"])
    define_tuples(table_path, "s", "10 / (a - 2)")
    assert "recorded counts" not in ways(table_path, ["s"])
    assert dict(tailbit.open(table_path).where().facets("s")) == counted(table_path, ["s"])
    with pytest.raises(EvaluationError):
        tailbit.open(table_path).where("10 / (a - 2) = 1").count()


def test_the_postings_of_tuples_are_right_after_deletes_and_merges(table: str) -> None:
    assert tailbit.open(table).verify(samples=50, derive=5).problems == []
    merge_everything(f"{table}/_tailbit")
    handle = tailbit.open(table)
    assert handle.verify(samples=50, derive=5).problems == []
    assert dict(handle.where().facets("p", "a", "s", "d")) == counted(table, ["p", "a", "s", "d"])


@pytest.mark.parametrize("where", [None, "n < 4"])
@pytest.mark.parametrize("columns", [["ts", "s"], ["s", "ts"]], ids=",".join)
def test_partition_times_asked_in_another_zone_are_not_grouped_as_moments_of_utc(
    table_path: str, columns: list[str], where: str | None
) -> None:
    hours = [datetime.datetime(2024, 1, 1, hour, tzinfo=datetime.timezone.utc) for hour in (0, 5, 10)] * 4
    rows = {"ts": pa.array(hours, pa.timestamp("us", "UTC")), "s": ["a", "b"] * 6, "n": [*range(6)] * 2}
    write_deltalake(table_path, pa.table(rows), partition_by=["ts"])
    asked = {"where": where, "zone": "Asia/Tokyo"}
    expected = dict(tailbit.open(table_path).where(**asked).facets(*columns))
    tailbit.open(table_path).create_index("both", columns)
    assert dict(tailbit.open(table_path).where(**asked).facets(*columns)) == expected
