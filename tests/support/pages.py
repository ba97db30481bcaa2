"""The pages that users read first, and the commands and examples that stand in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README, GUIDE, OPERATIONS = "README.md", "docs/guide.md", "docs/operations.md"
PAGES = (README, GUIDE, OPERATIONS)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str, language: str | None = None) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in fenced if language in (None, name)]


def commands(text: str) -> list[str]:
    """Return the lines of the code blocks that call `tailbit`, without their comments."""
    lines = [line for block in blocks(text) for line in block.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.startswith("tailbit ")]


def section(text: str, title: str) -> str:
    """Return the text under a heading of the second level."""
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]
