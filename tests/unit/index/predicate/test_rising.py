"""Conditions on functions of a column that never fall as it rises are ranges of the column."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.function_cells import rows, schema
from tailbit.errors import EvaluationError, PredicateError
from tailbit.index.predicate.computed import Computed
from tailbit.index.predicate.tree import Constant, Leaf, Node, is_null, negate
from tailbit.index.predicate.truth import judged
from tailbit.index.predicate.value_sets import Interval
from tailbit.index.sql import bind as binding
from tailbit.index.sql import bind as reading
from tailbit.index.sql.bind import bind
from tailbit.tables.date_text import DAY_US

TABLE, SCHEMA = rows(), schema()
ZONES = ("UTC", "+05:30", "-08:00", "Europe/Berlin")
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
DAYS = ("1969-12-31", "1970-01-01", "2024-02-29", "2021-03-05", "0001-01-01", "9999-12-31", "2024-12-30")
TIMES = ("1970-01-01 00:00:00", "2024-02-29 12:34:56.123456", "2024-01-01 00:00:00", "9999-12-31 23:59:59.9")
YEARS = (1970, 2024, 0, -5, 9999, 2147483647, -2147483648, 99999999999)
NUMBERS = (
    "0",
    "1",
    "-1",
    "2.5",
    "1e0",
    "100",
    "0.05",
    "1.005",
    "99999",
    "127",
    "1e308",
    "0.1e0",
    "-1e-3",
    "1e16",
)
CONSTANTS = ("2", "0.5", "2e0", "-3e0", "0e0", "1e300", "7", "1.5e0", "0.1e0")
TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "A",
    " ",
    "ä",
    "äÖß",
    "äÖßx",
    "İ",
    "\U0001d11e",
    "\U0001d11ex",
    "z",
    "a%",
    "Α",
)
UNITS = tuple("YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND".split())


def _is_at_an_end(part: Interval) -> bool:
    ends = [end for end in (part.lo, part.hi) if isinstance(end, int)]
    return bool(ends) and all((1 << 31) - 400 < abs(end) <= 1 << 31 for end in ends)


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
        ("floor(p) = 5", 500, 600),
        ("ceil(p) <= -5", None, -499),
        ("round(p) = 2", 150, 250),
        ("round(p) = 0", -49, 50),
        ("round(p, 1) < -0.1", None, -14),
        ("CAST(p AS INT) = 0", -99, 100),
        ("CAST(i AS DOUBLE) > 2.5", 3, None),
        ("i / 2 >= 1.5", 3, None),
        ("d * 2 >= 3e0", 1.5, None),
        ("1 + d >= 3", math.nextafter(2.0, 0.0), None),
    ],
)
def test_a_comparison_is_a_range(text: str, low: float | None, high: float | None) -> None:
    node = bind(text, SCHEMA)
    assert isinstance(node, Leaf)
    # Days at the ends of 32 bits, where `trunc` and `last_day` begin again, may stand apart.
    inner = [part for part in node.true.intervals if not _is_at_an_end(part)]
    assert inner == [Interval(low, low is not None, high, False)]
    assert not node.true.complement


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("left(s, 2) = 'ab'", Interval(b"ab", True, b"ac", False)),
        ("left(s, 2) = 'a'", Interval(b"a", True, b"a", True)),
        ("left(s, 2) > 'a'", Interval(b"a", False, None, False)),
        ("substr(s, 1, 2) >= 'abc'", Interval(b"ac", True, None, False)),
        ("substring(s, 0, 1) <= 'abc'", Interval(None, False, b"b", False)),
        (
            "'\U0001d11e' = substring(s, 1, 1)",
            Interval(b"\xf0\x9d\x84\x9e", True, b"\xf0\x9d\x84\x9f", False),
        ),
        ("left(s, 3) IN ('abc', 'ab')", Interval(b"ab", True, b"ab", True)),
    ],
)
def test_a_comparison_of_a_beginning_is_a_range_of_texts(text: str, interval: Interval) -> None:
    node = bind(text, SCHEMA)
    assert isinstance(node, Leaf)
    assert node.true.intervals[0] == interval
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
        "year(ts) + 1 = 2024",
        "year(CAST(dt AS TIMESTAMP)) = 1970",
        "year(date_add(dt, 1)) = 1970",
        "i + 1 = 2",
        "CAST(l AS INT) = 5",
        "d * -2 > 1",
        "floor(d) = 1",
        "d / 0 > 1",
        "left(s, 0) = ''",
        "left(s, i) = 'a'",
        "substring(s, 2, 1) = 'a'",
        "substring(s, -1, 1) = 'a'",
        "left(upper(s), 1) = 'A'",
        "left(s, 2) = s",
        "left(s, 1) = i",
    ],
)
def test_what_may_fall_or_raise_is_computed(text: str) -> None:
    assert isinstance(bind(text, SCHEMA), (Computed, Constant))


def test_a_day_where_clocks_change_is_computed() -> None:
    assert isinstance(bind("year(ts) = 2024", SCHEMA, "Europe/Berlin"), Computed)


def test_the_rows_are_those_that_it_is_computed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    texts = [(t, rng.choice(ZONES)) for t in conditions(rng, 1000)]
    asked = [question for question in texts if is_read(*question)]
    quick = [bind(text, SCHEMA, zone) for text, zone in asked]
    binding._without_present.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(reading.rising, "node_of", lambda found: Computed(found, "computed"))
        computed = [bind(text, SCHEMA, zone) for text, zone in asked]
    binding._without_present.cache_clear()
    for question, one, other in zip(asked, quick, computed, strict=True):
        for mine, theirs in ((one, other), (negate(one), negate(other)), (is_null(one), is_null(other))):
            assert same_rows(mine, theirs), question
    assert sum(isinstance(node, Leaf) for node in quick) > 500


def is_read(text: str, zone: str) -> bool:
    try:
        return bind(text, SCHEMA, zone) is not None
    except PredicateError:
        return False


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
            *(f"{number(rng)} {op} {rng.choice(NUMBERS)}" for _ in range(6)),
            f"{number(rng)} IN (1, {rng.choice(NUMBERS)}{rng.choice(['', ', NULL'])})",
            *(f"{beginning(rng)} {op} '{rng.choice(TEXTS)}'" for _ in range(3)),
            f"{beginning(rng)} IN ('a', '{rng.choice(TEXTS)}'{rng.choice(['', ', NULL'])})",
            f"{beginning(rng)} IS NULL",
        ]
        yield rng.choice(kinds)


def day(rng: random.Random) -> str:
    inner = rng.choice(("dt", "CAST(ts AS DATE)", "to_date(nt)")) if rng.random() < 0.6 else day(rng)
    return rng.choice([inner, f"trunc({inner}, '{rng.choice(UNITS[:4])}')", f"last_day({inner})"])


def number(rng: random.Random) -> str:
    inner = rng.choice(("b", "sh", "i", "l", "p", "q", "d")) if rng.random() < 0.7 else number(rng)
    target = rng.choice(("INT", "BIGINT", "DOUBLE", "DECIMAL(12,2)", "DECIMAL(9,1)", "DECIMAL(38,6)"))
    kinds = [f"floor({inner})", f"ceil({inner})", f"round({inner}, {rng.choice([0, 1, 3])})"]
    kinds += [f"CAST({inner} AS {target})", f"({inner} {rng.choice('+-*/')} {rng.choice(CONSTANTS)})"]
    return rng.choice(kinds)


def beginning(rng: random.Random) -> str:
    count = rng.choice((1, 2, 3, 4, 100))
    return rng.choice([f"left(s, {count})", f"substring(s, {rng.choice((0, 1))}, {count})"])


def same_rows(one: Node, other: Node) -> bool:
    """Whether two conditions are TRUE for the same rows, but for those that raise in the second."""
    (mine, raised), (theirs, raising) = (judged(node, TABLE, {}) for node in (one, other))
    asked = np.ones(len(mine), dtype=bool) if raising is None else ~raising
    return bool((mine == theirs)[asked].all()) and (raised is None or not raised[asked].any())


RAISING = (
    "CAST(w AS {t}) IN ({t} '2013-03-10 00:00:00', {t} '2018-02-17 23:30:00')",
    "CAST(w AS {t}) IN ({t} '2013-03-10 00:00:00', {t} '2018-02-17 23:30:00', NULL)",
    "w IN ({t} '2013-03-10 00:00:00', {t} '2018-02-17 23:30:00')",
    "(CAST(w AS {t}) < {t} '2018-02-17 23:30:00') IS NULL",
    "(w >= {t} '2018-02-17 23:30:00') IS NULL",
)
ANSWERED = {
    "CAST(w AS {t}) < {t} '2018-02-17 23:30:00'": 3,
    "CAST(w AS {t}) IN ({t} '2013-03-15 00:00:00')": 1,
    "(w = {t} '2018-02-17 23:30:00') IS NULL": 1,
    "w BETWEEN {t} '2013-03-15 00:00:00' AND {t} '2013-03-15 12:00:00'": 1,
}
"""Conditions on four days and a NULL, as Spark 4.2 answers them, and those for which it raises."""


@pytest.mark.parametrize("type_", ["TIMESTAMP", "TIMESTAMP_NTZ"])
def test_days_beyond_all_times_raise_where_spark_casts_them_to_times(tmp_path: Path, type_: str) -> None:
    days = pa.array(np.array([-(2**31), 0, 15_779, 18_000], dtype=np.int32)).cast(pa.date32())
    column = pa.table({"w": pa.chunked_array([days, pa.nulls(1, pa.date32())])})
    builder = DeltaBuilder(str(tmp_path)).create(column.schema)
    builder.commit([builder.data_file(column)])
    table = tailbit.open(tmp_path)
    for condition in RAISING:
        with pytest.raises(EvaluationError):
            table.where(condition.format(t=type_)).count()
    counts = {condition: table.where(condition.format(t=type_)).count() for condition in ANSWERED}
    assert counts == ANSWERED
