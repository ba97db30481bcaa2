"""Bins of one width are made of every number: of those that a double cannot tell apart, too."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import index_of
from tailbit.errors import ColumnTypeError, UsageError
from tailbit.index.grouping.histogram import Bin

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
