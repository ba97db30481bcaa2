"""docs/architecture.md names every room with its own sentence, and every module once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FOLDERS = ("tailbit", "tables", "index", "checkpoints", "streaming")
ROOMS = re.findall(r"^## `([\w/]+)/`\n\n> (.+)\n\n((?:.*\n)+?)(?=#)", PAGE, re.M)
"""Folder, sentence and text of every room of the page."""


def modules() -> list[Path]:
    found = [path.relative_to(ROOT) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    return sorted(found)


def test_every_room_of_the_tree_is_on_the_page_once() -> None:
    rooms = {path.parent.as_posix() for path in modules()}
    assert sorted(folder for folder, _, _ in ROOMS) == sorted(rooms)


def test_every_module_is_named_once_in_its_room() -> None:
    named = [
        f"{folder}/{name}" for folder, _, text in ROOMS for name in re.findall(r"^- `(\w+\.py)`", text, re.M)
    ]
    assert sorted(named) == [path.as_posix() for path in modules() if path.name != "__init__.py"]


def test_a_room_on_the_page_has_the_sentence_of_its_init() -> None:
    for folder, sentence, _ in ROOMS:
        said = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8")))
        assert (said or "").splitlines()[0] == sentence, folder


def picture() -> str:
    """The picture of the two paths, at the top of the page."""
    (drawn,) = re.findall(r"^```\n(tables ─► .+?)^```", PAGE, re.M | re.S)
    return str(drawn)


def test_every_room_of_the_index_is_in_the_picture() -> None:
    # Right of a gap, and in brackets, stands what rooms do; only their names count.
    drawn = re.sub(r"\(.+?\)|  .*", "", picture())
    rooms = {path.parent.name for path in (ROOT / "index").glob("*/__init__.py")}
    assert rooms - set(re.findall(r"\w+", drawn)) == set()
