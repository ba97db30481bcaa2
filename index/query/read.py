"""The matching rows of a selection as Arrow tables, in the order of path and position or of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tailbit.errors import UsageError
from tailbit.index.query.order import in_order_of, sort_keys
from tailbit.index.query.selection import Selection
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions, batches_of, fetch_files
from tailbit.wording import with_article


def stream(
    selection: Selection,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    order_by: Sequence[str] | None = None,
    offset: int = 0,
) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """The schema and the matching rows, batch by batch; arguments as in `Answer.read`.

    Memory: a batch for each core, three more, and all positions; with `order_by` as `order` says.

    Raises:
        UnknownColumnError: no such column.
        ColumnTypeError: a column to order by whose type has no order.
        UsageError: `limit` or `offset` is below zero, or no column is named, or the table has none.
    """
    for name, number in (("limit", limit), ("offset", offset)):
        if number is not None and number < 0:
            hint = f"Give {with_article(name)} of 0 or more."
            raise UsageError(reason=f"{name} {number} is below zero", hint=hint)
    wanted = list(selection.schema.columns) if columns is None else selection.schema.resolve_all(columns)
    if not wanted and columns is None:
        hint = "Ask for the count or the positions, or for a version that has columns."
        raise UsageError(reason=f"the table has no columns at version {selection.version}", hint=hint)
    if not wanted:
        raise UsageError(reason="no columns are named", hint="Name one, or give none for all.")
    keys = None if order_by is None else sort_keys(selection.schema, order_by)
    schema = _logical(selection.schema.arrow(wanted), wanted)

    def tables() -> Iterator[pa.Table]:
        if limit == 0:
            return
        if keys is not None:
            read = in_order_of(selection.storage, selection.hits(), keys, wanted, offset, limit)
        else:
            read = fetch_files(selection.storage, _between(selection, offset, limit), wanted)
        for table in read:
            yield _as(schema, table)

    return schema, tables()


def _logical(schema: pa.Schema, columns: Sequence[Column]) -> pa.Schema:
    """The schema; a field that is read apart from its struct may be NULL, as the struct may."""
    apart = [len(column.name) > 1 for column in columns]
    return pa.schema([f.with_nullable(True) if own else f for f, own in zip(schema, apart, strict=True)])


def _as(schema: pa.Schema, table: pa.Table) -> pa.Table:
    """The table's columns, in order, as the schema has them.

    To cast flat columns to their own types would change nothing and cost; nested ones come out of it without
    an offset, as DuckDB asks. A NULL in a column that is declared to have none is given out as it is.
    """
    if table.schema.types == schema.types and not any(map(pa.types.is_nested, schema.types)):
        return pa.Table.from_arrays(table.columns, schema=schema)
    loose = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_arrays(table.rename_columns(schema.names).cast(loose).columns, schema=schema)


def ways_of(selection: Selection, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """How the matching rows would be read, JSON-able: a file has a line for each way.

    Keys: `path`, `way` (a word of `Way`), `batches`, `row_groups`, `rows`. Cost: the rows are found, and the
    footers of their files are read.
    """
    out: dict[tuple[str, str], dict[str, Any]] = {}
    for hit in selection.hits():
        path = hit.slice_.path
        for way, groups, rows in batches_of(selection.storage, hit.slice_, columns, hit.positions):
            fresh: dict[str, Any] = {"path": path, "way": way.value, "batches": 0, "row_groups": 0, "rows": 0}
            line = out.setdefault((path, way.value), fresh)
            line["batches"] += 1
            line["row_groups"] += len(groups)
            line["rows"] += rows
    return list(out.values())


def _between(selection: Selection, offset: int, limit: int | None) -> Iterator[tuple[FileSlice, Positions]]:
    """Matching positions less the first `offset`, at most `limit`; the rows left out are not read."""
    skip, left = offset, limit
    for hit in selection.hits():
        at = hit.positions[skip:]
        skip = max(0, skip - len(hit.positions))
        at = at if left is None else at[:left]
        if len(at):
            yield hit.slice_, at
        left = None if left is None else left - len(at)
        if left == 0:
            return
