"""Rooms, files and functions stay of a size that a reader takes in at once, and texts name what they count.

A function is counted from its `def` to its last line: its arguments and its docstring count, since a reader
meets them too; decorators do not.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("tailbit", "tables", "index", "checkpoints", "streaming")
TOOLS = ("benchmarks", "tests/support")
"""Not rooms of the house, but files and functions of the same size."""

ROOM_MODULES, ROOM_LINES, FILE_LINES, FUNCTION_LINES = 13, 2400, 400, 40
"""A room: modules beside `__init__.py`, and lines of all its files; lines of a file; lines of a function.

What always changes together stands together; a file that is two things is split long before the limit.
"""

VAGUE = frozenset("found its asked told picked sought taken made one each way what it them they".split())
"""Names of arguments and variables that say nothing of what these hold: at most one in a thousand lines."""


def texts(*more: str) -> Iterator[tuple[Path, str]]:
    """Every module by its path in the repository, with its text; `more` folders are looked into too."""
    for folder in (*FOLDERS, *more):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_no_file_is_longer_than_its_limit() -> None:
    lengths = {path.as_posix(): len(text.splitlines()) for path, text in texts(*TOOLS)}
    assert {path: length for path, length in lengths.items() if length > FILE_LINES} == {}


def test_no_function_is_longer_than_its_limit() -> None:
    lengths = {
        f"{path.as_posix()}: {node.name}": lines_of(node)
        for path, text in texts(*TOOLS)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: length for name, length in lengths.items() if length > FUNCTION_LINES} == {}


def test_no_room_is_larger_than_its_limit() -> None:
    lengths: dict[str, list[int]] = defaultdict(list)
    for path, text in texts():
        lengths[path.parent.as_posix()].append(len(text.splitlines()))
    sizes = {room: (len(found) - 1, sum(found)) for room, found in lengths.items()}
    assert {
        room: (modules, lines)
        for room, (modules, lines) in sizes.items()
        if modules > ROOM_MODULES or lines > ROOM_LINES
    } == {}


def test_hardly_a_variable_has_a_name_that_says_nothing_of_what_it_holds() -> None:
    names, lines = list[str](), 0
    for _, text in texts():
        lines += len(text.splitlines())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.arg):
                names.append(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.append(node.id)
    assert 1000 * sum(name in VAGUE for name in names) <= lines


def test_a_number_or_a_unit_is_named() -> None:
    # Where a text says "so many", the reader must look for what is meant: a parameter, a limit, a unit.
    unnamed = re.compile(r"\bso\W+many\b", re.I)
    assert [path.as_posix() for path, text in texts() if unnamed.search(text)] == []


def test_no_module_changes_how_others_are_imported() -> None:
    """A hook that one command needs is in the way of whatever runs after it in the same process."""
    changed = re.compile(
        r"sys\.(meta_path|path_hooks)\b|sys\.modules(\[[^]]*\] *=[^=]|\.(pop|update|setdefault))"
    )
    found = [path.as_posix() for path, text in texts() if changed.search(text)]
    assert found == []


def test_dataclasses_are_those_whose_methods_are_made_at_their_first_use() -> None:
    theirs = re.compile(r"^from dataclasses import .*\bdataclass\b|\bdataclasses\.dataclass\b", re.M)
    ours = "tailbit/imports/dataclass.py"
    assert [path.as_posix() for path, text in texts() if theirs.search(text)] == [ours]
