"""README is short, its picture fits a narrow screen, and its worked line is what its figures make."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_readme_is_short_and_its_picture_fits_a_narrow_screen() -> None:
    assert len(README.splitlines()) <= 180
    (picture,) = re.findall(r"```\n([^`]*your table[^`]*)```", README)
    assert max(map(len, picture.splitlines())) <= 60


def test_the_worked_line_is_what_its_figures_make() -> None:
    text = " ".join(README.split())
    worked = re.search(
        r"1 TB of (\d+) billion rows, .*: index (\d+) GB, built in (\d+) minutes on (\d+) cores\.\*\* .*"
        r" ([\d.]+) bytes a row and ([\d.]+) M rows a second of one core",
        text,
    )
    assert worked is not None
    billions, size, minutes, cores, a_row, millions = map(float, worked.groups())
    assert abs(billions * a_row - size) < 1
    assert 0 <= minutes - billions * 1000 / millions / cores / 60 < 1
