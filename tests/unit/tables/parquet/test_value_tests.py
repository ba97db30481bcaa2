"""A condition is true for the values that pass, by Polars and by pyarrow, at the ends of every type."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
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
    Texts,
    TextSearch,
    each_test,
)
from tailbit.tables.parquet.value_search import expression
from tailbit.tables.parquet.value_search import rows_by_arrow as passing_rows

LEAST, MOST = -(1 << 63), (1 << 63) - 1
TINY = 5e-324


def valued(stored: Stored | None, complement: bool = False, nulls: bool = False) -> Test:
    return Test(Column(("v",), ("v",), DataType("long")), lambda _: None, stored, complement, nulls)


def passing(condition: Condition, physical: str, values: list[Any], coded: bool = False) -> list[Any]:
    names = {id(test): (test.column.id, physical, Form(0, b"", coded)) for test in each_test(condition)}
    dtype = {
        "INT32": pl.Int32,
        "INT64": pl.Int64,
        "DOUBLE": pl.Float64,
        "FLOAT": pl.Float32,
        "BYTE_ARRAY": pl.Binary,
        "BOOLEAN": pl.Boolean,
    }
    frame = pl.DataFrame({"v": pl.Series(values, dtype=dtype[physical])})
    found: list[Any] = frame.filter(expression(pl, condition, names))["v"].to_list()
    file, table = pa.BufferOutputStream(), frame.to_arrow()
    pq.write_table(
        pa.table({"v": table["v"].cast(pa.binary()) if physical == "BYTE_ARRAY" else table["v"]}), file
    )
    names = {key: ("0", physical, form) for key, (_, physical, form) in names.items()}
    rows = passing_rows(file.getvalue().to_pybytes(), condition, names, masked=False)
    assert str(frame[rows.tolist()]["v"].to_list()) == str(found)
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


def test_texts_pass_by_their_bytes() -> None:
    values = [None, b"", b"a", b"ab", b"b", b"\xff"]
    assert passing(valued(Texts([(b"a", False, b"b", True)])), "BYTE_ARRAY", values) == [b"ab", b"b"]
    assert passing(valued(Texts([(None, False, b"a", False)])), "BYTE_ARRAY", values) == [b""]
    assert passing(valued(Texts([(b"b", False, None, False)])), "BYTE_ARRAY", values) == [b"\xff"]
    assert passing(valued(Texts([(None, False, None, False)])), "BYTE_ARRAY", values) == values[1:]
    points = Texts([(b"", True, b"", True), (b"ab", True, b"ab", True)])
    assert passing(valued(points, complement=True, nulls=True), "BYTE_ARRAY", values) == [
        None,
        b"a",
        b"b",
        b"\xff",
    ]


def test_a_beginning_and_an_end_do_not_overlap() -> None:
    values = [None, b"", b"aba", b"ababa", b"ab\xff"]
    assert passing(valued(TextSearch(b"ab", b"ba")), "BYTE_ARRAY", values) == [b"ababa"]
    assert passing(valued(TextSearch(b"ab")), "BYTE_ARRAY", values) == values[2:]
    assert passing(valued(TextSearch(end=b"\xff")), "BYTE_ARRAY", values) == [b"ab\xff"]
    assert passing(valued(TextSearch(middle=b"ba")), "BYTE_ARRAY", values) == [b"aba", b"ababa"]
    assert passing(valued(TextSearch()), "BYTE_ARRAY", values) == values[1:]
    assert passing(valued(TextSearch(), complement=True), "BYTE_ARRAY", values) == []


def test_replaced_dictionaries_say_what_passes_and_parts_are_joined() -> None:
    one = valued(None)
    assert passing(one, "INT32", [None, 0, 1], coded=True) == [1]
    low, high = valued(Numbers([(0, 5)])), valued(Numbers([(4, 9)]))
    assert passing(AllOf([low, high]), "INT32", [None, 3, 4, 5, 9]) == [4, 5]
    assert passing(AnyOf([low, valued(Numbers([]), nulls=True)]), "INT32", [None, 3, 9]) == [None, 3]
