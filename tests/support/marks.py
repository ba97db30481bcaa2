"""A page whose part between two marks a command writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def reported(
    cells: Mapping[str, object], findings: Sequence[str], page: Path | None, begin: str, end: str
) -> int:
    """Print figures and findings, and put the figures on a page if one is given and nothing was found.

    Return the exit status: 1 if anything was found.
    """
    for name, value in cells.items():
        print(f"{name:42}{value}")
    for finding in findings:
        print(finding)
    if page is not None and not findings:
        write_row(page, begin, end, cells)
    return 1 if findings else 0


def write_row(page: Path, begin: str, end: str, cells: Mapping[str, object]) -> None:
    """Put a table of one row between the marks of a page: the cells by the names of their columns."""
    lines = (cells, ["---"] * len(cells), cells.values())
    table = "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines).replace("| --- ", "|---")
    write_between(page, begin, end, table)


def write_between(page: Path, begin: str, end: str, table: str) -> None:
    """Put a table between the marks of a page, in place of the one that is there."""
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n\n{table}\n{end}{after}", encoding="utf-8")
