"""Rows of kind `files`: the record of one data file, to and from Arrow.

Per path the row of highest `seq` counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailbit.index.model import FileRecord
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, in_one, numpy_of

SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("mtime", pa.int64()),
        ("rows", pa.int64()),
        ("footer", pa.string()),
        ("partition", pa.map_(pa.string(), pa.string())),
        ("space", pa.string()),
        ("base", pa.int64()),
        ("columns", pa.list_(pa.string())),
        ("counted", pa.bool_()),
        ("hidden", pa.string()),
        ("lineage", pa.int64()),
        ("entered", pa.int64()),
        ("left", pa.int64()),
        ("error", pa.string()),
        ("seq", pa.int64()),
    ]
)

QUERY_COLUMNS = (
    "path",
    "size",
    "mtime",
    "rows",
    "space",
    "base",
    "columns",
    "counted",
    "hidden",
    "lineage",
    "left",
)
"""The columns of a `files` record that a query reads."""

_FIELDS = tuple(field.name for field in fields(FileRecord))
_NAMES = tuple("columns" if name == "built" else name for name in _FIELDS)
"""The columns of the rows in the order of a record's fields; column `columns` holds the field `built`."""

_PLACES = {name: place for place, name in enumerate(_FIELDS)}
_values_of = attrgetter(*_FIELDS)


def files_to_arrow(records: Sequence[FileRecord]) -> pa.Table:
    """Convert `files` records to rows."""
    columns = dict(zip(_NAMES, zip(*map(_values_of, records), strict=True), strict=True)) if records else {}
    columns["partition"] = tuple(list(r.partition.items()) for r in records)
    return pa.table([arrow_array(columns.get(f.name, ()), f.type) for f in SCHEMA], schema=SCHEMA)


def files_from_arrow(table: pa.Table) -> list[FileRecord]:
    """Convert rows to `files` records."""
    columns = {name: table[name].to_pylist() for name in _NAMES}
    columns["partition"] = [dict(pairs or ()) for pairs in columns["partition"]]
    columns["columns"] = [tuple(names or ()) for names in columns["columns"]]
    return [FileRecord(*row) for row in zip(*columns.values(), strict=True)]


def stamped(records: Iterable[FileRecord], seq: int) -> list[FileRecord]:
    """Return the records with the number of the change that makes them visible."""
    return [_changed(record, seq=seq) for record in records]


def stamped_rows(rows: pa.Table, seq: int) -> pa.Table:
    """Return rows of kind `files` with the number of the change that makes them visible.

    No object per row is built.
    """
    at = rows.column_names.index("seq")
    return rows.set_column(at, "seq", pa.repeat(arrow_scalar(seq, pa.int64()), len(rows)))


def without_columns(rows: pa.Table, gone: Iterable[str]) -> pa.Table:
    """Remove columns from rows of kind `files`; return only the changed rows. Cost: vectorised."""
    codes, posted = column_sets(rows["columns"])
    left = [[column for column in columns if column not in gone] for columns in posted]
    touched = arrow_array([len(a) != len(b) for a, b in zip(posted, left, strict=True)], pa.bool_())
    stripped = arrow_array(left, rows["columns"].type).take(codes)
    rows = rows.set_column(rows.column_names.index("columns"), "columns", stripped)
    return pc.filter(rows, pc.take(touched, codes))


def column_sets(lists: pa.ChunkedArray) -> tuple[pa.Array, list[list[str]]]:
    """Return per row the number of its list of column ids, and the distinct lists. Cost: vectorised."""
    codes = pc.dictionary_encode(in_one(pc.binary_join(lists, arrow_scalar(_JOINT))))
    column_lists = [text.split(_JOINT) if text else [] for text in codes.dictionary.to_pylist()]
    return codes.indices, column_lists


_JOINT = "\x1f"
"""Separator of the joined ids of posted columns."""


def reclaimed(record: FileRecord, space: str | None, base: int | None) -> FileRecord:
    """Return the record with another claim; without a claim, nothing of the file is posted."""
    return _changed(record, space=space, base=base, built=record.built if space is not None else ())


def _changed(record: FileRecord, **values: Any) -> FileRecord:
    """Return what `dataclasses.replace` returns, three times as fast.

    Merges move hundreds of thousands of records.
    """
    every = list(_values_of(record))
    for name, value in values.items():
        every[_PLACES[name]] = value
    return FileRecord(*every)


def newest_per_path(table: pa.Table) -> pa.Table:
    """Return the row of highest `seq` per path, the last one among equals.

    Vectorised: one dictionary encoding of the paths and one take.
    """
    if not len(table):
        return table
    seq = numpy_of(table["seq"], dtype=np.int64)
    order = np.argsort(seq, kind="stable")
    codes = numpy_of(_codes(table["path"]), dtype=np.int64)
    last = np.empty(int(codes.max()) + 1, dtype=np.int64)
    # For repeated indices numpy keeps the last assignment.
    last[codes[order]] = order
    return table if len(last) == len(table) else pc.take(table, arrow_array(np.sort(last)))


def _codes(paths: pa.ChunkedArray) -> npt.NDArray[Any]:
    return numpy_of(pc.dictionary_encode(in_one(paths)).indices)
