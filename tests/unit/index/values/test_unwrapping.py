"""Times are compared with constants as Spark asks where clocks change; the tests with Spark let it judge."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.truth import matches
from tailbit.index.predicate.tree import Leaf
from tailbit.index.sql.bind import bind
from tailbit.tables.model import Column, DataType
from tailbit.tables.schema import Schema

TYPES = {"ntz": "timestamp_ntz", "ts": "timestamp", "day": "date"}
SCHEMA = Schema(tuple(Column((name,), (name,), DataType(type_)) for name, type_ in TYPES.items()))
GAP = "TIMESTAMP'2021-03-28 03:30:00'"


def local(*texts: str) -> pa.Table:
    return pa.table({"ntz": pa.array(texts).cast(pa.timestamp("us"))})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (f"ntz = {GAP}", [False, True]),
        (f"ntz < {GAP}", [True, False]),
        (f"ntz IN ({GAP}, {GAP})", [False, True]),
        (f"CAST(ntz AS TIMESTAMP) = {GAP}", [False, True]),
        (f"{GAP} <= CAST(ntz AS TIMESTAMP)", [False, True]),
        (f"ntz IN ({GAP}, TIMESTAMP'2000-01-01')", [True, True]),
    ],
)
def test_a_local_time_that_clocks_jump_over_is_another_than_the_one_they_show(
    condition: str, expected: list[bool]
) -> None:
    rows = local("2021-03-28 02:30:00", "2021-03-28 03:30:00")
    assert matches(bind(condition, SCHEMA, "Europe/Berlin"), rows, {}).tolist() == expected


def test_a_local_time_beside_an_instant_is_a_condition_that_the_index_serves() -> None:
    assert isinstance(bind(f"ntz = {GAP}", SCHEMA, "Europe/Berlin"), Leaf)


def test_the_second_of_two_instants_with_one_local_time_is_no_local_time() -> None:
    rows = local("2021-10-31 02:30:00")
    for instant, expected in (("00:30:00Z", True), ("01:30:00Z", False)):
        node = bind(f"ntz = TIMESTAMP'2021-10-31 {instant}'", SCHEMA, "Europe/Berlin")
        assert matches(node, rows, {}).tolist() == [expected]


def test_a_day_that_clocks_jump_over_is_not_the_next_one() -> None:
    rows = pa.table({"day": pa.array(["2011-12-30", "2011-12-31"]).cast(pa.date32())})
    for column in ("day", "CAST(day AS TIMESTAMP)"):
        node = bind(f"{column} = TIMESTAMP'2011-12-31 00:00:00'", SCHEMA, "Pacific/Apia")
        assert matches(node, rows, {}).tolist() == [False, True]


def test_a_day_that_clocks_go_back_to_is_over_for_comparisons() -> None:
    seconds = [1_289_097_000, 1_289_097_060, 1_289_100_660]
    instants = pa.array([s * 10**6 for s in seconds], pa.int64()).cast(pa.timestamp("us", "UTC"))
    for condition, expected in (("= DATE'2010-11-07'", [True] * 3), ("<= DATE'2010-11-06'", [False] * 3)):
        node = bind(f"CAST(ts AS DATE) {condition}", SCHEMA, "America/St_Johns")
        assert matches(node, pa.table({"ts": instants}), {}).tolist() == expected
