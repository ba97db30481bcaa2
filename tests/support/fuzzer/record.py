"""The result of a whole run of the fuzzer, written into a page between two marks."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from support.marks import write_row

HISTORIES = "<!-- history fuzzer: begin -->", "<!-- history fuzzer: end -->"
ANALYTICS = "<!-- analytics fuzzer: begin -->", "<!-- analytics fuzzer: end -->"
DEFINITIONS = "<!-- definitions fuzzer: begin -->", "<!-- definitions fuzzer: end -->"
"""Where the last run of predicates, that of analytics and that of index definitions stand."""
HUDI = {
    "hudi": ("<!-- Hudi fuzzer: begin -->", "<!-- Hudi fuzzer: end -->"),
    "hudi-merged": ("<!-- Hudi merge fuzzer: begin -->", "<!-- Hudi merge fuzzer: end -->"),
}
READERS = {
    "hudi": ("<!-- Hudi readers: begin -->", "<!-- Hudi readers: end -->"),
    "hudi-merged": ("<!-- Hudi merge readers: begin -->", "<!-- Hudi merge readers: end -->"),
}
"""Where the last runs over Hudi tables stand, by the writer of the histories: with an index, and without."""


@dataclass(frozen=True)
class Record:
    """What a run did."""

    seed: int
    writer: str
    histories: int
    checks: int
    mismatches: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.checks:,} checks of {self.histories:,} histories ({self.writer}), seed {self.seed}: "
            f"{self.mismatches} mismatches, {self.seconds / 60:.1f} minutes"
        )


def record(page: Path, found: Record, day: datetime.date, marks: tuple[str, str] = HISTORIES) -> None:
    """Put a result between the marks of a page, in place of the one that is there."""
    cells: dict[str, object] = {"date": day, "seed": found.seed, "histories": f"{found.histories:,}"}
    cells |= {"checks": f"{found.checks:,}", "mismatches": found.mismatches}
    write_row(page, *marks, cells | {"minutes": f"{found.seconds / 60:.0f}"})
