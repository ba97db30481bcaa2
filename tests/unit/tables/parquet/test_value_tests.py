"""A condition is true for the values that pass, by numpy and by Polars, at the ends of every type."""

from __future__ import annotations

import math
from typing import Any

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailbit.tables.model import Column, DataType
from tailbit.tables.parquet.condition import (
    AllOf,
    AnyOf,
    Condition,
    Floats,
    Form,
    Numbers,
    Stored,
    Test,
    each_test,
)
from tailbit.tables.parquet.value_search import passing_count, passing_rows

LEAST, MOST = -(1 << 63), (1 << 63) - 1
TINY = 5e-324


def valued(stored: Stored | None, complement: bool = False, nulls: bool = False) -> Test:
    return Test(Column(("v",), ("v",), DataType("long")), lambda _: None, stored, complement, nulls)


TYPES = {
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "BOOLEAN": pa.bool_(),
}


def passing(condition: Condition, physical: str, values: list[Any], coded: bool = False) -> list[Any]:
    tests, file = each_test(condition), pa.BufferOutputStream()
    stored = pa.array(values, TYPES[physical])
    pq.write_table(pa.table([stored] * len(tests), [str(n) for n in range(len(tests))]), file)
    data, forms = file.getvalue().to_pybytes(), [Form(0, physical, True, coded)] * len(tests)
    rows = passing_rows(data, condition, forms, masked=False, library=None)
    assert rows.tolist() == passing_rows(data, condition, forms, masked=False, library=polars).tolist()
    for library in (polars, None):
        assert passing_count(data, condition, forms, masked=False, library=library) == len(rows)
    found: list[Any] = stored.take(pa.array(rows)).to_pylist()
    return found


@pytest.mark.parametrize(
    ("ranges", "physical", "passes"),
    [
        ([(LEAST, -1)], "INT64", [LEAST, -1]),
        ([(LEAST, MOST)], "INT64", [LEAST, -1, 0, 1, MOST]),
        ([(MOST, MOST)], "INT64", [MOST]),
        ([(LEAST, LEAST), (0, 1), (MOST, MOST)], "INT64", [LEAST, 0, 1, MOST]),
        ([], "INT64", []),
        ([(1 << 31, MOST)], "INT32", []),
        ([(LEAST, -(1 << 31))], "INT32", [-(1 << 31)]),
        ([(0, MOST)], "INT32", [0, 1, (1 << 31) - 1]),
        ([(0, 0)], "BOOLEAN", [False]),
        ([(1, MOST)], "BOOLEAN", [True]),
        ([(2, 9)], "BOOLEAN", []),
    ],
)
def test_whole_numbers_pass_within_their_ranges(
    ranges: list[tuple[int, int]], physical: str, passes: list[Any]
) -> None:
    values = {
        "INT64": [None, LEAST, -1, 0, 1, MOST],
        "INT32": [None, -(1 << 31), -1, 0, 1, (1 << 31) - 1],
        "BOOLEAN": [None, False, True],
    }[physical]
    others = [value for value in values[1:] if value not in passes]
    assert passing(valued(Numbers(ranges)), physical, values) == passes
    assert passing(valued(Numbers(ranges), complement=True), physical, values) == others
    assert passing(valued(Numbers(ranges), nulls=True), physical, values) == [None, *passes]


@pytest.mark.parametrize("physical", ["FLOAT", "DOUBLE"])
def test_nan_passes_where_it_is_named_and_both_zeros_are_one(physical: str) -> None:
    values = [None, -math.inf, -0.0, 0.0, 1.5, math.inf, math.nan]

    def found(its: Floats, complement: bool = False) -> str:
        return str(passing(valued(its, complement), physical, values))

    assert found(Floats([(-0.0, 0.0)], nan=False)) == "[-0.0, 0.0]"
    assert found(Floats([(TINY, math.inf)], nan=True)) == "[1.5, inf, nan]"
    assert found(Floats([(-math.inf, -TINY)], nan=False), complement=True) == "[-0.0, 0.0, 1.5, inf, nan]"
    assert found(Floats([], nan=True), complement=True) == "[-inf, -0.0, 0.0, 1.5, inf]"
    assert found(Floats([], nan=False)) == "[]"


def test_replaced_dictionaries_say_what_passes_and_parts_are_joined() -> None:
    one = valued(None)
    assert passing(one, "INT32", [None, 0, 1], coded=True) == [1]
    low, high = valued(Numbers([(0, 5)])), valued(Numbers([(4, 9)]))
    assert passing(AllOf([low, high]), "INT32", [None, 3, 4, 5, 9]) == [4, 5]
    assert passing(AnyOf([low, valued(Numbers([]), nulls=True)]), "INT32", [None, 3, 9]) == [None, 3]
