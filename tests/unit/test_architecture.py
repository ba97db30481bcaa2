"""docs/architecture.md shows the two paths, and names every room once with its own sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDERS = ("tailbit", "tables", "index", "checkpoints", "streaming")


def rooms() -> Iterator[tuple[str, str]]:
    """Yield every room of the tree and the first sentence of its `__init__`."""
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("__init__.py"):
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            yield path.parent.relative_to(ROOT).as_posix(), text.partition("\n")[0]


def test_every_room_of_the_tree_is_on_the_page_once_with_the_sentence_of_its_init() -> None:
    named = re.findall(r"^- `([\w/]+)/`: (.+)$", PAGE, re.M)
    assert sorted(named) == sorted(rooms())


def test_a_folder_with_modules_is_a_room() -> None:
    folders = {path.parent for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert {folder for folder in folders if not (folder / "__init__.py").exists()} == set()


def test_every_module_that_the_page_names_is_there() -> None:
    named = re.findall(r"`(\w+/[\w/]+\.py)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_room_of_the_index_is_in_the_picture() -> None:
    (picture,) = re.findall(r"^```\n(.+?)^```", PAGE, re.M | re.S)
    in_index = {path.parent.name for path in (ROOT / "index").glob("*/__init__.py")}
    assert in_index - set(re.findall(r"\w+", picture)) == set()
