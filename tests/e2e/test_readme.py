"""Every command and every line of Python in README, guide and operations runs as printed, on real flights."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tailbit
from demo.writer import load_flights
from support.pages import GUIDE, OPERATIONS, PAGES, README, blocks, commands, text_of
from support.tables import index_of
from tailbit.cli.main import COMMANDS as COMMANDS_OF_THE_TOOL

SHOWN = [command for page in PAGES for command in commands(text_of(page))]
OF_FLIGHTS = list(dict.fromkeys(command for command in SHOWN if "/data/flights" in command))
QUESTIONS = [command for command in OF_FLIGHTS if not command.startswith("tailbit run")]


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten days of flights in ten commits, indexed by the README's own command; airports lie beside them."""
    path = str(tmp_path_factory.mktemp("data") / "flights")
    rows = load_flights()
    rows = rows.filter(pc.equal(rows["month"], 1))
    for day in range(1, 11):
        deltalake.write_deltalake(path, rows.filter(pc.equal(rows["day"], day)), mode="append")
    airports = os.path.join(os.path.dirname(path), "airports")
    deltalake.write_deltalake(airports, pa.table({"faa": ["EWR", "JFK", "LGA"]}))
    index_of(airports, ["faa"])
    [run] = [command for command in commands(text_of(README)) if command.startswith("tailbit run")]
    done = tailbit_command(run, path)
    assert done.returncode == 0, done.stderr
    return path


def tailbit_command(command: str, path: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a page on the table at another path, and on those beside it."""
    arguments = shlex.split(command.replace("/data/", os.path.join(os.path.dirname(path), "")))
    tool = os.path.join(os.path.dirname(sys.executable), arguments[0])
    return subprocess.run([tool, *arguments[1:]], capture_output=True, text=True, check=False)


def test_the_pages_show_every_command_of_the_tool() -> None:
    shown = {command.split()[1] for command in SHOWN}
    assert shown == {command.name for command in COMMANDS_OF_THE_TOOL}
    assert "make demo" in text_of(README)


def test_the_readme_is_read_in_minutes() -> None:
    assert len(text_of(README).splitlines()) <= 180


@pytest.mark.parametrize("command", QUESTIONS)
def test_a_command_of_the_pages_runs(flights: str, command: str) -> None:
    done = tailbit_command(command, flights)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_run_of_the_operations_page_is_that_of_the_readme_without_an_end() -> None:
    [once] = [command for command in commands(text_of(README)) if command.startswith("tailbit run")]
    assert once.removesuffix(" --once") in commands(text_of(OPERATIONS))


@pytest.mark.parametrize("page", [README, GUIDE])
def test_the_python_of_a_page_runs(flights: str, page: str) -> None:
    names: dict[str, object] = {}
    for block in blocks(text_of(page), "python"):
        exec(block.replace("/data/flights", flights), names)
    answer = names["answer"]
    assert isinstance(answer, tailbit.Answer)
    assert answer.count() == len(answer.read()) == sum(map(len, answer.positions().values())) > 0
