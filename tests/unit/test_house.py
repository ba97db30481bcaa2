"""Names say what they hold, texts name what they count, and imports and dataclasses are the plain ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("tailbit", "tables", "index", "checkpoints", "streaming")
VAGUE = frozenset("found its asked told picked sought taken made one each way what it them they".split())
"""Names of arguments and variables that say nothing of what these hold: at most one in a thousand lines."""


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every module's path in the repository and its text."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


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
