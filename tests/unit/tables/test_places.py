"""A place that holds no table is told as what it is, with what to give instead."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

import tailbit
from support.drive import Drive
from tailbit.cli.main import cli
from tailbit.errors import NotATableError, StorageError

DATA = pa.table({"v": ["a", "b"]})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder with a table `flights` and its index, and with places that are no tables."""
    table = tmp_path / "flights"
    write_deltalake(str(table), DATA)
    Drive(str(table), str(table / "_tailbit"), ["v"]).drain()
    Drive(str(table), str(tmp_path / "index"), ["v"]).drain()
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("x")
    (tmp_path / "files" / "day=1").mkdir(parents=True)
    (file,) = table.glob("*.parquet")
    (tmp_path / "files" / "day=1" / "a.parquet").write_bytes(file.read_bytes())
    (tmp_path / "a.parquet").write_bytes(file.read_bytes())
    (tmp_path / "berg" / "metadata").mkdir(parents=True)
    (tmp_path / "berg" / "metadata" / "00000-a.metadata.json").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    return tmp_path


PLACES = {
    "flights/_delta_log": ("it lies within the table {lake}/flights", "{lake}/flights"),
    "flights/_delta_log/00000000000000000000.json": ("it is a file and no folder", "{lake}/flights"),
    "flights/_tailbit": ("it is an index of tailbit", "{lake}/flights"),
    "index": ("it is an index of tailbit", "the table that it is of"),
    "flights/_tailbit/kind=settings": ("it lies within the table", "{lake}/flights/_tailbit"),
    "a.parquet": ("it is a Parquet file and no folder", "convert_to_deltalake"),
    "files": ("it holds Parquet files without a log", "convert_to_deltalake"),
    "files/day=1": ("it holds Parquet files without a log", "convert_to_deltalake"),
    "notes.txt": ("it is a file and no folder", "_delta_log or .hoodie"),
    "notes.txt/x": ("there is no such folder", "_delta_log or .hoodie"),
    "notes": ("it has no _delta_log and no .hoodie", "_delta_log or .hoodie"),
    "empty": ("the folder is empty", "_delta_log or .hoodie"),
    "": ("it holds tables: flights", "flights"),
    "berg": ("it is a table of a catalog", "Give its name, iceberg://catalog/namespace.table"),
    "link": ("it is a link to {lake}/gone, which does not exist", "_delta_log or .hoodie"),
    "fligths": ("there is no such folder", "Did you mean flights?"),
    "no/such/folder": ("there is no such folder", "_delta_log or .hoodie"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", ["count", "status"])
def test_a_place_without_a_table_is_told_as_what_it_is_with_what_to_give(
    lake: Path, place: str, command: str
) -> None:
    reason, remedy = (text.format(lake=lake) for text in PLACES[place])
    done = CliRunner().invoke(cli, [command, str(lake / place)])
    assert isinstance(done.exception, NotATableError)
    assert reason in str(done.exception)
    assert remedy in done.exception.hint


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_path_is_told_as_one(text: str) -> None:
    with pytest.raises(NotATableError, match="the path is empty"):
        tailbit.open(text)


def test_a_name_of_a_catalog_or_a_path_that_is_not_expanded_is_told_as_such() -> None:
    for text, remedy in {
        "db.flights": "a name in a catalog is known to Spark alone",
        "delta.`/data/flights`": "Give the plain path of the folder: /data/flights",
        "~/no/such/table": f"give {os.path.expanduser('~/no/such/table')}",
    }.items():
        with pytest.raises(NotATableError, match="there is no such folder") as refused:
            tailbit.open(text)
        assert remedy in refused.value.hint


def test_a_data_file_of_a_table_is_told_with_the_folder_of_its_table(lake: Path) -> None:
    (file,) = (lake / "flights").glob("*.parquet")
    with pytest.raises(NotATableError, match="it is a Parquet file") as refused:
        tailbit.open(str(file))
    assert refused.value.hint == f"Give the folder of its table: {lake}/flights"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="takes another user's rights to test")
def test_a_folder_that_may_not_be_read_is_told_with_its_path_and_whose_right_lacks(lake: Path) -> None:
    for folder in (lake / "flights", lake / "flights" / "_delta_log"):
        folder.chmod(0o700)
        above = [parent for parent in lake.parents if not parent.stat().st_mode & 0o005]
        for parent in above:
            parent.chmod(parent.stat().st_mode | 0o055)
        lake.chmod(0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(StorageError, match=re.escape(str(lake))) as refused:
                tailbit.open(str(lake / "flights"))
        finally:
            os.seteuid(0)
            folder.chmod(0o755)
        assert "Permission denied" in str(refused.value)
        assert "Give this user the right to it" in refused.value.hint
        assert "space" not in refused.value.hint
