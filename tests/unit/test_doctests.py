"""The examples in docstrings are run, on a table of eight flights that is made without Spark."""

from __future__ import annotations

import doctest
import importlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import tailbit
from support.tables import eight_flights
from tailbit.analysis import Analysis
from tailbit.answer import Answer
from tailbit.api import IndexedTable
from tailbit.arguments.conditions import Condition
from tailbit.handle import Handle
from tailbit.upkeep.table import MaintainedTable

ROOT = Path(__file__).parents[2]
FOLDERS = ("tailbit", "tables", "index", "checkpoints", "streaming")


def examples() -> Iterator[doctest.DocTest]:
    """Every docstring of the package that holds an example."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            if ">>>" in file.read_text(encoding="utf-8"):
                parts = file.relative_to(ROOT).with_suffix("").parts
                module = ".".join(parts if folder == "tailbit" else ("tailbit", *parts))
                for test in doctest.DocTestFinder().find(importlib.import_module(module), module):
                    if test.examples:
                        yield test


EXAMPLES = {test.name: test for test in examples()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table of the examples."""
    folder = tmp_path_factory.mktemp("examples")
    eight_flights(str(folder / "flights"))
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_its_docstring_says(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shutil.copytree(made / "flights", tmp_path / "flights")
    monkeypatch.chdir(tmp_path)
    example = EXAMPLES[name]
    example.globs.update(flights=tailbit.open("flights"))
    printed: list[str] = []
    results = doctest.DocTestRunner().run(example, out=printed.append)
    assert not results.failed, "".join(printed)
    assert not any(doctest.SKIP in e.options for e in example.examples)


@pytest.mark.parametrize("door", [Analysis, Answer, IndexedTable, MaintainedTable, Handle])
def test_each_public_method_of_the_front_door_has_an_example(door: type) -> None:
    public = {n for n, value in vars(door).items() if callable(value) and not n.startswith("_")}
    shown = {name.rpartition(".")[2] for name in EXAMPLES if f".{door.__name__}." in name}
    assert public - shown == set()
    assert "tailbit.api.open_indexed" in EXAMPLES


def test_each_public_method_of_a_condition_is_called_in_an_example_of_its_class() -> None:
    # Methods that differ by a word share an example.
    public = {name for name in vars(Condition) if not name.startswith("_")}
    tests = [test for name, test in EXAMPLES.items() if ".Condition" in name]
    sources = "".join(example.source for test in tests for example in test.examples)
    assert public - set(re.findall(r"\.(\w+)\(", sources)) == set()
