"""An index is moved with its table, or copied to another place, and nothing is built again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.drive import Drive
from support.tables import rows, three_commits


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with an index of all of it."""
    path = Path(three_commits(str(tmp_path / "here" / "orders")))
    Drive(path, path / "_tailbit", ["v"]).drain()
    return path


def goes_on(table: Path, index: Path) -> None:
    """One more commit is indexed, and no row of those before; answers come from bitmaps alone."""
    write_deltalake(str(table), rows(1000, 10), mode="append")
    assert sum(outcome.rows for outcome in Drive(table, index).drain()) == 10
    opened = tailbit.open(str(table), index=str(index))
    answer = opened.where("v = 'v1'")
    values = DeltaTable(str(table)).to_pyarrow_table(columns=["v"])["v"].to_pylist()
    assert (answer.count(), answer.files_scanned) == (values.count("v1"), 0)
    assert opened.verify().sound


def test_a_table_that_is_moved_with_its_index_is_gone_on_with(table: Path, tmp_path: Path) -> None:
    there = tmp_path / "there" / "orders"
    shutil.move(table.parent, there.parent)
    goes_on(there, there / "_tailbit")


def test_an_index_that_is_copied_to_another_place_serves_its_table_from_there(
    table: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "indexes" / "orders"
    shutil.copytree(table / "_tailbit", copy)
    shutil.rmtree(table / "_tailbit")
    goes_on(table, copy)


def test_a_copy_of_a_table_with_its_index_goes_its_own_way(table: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(table, copy)
    write_deltalake(str(table), rows(500, 10), mode="append")
    Drive(table, table / "_tailbit").drain()
    goes_on(copy, copy / "_tailbit")
    goes_on(table, table / "_tailbit")


def test_an_index_that_is_given_to_another_table_is_built_anew_for_that(table: Path, tmp_path: Path) -> None:
    other = Path(three_commits(str(tmp_path / "other")))
    write_deltalake(str(other), rows(500, 7), mode="append")
    assert tailbit.open(str(other), index=str(table / "_tailbit")).where("v = 'v1'").files_scanned > 0
    Drive(other, table / "_tailbit").drain()
    goes_on(other, table / "_tailbit")
