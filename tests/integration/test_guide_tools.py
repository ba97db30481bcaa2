"""What the guide shows of answers in other tools is what those tools print, on a table of real flights."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from demo.writer import load_flights
from support.pages import GUIDE, blocks, section, text_of
from support.tables import index_of

SECTION = section(text_of(GUIDE), "In the tools you use")
PYTHON = blocks(SECTION, "pycon")
CONSOLE = re.findall(r"^\$ (tailbit .*)\n((?:(?!\$ |```).*\n)*)", SECTION, re.MULTILINE)
PATHS = ("/data/flights", "/data/late")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the flights of ten days in ten commits, indexed."""
    folder = tmp_path_factory.mktemp("data")
    rows: pa.Table = load_flights()
    rows = rows.filter(pc.equal(rows["month"], 1))
    for day in range(1, 11):
        deltalake.write_deltalake(folder / "flights", rows.filter(pc.equal(rows["day"], day)), mode="append")
    index_of(folder / "flights", ["carrier", "origin", "dest"])
    return folder


def at(data: Path, text: str) -> str:
    """A text of the guide with the paths of the test."""
    for path in PATHS:
        text = text.replace(path, str(data / Path(path).name))
    return text


def run(data: Path, sessions: list[str], names: dict[str, Any]) -> None:
    """Blocks of a session of Python print what stands in them."""
    for number, block in enumerate(sessions):
        test = doctest.DocTestParser().get_doctest(at(data, block), names, f"block {number}", None, None)
        names = test.globs
        printed: list[str] = []
        results = doctest.DocTestRunner().run(test, out=printed.append, clear_globs=False)
        assert results.attempted
        assert not results.failed, "".join(printed)


def test_the_python_of_each_tool_prints_what_the_guide_shows(data: Path) -> None:
    run(data, [block for block in PYTHON if "spark" not in block], {})


def test_spark_prints_what_the_guide_shows(data: Path, spark: Any) -> None:
    opened = next(block for block in PYTHON if "tailbit.open" in block)
    names: dict[str, Any] = {"spark": spark}
    wanted = (">>> import", ">>> flights", ">>> late")
    lines = [line for line in opened.splitlines() if line.startswith(wanted)]
    run(data, ["\n".join(lines) + "\n", *(block for block in PYTHON if "spark" in block)], names)


@pytest.mark.parametrize(("command", "output"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_a_command_prints_what_the_guide_shows(data: Path, tmp_path: Path, command: str, output: str) -> None:
    tool = os.path.join(os.path.dirname(sys.executable), "tailbit")
    arguments = command.replace("tailbit", f"'{tool}'", 1)
    done = subprocess.run(
        at(data, arguments), shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_every_tool_of_the_section_has_an_example() -> None:
    tools = re.findall(r"^### .*\n((?:(?!^### ).*\n?)*)", SECTION, re.MULTILINE)
    assert len(tools) == 6
    assert all("```pycon" in tool or "```console" in tool for tool in tools)
