"""Every word of docs/glossary.md is a name in the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"
ROWS = re.findall(
    r"^\| (?!word)([^|]+?) \| [^|]+ \| `(tailbit[\w.]+)` \|$", PAGE.read_text(encoding="utf-8"), re.M
)


def named(dotted: str) -> Any:
    """The module, or the attribute of a module or class; a field counts that only annotations name."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            fields = getattr(thing, "__annotations__", {})
            thing = getattr(thing, part) if hasattr(thing, part) else fields[part]
        return thing
    raise LookupError(dotted)


def test_the_glossary_has_its_words() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    heads = [line for line in lines if line.startswith("| word ")]
    assert len(ROWS) == len(lines) - len(heads) >= 25


@pytest.mark.parametrize(("word", "name"), ROWS)
def test_a_word_of_the_glossary_is_a_name_in_the_code(word: str, name: str) -> None:
    thing = named(name)
    assert thing is not None, word
    home = getattr(thing, "__module__", "")
    assert name.startswith(home) or not home.startswith("tailbit"), f"{word} is defined in {home}"


def test_no_word_stands_twice() -> None:
    words = [word for word, _ in ROWS]
    assert len(words) == len(set(words))
