"""Every command and every line of Python in the README runs as printed, on a table of real flights."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import deltalake
import pyarrow.compute as pc
import pytest

import tailbit
from tailbit.cli.main import COMMANDS as COMMANDS_OF_THE_TOOL
from tailbit.demo.writer import load_flights

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
SHOWN = [
    line.split("  #")[0].strip()
    for _, block in BLOCKS
    for line in block.splitlines()
    if line.startswith("tailbit ")
]
COMMANDS = [command for command in SHOWN if "/data/flights" in command]
QUESTIONS = [command for command in COMMANDS if not command.startswith("tailbit run")]


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten days of flights in ten commits, indexed by the README's own command."""
    path = str(tmp_path_factory.mktemp("data") / "flights")
    rows = load_flights()
    rows = rows.filter(pc.equal(rows["month"], 1))
    for day in range(1, 11):
        deltalake.write_deltalake(path, rows.filter(pc.equal(rows["day"], day)), mode="append")
    [run] = [command for command in COMMANDS if command.startswith("tailbit run")]
    done = tailbit_command(run + " --once", path)
    assert done.returncode == 0, done.stderr
    return path


def tailbit_command(command: str, path: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the README on another table."""
    arguments = shlex.split(command.replace("/data/flights", path))
    tool = os.path.join(os.path.dirname(sys.executable), arguments[0])
    return subprocess.run([tool, *arguments[1:]], capture_output=True, text=True, check=False)


def test_the_readme_shows_every_command_of_the_tool() -> None:
    shown = {command.split()[1] for command in SHOWN}
    assert shown == {command.name for command in COMMANDS_OF_THE_TOOL} - {"demo"}
    assert "make demo" in README


@pytest.mark.parametrize("command", QUESTIONS)
def test_a_command_of_the_readme_runs(flights: str, command: str) -> None:
    done = tailbit_command(command, flights)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_python_of_the_readme_runs(flights: str) -> None:
    [code] = [block for language, block in BLOCKS if language == "python"]
    names: dict[str, object] = {}
    exec(code.replace("/data/flights", flights), names)
    answer = names["answer"]
    assert isinstance(answer, tailbit.Answer)
    assert answer.count() == len(answer.read()) == sum(map(len, answer.positions().values())) > 0
