"""docs/operations.md and the code say the same: keys, states, pages, metrics, statuses and variables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.pages import ROOT
from tailbit.checkpoints.liveness import Liveness
from tailbit.cli import statuses
from tailbit.cli.main import SUBCOMMANDS, cli
from tailbit.streaming.config.model import Application, Defaults, IndexEntry, TableEntry
from tailbit.streaming.seen.collector import ApplicationCollector
from tailbit.streaming.seen.server import PAGES
from tailbit.streaming.seen.table_state import TableState
from tailbit.streaming.seen.view import View

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
DOCS = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "deploy" / "README.md"]
CODE = ("tailbit", "tables", "index", "checkpoints", "streaming")


def rows_after(head: str) -> list[list[str]]:
    """The cells of the table whose head this is."""
    lines = PAGE[PAGE.index(head) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def named(cells: list[str]) -> set[str]:
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_key_of_a_configuration_stands_in_its_section_and_no_other() -> None:
    written: dict[str, set[str]] = {}
    section = ""
    for first, keys, *_ in rows_after("| section | key |"):
        section = first or section
        written[section] = written.get(section, set()) | named([keys])
    assert written["`[application]`"] == set(Application.model_fields)
    assert written["`[[table]]`, `[defaults]`"] == set(Defaults.model_fields)
    assert written["`[[table]]`"] == set(TableEntry.model_fields) - set(Defaults.model_fields)
    (indexes,) = [row for row in rows_after("| section | key |") if row[1] == "`indexes`"]
    assert named(indexes[2:]) >= set(IndexEntry.model_fields)


def test_the_defaults_that_are_written_are_those_that_hold() -> None:
    told = {name: row[2] for row in rows_after("| section | key |") for name in named([row[1]])}
    for name, value in {"threads": "4", "max_lag": "300s", "stuck_after": "60s", "trigger": "200ms"}.items():
        assert f"`{value}`" in told[name] or f": {value}" in told[name], told[name]
    assert (Application().threads, Defaults().max_lag, Defaults().stuck_after) == (4, 300.0, 60.0)
    assert Application().metrics in told["metrics"]


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
    known = {value for name, value in vars(statuses).items() if name.isupper()}
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
