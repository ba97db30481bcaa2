"""The pages docs/delta-support.md, hudi-support.md and iceberg-support.md, made from what the tests show.

A test carries `@pytest.mark.supports(section, what, outcome, note="")`, once for each row that it proves;
`supports_hudi` and `supports_iceberg` are the marks of the rows about Hudi and Iceberg.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

OUTCOMES = ("exact", "scanned", "refused")

HEAD = """# What of {format} is supported

Made by `make support-page` from the marks on the tests, and compared with them by a test: a row stands here
only while a test proves it.

- **exact**: indexed where the index covers it, and every answer is the one that Spark gives.
- **scanned**: every answer is the one that Spark gives, read from the data files, never from the index.
- **refused**: an error that names the feature, and the way out.
"""


@dataclass(frozen=True)
class SupportPage:
    """A page of one table format: the mark of its rows, and its sections in order."""

    format: str
    mark: str
    sections: tuple[str, ...]


DELTA = SupportPage(
    "Delta",
    "supports",
    ("Log", "Table features", "Histories", "Files", "Schema", "Types", "Partition values", "Changes"),
)
HUDI = SupportPage(
    "Hudi",
    "supports_hudi",
    ("Tables", "Timeline", "Histories", "Files", "MERGE_ON_READ", "Schema and types", "Ways to ask"),
)
ICEBERG = SupportPage(
    "Iceberg",
    "supports_iceberg",
    ("Tables", "Histories", "Files", "Deletes", "Schema and types", "Ways to ask"),
)


@dataclass(frozen=True, order=True)
class Claim:
    """A row of the page."""

    section: str
    what: str
    outcome: str
    note: str
    test: str


def claims(items: Iterable[pytest.Item], of: SupportPage) -> list[Claim]:
    """What collected tests say they show of a format; cases of one test that agree are one claim."""
    found = set()
    for item in items:
        test = item.nodeid.split("[")[0]
        for mark in item.iter_markers(of.mark):
            section, what, outcome = mark.args
            if section not in of.sections or outcome not in OUTCOMES:
                raise pytest.UsageError(f"{test}: no section {section!r} or no outcome {outcome!r}")
            found.add(Claim(section, what, outcome, mark.kwargs.get("note", ""), test))
    return sorted(found)


def page(found: Iterable[Claim], of: SupportPage) -> str:
    """The page: a table a section, a row a claim."""
    rows = list(found)
    parts = [HEAD.format(format=of.format)]
    for section in of.sections:
        inside = [claim for claim in rows if claim.section == section]
        if inside:
            parts.append(f"\n## {section}\n\n| what | outcome | test |\n|---|---|---|\n")
            parts += [line(row) for row in grouped(inside)]
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
