"""Rows of kind `column_stats`: one per column and row group of a data file, built from footers alone.

A file of the index begins with its directory: per row group of its data files (a unit) the hash of the data
file's footer and the rows, `column` null. The rows of each column refer to units by number. Statistics are a
function of the footer, so its hash is the identity of a data file here, whatever its path.

Example: a data file of two row groups of 100 rows, and the columns `k` (long) and `s` (string).

    column  key_type  unit  footer  rows  low  high  low_text  high_text  nulls  bytes  exact
    -       -         0     9f3c    100
    -       -         1     9f3c    100
    k       integer   0                   3    97                         0      412    true
    k       integer   1                   98   201                        2      407    true
    s       string    0                              ab        xy         0      655    false
    s       string    1                              b         z          0      640    false
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.errors import ColumnTypeError, DataFileError
from tailbit.index.keys import is_textual, key_type_of
from tailbit.index.parquet.sorted_rows import GROUP_ROWS
from tailbit.index.predicate.value_sets import beyond_prefix
from tailbit.tables.arrow import arrow_array
from tailbit.tables.model import Column
from tailbit.tables.parquet.bounds import ChunkStatistics, column_statistics
from tailbit.tables.parquet.layout import Layout

SCHEMA = pa.schema(
    [
        ("column", pa.string()),
        ("key_type", pa.string()),
        ("unit", pa.int64()),
        ("footer", pa.string()),
        ("rows", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("low_text", pa.binary()),
        ("high_text", pa.binary()),
        ("nulls", pa.int64()),
        ("bytes", pa.int64()),
        ("exact", pa.bool_()),
    ]
)

ENCODINGS = {
    **dict.fromkeys(("unit", "low", "high", "bytes"), "DELTA_BINARY_PACKED"),
    **dict.fromkeys(("low_text", "high_text"), "DELTA_BYTE_ARRAY"),
}

_LONGEST = 64
"""Bytes of a text that a bound holds: longer bounds are rounded outwards."""

_FEW_ROWS = 4096
"""Columns share a row group until it has this many rows, so that a column of many is read alone."""


class Footer(NamedTuple):
    """The footer of a data file with its hash; `path` names the file in errors."""

    hash: str
    layout: Layout
    path: str


def built(footers: Sequence[Footer], columns: Sequence[Column]) -> Iterator[pa.Table]:
    """Yield the directory of some data files and then the rows of each column, in order of column ids.

    Partition columns and columns of types without order have no rows. Files with equal footers are one.
    """
    distinct = list({footer.hash: footer for footer in footers}.values())
    groups = [(footer.hash, rows) for footer in distinct for rows in np.diff(footer.layout.starts).tolist()]
    yield directory([name for name, _ in groups], [rows for _, rows in groups])
    for column in sorted(columns, key=lambda column: column.id):
        rows = _rows(distinct, column)
        if rows is not None:
            yield rows


def directory(footers: Sequence[str], rows: Sequence[int]) -> pa.Table:
    """Return the directory of units, numbered from 0."""
    return _table(footer=footers, rows=rows, unit=range(len(rows)), length=len(rows))


def stored_type(column: Column) -> str | None:
    """Return the key type that statistics of a column are stored with; None if there are none."""
    try:
        return None if column.partition else key_type_of(column.type)
    except ColumnTypeError:
        return None


def _rows(footers: Sequence[Footer], column: Column) -> pa.Table | None:
    key_type = stored_type(column)
    if key_type is None:
        return None
    cells = [
        (unit, group)
        for unit, group in enumerate(chain.from_iterable(_statistics(footers, column)))
        if group.low is not None or group.nulls is not None
    ]
    if not cells:
        return None
    textual = is_textual(key_type)
    low, high = zip(*(_ends(group, column.type.scale) for _, group in cells), strict=True)
    return _table(
        column=[column.id] * len(cells),
        key_type=[key_type] * len(cells),
        unit=[unit for unit, _ in cells],
        nulls=[group.nulls for _, group in cells],
        bytes=[group.packed for _, group in cells],
        exact=[group.exact for _, group in cells],
        length=len(cells),
        **({"low_text": low, "high_text": high} if textual else {"low": low, "high": high}),
    )


def _statistics(footers: Sequence[Footer], column: Column) -> list[list[ChunkStatistics]]:
    """Return the statistics of a column; none of a file in which its name is ambiguous."""
    try:
        return column_statistics([(footer.layout, footer.path) for footer in footers], column)
    except DataFileError:
        if len(footers) > 1:
            return [groups for footer in footers for groups in _statistics([footer], column)]
        rows = np.diff(footers[0].layout.starts).tolist()
        return [[ChunkStatistics(None, None, None, n, 0, False) for n in rows]]


def _ends(group: ChunkStatistics, scale: int) -> tuple[int | bytes | None, int | bytes | None]:
    """Return the bounds as ranks; long texts are rounded outwards."""
    low, high = group.low, group.high
    if isinstance(low, str):
        least, most = low.encode(), high.encode()
        return least[:_LONGEST], most if len(most) <= _LONGEST else beyond_prefix(most[:_LONGEST])
    if isinstance(low, Decimal):
        return int(low.scaleb(scale)), int(high.scaleb(scale))
    return low, high


def _table(length: int, **columns: Sequence[object] | range) -> pa.Table:
    arrays = [
        arrow_array(list(columns[f.name]), f.type) if f.name in columns else pa.nulls(length, f.type)
        for f in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def packed(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield rows that come column by column as row groups: a column of many rows is read alone."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(map(len, held)) >= _FEW_ROWS:
            yield from _cut(held)
            held = []
    if any(map(len, held)):
        yield from _cut(held)


def _cut(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    table = pa.concat_tables(tables).combine_chunks()
    return (table.slice(at, GROUP_ROWS) for at in range(0, len(table), GROUP_ROWS))
