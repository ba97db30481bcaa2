"""What depends on a session's locale, settings or Java is asked of the session, or left to Spark."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from support.acceleration import rows_of
from support.delta_builder import DeltaBuilder
from support.spark_session import session_settings
from support.tables import index_of
from tailbit.spark.acceleration import Acceleration

pytestmark = pytest.mark.spark

NAMES = [
    "title",
    "TITLE",
    "Title",
    "TİTLE",
    "tıtle",
    "ΤΊΤΛΟΣ",
    "τίτλος",
    "ԵՒ",
    "և",
    "ß",
    "ẞ",
    "Ì",
    "Ⱟ",
    "ⱟ",
    "a😀b",
    "ab",
    "other",
]
LETTERS = [
    "lower(name) = 'title'", "lower(name) IN ('title', 'tıtle')", "upper(name) = 'TITLE'", "upper(name) = 'TİTLE'", "name ILIKE 'tITle'",
    "upper(name) = 'ΤΙΤΛΟΣ'", "upper(name) = 'ԵՎ'", "lower(name) = 'i̇̀'", "lower(name) = 'ⱟ'", "startswith(lower(name), 'tı')", "NOT (lower(name) = 'title')",
]  # fmt: skip


def made(path: Path) -> str:
    """Make an indexed table of several files in which each name stands."""
    for number in range(3):
        count = len(NAMES)
        rows = {"name": NAMES * 20, "n": [number * 1000 + n for n in range(count * 20)]}
        write_deltalake(str(path), pa.table(rows), mode="append")
    index_of(str(path), ["name"])
    return str(path)


@pytest.fixture(scope="module")
def path(accelerated: Acceleration, tmp_path_factory: pytest.TempPathFactory) -> str:
    return made(tmp_path_factory.mktemp("sessions") / "table")


def served(accelerated: Acceleration, statement: str, **settings: str) -> set[str | None]:
    """Check that the rows of a statement are the same with the rules and without; return how it was served.

    `settings` of the session meanwhile, `__` in a name standing for a dot.
    """
    spark = accelerated._spark
    with session_settings(spark, {name.replace("__", "."): value for name, value in settings.items()}):
        assert rows_of(spark, statement) == rows_of(spark, statement, enabled=False)
        return {scan.served for scan in accelerated.last() if scan.table and scan.table in statement}


def counts_of(path: str, *conditions: str) -> str:
    """Return one statement that counts the rows of each condition: a statement for each would cost more."""
    return " UNION ALL ".join(
        f"SELECT {number}, count(*) FROM delta.`{path}` WHERE {condition}"
        for number, condition in enumerate(conditions)
    )


@pytest.fixture
def locale(spark: Any) -> Iterator[Any]:
    """Return a function that gives the JVM a locale until the end of the test."""
    locales = spark._jvm.java.util.Locale
    before = locales.getDefault()
    yield lambda language: locales.setDefault(spark._jvm.java.util.Locale(language))
    locales.setDefault(before)


@pytest.mark.by_thirds
@pytest.mark.parametrize("icu", ["true", "false"])
@pytest.mark.parametrize("language", ["tr", "az", "lt", "el", "hy", "de"])
def test_letters_of_a_language_are_those_of_the_session(
    accelerated: Acceleration, path: str, locale: Any, language: str, icu: str
) -> None:
    locale(language)
    by = served(accelerated, counts_of(path, *LETTERS), spark__sql__icu__caseMappings__enabled=icu)
    assert by == {"counts"} or (language, icu) != ("de", "true")


def test_a_letter_that_a_locale_has_otherwise_leaves_its_function_to_spark(
    accelerated: Acceleration, path: str, locale: Any
) -> None:
    locale("tr")
    assert served(accelerated, counts_of(path, "lower(name) = 'title'")) == {None}
    assert served(accelerated, counts_of(path, "name = 'title'")) == {"counts"}


def test_letters_that_are_the_same_are_served(accelerated: Acceleration, path: str) -> None:
    assert served(accelerated, counts_of(path, *LETTERS)) == {"counts"}


@pytest.mark.parametrize("pattern", ["a😀_", "_😀%b", "😀_%_", "a_b", "%a%b%"])
def test_like_with_characters_beyond_the_basic_plane_is_as_in_spark(
    accelerated: Acceleration, path: str, pattern: str
) -> None:
    by = served(accelerated, counts_of(path, f"name LIKE '{pattern}'"))
    assert by == {None if "😀" in pattern else "counts"}


@pytest.fixture(scope="module")
def moments(accelerated: Acceleration, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Times in INT96 of a writer that is not Spark's."""
    type_ = pa.timestamp("us", "UTC")
    table = DeltaBuilder(str(tmp_path_factory.mktemp("int96") / "t"))
    table.create(pa.schema([("n", pa.int32()), ("t", type_)]))
    for day in range(1, 5):
        times = [datetime(2024, 1, day, hour, tzinfo=timezone.utc) for hour in range(24)] * 20
        rows = pa.table({"n": pa.array(range(len(times)), pa.int32()), "t": pa.array(times, type_)})
        table.commit([table.data_file(rows, use_deprecated_int96_timestamps=True)])
    index_of(table.path, ["t"])
    return table.path


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM {t} WHERE t = TIMESTAMP'2024-01-02 05:00:00Z'",
        "SELECT * FROM {t} WHERE t = TIMESTAMP'2024-01-02 05:00:00Z' AND n < 30",
        "SELECT min(t), max(t) FROM {t}",
        "SELECT t, count(*) FROM {t} GROUP BY t",
        "SELECT n, t FROM {t} WHERE t < TIMESTAMP'2024-01-01 01:00:00Z'",
    ],
)
def test_times_that_the_session_converts_from_int96_are_left_to_spark(
    accelerated: Acceleration, moments: str, statement: str
) -> None:
    text = statement.format(t=f"delta.`{moments}`")
    zone = {"spark__sql__session__timeZone": "America/New_York"}
    assert served(accelerated, text, spark__sql__parquet__int96TimestampConversion="true", **zone) == {None}


def test_a_session_that_ignores_missing_files_counts_those_that_are_there(
    accelerated: Acceleration, tmp_path: Path
) -> None:
    path = made(tmp_path / "table")
    next(Path(path).glob("*.parquet")).unlink()
    served(accelerated, counts_of(path, "name = 'title'"), spark__sql__files__ignoreMissingFiles="true")
