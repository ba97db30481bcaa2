"""What of a predicate can be asked of stored values, and what is left over."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.function_cells import schema
from tailbit.index.predicate.tree import Node, columns_of
from tailbit.index.query.scan import can_match
from tailbit.index.query.stored_conditions import condition_of
from tailbit.index.sql.bind import bind
from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.parquet.condition import (
    AllOf,
    Condition,
    Floats,
    Numbers,
    Test,
    each_test,
)
from tailbit.tables.parquet.data_file import open_layout

TINY = 5e-324
LEAST, MOST = -(1 << 63), (1 << 63) - 1


def asked(text: str) -> tuple[Condition | bool | None, Node | None]:
    return condition_of(bind(text, schema()), {})


def alone(text: str) -> Test:
    found, rest = asked(text)
    assert isinstance(found, Test)
    assert rest is None
    return found


def left(text: str) -> tuple[int, list[str]]:
    """How many tests there are of the parts that can be asked, and the columns of what is left over."""
    found, rest = asked(text)
    tests = [] if found is None or isinstance(found, bool) else each_test(found)
    return len(tests), [] if rest is None else [column.label for column in columns_of(rest)]


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("l > 5", [(6, MOST)]),
        ("l >= 9223372036854775807", [(MOST, MOST)]),
        ("l < -9223372036854775808", []),
        ("b = 300", [(300, 300)]),
        ("i IN (1, 7, 3)", [(1, 1), (3, 3), (7, 7)]),
        ("p > 1.505", [(151, MOST)]),
        ("p >= 1.5", [(150, MOST)]),
        ("p < 1.505", [(LEAST, 150)]),
        ("p = 1.505", []),
        ("dt = DATE'1970-01-02'", [(1, 1)]),
        ("bo", [(1, 1)]),
    ],
)
def test_whole_numbers_are_asked_for_in_closed_ranges(text: str, ranges: list[tuple[int, int]]) -> None:
    found = alone(text)
    assert found.stored == Numbers(ranges)
    assert not found.complement
    assert not found.nulls


@pytest.mark.parametrize(
    ("text", "ranges", "nan"),
    [
        ("d > 0D", [(TINY, math.inf)], True),
        ("d < -0.0D", [(-math.inf, -TINY)], False),
        ("d = 0D", [(0.0, 0.0)], False),
        ("d > -4.9e-324D", [(0.0, math.inf)], True),
        ("d = CAST('NaN' AS DOUBLE)", [], True),
        ("d < CAST('NaN' AS DOUBLE)", [(-math.inf, math.inf)], False),
        ("d > CAST('Infinity' AS DOUBLE)", [], True),
    ],
)
def test_nan_is_the_greatest_number_and_there_is_one_zero(
    text: str, ranges: list[tuple[float, float]], nan: bool
) -> None:
    assert alone(text).stored == Floats(ranges, nan)


def test_null_passes_where_the_predicate_says_so() -> None:
    assert alone("l <=> NULL").nulls
    assert alone("(l = 5) IS NOT TRUE").nulls
    found = alone("NOT (i = 5)")
    assert (found.stored, found.complement, found.nulls) == (Numbers([(5, 5)]), True, False)


def test_a_condition_that_raises_for_a_value_tells_nothing_of_any() -> None:
    found = alone("10 / i > 1")
    assert found.passes(pa.array([1, None, 20], pa.int32())).tolist() == [True, False, False]  # type: ignore[union-attr]
    assert found.passes(pa.array([1, 0], pa.int32())) is None


def test_under_an_and_what_cannot_be_asked_is_left_over() -> None:
    assert left("l = 5 AND i + l > 3 AND s = 'a'") == (2, ["i", "l"])
    assert left("l = 5 OR i + l > 3") == (0, ["l", "i"])
    assert left("i + l > 3") == (0, ["i", "l"])


def test_a_part_of_too_many_tests_leaves_room_for_the_others() -> None:
    many = " OR ".join(f"(i = {n} AND s = 'v{n}')" for n in range(40))
    assert left(many)[0] == 0
    assert left(f"({many}) AND l = 5") == (1, ["i", "s"])


def test_partition_values_decide_or_leave_out_their_parts() -> None:
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("p", "k")]
    table = parse_schema(json.dumps({"type": "struct", "fields": fields}), ["p"], {}, "")

    def found(text: str, value: str | None) -> Condition | bool | None:
        return condition_of(bind(text, table), {"p": value})[0]

    assert found("p = 1 AND k = 5", "2") is False
    assert found("p = 1 OR k = 5", "1") is True
    assert isinstance(found("p = 1 AND k = 5", "1"), Test)
    assert isinstance(found("p IS NULL AND k = 5", None), Test)
    assert isinstance(found("(p = 1 OR k = 5) AND (p = 2 OR k < 9)", None), AllOf)
    assert found("10 / p > 1", "0") is None


@pytest.fixture
def path(table_path: str) -> str:
    """Row groups of k 0-9, 10-19 and NULL, s a..., b... and NULL, in the partition p = x.

    Nothing is known of the last one: pyarrow writes no bounds where all is NULL.
    """
    schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("p", pa.string())])
    builder = DeltaBuilder(table_path).create(schema, ["p"])
    numbers = [*range(20), *[None] * 10]
    texts = [None if n is None else f"{'ab'[n // 10]}{n}" for n in numbers]
    rows = pa.table({"k": pa.array(numbers, pa.int64()), "s": texts})
    builder.commit([builder.data_file(rows, "f.parquet", row_group_size=10, partition={"p": "x"})])
    return table_path


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("k = 5", "x.x"),
        ("k > 9", ".xx"),
        ("k > 19", "..x"),
        ("k IS NULL", "..x"),
        ("k IS NOT NULL", "xxx"),
        ("s >= 'b'", ".xx"),
        ("s LIKE 'a%' AND k > 15", "..x"),
        ("s LIKE 'a%' OR k > 15", "xxx"),
        ("k < 0 OR s > 'c'", "..x"),
        ("k = 5 AND p = 'x'", "x.x"),
        ("k = 5 AND p = 'y'", "..."),
        ("k = 5 OR p = 'x'", "xxx"),
        ("k + 1 = 5", "xxx"),
        ("k + 1 = 5 AND k = 15", ".xx"),
        ("NOT (k = 5)", "xxx"),
    ],
)
def test_a_row_group_is_left_out_only_where_no_row_can_match(path: str, text: str, left: str) -> None:
    selection = tailbit.open(path).where(text)._selection
    slice_ = selection.snapshot.files[0]
    may = can_match(
        selection.node, open_layout(selection.storage, slice_.path, slice_.size), slice_, selection.storage
    )
    assert "".join("x" if its else "." for its in may) == left


def test_a_predicate_that_holds_itself_many_times_is_asked_of_each_part_once(path: str) -> None:
    text = "k = 1 AND s = 'a1'"
    for number in range(40):
        text = f"(({text}) IS NULL OR k < {-number} AND s <> 'v{number}')"
    selection = tailbit.open(path).where(text)._selection
    slice_ = selection.snapshot.files[0]
    may = can_match(
        selection.node, open_layout(selection.storage, slice_.path, slice_.size), slice_, selection.storage
    )
    assert len(may) == 3
