"""Partition values of every type, as different writers spell them."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tailbit.errors import MalformedLogError
from tailbit.tables import open_table
from tailbit.tables.model import Column, DataType
from tailbit.tables.partition_values import parse_micros, partition_array

UTC = datetime.timezone.utc


def naive(*parts: Any) -> datetime.datetime:
    """A time without a zone."""
    return datetime.datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


def column(type_: str) -> Column:
    if type_.startswith("decimal"):
        return Column(("p",), ("p",), DataType("decimal", 10, 2), partition=True)
    return Column(("p",), ("p",), DataType(type_), partition=True)


def partition_value(column: Column, text: str | None) -> Any:
    return partition_array(column, text, 1)[0].as_py()


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        ("string", None, None),
        ("string", "", ""),
        ("binary", "", b""),
        ("binary", "\x01é", b"\x01\xc3\xa9"),
        ("long", "", None),
        ("date", "", None),
        ("string", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
        ("string", "a=b/% $", "a=b/% $"),
        ("byte", "-128", -128),
        ("long", "9223372036854775807", 2**63 - 1),
        ("boolean", "TRUE", True),
        ("float", "0.1", 0.10000000149011612),
        ("double", "100000000000000000000", 1e20),
        ("double", "1.0E-320", 1e-320),
        ("double", "-Infinity", float("-inf")),
        ("decimal", "-1.50", Decimal("-1.50")),
        ("decimal", "1E+3", Decimal("1000.00")),
        ("date", "2024-02-29", datetime.date(2024, 2, 29)),
        ("date", "0001-01-01", datetime.date(1, 1, 1)),
        ("timestamp", "2024-01-01 01:02:03.456789", datetime.datetime(2024, 1, 1, 1, 2, 3, 456789, UTC)),
        ("timestamp", "2024-01-01T01:02:03.4Z", datetime.datetime(2024, 1, 1, 1, 2, 3, 400000, UTC)),
        ("timestamp", "2024-01-01T01:02:03+05:30", datetime.datetime(2023, 12, 31, 19, 32, 3, 0, UTC)),
        ("timestamp_ntz", "2024-01-01 01:02:03", naive(2024, 1, 1, 1, 2, 3)),
        ("timestamp_ntz", "2024-01-01", naive(2024, 1, 1)),
    ],
)
def test_a_partition_text_is_its_typed_value(type_: str, text: str | None, expected: Any) -> None:
    assert partition_value(column(type_), text) == expected
    array = partition_array(column(type_), text, 3)
    assert len(array) == 3
    assert array[2].as_py() == expected


def test_nan_and_minus_zero_keep_their_bits() -> None:
    assert str(partition_value(column("double"), "NaN")) == "nan"
    assert str(partition_value(column("double"), "-0.0")) == "-0.0"


def test_a_time_without_a_zone_is_in_the_writers_zone() -> None:
    value = partition_value(replace(column("timestamp"), zone="Europe/Berlin"), "2024-07-01 12:00:00")
    assert value == datetime.datetime(2024, 7, 1, 10, 0, tzinfo=UTC)
    late = partition_array(replace(column("timestamp"), zone="+05:45"), "20000-01-01 05:45:00", 1)
    assert late.cast(pa.int64())[0].as_py() == parse_micros("20000-01-01", "UTC")


def test_years_beyond_python_are_exact_in_arrow() -> None:
    assert partition_array(column("date"), "+10000-01-01", 1).cast(pa.int32())[0].as_py() == 2_932_897
    assert partition_array(column("date"), "-0001-01-01", 1).cast(pa.int32())[0].as_py() == -719_893


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("long", "1.0"),
        ("byte", "128"),
        ("boolean", "yes"),
        ("double", "one"),
        ("decimal", "1.005"),
        ("decimal", "NaN"),
        ("decimal", "1E+99999999"),
        ("decimal", "123456789.00"),
        ("date", "2023-02-29"),
        ("date", "yesterday"),
        ("timestamp", "2024-01-01 24:00:00"),
        ("timestamp_ntz", "2024-01-01T00:00:00Z"),
    ],
)
def test_a_text_that_is_no_value_is_refused(type_: str, text: str) -> None:
    with pytest.raises(MalformedLogError, match="column p"):
        partition_value(column(type_), text)


VALUES = {
    "b": pa.array([True, False, None]),
    "i": pa.array([-1, 2**31 - 1, None], pa.int32()),
    "f": pa.array([1e20, -0.0, None], pa.float64()),
    "s": pa.array(["a b/%=é", "+#?&", None]),
    "d": pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    "t": pa.array(
        [
            datetime.datetime(2024, 1, 1, 1, 2, 3, 456789, UTC),
            datetime.datetime(1969, 12, 31, tzinfo=UTC),
            None,
        ]
    ),
    "n": pa.array([Decimal("1.50"), Decimal("99.99"), None]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_written_by_deltalake_come_back(table_path: str, name: str) -> None:
    table = pa.table({"p": VALUES[name], "x": [0, 1, 2]})
    write_deltalake(table_path, table, partition_by=["p"])
    source = open_table(table_path)
    snapshot = source.snapshot()
    p = snapshot.schema.resolve("p")
    found = [partition_value(p, f.partition[p.physical[0]]) for f in snapshot.files]
    assert sorted(map(str, found)) == sorted(
        map(str, DeltaTable(table_path).to_pyarrow_table()["p"].to_pylist())
    )
    assert sorted(map(str, found)) == sorted(map(str, table["p"].to_pylist()))


def test_a_date_with_an_offset_is_refused_not_moved_to_another_day() -> None:
    with pytest.raises(MalformedLogError, match=r"2024-02-21\+05:30"):
        partition_value(column("date"), "2024-02-21+05:30")
