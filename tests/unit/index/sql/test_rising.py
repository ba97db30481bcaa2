"""Conditions on functions of dates and times that never fall are ranges of the column."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from support.function_cells import rows, schema
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import Constant, Interval, Leaf, Node, is_null, negate
from tailbit.index.predicate.truth import judged
from tailbit.index.sql import bind as binding
from tailbit.index.sql.bind import bind
from tailbit.tables.date_text import DAY_US

TABLE, SCHEMA = rows(), schema()
ZONES = ("UTC", "+05:30", "-08:00", "Europe/Berlin")
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
DAYS = ("1969-12-31", "1970-01-01", "2024-02-29", "2021-03-05", "0001-01-01", "9999-12-31", "2024-12-30")
TIMES = ("1970-01-01 00:00:00", "2024-02-29 12:34:56.123456", "2024-01-01 00:00:00", "9999-12-31 23:59:59.9")
YEARS = (1970, 2024, 0, -5, 9999, 2147483647, -2147483648, 99999999999)
UNITS = tuple("YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND".split())


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("year(dt) = 1970", 0, 365),
        ("year(dt) IN (1970, 1971)", 0, 730),
        ("1971 > year(dt)", None, 365),
        ("CAST(nt AS DATE) = DATE'1970-01-02'", DAY_US, 2 * DAY_US),
        ("to_date(ts) >= DATE'1970-01-02'", DAY_US, None),
        ("trunc(dt, 'MONTH') = DATE'1970-02-01'", 31, 59),
        ("trunc(dt, 'MONTH') >= DATE'1970-02-02'", 59, None),
        ("last_day(dt) <= DATE'1970-02-27'", None, 31),
        ("date_trunc('DAY', ts) = TIMESTAMP'1970-01-02 00:00:00'", DAY_US, 2 * DAY_US),
        ("year(ts) < 1971", None, 365 * DAY_US),
    ],
)
def test_a_comparison_is_a_range(text: str, low: int | None, high: int | None) -> None:
    node = bind(text, SCHEMA)
    assert isinstance(node, Leaf)
    assert node.true.intervals == (Interval(low, low is not None, high, False),)
    assert not node.true.complement


def test_a_range_in_another_zone_begins_when_the_day_does_there() -> None:
    node = bind("CAST(ts AS DATE) = DATE'1970-01-02'", SCHEMA, "+01:00")
    hour = 3_600_000_000
    assert isinstance(node, Leaf)
    assert node.true.intervals == (Interval(DAY_US - hour, True, 2 * DAY_US - hour, False),)


@pytest.mark.parametrize(
    "text",
    [
        "year(dt) = month(dt)",
        "month(dt) = 3",
        "year(ts) = 2024.5",
        "year(CAST(dt AS TIMESTAMP)) = 1970",
        "year(date_add(dt, 1)) = 1970",
    ],
)
def test_what_may_fall_or_raise_is_computed(text: str) -> None:
    assert isinstance(bind(text, SCHEMA), (Computed, Constant))


def test_a_day_where_clocks_change_is_computed() -> None:
    assert isinstance(bind("year(ts) = 2024", SCHEMA, "Europe/Berlin"), Computed)


def test_the_rows_are_those_that_it_is_computed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    fixed = ZONES[:-1]
    asked = [(t, rng.choice(fixed if "date_trunc" in t else ZONES)) for t in conditions(rng, 400)]
    quick = [bind(text, SCHEMA, zone) for text, zone in asked]
    binding._bound.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(binding, "node_of", lambda found: Computed(found, "computed"))
        computed = [bind(text, SCHEMA, zone) for text, zone in asked]
    binding._bound.cache_clear()
    for question, one, other in zip(asked, quick, computed, strict=True):
        for mine, theirs in ((one, other), (negate(one), negate(other)), (is_null(one), is_null(other))):
            assert same_rows(mine, theirs), question
    assert sum(isinstance(node, Leaf) for node in quick) > 200


def conditions(rng: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        op, unit = rng.choice(OPERATORS), rng.choice(UNITS)
        kinds = [
            f"year({day(rng)}) {op} {rng.choice(YEARS)}",
            f"{rng.choice(YEARS)} {op} year({day(rng)})",
            f"year({day(rng)}) IN (1970, {rng.choice(YEARS)}{rng.choice(['', ', NULL'])})",
            f"{day(rng)} {op} DATE'{rng.choice(DAYS)}'",
            f"date_trunc('{unit}', ts) {op} TIMESTAMP'{rng.choice(TIMES)}'",
            f"date_trunc('{unit}', nt) {op} TIMESTAMP_NTZ'{rng.choice(TIMES)}'",
            f"year({day(rng)}) IS NULL",
        ]
        yield rng.choice(kinds)


def day(rng: random.Random) -> str:
    inner = rng.choice(("dt", "CAST(ts AS DATE)", "to_date(nt)")) if rng.random() < 0.6 else day(rng)
    return rng.choice([inner, f"trunc({inner}, '{rng.choice(UNITS[:4])}')", f"last_day({inner})"])


def same_rows(one: Node, other: Node) -> bool:
    """Whether two conditions are TRUE for the same rows, but for those that raise in the second."""
    (mine, raised), (theirs, raising) = (judged(node, TABLE, {}) for node in (one, other))
    asked = np.ones(len(mine), dtype=bool) if raising is None else ~raising
    return bool((mine == theirs)[asked].all()) and (raised is None or not raised[asked].any())
