"""docs/operations.md says what the code does: states, pages, metrics, variables; README is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.pages import ROOT
from tailbit import cli as command_line
from tailbit.checkpoints.liveness import Liveness
from tailbit.cli.main import SUBCOMMANDS, cli
from tailbit.streaming.watch.collector import ApplicationCollector
from tailbit.streaming.watch.server import PAGES
from tailbit.streaming.watch.view import TableState, View

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
DOCS = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "deploy" / "README.md"]
CODE = ("tailbit", "tables", "index", "checkpoints", "streaming")


def rows_after(head: str) -> list[list[str]]:
    """The cells of the table whose head this is."""
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named(cells: list[str]) -> set[str]:
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_state_of_a_table_stands_there() -> None:
    assert named([row[0] for row in rows_after("| state | meaning |\n|---|---|\n| `waiting`")]) == {
        state.value for state in TableState
    }


def test_every_page_stands_there() -> None:
    assert named([row[0] for row in rows_after("| page | what it says |")]) == set(PAGES)


def test_every_metric_stands_there() -> None:
    exported = {
        family.name + ("_total" if family.type == "counter" else "")
        for family in ApplicationCollector(View(Liveness(), tables=list)).collect()
    }
    assert named([row[0] for row in rows_after("| metric | meaning |")]) == exported


def test_every_exit_status_stands_there() -> None:
    written = {int(row[0]) for row in rows_after("| exit status | meaning |")}
    known = {value for name, value in vars(command_line).items() if name.isupper()}
    assert written == known | {0}


def test_every_variable_of_the_environment_stands_in_the_documentation_and_none_besides() -> None:
    texts = [path.read_text(encoding="utf-8") for room in CODE for path in (ROOT / room).rglob("*.py")]
    read = {name for text in texts for name in re.findall(r'"(TAILBIT_[A-Z]\w*)"', text)}
    written = {
        name for path in DOCS for name in re.findall(r"\bTAILBIT_[A-Z]\w*", path.read_text(encoding="utf-8"))
    }
    assert read - INTERNAL == written - INTERNAL


INTERNAL = {"TAILBIT_FAULT", "TAILBIT_PYTHON"}
"""Of the tests, and between a run and what it starts."""


@pytest.mark.parametrize(
    "command", sorted({*cli.commands, *SUBCOMMANDS} - {part.split()[0] for part in SUBCOMMANDS})
)
def test_every_command_stands_in_the_reference(command: str) -> None:
    assert f"## `tailbit {command}`" in (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_every_target_of_make_that_the_documentation_names_is_there() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    asked = {name for path in DOCS for name in _targets(path)}
    assert asked <= targets


def _targets(path: Path) -> set[str]:
    return set(re.findall(r"(?:`|^)make ([a-z][\w-]+)", path.read_text(encoding="utf-8"), re.M))


README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_readme_is_short_and_its_picture_fits_a_narrow_screen() -> None:
    assert len(README.splitlines()) <= 180
    (picture,) = re.findall(r"```\n([^`]*your table[^`]*)```", README)
    assert max(map(len, picture.splitlines())) <= 60


def test_the_worked_line_is_what_its_figures_make() -> None:
    text = " ".join(README.split())
    worked = re.search(
        r"1 TB of (\d+) billion rows, .*: index (\d+) GB, built in (\d+) minutes on (\d+) cores\.\*\* .*"
        r" ([\d.]+) bytes a row and ([\d.]+) M rows a second of one core",
        text,
    )
    assert worked is not None
    billions, size, minutes, cores, a_row, millions = map(float, worked.groups())
    assert abs(billions * a_row - size) < 1
    assert 0 <= minutes - billions * 1000 / millions / cores / 60 < 1
