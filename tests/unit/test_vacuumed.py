"""Data files deleted after the table ceased to name them: the error says which version would work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.tables import index_of
from tailbit.answer import Answer
from tailbit.errors import DataFileError, VacuumedFileError

QUESTIONS: dict[str, Callable[[Answer], Any]] = {
    "read": lambda answer: answer.read(),
    "stream": lambda answer: list(answer.stream()[1]),
    "count": lambda answer: answer.count(),
    "facets": lambda answer: answer.facets("k"),
    "facets of two columns": lambda answer: answer.facets("k", "v"),
    "positions": lambda answer: answer.positions(),
    "files": lambda answer: answer.files(),
    "explain": lambda answer: answer.explain(),
    "to_delta": lambda answer: answer.to_delta(Path(answer._path).parent / "view"),
}


@pytest.fixture
def vacuumed(tmp_path: Path) -> str:
    """Version 1 replaces the file of version 0, which is deleted; v is indexed."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1, 2], "v": ["a", "b"]}))
    index_of(path, ["v"])
    write_deltalake(path, pa.table({"k": [3], "v": ["a"]}), mode="overwrite")
    write_deltalake(path, pa.table({"k": [4], "v": ["a"]}), mode="append")
    index_of(path, ["v"])
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    return path


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_file_that_was_vacuumed_is_named_with_the_version_that_would_work(
    vacuumed: str, question: str
) -> None:
    with pytest.raises(VacuumedFileError, match="of version 0 is gone: from version 1 on") as gone:
        QUESTIONS[question](tailbit.open(vacuumed).where("k = 1", version=0))
    head = DeltaTable(vacuumed).version()
    assert f"version {head}" in gone.value.hint
    assert tailbit.open(vacuumed).where("k = 3", version=head).read().num_rows == 1


def test_transitions_from_or_to_a_version_that_was_vacuumed_name_the_one_that_would_work(
    vacuumed: str,
) -> None:
    for before, after in ((0, 2), (2, 0)):
        with pytest.raises(VacuumedFileError, match="of version 0 is gone: from version 1 on"):
            tailbit.open(vacuumed).transitions("k", before, after)
    assert tailbit.open(vacuumed).transitions("k", 1, 2) == {4: (0, 1)}


def test_the_index_counts_the_rows_of_a_version_whose_files_are_gone(vacuumed: str) -> None:
    assert tailbit.open(vacuumed).where("v = 'a'", version=0).count() == 1


def test_a_file_that_the_newest_version_names_is_missing_and_not_vacuumed(vacuumed: str) -> None:
    opened = tailbit.open(vacuumed)
    for file in Path(vacuumed).glob("*.parquet"):
        file.unlink()
    for version in (None, 1):
        with pytest.raises(DataFileError, match="missing") as lost:
            opened.where("k > 0", version=version).read()
        assert not isinstance(lost.value, VacuumedFileError)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tracebacks of Python 3.10 show no notes")
@pytest.mark.parametrize(
    "take", [pa.table, polars.DataFrame, lambda answer: duckdb.sql("FROM answer").arrow()]
)
def test_whoever_reads_the_stream_of_a_vacuumed_version_is_told_the_version_that_would_work(
    vacuumed: str, take: Callable[[Any], Any]
) -> None:
    with pytest.raises(Exception, match=f"Ask for version {DeltaTable(vacuumed).version()}, the newest"):
        take(tailbit.open(vacuumed).where("k = 1", version=0))
