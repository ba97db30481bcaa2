"""Scans of the files of a table, by stored values and by decoded ones."""

from __future__ import annotations

from collections.abc import Sequence

import tailbit
from tailbit.index.query.scan import Scan, count, scan
from tailbit.index.query.selection import Selection, candidate_numbers
from tailbit.tables.model import FileSlice


def scans_of(path: str, predicate: str) -> tuple[tailbit.IndexedTable, list[Scan]]:
    """The table, and a scan of all rows of each of its files, in the order of the snapshot."""
    table = tailbit.open(path)
    selection = table.where(predicate)._selection
    return table, [Scan(slice_, selection.node) for slice_ in selection.snapshot.files]


def scanned(path: str, predicate: str, stored: bool | None = None) -> list[list[int]]:
    """Per file the positions where a predicate is TRUE."""
    table, scans = scans_of(path, predicate)
    return positions(table, scans, stored)


def positions(
    table: tailbit.IndexedTable, scans: Sequence[Scan], stored: bool | None = None
) -> list[list[int]]:
    storage = table.where()._selection.storage
    return [at.tolist() for at in scan(storage, scans, stored)]


def counted(table: tailbit.IndexedTable, scans: Sequence[Scan], stored: bool | None = None) -> int:
    """How many rows scans of a table find."""
    return count(table.where()._selection.storage, scans, stored)


def candidates(selection: Selection) -> list[FileSlice]:
    """The files that neither the index nor the log prunes, in path order."""
    return selection.snapshot.files.at(candidate_numbers(selection))
