"""A stream without Spark on a small disk that is full but for some pages; then pages are freed.

`python -m support.drive_full TABLE INDEX COLUMN DISK [OPERATION]`: `INDEX` is copied to `DISK`, a file system
of its own, with ever more pages free, until all can be written: every number of pages in `make proof`, every
third in a commit, by its number. Prints a line of JSON for each: operation, error that ended it (null for
none), whether the index said then what it said before or after, and whether all was well once the disk had
room again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import tailbit
from support.contents import Contents, contents_of
from support.drive import Drive
from support.profiles import PARTS, PROOF, TURN
from tailbit.errors import TailbitError

PAGE = 4096


def main(table: str, index: str, column: str, disk: str, only: str = "") -> None:
    """Every operation, or one, with every number of free pages, up to the one that suffices."""
    operations: dict[str, Callable[[str], object]] = {
        "batch": lambda at: Drive(table, at, [column]).drain(),
        "compact": lambda at: tailbit.open(table, index=at).compact(),
        "vacuum": lambda at: tailbit.open(table, index=at).vacuum(older_than_hours=0),
    }
    before, at = contents_of(index), f"{disk}/index"
    for name, operation in operations.items():
        if only not in ("", name):
            continue
        shutil.copytree(index, at)
        operation(at)
        wanted = contents_of(at)
        shutil.rmtree(at)
        error: str | None = ""
        numbers = count() if PROOF else count(TURN % PARTS, PARTS)
        while error is not None:
            free = next(numbers)
            shutil.copytree(index, at)
            _fill(Path(disk, "filler"), free)
            error = _attempt(operation, at)
            whole = contents_of(at) in (before, wanted)
            Path(disk, "filler").unlink()
            mended = _attempt(operation, at) is None and _sound(table, at, wanted)
            told = {"operation": name, "free": free, "error": error, "whole": whole, "mended": mended}
            sys.stdout.write(json.dumps(told) + "\n")
            shutil.rmtree(at)


def _fill(filler: Path, free: int) -> None:
    """Leave `free` pages free on the disk of a file."""
    found = os.statvfs(filler.parent)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - free * PAGE)


def _attempt(operation: Callable[[str], object], at: str) -> str | None:
    try:
        operation(at)
    except TailbitError as error:
        return f"{type(error).__name__} {error.retryable}"
    return None


def _sound(table: str, at: str, wanted: Contents) -> bool:
    return contents_of(at) == wanted and tailbit.open(table, index=at).verify().problems == []


if __name__ == "__main__":
    main(*sys.argv[1:])
