"""A stream without Spark in a process of its own, with a log of offsets as Spark keeps it: to be killed.

`python -m support.drive_process TABLE INDEX COLUMNS [OFFSETS]`: follows the log from its first version, a
version a batch, and exits 0 at its head. Beside COLUMNS it keeps indexes of each kind. OFFSETS, else
INDEX.offsets, holds one line an offset, written before its batch, and one `done` after.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from support.drive import Drive
from support.fuzzer.definitions import RandomDefinition, name_only
from tailbit.checkpoints.offset import Offset, snapshot_start
from tailbit.checkpoints.recovery import Origin
from tailbit.index.kinds.files import FILES
from tailbit.index.maintenance.definitions import find
from tailbit.index.maintenance.merge import merge_due, run_merge
from tailbit.index.maintenance.vacuum import vacuum
from tailbit.streaming.settings import StreamSettings

DEFINED = {
    "letters": RandomDefinition(("substr(category, 1, 1)",)),
    "numbers": RandomDefinition(("CAST(category AS INT)",)),
    "both": RandomDefinition(("flag", "small")),
    "statistics": RandomDefinition(("*",), "column_stats"),
    "key": RandomDefinition(("id", "category"), "record_key"),
}
"""An index of each kind; no text is a number, so that the second raises for each."""

DEFINED_OF_ORDERS = {
    "letters": RandomDefinition(("substr(city, 1, 1)",)),
    "both": RandomDefinition(("city", "qty")),
    "statistics": RandomDefinition(("*",), "column_stats"),
}
"""The same of the tables of orders that Hudi wrote."""


def note(log: Path, text: str) -> None:
    """Append one line, durably."""
    with log.open("a", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())


def offsets(log: Path) -> tuple[list[Offset], bool]:
    """The logged offsets, the start first, and whether the last batch was done."""
    lines = log.read_text().splitlines() if log.exists() else []
    found = [Offset.from_json(json.loads(line)) for line in lines if line != "done"]
    return found, not lines or lines[-1] == "done" or len(found) == 1


def main(table: str, index: str, columns: str, offsets_log: str | None = None) -> None:
    """Replay the unfinished batch, drain, merging after each batch; fill; then a log checkpoint and a vacuum.

    The vacuum finds two files that were written and never committed.
    """
    log = Path(offsets_log or f"{index}.offsets")
    logged, done = offsets(log)
    drive = Drive(table, index, columns.split(","), StreamSettings(files=1, versions=1))
    words = drive.table.words.log
    for name, made in (DEFINED_OF_ORDERS if words == ".hoodie" else DEFINED).items():
        if find(drive.index.state.settings.definitions, name) is None:
            name_only(table, name, made, drive.index)
    if not logged:
        first = drive.table.versions(0, drive.table.head(), 1)[0]
        logged = [snapshot_start(1, drive.table.fingerprint(first), first)]
        note(log, json.dumps(logged[0].to_json()))
    if not done:
        apply(drive, logged[-2], logged[-1], log)
    while (end := drive.planner.next(logged[-1])) != logged[-1]:
        note(log, json.dumps(end.to_json()))
        apply(drive, logged[-1], end, log)
        logged.append(end)
    while drive.fill() is not None:
        pass
    drive.index.checkpoint_log()
    for _ in range(2):
        FILES.write(drive.index.storage, FILES.schema.empty_table())
    vacuum(drive.index, older_than_hours=0)


def apply(drive: Drive, start: Offset, end: Offset, log: Path) -> None:
    """One batch, and what merging is due after it."""
    drive.indexer.apply(start, end, Origin("process", 0))
    for plan in merge_due(drive.index.state):
        run_merge(drive.index, plan)
    note(log, "done")


if __name__ == "__main__":
    main(*sys.argv[1:])
