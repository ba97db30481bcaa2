"""Errors about a table speak the words of its own format: what is Delta's is said of Delta tables alone."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.drive import Drive
from support.hudi_builder import BaseFile, HudiBuilder
from tailbit.errors import (
    CommitGapError,
    DataFileError,
    NotATableError,
    StaleIndexError,
    TailbitError,
    UnknownColumnError,
    UsageError,
    VacuumedFileError,
    VersionNotFoundError,
)
from tailbit.tables import open_table

OF_DELTA = re.compile(r"Delta|_delta_log|deletion vector|VACUUM|RESTORE|FSCK|REORG|DROP FEATURE")


class Growing:
    """A Hudi table of two commits to one file group: the later file takes the place of the first."""

    def __init__(self, folder: Path) -> None:
        made = HudiBuilder(str(folder / "t"), 9, random.Random(1))
        self.path, group, rows = str(made.root), made.new_group(), pa.table({"k": [1, 2], "v": ["x", None]})
        self.files: list[BaseFile] = []
        for _ in range(2):
            requested = made.timeline.request()
            self.files.append(made.data_file(rows, requested, group, "p")[0])
            made.commit(requested, self.files[-1:], rows.schema, "UPSERT")

    def first(self) -> tailbit.Answer:
        return tailbit.open(self.path).where("v = 'x'", version=open_table(self.path).earliest())


@pytest.fixture
def table(tmp_path: Path) -> Growing:
    return Growing(tmp_path)


def lose(table: Growing) -> None:
    Path(table.path, table.files[1].path).unlink()
    tailbit.open(table.path).where("v = 'x'").read()


def damage(table: Growing) -> None:
    Path(table.path, table.files[1].path).write_bytes(b"PAR1" * 10)
    tailbit.open(table.path).where("v = 'x'").read()


def clean(table: Growing) -> None:
    Path(table.path, table.files[0].path).unlink()
    table.first().read()


def lag(table: Growing) -> None:
    Drive(table.path, f"{table.path}/_tailbit", ["v"]).drain()
    late = open_table(table.path).head() + 1
    tailbit.open(table.path, at_least=late).where("v = 'x'").count()


def asked_at(**moment: object) -> Callable[[Growing], object]:
    return lambda table: tailbit.open(table.path).where(**moment)  # type: ignore[arg-type]


def gap(table: Growing) -> None:
    opened = open_table(table.path)
    opened.changes(0, opened.head() + 1)


WRONG: Sequence[tuple[type[TailbitError], Callable[[Growing], object]]] = (
    (DataFileError, lose),
    (DataFileError, damage),
    (VacuumedFileError, clean),
    (StaleIndexError, lag),
    (VersionNotFoundError, asked_at(version=1)),
    (VersionNotFoundError, asked_at(as_of="2999-01-01T00:00:00Z")),
    (CommitGapError, gap),
    (UnknownColumnError, lambda table: tailbit.open(table.path).where("nowhere = 1")),
    (UsageError, lambda table: table.first().to_delta(f"{table.path}/view")),
)


@pytest.mark.parametrize(
    ("error", "go_wrong"), WRONG, ids=[f"{n}-{e.__name__}" for n, (e, _) in enumerate(WRONG)]
)
def test_no_error_about_a_table_of_another_format_holds_words_of_delta(
    table: Growing, error: type[TailbitError], go_wrong: Callable[[Growing], object]
) -> None:
    with pytest.raises(error) as raised:
        go_wrong(table)
    assert OF_DELTA.findall(raised.value.describe()) == []


def test_the_remedy_for_a_lost_file_is_in_the_words_of_the_format(table: Growing, tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as raised:
        lose(table)
    assert "restore the table to a savepoint" in raised.value.hint
    write_deltalake(tmp_path / "delta", pa.table({"v": ["x"]}))
    (file,) = (tmp_path / "delta").glob("*.parquet")
    file.unlink()
    with pytest.raises(DataFileError) as raised:
        tailbit.open(str(tmp_path / "delta")).where("v = 'x'").read()
    assert "FSCK REPAIR TABLE" in raised.value.hint


def test_the_format_says_what_deletes_files_that_left(table: Growing) -> None:
    with pytest.raises(VacuumedFileError, match="cleaner"):
        clean(table)


def test_a_place_without_a_table_is_told_with_what_is_looked_for(tmp_path: Path) -> None:
    told = "no Delta table and no Hudi table and no Iceberg table at .*: the folder is empty"
    with pytest.raises(NotATableError, match=told) as raised:
        open_table(str(tmp_path))
    assert raised.value.hint == "Give the folder that holds _delta_log or .hoodie or metadata."


def test_the_hints_of_errors_are_those_of_no_format() -> None:
    classes: list[type[TailbitError]] = [TailbitError]
    for cls in classes:
        classes += cls.__subclasses__()
    # What an index lies in is a Delta table, and a deletion vector is one of a Delta table.
    ours = {
        c.__name__: OF_DELTA.findall(c.template + c.hint) for c in classes if c.__module__ == "tailbit.errors"
    }
    assert {name: words for name, words in ours.items() if words} == {
        "DeletionVectorError": ["deletion vector"]
    }
