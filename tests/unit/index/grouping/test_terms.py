"""Rows are grouped by an expression as by a column: from its own index, its columns' indexes, or data."""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.definitions import define
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.tables import VECTORS, index_of
from tailbit import col
from tailbit.errors import (
    ColumnTypeError,
    EvaluationError,
    PredicateError,
    TailbitError,
    UnknownColumnError,
    UsageError,
)
from tailbit.index.grouping.histogram import Bin

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
LONG = "Long" * 100
EXPRESSIONS = {
    "lower(s)": "lower(s)",
    "k % 10": "k % 10",
    "date_trunc('month', ts)": "date_trunc('month', ts)",
    "concat(s, CAST(k % 3 AS STRING))": "s || CAST(k % 3 AS STRING)",
    "k > 40": "k > 40",
    "substr(p, 1, 1)": "substr(p, 1, 1)",
    "year(ts) * 100 + k % 2": "year(ts) * 100 + k % 2",
}
"""Expressions, and the same in the words of DuckDB."""


def rows(first: int) -> pa.Table:
    keys = range(first, first + 40)
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "s": [None if k % 7 == 0 else ("Ab", "aB", LONG, LONG.upper(), "x")[k % 5] for k in keys],
            "ts": pa.array([START + datetime.timedelta(days=k) for k in keys], pa.timestamp("us", "UTC")),
            "d": [(-0.0, 0.0, float("nan"), 1.5)[k % 4] for k in keys],
            "p": [f"p{k // 40}" for k in keys],
        }
    )


def built(path: str, columns: list[str] | None, *texts: str) -> None:
    """Four files, of which one is not indexed, one was rewritten, and two have hidden rows."""
    table = DeltaBuilder(path).create(rows(0).schema, partition_by=["p"], **VECTORS)
    names = [f"p=p{n}/{name}" for n, name in enumerate("abcd")]
    for n in range(3):
        table.commit([table.data_file(rows(40 * n).drop("p"), names[n], partition={"p": f"p{n}"})])
    if columns is not None:
        index_of(path, columns)
    if texts:
        define(path, *texts)
    first, second = table.stored_vectors([0, 3, 39], [7])
    table.commit([*table.hide(names[0], first), *table.hide(names[1], second)])
    table.commit([table.data_file(rows(120).drop("p"), names[3], partition={"p": "p3"})])


STATES: dict[str, Callable[[str], None]] = {
    "no index": lambda path: built(path, None),
    "indexed columns": lambda path: built(path, ["k", "s", "ts"]),
    "indexed expressions": lambda path: built(path, ["d"], *EXPRESSIONS),
    "both": lambda path: built(path, ["k", "s"], "lower(s)", "k % 10"),
}


@pytest.fixture(scope="module", params=STATES)
def table(request: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("grouped") / "t")
    STATES[request.param](path)
    return path


def judged(where: str | None, *expressions: str, path: str) -> dict[Any, int]:
    visible = tailbit.open(path).where(where).read()
    listed = ", ".join(expressions)
    relation = duckdb.connect()
    relation.execute("SET TimeZone = 'UTC'")
    relation.register("visible", visible)
    found = relation.execute(f"SELECT {listed}, count(*) FROM visible GROUP BY ALL").fetchall()
    return {row[0] if len(expressions) == 1 else row[:-1]: row[-1] for row in found}


@pytest.mark.parametrize("where", [None, "k % 3 = 1", "s = 'x' OR k < 5"])
def test_facets_by_an_expression_are_those_of_duckdb(table: str, where: str | None) -> None:
    answer = tailbit.open(table).where(where)
    for text, theirs in EXPRESSIONS.items():
        expected = judged(where, theirs, path=table)
        assert answer.facets(text) == expected, text
        assert set(answer.distinct(text)) == set(expected), text
        assert answer.count_distinct(text) == len(expected) - (None in expected), text
        assert sum(answer.top(text, 2).values()) == sum(sorted(expected.values())[-2:]), text


def test_groups_of_columns_and_expressions_are_those_of_duckdb(table: str) -> None:
    answer = tailbit.open(table).where("k <> 11")
    for asked in (["lower(s)", "k % 10"], ["p", "lower(s)", "d > 0"], ["k % 10", "k"], ["k % 2", "k % 2"]):
        assert answer.facets(*asked) == judged("k <> 11", *asked, path=table)
    tab = answer.crosstab("lower(s)", "k % 10")
    assert (tab.row_name, tab.column_name) == ("lower(s)", "k % 10")
    pairs = judged("k <> 11", "lower(s)", "k % 10", path=table)
    assert tab.counts.tolist() == [[pairs.get((row, c), 0) for c in tab.columns] for row in tab.rows]


def test_measures_of_expressions_are_those_of_duckdb(table: str) -> None:
    answer = tailbit.open(table).where("k >= 10")
    visible = answer.read()
    found = answer.facet_table("lower(s)", sum="k * 2", max="date_trunc('month', ts)", avg=["k % 7"])
    names = ["lower(s)", "count", "sum(k * 2)", "max(date_trunc('month', ts))", "avg(k % 7)"]
    assert found.column_names == names
    relation = duckdb.connect()
    relation.execute("SET TimeZone = 'UTC'")
    relation.register("visible", visible)
    sql = "lower(s), count(*), sum(k * 2), max(date_trunc('month', ts)), avg(k % 7)"
    theirs = relation.execute(f"SELECT {sql} FROM visible GROUP BY 1").fetchall()
    assert {tuple(row.values()) for row in found.to_pylist()} == set(theirs)
    alone = relation.execute(
        "SELECT min(lower(s)), max(k % 9), sum(k * 3), avg(k % 5) FROM visible"
    ).fetchone()
    assert alone == (answer.min("lower(s)"), answer.max("k % 9"), answer.sum("k * 3"), answer.avg("k % 5"))
    assert answer.summary("k % 5").distinct == 5
    assert sum(bin_.count for bin_ in answer.histogram("k % 5", [0, 2, 5])) == len(visible)
    assert answer.date_histogram("to_date(ts)", "year") == {datetime.date(2024, 1, 1): len(visible)}


def test_rows_that_moved_are_told_by_an_expression(table: str) -> None:
    opened = tailbit.open(table)
    moved = opened.transitions("lower(s)", 3, 5)
    before, after = (Counter(opened.where(version=v).facets("lower(s)")) for v in (3, 5))
    assert {value: t.came - t.left for value, t in moved.items()} == {
        value: after[value] - before[value] for value in moved
    }
    assert sum(t.left for t in moved.values()) == 4
    assert sum(t.came for t in moved.values()) == 40


def test_an_indexed_expression_is_grouped_without_reading_data(table_path: str) -> None:
    write_deltalake(table_path, rows(0))
    index_of(table_path, ["k"])
    define(table_path, "substr(lower(s), 1, 2)", "date_trunc('month', ts)")
    for where, way in ((None, "recorded counts"), ("k < 30", "codes by position")):
        answer = tailbit.open(table_path).where(where)
        for text in ("SUBSTR(LOWER(`s`), 1, 2)", "date_trunc('MONTH', ts)"):
            ways = [step["way"] for step in answer.explain(facets=[text])["facets"]]
            assert ways == [way], text


def test_an_expression_of_an_indexed_column_is_computed_per_key(table_path: str) -> None:
    write_deltalake(table_path, rows(0))
    index_of(table_path, ["k", "s"])
    answer = tailbit.open(table_path).where()
    assert [step["way"] for step in answer.explain(facets=["k DIV 3"])["facets"]] == ["recorded counts"]
    assert answer.explain(facets=["concat(s, k)"])["facets"][0]["way"] == "codes by position"


def test_a_definition_of_another_time_zone_is_not_used(table_path: str) -> None:
    write_deltalake(table_path, rows(0))
    index_of(table_path, ["k"])
    define(table_path, "date_trunc('day', ts)", zone="Asia/Tokyo")
    opened = tailbit.open(table_path)
    for zone, way in (("Asia/Tokyo", "recorded counts"), ("UTC", "data"), ("America/New_York", "data")):
        answer = opened.where(zone=zone)
        assert [s["way"] for s in answer.explain(facets=["date_trunc('day', ts)"])["facets"]] == [way]
        days = answer.date_histogram("ts", "day", zone)
        assert answer.facets("date_trunc('day', ts)") == days


def test_a_definition_that_is_not_built_yet_is_computed_from_data(table_path: str) -> None:
    write_deltalake(table_path, rows(0))
    index_of(table_path, ["k"])
    expected = tailbit.open(table_path).where().facets("lower(s)")
    define(table_path, "lower(s)", drain=False)
    assert tailbit.open(table_path).where().facets("lower(s)") == expected


def test_a_column_that_is_named_as_an_expression_comes_first(table_path: str) -> None:
    write_deltalake(table_path, pa.table({"lower(s)": [1, 1, 2], "s": ["A", "a", "b"], "a b": [1, 2, 3]}))
    answer = tailbit.open(table_path).where()
    assert answer.facets("lower(s)") == answer.facets("`lower(s)`") == {1: 2, 2: 1}
    assert answer.facets("lower( s)") == answer.facets("lower(table.s)") == {"a": 2, "b": 1}
    assert answer.facets("`a b` > 1") == {True: 2, False: 1}


@pytest.mark.parametrize("columns", [["d"], ["k"]])
def test_zeros_of_two_signs_are_one_group_and_so_are_nans(table_path: str, columns: list[str]) -> None:
    write_deltalake(table_path, rows(0))
    index_of(table_path, columns)
    answer = tailbit.open(table_path).where()
    found = answer.facets("d * 2")
    assert sorted(found.values()) == [10, 10, 20]
    assert (found[0.0], found[3.0]) == (20, 10)
    assert answer.count_distinct("-d") == 3


def test_expressions_built_in_python_are_grouped_by(table_path: str) -> None:
    write_deltalake(table_path, rows(0))
    answer = tailbit.open(table_path).where()
    assert answer.facets(col("k") % 2) == answer.facets("k % 2") == {0: 20, 1: 20}
    sums = {"count": 40, "sum((`k` % 2))": 20, "sum(k)": 780}
    assert answer.facets(col("p"), sum=[col("k") % 2, "k"]) == {"p0": sums}
    assert answer.facets("k % 2", sum=col("k"))[1] == {"count": 20, "sum(k)": 400}


def test_the_present_moment_is_a_constant_of_the_question(table_path: str) -> None:
    write_deltalake(table_path, rows(0))
    answer = tailbit.open(table_path).where()
    assert answer.facets("ts < now()") == {True: 40}
    assert answer.facets("datediff(current_date(), to_date(ts)) > 1") == {True: 40}


RAISING = "CAST(s AS INT) % 2"


@pytest.mark.parametrize("state", ["no index", "indexed column", "indexed expression", "half indexed"])
def test_a_row_for_which_an_expression_raises_is_named_as_a_condition_names_it(
    table_path: str, state: str
) -> None:
    texts = [str(n) for n in range(40)]
    texts[17], texts[21] = "bad", "worse"
    table = pa.table({"k": range(40), "s": texts})
    write_deltalake(table_path, table.slice(0, 20))
    if state != "no index":
        index_of(table_path, ["s"] if state == "indexed column" else ["k"])
    if state == "half indexed":
        define(table_path, RAISING)
    write_deltalake(table_path, table.slice(20), mode="append")
    if state == "indexed column":
        Drive(table_path, f"{table_path}/_tailbit").drain()
    if state == "indexed expression":
        define(table_path, RAISING)
    opened = tailbit.open(table_path)
    for ask in ("facets", "sum", "max", "summary", "distinct"):
        with pytest.raises(EvaluationError) as theirs:
            opened.where(f"{RAISING} = 1").count()
        with pytest.raises(EvaluationError) as ours:
            getattr(opened.where(), ask)(RAISING)
        for field in ("error", "values", "file", "position"):
            assert ours.value.fields[field] == theirs.value.fields[field], (ask, field)
    for wrong in (lambda a: a.facets("k % 2", RAISING), lambda a: a.facets("k % 2", sum=RAISING)):
        with pytest.raises(EvaluationError, match="CAST_INVALID_INPUT"):
            wrong(opened.where())
    assert opened.where("k NOT IN (17, 21)").facets(RAISING) == {0: 20, 1: 18}


BAD: dict[str, tuple[type[TailbitError], str, str]] = {
    "count(k)": (PredicateError, "character 1", "answer.count"),
    "max(k) + 1": (PredicateError, "character 1", "answer.max"),
    "array(k)": (PredicateError, "type ARRAY.*character 1", "one value"),
    "5": (PredicateError, "constant at character 1", "Name a column"),
    "now()": (PredicateError, "constant at character 1", "Name a column"),
    "NULL": (PredicateError, "constant at character 1", "Name a column"),
    "rand()": (PredicateError, "rand is not read at character 1", "docs/functions.md"),
    "k >": (PredicateError, "character 3", "leave > out"),
    "k, s": (PredicateError, "character 2", "AND"),
    "lower(s": (PredicateError, "not closed", "Write \\)"),
    "k IN (SELECT 1)": (PredicateError, "not a query at character 6", "list"),
    "1/0 + k": (PredicateError, "DIVIDE_BY_ZERO", "try_divide"),
    "lower(nope)": (UnknownColumnError, "no column nope .* at character 7", "Columns: k"),
    "nope": (UnknownColumnError, "no column nope", "Columns: k"),
    "no pe": (UnknownColumnError, "no column no pe", "Columns: k"),
    "tags": (ColumnTypeError, "tags", "."),
    "lower(tags)": (ColumnTypeError, "tags", "."),
    "+".join(["k"] * 2000): (PredicateError, "nested too deeply", "Flatten"),
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:20])
def test_what_rows_cannot_be_grouped_by_is_refused_with_its_place(table_path: str, text: str) -> None:
    tags = pa.array([["a"]], pa.list_(pa.string()))
    write_deltalake(table_path, pa.table({"k": [1], "s": ["a"], "tags": tags}))
    answer = tailbit.open(table_path).where()
    error, reason, hint = BAD[text]
    for ask in (answer.facets, answer.sum, answer.count_distinct, lambda t: answer.crosstab("k", t)):
        with pytest.raises(error, match=f"(?s){reason}") as refused:
            ask(text)
        assert re.search(hint, refused.value.hint)


@pytest.mark.parametrize("given", [None, 5, b"k", ["k"]])
def test_what_is_neither_text_nor_expression_is_refused(table_path: str, given: Any) -> None:
    write_deltalake(table_path, rows(0))
    with pytest.raises(UsageError):
        tailbit.open(table_path).where().facets(given)


NANOS = 1_700_000_000_000_000_000
"""Nanoseconds since 1970: doubles are 256 apart here."""


def histogram(path: Path, values: list[Any], type_: pa.DataType, bins: int) -> list[Bin]:
    table = pa.table({"v": pa.array(values, type_)})
    builder = DeltaBuilder(str(path)).create(table.schema)
    builder.commit([builder.data_file(table)])
    index_of(path, ["v"])
    return tailbit.open(str(path)).where().histogram("v", bins)


def test_longs_that_doubles_cannot_tell_apart_have_bins_of_one_width(tmp_path: Path) -> None:
    found = histogram(tmp_path, [None, *(NANOS + n for n in (0, 1, 9, 10, 39, 40))], pa.int64(), 4)
    assert [bin_.count for bin_ in found] == [3, 1, 0, 2]
    assert [bin_.low - NANOS for bin_ in found] == [0, 10, 20, 30]
    assert found[-1].high == NANOS + 40


def test_decimals_that_doubles_cannot_tell_apart_have_bins_of_one_width(tmp_path: Path) -> None:
    values = [Decimal(f"12345678901234567890123456789012345.{end}") for end in ("600", "601")]
    found = histogram(tmp_path, values, pa.decimal128(38, 3), 2)
    assert [bin_.count for bin_ in found] == [1, 1]
    assert found[0].high == Decimal("12345678901234567890123456789012345.6005")


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (1e300, pa.float64()),
        (-sys.float_info.max, pa.float64()),
        (Decimal("-12345678901234567890123456789012345.600"), pa.decimal128(38, 3)),
        ((1 << 63) - 1, pa.int64()),
    ],
)
def test_a_single_value_however_great_is_in_one_bin(tmp_path: Path, value: Any, type_: pa.DataType) -> None:
    (found,) = histogram(tmp_path, [value, value], type_, 10)
    assert found.low == value < found.high
    assert found.count == 2


def test_two_neighbouring_doubles_have_as_many_bins_as_are_asked_for(tmp_path: Path) -> None:
    low, high = 1.0, math.nextafter(1.0, 2.0)
    found = histogram(tmp_path, [low, high, high], pa.float64(), 5)
    assert [bin_.count for bin_ in found] == [1, 0, 0, 0, 2]


def test_what_has_no_such_part_is_refused_with_what_has(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    days = pa.array([0, 1], pa.date32())
    deltalake.write_deltalake(path, pa.table({"n": [1, 2], "day": days}))
    answer = tailbit.open(path).where()
    with pytest.raises(ColumnTypeError, match="column day is of type date: a date has no hour") as refused:
        answer.date_histogram("day", "hour")
    assert refused.value.hint == "Ask for year, quarter, month, week, day."
    with pytest.raises(ColumnTypeError, match="only dates and times have such parts") as refused:
        answer.date_histogram("n", "day")
    assert refused.value.hint == "Name a date or time, or use histogram."


@pytest.mark.parametrize("bins", [True, [], [1], [1, 1]])
def test_what_is_neither_a_number_of_bins_nor_rising_edges_is_refused(tmp_path: Path, bins: Any) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"n": [1, 2]}))
    with pytest.raises(UsageError, match=r"bins is True|the edges of the bins do not rise"):
        tailbit.open(path).where().histogram("n", bins)
