"""The matching rows of a selection as Arrow tables, in the order of path and position or of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tailbit.base.errors import UsageError
from tailbit.base.wording import with_article
from tailbit.index.query.order import in_order_of, sort_keys
from tailbit.index.query.selection import Selection
from tailbit.tables import compute as pc
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions, batches_of, fetch_files


def stream(
    selection: Selection,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    order_by: Sequence[str] | None = None,
    offset: int = 0,
) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """Return the schema, and an iterator over the matching rows in batches; arguments as in `Answer.read`.

    Memory: a batch for each core, three more, and all positions; with `order_by`, see `in_order_of`.

    Raises:
        UnknownColumnError: no such column.
        ColumnTypeError: a column to order by has a type without an order.
        UsageError: `limit` or `offset` is below zero, no column is named, or the table has no columns.
    """
    for name, number in (("limit", limit), ("offset", offset)):
        if number is not None and number < 0:
            hint = f"Give {with_article(name)} of 0 or more."
            raise UsageError(reason=f"{name} {number} is below zero", hint=hint)
    selected = list(selection.schema.columns) if columns is None else selection.schema.resolve_all(columns)
    if not selected and columns is None:
        hint = "Ask for the count or the positions, or for a version that has columns."
        raise UsageError(reason=f"the table has no columns at version {selection.version}", hint=hint)
    if not selected:
        raise UsageError(reason="no columns are named", hint="Name one, or give none for all.")
    keys = None if order_by is None else sort_keys(selection.schema, order_by)
    schema = _logical(selection.schema.arrow(selected), selected)

    def tables() -> Iterator[pa.Table]:
        if limit == 0:
            return
        if keys is not None:
            read = in_order_of(selection.storage, selection.hits(), keys, selected, offset, limit)
        else:
            read = fetch_files(selection.storage, _between(selection, offset, limit), selected)
        for table in read:
            yield _as(schema, table)

    return schema, tables()


def _logical(schema: pa.Schema, columns: Sequence[Column]) -> pa.Schema:
    """Make struct fields that are columns of their own nullable, because their struct may be NULL."""
    apart = [len(column.name) > 1 for column in columns]
    return pa.schema([f.with_nullable(True) if own else f for f, own in zip(schema, apart, strict=True)])


def _as(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """Convert a table to the schema, column by column.

    Casting flat columns to their own types would cost time and change nothing; nested columns are cast,
    because the cast removes their offset, as DuckDB needs. A NULL in a column declared NOT NULL is returned
    as NULL.
    """
    if table.schema.types == schema.types and not any(map(pa.types.is_nested, schema.types)):
        return pa.Table.from_arrays(table.columns, schema=schema)
    cast = [pc.cast(column, type_) for column, type_ in zip(table.columns, schema.types, strict=True)]
    return pa.Table.from_arrays(cast, schema=schema)


def ways_of(selection: Selection, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Describe how the matching rows would be read: a JSON-able dict per file and method.

    Keys: `path`, `way` (a `ReadMethod`), `batches`, `row_groups`, `rows`. Cost: finds the rows and reads the
    footers of their files.
    """
    out: dict[tuple[str, str], dict[str, Any]] = {}
    for hit in selection.hits():
        path = hit.slice_.path
        for method, groups, rows in batches_of(selection.storage, hit.slice_, columns, hit.positions):
            fresh: dict[str, Any] = {
                "path": path,
                "way": method.value,
                "batches": 0,
                "row_groups": 0,
                "rows": 0,
            }
            line = out.setdefault((path, method.value), fresh)
            line["batches"] += 1
            line["row_groups"] += len(groups)
            line["rows"] += rows
    return list(out.values())


def _between(selection: Selection, offset: int, limit: int | None) -> Iterator[tuple[FileSlice, Positions]]:
    """Yield the matching positions without the first `offset`, at most `limit`; skipped rows are not read."""
    skip, remaining = offset, limit
    for hit in selection.hits():
        positions = hit.positions[skip:]
        skip = max(0, skip - len(hit.positions))
        positions = positions if remaining is None else positions[:remaining]
        if len(positions):
            yield hit.slice_, positions
        remaining = None if remaining is None else remaining - len(positions)
        if remaining == 0:
            return
