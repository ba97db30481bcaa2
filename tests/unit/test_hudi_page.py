"""What docs/for-hudi-users.md shows on its first screen is what the commands print, of a real Hudi table."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tailbit
from support.drive import Drive
from support.hudi import unpack
from tailbit.cli.main import cli

PAGE = Path(__file__).parents[2] / "docs" / "for-hudi-users.md"
[READER] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
[EXPORT] = re.findall(r"^tailbit (records .*)$", PAGE.read_text(), re.MULTILINE)
[SCREEN] = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
PARTS = [part for part in re.split(r"^\$ ", SCREEN, flags=re.MULTILINE) if part]
COMMANDS = [(part.partition("\n")[0], part.partition("\n")[2]) for part in PARTS]
ASKED = [pair for pair in COMMANDS if not pair[0].startswith(("ls ", "tailbit run "))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the table of the page, indexed."""
    at = tmp_path_factory.mktemp("page")
    Path(unpack("cow_v9_late", at).path).rename(at / "orders")
    Drive(at / "orders", at / "orders" / "_tailbit", ["city", "qty", "part"]).drain()
    return at


def test_the_timeline_on_the_screen_is_that_of_the_table(folder: Path) -> None:
    names = sorted(file.name for file in (folder / "orders/.hoodie/timeline").iterdir() if "_" in file.name)
    assert COMMANDS[0] == ("ls orders/.hoodie/timeline | grep _", "".join(f"{name}\n" for name in names))


@pytest.mark.parametrize(("command", "printed"), ASKED)
def test_the_answers_on_the_screen_are_those_of_the_commands(
    command: str, printed: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(cli, shlex.split(command)[1:])
    assert result.stdout == printed


def test_the_reader_of_the_page_finds_in_the_records_what_a_condition_finds(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(cli, shlex.split(EXPORT))
    assert result.exit_code == 0, result.output
    read: dict[str, Any] = {}
    exec(READER, read)
    found = {file: rows.to_array().tolist() for file, rows in read["both"].items()}
    matching = tailbit.open("orders").where("city = 'Lima' AND part = 'p0'").positions()
    assert found == {file: rows.tolist() for file, rows in matching.items()} != {}
