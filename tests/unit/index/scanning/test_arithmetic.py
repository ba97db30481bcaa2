"""Arithmetic over columns without an index is evaluated row by row, whoever reads the columns."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from support.delta_builder import DeltaBuilder
from support.scans import counted, scanned, scans_of
from tailbit.errors import EvaluationError


def table_of(tmp_path: Path, **columns: pa.Array) -> str:
    table = pa.table(columns)
    builder = DeltaBuilder(str(tmp_path / "table")).create(table.schema, features=["timestampNtz"])
    builder.commit([builder.data_file(table, "f.parquet", row_group_size=3)])
    return str(tmp_path / "table")


DAYS = pa.array([1, 2, None, -5, 1, 40, 59, 364], pa.int32()).cast(pa.date32())
TIMES = pa.array([86_400_000_000, 2, 7, None, 0, 3_456_000_000_000, 5, -1], pa.int64())
NUMBERS = {
    "i": pa.array([1, None, 3, -7, 0, 20, 6, 5], pa.int32()),
    "l": pa.array([5, 4, None, 2, 1, 0, -1, -2], pa.int64()),
    "p": pa.array([Decimal(n).scaleb(-2) for n in (0, 150, -25, 99, 100, 700, 1, 33)], pa.decimal128(7, 2)),
    "dt": DAYS,
    "ts": TIMES.cast(pa.timestamp("us", "UTC")),
    "n": TIMES.cast(pa.timestamp("us")),
    "s": pa.array(["", "a", "ä", None, "日本", "𝄞 x", "abc", "\0"]),
}


@pytest.mark.parametrize("by_polars", [True, False, None])
@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("i + l > 3", [0, 5, 6]),
        ("i % 3 = 0", [2, 4, 6]),
        ("p * 2 - i >= l", [3, 4]),
        ("p / 3 > 0.3", [1, 3, 4, 5]),
        ("3 / (p + 1) < 1", [5]),
        ("CASE WHEN i > 3 THEN p ELSE l END < 1", [6, 7]),
        ("coalesce(i, l) IN (4, 20)", [1, 5]),
        ("abs(i) <=> abs(l)", []),
        ("(i + l > 3) IS NULL", [1, 2]),
        ("month(dt) = 2", [5]),
        ("length(s) = 2", [4]),
        ("length(s) + i > 5", [5, 6, 7]),
        ("s LIKE '%a%' AND i + 0 > 1", [6]),
        ("l > 0 AND dt = n", [0]),
        ("dt < ts", []),
        ("dt <=> CAST(n AS DATE)", [0, 5]),
    ],
)
def test_what_is_computed_from_columns_is_found_row_by_row(
    tmp_path: Path, condition: str, rows: list[int], by_polars: bool | None
) -> None:
    path = table_of(tmp_path, **NUMBERS)
    assert scanned(path, condition, by_polars) == [rows]
    table, scans = scans_of(path, condition)
    assert counted(table, scans, by_polars) == len(rows)


@pytest.mark.parametrize("by_polars", [True, False, None])
@pytest.mark.parametrize(
    ("condition", "error"),
    [
        ("i + j > 3", "ARITHMETIC_OVERFLOW"),
        ("j / p > 3", "DIVIDE_BY_ZERO"),
        ("abs(b) > j", "ARITHMETIC_OVERFLOW"),
        ("CAST(i AS SMALLINT) = j", "CAST_OVERFLOW"),
        ("j > 0 AND i + j > 3", "ARITHMETIC_OVERFLOW"),
    ],
)
def test_what_overflows_raises(tmp_path: Path, condition: str, error: str, by_polars: bool | None) -> None:
    path = table_of(
        tmp_path,
        i=pa.array([1, 2**31 - 1], pa.int32()),
        j=pa.array([1, 1], pa.int32()),
        b=pa.array([-128, 1], pa.int8()),
        p=pa.array([Decimal(0), Decimal(1)], pa.decimal128(5, 2)),
    )
    with pytest.raises(EvaluationError, match=error):
        scanned(path, condition, by_polars)


@pytest.mark.parametrize("by_polars", [True, False])
def test_a_row_that_another_part_excludes_raises_nothing(tmp_path: Path, by_polars: bool) -> None:
    path = table_of(tmp_path, i=pa.array([1, 2**31 - 1, 5], pa.int32()), j=pa.array([1, 1, None], pa.int32()))
    assert scanned(path, "i < 9 AND i + j > 1", by_polars) == [[0]]


@pytest.mark.parametrize("by_polars", [True, False])
def test_texts_that_are_not_utf_8_have_bytes_but_no_characters(tmp_path: Path, by_polars: bool) -> None:
    texts = pa.array([b"abc", b"\xff\xfe\xfd\xfc", b"\xe4\xb8", None], pa.binary())
    valid, ends, data = texts.buffers()
    path = table_of(tmp_path, s=pa.StringArray.from_buffers(len(texts), ends, data, valid))
    assert scanned(path, "octet_length(s) > 3", by_polars) == [[1]]
    for condition in ("length(s) > 2", "length(s) + 1 > 3"):
        with pytest.raises(EvaluationError, match="NOT_READ_EXACTLY"):
            scanned(path, condition, by_polars)


@pytest.mark.parametrize("by_polars", [True, False])
@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("a / b = 0.33333333333", [0]),
        ("a / b < 0.333333333331", [0]),
        ("a / b > 0.666666", [1]),
        ("a / b = 0.66666666667", [1]),
        ("a / b <> 0.66666666666", [0, 1]),
    ],
)
def test_a_quotient_is_compared_as_it_is_rounded(
    tmp_path: Path, condition: str, rows: list[int], by_polars: bool
) -> None:
    # 1 / 3 rounds to 0.33333333333 (11 digits), which is less than it.
    path = table_of(
        tmp_path,
        a=pa.array([1, 2], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(5, 0)),
        b=pa.array([3, 3], pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(10, 0)),
    )
    assert scanned(path, condition, by_polars) == [rows]
