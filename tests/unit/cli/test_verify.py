"""`tailbit verify` prints a line for each damaged part, with what to do, however often it was met."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.drive import Drive
from support.tables import WRONG, gone, index_files, with_vectors
from tailbit.cli.main import cli


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two files of ten rows, two rows of the first hidden; the column v is indexed."""
    path = str(tmp_path / "a table")
    with_vectors(path)
    return path


def said(*arguments: str) -> list[str]:
    return CliRunner().invoke(cli, list(arguments)).stdout.splitlines()


def told(path: str) -> list[str]:
    return [line for line in said("verify", path) if line.startswith("WRONG")]


@pytest.mark.parametrize("what", WRONG)
def test_a_damaged_part_of_an_index_is_one_line_with_the_command_that_repairs_it(
    path: str, what: str
) -> None:
    WRONG[what](path)
    lines = told(path)
    assert lines
    assert all(line.endswith(f"; do: tailbit repair {shlex.quote(path)}") for line in lines)
    wheres = [line.split(": ")[0] for line in lines]
    assert len(wheres) == len(set(wheres)) <= 2, "a part is told once; wrong postings make wrong counts"
    assert said("repair", path)[-1].endswith("built again")
    assert said("verify", path)[-1] == "sound"


def test_each_of_several_damaged_files_has_its_own_line(path: str) -> None:
    files = [index_files(path, kind)[0] for kind in ("bitmap_index", "value_counts", "hidden_rows")]
    for file in files:
        gone(file)
    assert len(told(path)) == len(files)


def test_lost_settings_are_told_with_a_command_that_names_columns(path: str) -> None:
    gone(index_files(path, "settings")[0])
    (line,) = told(path)
    assert f"do: tailbit repair {shlex.quote(path)} --columns " in line
    assert said("repair", path, "--columns", "v")[-1].endswith("built again")


def test_a_damaged_data_file_is_one_line_that_does_not_blame_the_index(path: str) -> None:
    (Path(path) / "f1.parquet").unlink()
    (line,) = told(path)
    assert line.startswith("WRONG file f1.parquet: ")
    assert "restore that file" in line
    assert "tailbit repair" not in line
    assert said("repair", path)[-1] == "nothing to repair in the index"


def test_the_command_names_the_index_that_was_given(path: str, tmp_path: Path) -> None:
    index = str(tmp_path / "index")
    Drive(path, index, ["v"]).drain()
    for file in Path(index, "kind=bitmap_index").glob("*.parquet"):
        file.unlink()
    lines = [line for line in said("verify", path, "--index", index) if line.startswith("WRONG")]
    assert [line.partition("; do: ")[2] for line in lines] == [
        f"tailbit repair {shlex.quote(path)} --index {shlex.quote(index)}"
    ]
