"""The positions of the rows that Spark's executors read, for scans that would else read whole files.

A file without positions is read whole. Positions pay if the rows lie in few pages.
"""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from tailbit.api import IndexedTable
from tailbit.index.query.selection import Selection
from tailbit.spark.answering.answers import PATIENCE, check_share, condition_of, kept_files, sent
from tailbit.spark.answering.gate import check_pages, pages_of
from tailbit.spark.answering.request import Declined, Request
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import FileSlice
from tailbit.tables.parquet.rows import Positions

MOST_POSITIONS = 2_000_000
"""Most positions of an answer: they travel to the executors, and lie in every page of most tables."""


def positions(handle: IndexedTable, request: Request) -> tuple[dict[str, Any], bytes]:
    """Return the files that may hold a row where the conjuncts that are understood are all TRUE, and where.

    Files that the index does not cover are always among them, without positions. `columns` of the request are
    those that the scan reads: only their pages are counted.

    Raises:
        Declined: the rows lie in too many pages, or nothing tells where they lie.
    """
    end = time.monotonic() + PATIENCE * request.budget_ms / 1000
    if not request.columns:
        raise Declined("malformed", "columns: none is named")
    used, selection = condition_of(handle, request)
    check_share(handle, request, selection.counted_by_index)
    files = selection.snapshot.files
    _check_number(selection)
    kept = {*kept_files(selection)["path"].to_pylist()}
    located = _found(selection, kept)
    columns = selection.schema.resolve_all(request.columns)
    check_pages(pages_of(selection.storage, located, columns, end))
    paths = arrow_array([file.path for file, _ in located], pa.string())
    bitmaps = arrow_array([BitMap(at).serialize() for _, at in located], pa.binary())
    head, data = sent(pa.table({"path": paths, "positions": bitmaps}))
    number = sum(len(at) for _, at in located)
    return {**head, "keep": [*kept], "used": used, "total": len(files), "found": number}, data


def _check_number(selection: Selection) -> None:
    """Decline if more positions than `MOST_POSITIONS` would be sent to the executors."""
    total = sum(len(bounds.maybe) for _, bounds in selection.bounds)
    if total > MOST_POSITIONS:
        raise Declined("many-rows", f"{total}, more than {MOST_POSITIONS}")


def _found(selection: Selection, kept: set[str]) -> list[tuple[FileSlice, Positions]]:
    """Return the positions of rows where the predicate may be TRUE, by the files among `kept`.

    Raises:
        Declined: the index tells no positions.
    """
    parts = [part for space, bounds in selection.bounds for part in selection.by_slice(space, bounds.maybe)]
    located = [(file, at) for file, at in parts if file.path in kept]
    if not located and kept:
        raise Declined("not-covered", "no file with a row is covered")
    return located
