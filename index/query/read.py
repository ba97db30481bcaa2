"""The matching rows of a selection as Arrow tables, in the order of path and position or of columns.

Rows are sorted as Spark's ORDER BY sorts them; ties keep path and position order.
The sort columns are read for all matching rows, the other columns only for the rows returned. With a limit,
only rows that may be within the limit are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.base.errors import ColumnTypeError, UnknownColumnError, UsageError
from tailbit.base.wording import with_article
from tailbit.index.query.selection import FileHits, Selection
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, filled, numpy_of
from tailbit.tables.model import Column, FileSlice
from tailbit.tables.parquet.rows import Positions, batches_of, fetch_files
from tailbit.tables.schema import Schema
from tailbit.tables.storage import Storage

_TEXT = re.compile(
    r"(?P<name>.*?)(?:\s+(?P<way>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?", re.IGNORECASE | re.DOTALL
)
_UNORDERED = ("struct", "array", "map", "variant", "void")
_SURPLUS = 1 << 20
"""Rows gathered beyond the limit before the surplus is dropped."""
_AT_ONCE = 1 << 20
"""Limit of ordered rows that are read together: each such batch reads the pages of its own rows."""


class SortKey(NamedTuple):
    """A column to order by."""

    column: Column
    descending: bool
    nulls_first: bool


def sort_keys(schema: Schema, texts: Sequence[str]) -> list[SortKey]:
    """Parse texts like "dep_delay DESC NULLS LAST"; NULL sorts as least by default.

    Raises:
        UnknownColumnError: no such column.
        ColumnTypeError: a struct, array, map or other type without an order here.
        UsageError: no column is named.
    """
    if not texts:
        raise UsageError(reason="no columns to order by are named", hint="Name one, or leave order_by out.")
    out = []
    for text in texts:
        match = _TEXT.fullmatch(text.strip())
        name = match["name"] if match else text
        descending = bool(match and (match["way"] or "").upper() == "DESC")
        nulls = (match["nulls"] or "").upper() if match else ""
        column = _named(schema, name)
        if column.type.name in _UNORDERED:
            raise ColumnTypeError(
                column=column.label, type=column.type.sql, reason="rows have no order by it"
            )
        out.append(SortKey(column, descending, nulls == "FIRST" if nulls else not descending))
    return out


def _named(schema: Schema, name: str) -> Column:
    """Resolve a column name; if it is several words, the hint of the error explains the order syntax."""
    try:
        return schema.resolve(name)
    except UnknownColumnError as unknown:
        if len(name.split()) < 2:
            raise
        hint = f"Behind a name may stand ASC or DESC, then NULLS FIRST or NULLS LAST. {unknown.hint}"
        raise UnknownColumnError(**{**unknown.fields, "hint": hint}) from None


def in_order_of(
    storage: Storage,
    hits: Sequence[FileHits],
    keys: Sequence[SortKey],
    columns: Sequence[Column],
    offset: int,
    limit: int | None,
) -> Iterator[pa.Table]:
    """Yield columns (named by id) of the matching rows, ordered, without the first `offset` rows.

    Memory: the sort columns of all matching rows, or of about `offset + limit` rows, and a batch.
    """
    rows = _ordered(storage, hits, keys, None if limit is None else offset + limit)[offset:]
    bases = np.concatenate([[0], np.cumsum([len(hit.positions) for hit in hits])])
    for start in range(0, len(rows), _AT_ONCE):
        yield _read(storage, hits, bases, columns, rows[start : start + _AT_ONCE])


def _ordered(
    storage: Storage, hits: Sequence[FileHits], keys: Sequence[SortKey], most: int | None
) -> npt.NDArray[np.int64]:
    """Sort the matching rows; return the numbers (in path and position order) of the first `most` or all."""
    columns = list({key.column.id: key.column for key in keys}.values())
    tables: list[pa.Table] = []
    size = number = 0
    for table in fetch_files(storage, [(hit.slice_, hit.positions) for hit in hits], columns):
        numbers = arrow_array(np.arange(number, number + len(table), dtype=np.int64))
        tables.append(table.select([c.id for c in columns]).append_column("", numbers))
        number, size = number + len(table), size + len(table)
        if most is not None and size > 2 * most + _SURPLUS:
            tables = [_first(pa.concat_tables(tables), keys, most)]
            size = len(tables[0])
    if not tables:
        return np.zeros(0, np.int64)
    return numpy_of(_first(pa.concat_tables(tables), keys, most)[""])


def _first(table: pa.Table, keys: Sequence[SortKey], most: int | None) -> pa.Table:
    """Sort a table by the keys; return its first `most` rows, or all if None.

    NULL and NaN get sort keys of their own, because Arrow sorts both alike.
    """
    sorted_by, ways = [], []
    for key in keys:
        values = table[key.column.id]
        direction = "descending" if key.descending else "ascending"
        sorted_by.append(pc.is_null(values))
        ways.append("descending" if key.nulls_first else "ascending")
        if pa.types.is_floating(values.type):
            sorted_by.append(filled(pc.is_nan(values), False))
            ways.append(direction)
        sorted_by.append(values)
        ways.append(direction)
    names = [str(number) for number in range(len(ways))]
    order = pc.sort_indices(
        pa.table(dict(zip(names, sorted_by, strict=True))), sort_keys=list(zip(names, ways, strict=True))
    )
    return pc.take(table, order if most is None else order[:most])


def _read(
    storage: Storage,
    hits: Sequence[FileHits],
    bases: npt.NDArray[np.int64],
    columns: Sequence[Column],
    rows: npt.NDArray[np.int64],
) -> pa.Table:
    """Read columns at rows in the given order: in file order first, then permuted."""
    by_place = np.argsort(rows, kind="stable")
    ascending = rows[by_place]
    cuts = np.searchsorted(ascending, bases)
    reads = [
        (hits[n].slice_, hits[n].positions[ascending[cuts[n] : cuts[n + 1]] - bases[n]])
        for n in np.flatnonzero(np.diff(cuts)).tolist()
    ]
    back = np.empty(len(rows), np.int64)
    back[by_place] = np.arange(len(rows))
    return pc.take(pa.concat_tables(list(fetch_files(storage, reads, columns))), arrow_array(back))


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
