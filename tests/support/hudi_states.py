"""A packed Hudi table put back to the instants that it has been through, one after the other.

The data files of later instants are there already; no reader may look at them before their instant completes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from support.hudi import HudiInstant, HudiTable

CHANGES = ("commit", "deltacommit", "replacecommit", "rollback", "restore")


def changes(table: HudiTable) -> list[HudiInstant]:
    """Return the readable instants that may have changed rows."""
    return [instant for instant in table.readable if instant.action in CHANGES]


def file_of(table: HudiTable, instant: HudiInstant) -> Path:
    """Return the file of a completed instant in the active timeline, whether it is there or not."""
    hoodie = Path(table.path, ".hoodie")
    if table.version < 8:
        return hoodie / f"{instant.requested}.{instant.action}"
    return hoodie / "timeline" / f"{instant.requested}_{instant.completed}.{instant.action}"


def replayed(table: HudiTable) -> Iterator[HudiInstant]:
    """Hide all active instants but the first readable one; then show one after the other, in their order.

    Yields each readable instant that changes rows when it is the newest. Files keep their times.
    """
    first = changes(table)[0]
    place = table.instants.index(first)
    later = [(instant, file_of(table, instant)) for instant in table.instants[place + 1 :]]
    hidden = table.folder / "hidden"
    hidden.mkdir()
    shown = [(instant, file) for instant, file in later if file.exists()]
    for _, file in shown:
        file.rename(hidden / file.name)
    yield first
    for instant, file in shown:
        (hidden / file.name).rename(file)
        if instant.action in CHANGES and instant.readable_at_end:
            yield instant
