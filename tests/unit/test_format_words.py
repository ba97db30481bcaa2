"""Errors about a table speak the words of its own format: what is Delta's is said of Delta tables alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.drive import Drive
from support.listed_table import ListedRows, ListedTable
from tailbit.errors import (
    CommitGapError,
    DataFileError,
    HiddenRowsError,
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


@pytest.fixture
def table(tmp_path: Path) -> ListedTable:
    """Three commits: a file, another one, and a commit by which the first file leaves."""
    (tmp_path / "listed").mkdir()
    table = ListedTable(tmp_path / "listed", step=1_000_003)
    for name in ("a.parquet", "b.parquet"):
        table.commit({name: table.write(name, pa.table({"k": [1, 2], "v": ["x", None]}), "p")})
    table.commit({"a.parquet": None})
    return table


def first(table: ListedTable) -> tailbit.Answer:
    return tailbit.open(table).where("v = 'x'", version=table.earliest())


def lose(table: ListedTable) -> None:
    Path(table.root, "b.parquet").unlink()
    tailbit.open(table).where("v = 'x'").read()


def damage(table: ListedTable) -> None:
    Path(table.root, "b.parquet").write_bytes(b"PAR1" * 10)
    tailbit.open(table).where("v = 'x'").read()


def clean(table: ListedTable) -> None:
    Path(table.root, "a.parquet").unlink()
    first(table).read()


def hide(table: ListedTable) -> None:
    slice_ = table.snapshot().files.get("b.parquet")
    assert slice_ is not None
    table.commit({slice_.path: replace(slice_, hidden=ListedRows("none"))})
    tailbit.open(table).where("v = 'x'").read()


def lag(table: ListedTable) -> None:
    index = f"{table.root}-index"
    Drive(table, index, ["v"]).drain()
    tailbit.open(table, index=index, at_least=table.head() + 1).where("v = 'x'").count()


WRONG: Sequence[tuple[type[TailbitError], Callable[[ListedTable], object]]] = (
    (DataFileError, lose),
    (DataFileError, damage),
    (VacuumedFileError, clean),
    (HiddenRowsError, hide),
    (StaleIndexError, lag),
    (VersionNotFoundError, lambda table: tailbit.open(table).where(version=1)),
    (VersionNotFoundError, lambda table: tailbit.open(table).where(as_of="2999-01-01T00:00:00Z")),
    (CommitGapError, lambda table: table.changes(0, table.head() + 1)),
    (UnknownColumnError, lambda table: tailbit.open(table).where("nowhere = 1")),
    (UsageError, lambda table: first(table).to_delta(f"{table.root}/view")),
)


@pytest.mark.parametrize(
    ("error", "go_wrong"), WRONG, ids=[f"{n}-{e.__name__}" for n, (e, _) in enumerate(WRONG)]
)
def test_no_error_about_a_table_of_another_format_holds_words_of_delta(
    table: ListedTable, error: type[TailbitError], go_wrong: Callable[[ListedTable], object]
) -> None:
    with pytest.raises(error) as raised:
        go_wrong(table)
    assert OF_DELTA.findall(raised.value.describe().replace("DeletionVectorError", "")) == []


def test_the_remedy_for_a_lost_file_is_in_the_words_of_the_format(table: ListedTable, tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as raised:
        lose(table)
    assert raised.value.hint == "List the file anew."
    write_deltalake(tmp_path / "delta", pa.table({"v": ["x"]}))
    (file,) = (tmp_path / "delta").glob("*.parquet")
    file.unlink()
    with pytest.raises(DataFileError) as raised:
        tailbit.open(str(tmp_path / "delta")).where("v = 'x'").read()
    assert "FSCK REPAIR TABLE" in raised.value.hint


def test_the_format_says_what_deletes_files_that_left(table: ListedTable) -> None:
    with pytest.raises(VacuumedFileError, match="the sweeper deletes such files"):
        clean(table)


def test_an_indexer_leaves_out_a_file_of_any_format_whose_hidden_rows_cannot_be_read(
    table: ListedTable,
) -> None:
    slice_ = table.snapshot().files.get("b.parquet")
    assert slice_ is not None
    table.commit({slice_.path: replace(slice_, hidden=ListedRows("none"))})
    drive = Drive(table, f"{table.root}-index", ["v"])
    drive.drain()
    record = drive.index.state.recorded.get("b.parquet")
    assert record is not None
    assert "hidden rows none at offset 0" in str(record.error)


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
