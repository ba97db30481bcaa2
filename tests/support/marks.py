"""A page whose part between two marks a command writes."""

from __future__ import annotations

from pathlib import Path


def write_between(page: Path, begin: str, end: str, table: str) -> None:
    """Put a table between the marks of a page, in place of the one that is there."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n\n{table}\n{end}{after}", encoding="utf-8")
