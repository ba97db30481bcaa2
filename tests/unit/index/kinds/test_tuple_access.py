"""Conditions on the first parts of indexed tuples are served by their postings, and right in any case."""

from __future__ import annotations

import datetime
import random

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import index_of
from support.tuples import define_tuples

LONG = "long " * 60


def some_rows(seed: int, many: int = 200) -> pa.Table:
    rng = random.Random(seed)
    day = datetime.date(2024, 1, 1)
    return pa.table(
        {
            "a": pa.array([rng.choice([None, 1, 2, 3]) for _ in range(many)], pa.int64()),
            "s": pa.array([rng.choice([None, "", "x", "X", "xy", LONG, LONG + "x"]) for _ in range(many)]),
            "d": pa.array([rng.choice([None, day, day + datetime.timedelta(1)]) for _ in range(many)]),
            "v": pa.array([rng.choice([None, 0.0, -0.0, 1.5]) for _ in range(many)], pa.float64()),
            "p": pa.array(rng.choices(["north", "south", None], k=many), pa.string()),
        }
    )


def judged(path: str, *conditions: str) -> list[int]:
    """Count the rows of each condition with DuckDB, on what deltalake reads."""
    rows = DeltaTable(path).to_pyarrow_table()  # noqa: F841  DuckDB finds it by its name
    counts = ", ".join(f"count_if({condition})" for condition in conditions)
    (found,) = duckdb.sql(f"SELECT {counts} FROM rows").fetchall()
    return [int(count) for count in found]


STATES = ["complete", "behind", "with rows deleted", "with a file without tuples"]


@pytest.fixture(params=STATES)
def table(request: pytest.FixtureRequest, table_path: str) -> str:
    write_deltalake(table_path, some_rows(1), partition_by=["p"])
    index_of(table_path, ["v"])
    define_tuples(table_path, "a", "s", "d")
    define_tuples(table_path, "p", "a")
    define_tuples(table_path, "a", "lower(s)", "v")
    if request.param == "behind":
        write_deltalake(table_path, some_rows(2), mode="append")
    if request.param == "with rows deleted":
        DeltaTable(table_path).delete("a = 3 AND s = 'x'")
        index_of(table_path)
    if request.param == "with a file without tuples":
        define_tuples(table_path, "d", "v", "s")
        write_deltalake(table_path, some_rows(3), mode="append")
    return table_path


SERVED = [
    "a = 1 AND s = 'x'",
    "a = 1 AND s IN ('x', '') AND d >= DATE '2024-01-01'",
    "a IN (1, 2) AND s > 'X' AND s < 'l'",
    "a = 1",
    "a > 1",
    "a IS NULL AND s IS NULL",
    "a = 1 AND lower(s) = 'x'",
    "a = 1 AND lower(s) = 'x' AND v > 0",
    "(a = 1 AND s = 'x') OR (a = 2 AND s = 'xy' AND v > 0) OR v = 1.5",
    "p = 'north' AND a = 2",
]


@pytest.mark.parametrize("condition", SERVED)
def test_conditions_on_a_prefix_of_indexed_tuples_read_no_data(table_path: str, condition: str) -> None:
    write_deltalake(table_path, some_rows(1), partition_by=["p"])
    index_of(table_path, ["v"])
    define_tuples(table_path, "a", "s", "d")
    define_tuples(table_path, "a", "lower(s)", "v")
    answer = tailbit.open(table_path).where(condition)
    assert answer.count() == judged(table_path, condition)[0]
    assert answer.files_scanned == 0
    assert all(bounds.exact for _, bounds in answer._selection.bounds)


@pytest.mark.parametrize("condition", [f"a = 1 AND s = '{LONG}'", "a > 1 AND s = 'x'", "s = 'x'"])
def test_what_the_keys_of_tuples_leave_open_is_rechecked(table_path: str, condition: str) -> None:
    write_deltalake(table_path, some_rows(1))
    index_of(table_path, ["v"])
    define_tuples(table_path, "a", "s", "d")
    answer = tailbit.open(table_path).where(condition)
    assert answer.count() == judged(table_path, condition)[0]
    ((_, bounds),) = answer._selection.bounds
    assert not bounds.exact
    assert (len(bounds.maybe) < 200) == (condition != "s = 'x'")


@pytest.mark.parametrize("condition", ["a = 1 AND s = 'X'", "a IN (1, 2) AND s = 'X'"])
def test_a_condition_that_implies_one_on_a_part_is_rechecked(table_path: str, condition: str) -> None:
    write_deltalake(table_path, some_rows(1))
    index_of(table_path, ["v"])
    define_tuples(table_path, "a", "lower(s)", "v")
    assert tailbit.open(table_path).where(condition).count() == judged(table_path, condition)[0]


@pytest.mark.parametrize("terms", [("ts", "s"), ("s", "ts"), ("hash(ts, s)",), ("s", "hash(ts, s)")])
def test_partition_times_asked_in_another_zone_are_not_looked_up_as_moments_of_utc(
    table_path: str, terms: tuple[str, ...]
) -> None:
    hours = [datetime.datetime(2024, 1, 1, hour, tzinfo=datetime.timezone.utc) for hour in (0, 5, 10)] * 4
    times = pa.array(hours, pa.timestamp("us", "UTC"))
    write_deltalake(table_path, pa.table({"ts": times, "s": ["a", "b"] * 6}), partition_by=["ts"])
    condition = "ts = TIMESTAMP '2024-01-01 05:00:00' AND s = 'b'"
    assert [tailbit.open(table_path).where(condition, zone=zone).count() for zone in ZONES] == [2, 2]
    index_of(table_path, ["ts"])
    tailbit.open(table_path).create_index("several", list(terms))
    opened = tailbit.open(table_path)
    assert [opened.where(condition, zone=zone).count() for zone in ZONES] == [2, 2]


ZONES = ["UTC", "Asia/Tokyo"]
"""Partition values hold no offset: they are moments of the zone in which a question is asked."""
