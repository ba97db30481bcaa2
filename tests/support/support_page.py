"""docs/delta-support.md, made from what the tests say they show.

A test carries `@pytest.mark.supports(section, what, outcome, note="")`, once for each row that it proves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

SECTIONS = ("Log", "Table features", "Histories", "Files", "Schema", "Types", "Partition values", "Changes")
OUTCOMES = ("exact", "scanned", "refused")

HEAD = """# What of Delta is supported

Made by `make support-page` from the marks on the tests, and compared with them by a test: a row stands here
only while a test proves it.

- **exact**: indexed where the index covers it, and every answer is the one that Spark gives.
- **scanned**: every answer is the one that Spark gives, read from the data files, never from the index.
- **refused**: an error that names the feature, and the way out.
"""


@dataclass(frozen=True, order=True)
class Claim:
    """A row of the page."""

    section: str
    what: str
    outcome: str
    note: str
    test: str


def claims(items: Iterable[pytest.Item]) -> list[Claim]:
    """What collected tests say they show; parametrized cases of one test are one claim where they agree."""
    found = set()
    for item in items:
        test = item.nodeid.split("[")[0]
        for mark in item.iter_markers("supports"):
            section, what, outcome = mark.args
            if section not in SECTIONS or outcome not in OUTCOMES:
                raise pytest.UsageError(f"{test}: no section {section!r} or no outcome {outcome!r}")
            found.add(Claim(section, what, outcome, mark.kwargs.get("note", ""), test))
    return sorted(found)


def page(found: Iterable[Claim]) -> str:
    """The page: a table a section, a row a claim."""
    rows = list(found)
    parts = [HEAD]
    for section in SECTIONS:
        inside = [claim for claim in rows if claim.section == section]
        if inside:
            parts.append(f"\n## {section}\n\n| what | outcome | test |\n|---|---|---|\n")
            parts += [line(of) for of in grouped(inside)]
    return "".join(parts)


def grouped(found: Iterable[Claim]) -> list[list[Claim]]:
    """Claims of one row together, in order."""
    rows: dict[tuple[str, str, str], list[Claim]] = {}
    for claim in found:
        rows.setdefault((claim.what, claim.outcome, claim.note), []).append(claim)
    return list(rows.values())


def line(row: list[Claim]) -> str:
    """One row; the test's folder is left out where its name tells enough."""
    first = row[0]
    what = f"{first.what} ({first.note})" if first.note else first.what
    tests = "<br>".join(f"`{claim.test.removeprefix('tests/')}`" for claim in row)
    return f"| {what} | {first.outcome} | {tests} |\n"
