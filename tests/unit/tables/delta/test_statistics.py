"""Bounds from statistics never exclude a value that the file holds."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tailbit.tables import open_table
from tailbit.tables.delta.statistics import DeltaStatistics
from tailbit.tables.model import Column, DataType


def bounds(type_: str, low: Any, high: Any, **more: Any) -> Any:
    data = DataType("decimal", 38, 2) if type_ == "decimal" else DataType(type_)
    stats = {
        "numRecords": 5,
        "minValues": {"c": low},
        "maxValues": {"c": high},
        "nullCount": {"c": 1},
        **more,
    }
    return DeltaStatistics(json.dumps(stats)).bounds(Column(("C",), ("c",), data))


def test_bounds_come_in_canonical_values() -> None:
    assert bounds("long", -1, 2**62)[:2] == (-1, 2**62)
    assert bounds("string", "a", "é")[:2] == ("a", "é")
    assert bounds("date", "1970-01-02", "9999-12-31")[:2] == (1, 2_932_896)
    assert bounds("long", 1, 2) == (1, 2, 1, 5)


def test_a_maximum_cut_to_milliseconds_still_bounds() -> None:
    low, high, *_ = bounds("timestamp", "1970-01-01T00:00:00.001Z", "1970-01-01T01:00:00.001+01:00")
    assert (low, high) == (1000, 1999)
    assert bounds("timestamp_ntz", "1970-01-01T00:00:00", "1970-01-01T00:00:01")[:2] == (0, 1_000_999)


def test_a_short_decimal_keeps_its_digits() -> None:
    type_ = DataType("decimal", 15, 2)
    stats = DeltaStatistics('{"minValues":{"c":-1.25},"maxValues":{"c":9999999999999.99}}')
    found = stats.bounds(Column(("c",), ("c",), type_))
    assert found is not None
    assert found[:2] == (Decimal("-1.25"), Decimal("9999999999999.99"))


def test_a_decimal_beyond_longs_as_deltalake_writes_it_excludes_nothing(tmp_path: Path) -> None:
    """deltalake writes the largest long in place of a decimal that is larger."""
    big = Decimal(12345678901234567890123456789012345678)
    values = pa.array([big, -big], pa.decimal128(38, 0))
    write_deltalake(str(tmp_path), pa.table({"d": values}))
    [file] = open_table(str(tmp_path)).snapshot().files
    found = file.bounds(Column(("d",), ("d",), DataType("decimal", 38, 0)))
    assert found is None or (found.min, found.max) == (None, None)


def test_half_a_surrogate_pair_is_no_bound() -> None:
    found = bounds("string", "a\ud800", "b\ud800")
    assert (found.min, found.max) == (None, None)


@pytest.mark.parametrize(
    "text", ["-99999999999999999999.999999999999999999", "12345678901234567.12345", "0.1"]
)
def test_a_decimal_written_as_a_double_still_bounds(text: str) -> None:
    """deltalake writes -9.999999999999998e+19 for the first of them."""
    for shown in (
        text,
        str(float(text)),
        str(np.nextafter(float(text), 0)),
        str(np.nextafter(float(text), 1e300)),
    ):
        low, high, *_ = bounds("decimal", json.loads(shown), json.loads(shown))
        assert low <= Decimal(text) <= high


@pytest.mark.parametrize("value", [0.7, 0.1, -0.3, 1e-40])
def test_a_float_minimum_is_at_most_the_stored_value(value: float) -> None:
    for type_ in ("float", "double"):
        low, high, *_ = bounds(type_, value, value)
        assert low <= float(np.float32(value))
        assert low <= value
        assert high is None


def test_nan_is_no_bound() -> None:
    assert bounds("double", "NaN", "NaN")[:2] == (None, None)


def test_null_counts_of_wide_bounds_count_only_where_they_must_be_right() -> None:
    assert bounds("long", 1, 2, tightBounds=False).null_count is None
    assert bounds("long", None, None, tightBounds=False, nullCount={"c": 5}).null_count == 5
    assert bounds("long", 1, 2, tightBounds=False, nullCount={"c": 0}).null_count == 0


@pytest.mark.parametrize("value", ["x", None, True, [1], {"a": 1}, 1.5])
def test_a_statistic_of_another_type_says_nothing(value: Any) -> None:
    assert bounds("long", value, value)[:2] == (None, None)
    assert bounds("date", value, value)[:2] == (None, None)


def test_nested_columns_and_absent_statistics() -> None:
    column = Column(("s", "x"), ("s", "x"), DataType("long"))
    assert DeltaStatistics('{"minValues":{"s":{"x":3}}}').bounds(column) == (3, None, None, None)
    assert DeltaStatistics('{"minValues":{"s":7}}').bounds(column) is None
    assert DeltaStatistics("[]").bounds(column) is None
    assert DeltaStatistics("{").bounds(column) is None
