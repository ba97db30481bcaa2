"""Dates at the ends of 32 bits, where Spark's `trunc` and `last_day` begin again at the other end."""

from __future__ import annotations

import re
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tailbit
from tailbit.errors import EvaluationError

_MOST = 1 << 31
_DAYS = [-_MOST, -_MOST + 5, -_MOST + 6, -_MOST + 400, 0, _MOST - 1, _MOST - 8, _MOST - 40, None]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of such days; no writer but pyarrow writes them, and no statistics hold them."""
    folder: Path = tmp_path_factory.mktemp("days") / "table"
    plain = pa.table({"id": range(len(_DAYS)), "day": pa.array([0] * len(_DAYS), pa.date32())})
    deltalake.write_deltalake(str(folder), plain)
    (file,) = folder.glob("*.parquet")
    days = pa.array(_DAYS, pa.int32()).cast(pa.date32())
    pq.write_table(plain.set_column(1, "day", days), file)
    log = folder / "_delta_log" / "00000000000000000000.json"
    text = re.sub(r'"size":\d+', f'"size":{file.stat().st_size}', log.read_text())
    log.write_text(re.sub(r'"stats":"(?:[^"\\]|\\.)*"', '"stats":null', text))
    return str(folder)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("trunc(day, 'YEAR') > DATE'2020-01-01'", [0, 1, 2, 5, 6, 7]),
        ("trunc(day, 'YEAR') <= DATE'2020-01-01'", [3, 4]),
        ("last_day(day) < DATE'1900-01-01'", [0, 1, 2, 3, 5, 6]),
        ("NOT last_day(day) < DATE'1900-01-01'", [4, 7]),
        ("trunc(day, 'WEEK') > DATE'2020-01-01'", [0, 5, 6, 7]),
        ("unix_date(trunc(day, 'WEEK')) = 2147483643", [0, 5]),
        ("unix_date(trunc(day, 'WEEK')) = -2147483646", [1, 2]),
        ("trunc(day, 'MONTH') IS NULL", [8]),
    ],
)
def test_days_at_the_ends_of_32_bits_begin_again_at_the_other_end(
    path: str, where: str, expected: list[int]
) -> None:
    answer = tailbit.open(path).where(where)
    assert sorted(answer.read(columns=["id"])["id"].to_pylist()) == expected
    assert answer.count() == len(expected)


@pytest.mark.parametrize(
    "where",
    [
        "unix_date(trunc(day, 'QUARTER')) > 0",
        "year(add_months(day, 1)) > 0",
        "trunc(day, 'QUARTER') = DATE'2020-01-01'",
        "(trunc(day, 'QUARTER') = DATE'2020-01-01') IS NULL",
    ],
)
def test_a_day_beyond_32_bits_raises_what_spark_raises(path: str, where: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        tailbit.open(path).where(where).count()
    assert raised.value.fields["error"] == "ARITHMETIC_OVERFLOW"
