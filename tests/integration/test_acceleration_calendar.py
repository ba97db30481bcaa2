"""Old days and times in files without Spark's version, which a session may read by the Julian calendar."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.acceleration import rows_of
from support.tables import index_of
from tailbit.spark.acceleration import MODES, Acceleration

LEGACY = "spark.sql.parquet.datetimeRebaseModeInRead"
OLDER_NAME = "spark.sql.legacy.parquet.datetimeRebaseModeInRead"

OLD = [date(1, 1, 1), date(1000, 3, 6), date(1000, 3, 7), date(1582, 10, 14)]
FILES, DAYS = 6, 40


@pytest.fixture(scope="module")
def path(accelerated: Acceleration, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Files of an old day and of newer ones, each day at midnight and again in `e`, written by delta-rs."""
    path = str(tmp_path_factory.mktemp("calendar") / "table")
    for number in range(FILES):
        newer = [date(2020, 1, 1) + timedelta(number * DAYS + n) for n in range(DAYS)]
        days = [OLD[number % len(OLD)], *newer]
        times = [datetime(day.year, day.month, day.day, tzinfo=timezone.utc) for day in days]
        # The day before where it is old: two days that the Julian calendar makes one.
        others = [day - timedelta(1) if day == OLD[2] else day for day in days]
        columns = {"n": [number] * len(days), "d": days, "e": others, "t": times}
        write_deltalake(path, pa.table(columns), mode="append")
    index_of(path, ["n", "d", "e", "t"])
    return path


@contextmanager
def setting(spark: Any, name: str, value: str) -> Iterator[None]:
    """Set a setting of a session until the end of the block."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


OF_TWO = ("d <> e", "e = d AND n = 2")

CONDITIONS = [
    "d = DATE'0001-01-01'",
    "d = DATE'0001-01-03'",
    "d <=> DATE'0000-12-30'",
    "d IN (DATE'1000-03-01', DATE'2020-01-05')",
    "d < DATE'1582-10-10'",
    "NOT d >= DATE'1582-10-10'",
    "d > DATE'1582-10-10' AND d < DATE'2020-01-03'",
    "day(d) = 3",
    "month(d) = 12",
    "year(d) = 0",
    *OF_TWO,
    "t = TIMESTAMP'0001-01-01 00:00:00'",
    "t < TIMESTAMP'1000-03-01 12:00:00'",
    "t >= TIMESTAMP'1582-10-10 00:00:00' AND t < TIMESTAMP'2020-01-03'",
]
"""Conditions whose rows differ where old days and times are of the Julian calendar."""

NEWER = [
    "d = DATE'2020-02-03'",
    "d BETWEEN DATE'2020-01-03' AND DATE'2020-01-05'",
    "t = TIMESTAMP'2020-03-04'",
]


def served(accelerated: Acceleration, path: str, what: str, condition: str) -> str | None:
    """Check that the rows of a question are the same with the rules and without; return how it was served."""
    spark, statement = accelerated._spark, f"SELECT {what} FROM delta.`{path}` WHERE {condition}"
    assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
    (scan,) = accelerated.last()
    return scan.served


def check_all(accelerated: Acceleration, path: str, mode: str) -> None:
    """Check the conditions with one mode alone."""
    what = {"counts": "count(*)", "groups": "n, count(*)"}.get(mode, "n, d, string(t)")
    by = " GROUP BY n" if mode == "groups" else ""
    with setting(accelerated._spark, "spark.tailbit.serve", mode):
        for condition in CONDITIONS:
            served(accelerated, path, what, f"{condition}{by}")


@pytest.mark.parametrize("mode", MODES)
def test_old_days_are_found_by_the_calendar_by_which_the_session_reads_them(
    accelerated: Acceleration, path: str, mode: str
) -> None:
    with setting(accelerated._spark, LEGACY, "LEGACY"):
        check_all(accelerated, path, mode)


def test_the_older_name_of_the_setting_means_the_same(accelerated: Acceleration, path: str) -> None:
    with setting(accelerated._spark, OLDER_NAME, "LEGACY"):
        check_all(accelerated, path, "counts")


def test_distinct_days_that_the_session_reads_as_one_are_one(accelerated: Acceleration, path: str) -> None:
    with setting(accelerated._spark, LEGACY, "LEGACY"):
        assert served(accelerated, path, "count(DISTINCT d)", "n IN (1, 2)") != "counts"
        served(accelerated, path, "count(DISTINCT e), count(DISTINCT t)", "n >= 0")
        assert served(accelerated, path, "max(d), count(d), count(DISTINCT n)", "n = 2") == "counts"


def test_days_that_no_calendar_moves_are_served_in_every_session(
    accelerated: Acceleration, path: str
) -> None:
    for mode in ("LEGACY", "CORRECTED"):
        with setting(accelerated._spark, LEGACY, mode):
            assert {served(accelerated, path, "count(*)", condition) for condition in NEWER} == {"counts"}
            assert {served(accelerated, path, "n, d", condition) for condition in NEWER} == {"rows"}


def test_old_days_are_served_where_the_session_does_not_move_them(
    accelerated: Acceleration, path: str
) -> None:
    told = ["d = DATE'0001-01-01'", "day(d) = 3", "t < TIMESTAMP'1000-03-01 12:00:00'"]
    assert {served(accelerated, path, "count(*)", condition) for condition in told} == {"counts"}
