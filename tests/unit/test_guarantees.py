"""The six guarantees are the same words in README, page, code and tests; what the page names is there.

A guarantee is a title and what it means. Both stand in README and in docs/guarantees.md and in one docstring;
the title, in snake case, begins the name of the first test that the page lists under it.
"""

from __future__ import annotations

import ast
import datetime
import re
from functools import cache
from pathlib import Path

import pytest

from support import proof
from support.fuzzer.kinds import KINDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guarantees.md"
NAMED = sorted(set(re.findall(r"`(tests/\S+\.py)::(test_\w+)`", PAGE.read_text(encoding="utf-8"))))


FOLDERS = ("tailbit", "tables", "index", "checkpoints", "streaming")


def one_line(text: str) -> str:
    return " ".join(text.split())


def on_the_page() -> list[tuple[str, str, str]]:
    """Title, meaning and first named test of each guarantee."""
    found = re.findall(
        r"^## \d\. ([^\n]+)\n\n(.+?)\n\n- `tests/\S+::(test_\w+)`",
        PAGE.read_text(encoding="utf-8"),
        re.M | re.S,
    )
    return [(title, one_line(meaning), test) for title, meaning, test in found]


GUARANTEES = on_the_page()


@cache
def docstrings() -> list[str]:
    """Every docstring of the packages, each as one line."""
    return [
        one_line(ast.get_docstring(node) or "")
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
    ]


def test_readme_and_page_promise_the_same() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\d\. \*\*(.+?)\*\* (.+?)(?=\n\d\. |\n\n)", text, re.M | re.S)
    assert [(title, one_line(meaning)) for title, meaning in listed] == [g[:2] for g in GUARANTEES]
    assert len(GUARANTEES) == 6


@pytest.mark.parametrize(("title", "meaning"), [g[:2] for g in GUARANTEES])
def test_a_guarantee_stands_in_one_docstring(title: str, meaning: str) -> None:
    assert sum(text.count(f"{title} {meaning}") for text in docstrings()) == 1


@pytest.mark.parametrize(("title", "test"), [(title, test) for title, _, test in GUARANTEES])
def test_a_guarantee_begins_the_name_of_a_test(title: str, test: str) -> None:
    snake = re.sub(r"\W+", "_", title.lower()).strip("_")
    assert re.fullmatch(rf"test_{snake}(_\w+)?", test)


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_test_that_the_page_names_exists(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


def recorded(marks: tuple[str, str]) -> tuple[int, str]:
    """The checks and the mismatches of the run that stands on the page."""
    begin, end = marks
    text = PAGE.read_text(encoding="utf-8").split(begin)[1].split(end)[0]
    *_, cells = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    _, _, _, checks, mismatches, _ = (cell.strip() for cell in cells)
    return int(checks.replace(",", "")), mismatches


@pytest.mark.parametrize(("name", "least"), [("histories", 200_000), ("analytics", 10_000)])
def test_the_recorded_run_is_large_and_without_a_mismatch(name: str, least: int) -> None:
    checks, mismatches = recorded(KINDS[name].marks)
    assert checks >= least
    assert mismatches == "0"


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_fuzzer_has_one_place_for_its_record(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [text.count(mark) for mark in KINDS[name].marks] == [1, 1]


def test_a_recorded_proof_is_without_a_failure() -> None:
    page = ROOT / "docs" / "testing.md"
    text = page.read_text(encoding="utf-8").split(proof.BEGIN)[1].split(proof.END)[0]
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")][2:]
    assert [cells[4].strip() for cells in rows] in ([], ["0"])


def test_a_proof_counts_what_failed_and_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    report, page = tmp_path / "report.xml", tmp_path / "page.md"
    report.write_text(
        '<testsuites><testsuite tests="7" failures="1" errors="2"/><testsuite tests="3"/></testsuites>'
    )
    page.write_text(f"before\n{proof.BEGIN}\nold\n{proof.END}\nafter\n")
    tests, failed = proof.counted(report)
    for seed in (1, 2):
        proof.record(page, proof.Proof(seed, tests, failed, 61.0), "0a1b2c3", datetime.date(2026, 1, 31))
    text = page.read_text()
    assert "| 2026-01-31 | 2 | `0a1b2c3` | 10 | 3 | 1 |" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert text.count(proof.BEGIN) == text.count("2026-01-31") == 1
