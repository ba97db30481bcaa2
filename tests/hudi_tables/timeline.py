"""Completed instants as they stand in the active timeline of a Hudi table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TWO_TIMES = re.compile(r"(\d{17})_(\d{17})\.(\w+)")
ONE_TIME = re.compile(r"(\d{17})\.(\w+)")
UNFINISHED = ("inflight", "requested")


@dataclass(frozen=True)
class Completed:
    """A completed instant: table version 6 names no completion time, there the time of its file tells."""

    requested: str
    completed: str | None
    action: str
    changed_ns: int

    @property
    def order(self) -> tuple[str, int, str]:
        """Completed instants ascend by this."""
        return (self.completed or "", self.changed_ns, self.requested)


def completed_instants(table: Path, version: int) -> list[Completed]:
    """List the completed instants of the active timeline, by completion time."""
    folder = table / ".hoodie" / ("timeline" if version >= 8 else "")
    instants = []
    for file in folder.iterdir():
        changed_ns = file.stat().st_mtime_ns
        if match := TWO_TIMES.fullmatch(file.name):
            instants.append(Completed(match[1], match[2], match[3], changed_ns))
        elif (match := ONE_TIME.fullmatch(file.name)) and match[2] not in UNFINISHED:
            instants.append(Completed(match[1], None, match[2], changed_ns))
    return sorted(instants, key=lambda instant: instant.order)


def pending(table: Path, version: int) -> set[str]:
    """Name the instants that were requested and have not completed."""
    folder = table / ".hoodie" / ("timeline" if version >= 8 else "")
    requested = {file.name[:17] for file in folder.glob("*.requested")}
    return requested - {instant.requested for instant in completed_instants(table, version)}
