"""What fits what, and how to upgrade: both pages name tests and releases that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.pages import ROOT, text_of
from tailbit.index.kinds.settings import NEWEST_FORMAT, OLDEST_FORMAT
from tailbit.streaming.java.session import PROVEN

PAGES = ("docs/compatibility.md", "docs/upgrading.md")
NAMED = [
    (page, *name) for page in PAGES for name in re.findall(r"`(\w[\w/]*\.py)(?:::(\w+))?`", text_of(page))
]


@pytest.mark.parametrize(("page", "file", "test"), NAMED)
def test_a_test_that_a_page_names_is_there(page: str, file: str, test: str) -> None:
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert f"def {test or 'test_'}" in text


def releases(file: str, pattern: str) -> set[str]:
    """Return the releases that a file of the repository names in a pattern's group."""
    return set(re.findall(pattern, Path(ROOT, file).read_text(encoding="utf-8"), re.M))


@pytest.mark.parametrize(
    ("file", "pattern", "row"),
    [
        ("constraints.txt", r"^pyspark==([\d.]+)", "Spark, to follow a table"),
        ("tests/e2e/test_spark_releases.py", r'"(4\.\d+\.\d+)"', "Spark, whose queries use the index"),
        ("constraints.txt", r"^delta-spark==([\d.]+)", "Delta"),
        ("tests/hudi_tables/session.py", r"hudi-spark\S+_2.1\d:([\d.]+)", "Hudi"),
        ("tests/iceberg_tables/make.py", r"iceberg-spark-runtime-4.1_2.13:([\d.]+)", "Iceberg"),
        ("tests/iceberg_tables/requirements.txt", r"pyiceberg\S*==([\d.]+)", "Iceberg"),
    ],
)
def test_the_releases_that_are_tested_stand_in_their_row(file: str, pattern: str, row: str) -> None:
    [fits] = re.findall(rf"^\| {row} \| ([^|]*) \|", text_of(PAGES[0]), re.M)
    tested = releases(file, pattern)
    assert tested
    assert {release for release in tested if release not in fits} == set()


@pytest.mark.parametrize(
    ("name", "row"), [("Spark", "Spark, to follow a table"), ("Java", "Java"), ("Python", "Python")]
)
def test_what_a_start_calls_proven_stands_in_its_row(name: str, row: str) -> None:
    [fits] = re.findall(rf"^\| {row} \| ([^|(]*)", text_of(PAGES[0]), re.M)
    assert tuple(re.findall(r"\d+(?:\.\d+)*", fits)) == PROVEN[name]


def test_every_format_of_an_index_has_a_row() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \|", text_of(PAGES[1]), re.M)
    numbers = [int(number) for row in rows for number in row.split(", ")]
    assert numbers == list(range(OLDEST_FORMAT, NEWEST_FORMAT + 1))
