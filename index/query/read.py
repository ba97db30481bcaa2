"""The matching rows of a selection as Arrow tables, in the order of path and position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tailbit.errors import UsageError
from tailbit.index.query.selection import Selection
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions, fetch_files


def stream(
    selection: Selection, columns: Sequence[str] | None = None, limit: int | None = None
) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """The schema and the matching rows, batch by batch; `columns` and `limit` as in `Answer.read`.

    Memory: a batch for each core and all positions.

    Raises:
        UnknownColumnError: no such column.
        UsageError: `limit` is below zero, or no column is named, or the table has none.
    """
    if limit is not None and limit < 0:
        raise UsageError(reason=f"limit {limit} is below zero", hint="Give a limit of 0 or more.")
    wanted = list(selection.schema.columns)
    if columns is not None:
        wanted = list({c.id: c for c in map(selection.schema.resolve, columns)}.values())
    if not wanted and columns is None:
        hint = "Ask for the count or the positions, or for a version that has columns."
        raise UsageError(reason=f"the table has no columns at version {selection.version}", hint=hint)
    if not wanted:
        raise UsageError(reason="no columns are named", hint="Name one, or give none for all.")
    schema = pa.schema([field.with_nullable(True) for field in selection.schema.arrow(wanted)])
    return schema, (t.rename_columns(schema.names).cast(schema) for t in _rows(selection, wanted, limit))


def _rows(selection: Selection, columns: Sequence[Column], limit: int | None) -> Iterator[pa.Table]:
    """Matching rows in batches, columns named by id."""
    if limit == 0:
        return
    yield from fetch_files(selection.storage, _wanted(selection, limit), columns)


def _wanted(selection: Selection, limit: int | None) -> Iterator[tuple[FileSlice, Positions]]:
    left = limit
    for hit in selection.hits():
        at = hit.positions if left is None else hit.positions[:left]
        yield hit.slice_, at
        left = None if left is None else left - len(at)
        if left == 0:
            return
