"""The record kinds of the index table as Arrow: their columns, and records to and from them.

Every kind is one partition of one Delta table whose schema is the union of the kinds' columns; a file of one
kind holds only the columns of that kind. `docs/index-format.md` describes them for readers in other
languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailbit.errors import CorruptIndexError, IndexFormatError
from tailbit.index.model import FileRecord, IndexedColumn, IndexFile, Ledger, Settings
from tailbit.index.parquet.index_file import open_index_file, write_index_file, write_parquet
from tailbit.index.parquet.sorted_rows import regrouped
from tailbit.tables.model import Fingerprint
from tailbit.tables.storage import Storage

FORMAT = 1
"""The number of this layout. Kind `settings` has the column `format` in every format, past and to come."""

BITMAP_INDEX, VALUE_COUNTS, HIDDEN_ROWS = "bitmap_index", "value_counts", "hidden_rows"
FILES, LEDGER, SETTINGS = "files", "ledger", "settings"

_TEXT, _LONG, _TEXTS = pa.string(), pa.int64(), pa.map_(pa.string(), pa.string())

SCHEMAS: Mapping[str, pa.Schema] = {
    BITMAP_INDEX: pa.schema(
        [
            ("space", _TEXT),
            ("column", _TEXT),
            ("key_type", _TEXT),
            ("key", pa.binary()),
            ("cardinality", _LONG),
            ("bitmap", pa.binary()),
        ]
    ),
    VALUE_COUNTS: pa.schema([("column", _TEXT), ("key_type", _TEXT), ("key", pa.binary()), ("delta", _LONG)]),
    HIDDEN_ROWS: pa.schema([("id", _TEXT), ("cardinality", _LONG), ("bitmap", pa.binary())]),
    FILES: pa.schema(
        [
            ("path", _TEXT),
            ("size", _LONG),
            ("mtime", _LONG),
            ("rows", _LONG),
            ("footer", _TEXT),
            ("partition", _TEXTS),
            ("space", _TEXT),
            ("base", _LONG),
            ("columns", pa.list_(_TEXT)),
            ("counted", pa.bool_()),
            ("hidden", _TEXT),
            ("lineage", _LONG),
            ("entered", _LONG),
            ("left", _LONG),
            ("error", _TEXT),
            ("seq", _LONG),
        ]
    ),
    LEDGER: pa.schema(
        [
            ("seq", _LONG),
            ("round", _LONG),
            ("lineage", _LONG),
            ("version", _LONG),
            ("state", _TEXT),
            ("covered", _LONG),
            ("fingerprint_version", _LONG),
            ("fingerprint_sha256", _TEXT),
            ("fingerprint_table", _TEXT),
            ("uncounted", _LONG),
            ("settings_version", _LONG),
            ("query_id", _TEXT),
            ("batch_id", _LONG),
            ("committed_at", _LONG),
        ]
    ),
    SETTINGS: pa.schema(
        [
            ("seq", _LONG),
            ("settings_version", _LONG),
            ("index_id", _TEXT),
            ("format", _LONG),
            ("indexed", pa.list_(pa.struct([(n, _TEXT) for n in ("label", "id", "key_type", "type")]))),
            ("options", _TEXTS),
            ("dropped", pa.list_(_TEXT)),
        ]
    ),
}
"""Columns of each kind. One name has one type in all kinds."""

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
"""What a query reads of a `files` record."""


def table_schema() -> pa.Schema:
    """The schema of the index table: `kind`, then the union of all kinds' columns."""
    union = {field.name: field for schema in SCHEMAS.values() for field in schema}
    return pa.schema([pa.field("kind", _TEXT), *union.values()])


def no_rows(schema: pa.Schema) -> pa.Table:
    """An empty table made without a Python list: at the first list pyarrow imports pandas, half a second."""
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def kind_of(path: str) -> str:
    """The kind of an index file by its folder `kind=<kind>`."""
    return path.partition("/")[0].removeprefix("kind=")


def write_records(storage: Storage, table: pa.Table, kind: str) -> IndexFile:
    """Write rows of one kind as one file of the index, not yet committed."""
    return _write(storage, kind, [table.cast(SCHEMAS[kind])])


def write_stream(storage: Storage, tables: Iterable[pa.Table], kind: str) -> list[IndexFile]:
    """Write rows of one kind as they come, in row groups of a size that a look-up reads quickly.

    Returns: the file, or nothing where there are no rows. Memory: one row group.
    """
    groups = regrouped(table.cast(SCHEMAS[kind]) for table in tables)
    first = next(groups, None)
    if first is None:
        return []
    return [_write(storage, kind, chain([first], groups))]


def _write(storage: Storage, kind: str, groups: Iterable[pa.Table]) -> IndexFile:
    return write_index_file(storage, kind, kind, lambda path: write_parquet(path, SCHEMAS[kind], groups))


def read_records(storage: Storage, path: str) -> pa.Table:
    """All rows of one file, in the columns of its kind; columns that the file lacks are null.

    Raises:
        CorruptIndexError: it is missing, truncated, altered or not of its kind.
    """
    with reading(path), open_index_file(storage, path) as file:
        return conform(file.read(), kind_of(path))


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn what pyarrow says about a damaged or missing index file into CorruptIndexError."""
    try:
        yield
    except FileNotFoundError as gone:
        raise CorruptIndexError(file=path, reason="it is missing") from gone
    except (pa.ArrowException, OSError) as damage:
        raise CorruptIndexError(file=path, reason=str(damage)) from damage


def conform(found: pa.Table, kind: str) -> pa.Table:
    """Rows in the columns and types of their kind; columns that the file lacks are null."""
    schema = SCHEMAS[kind]
    return pa.table([_column(found, field) for field in schema], schema=schema)


def _column(found: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name in found.column_names:
        return found[field.name].cast(field.type)
    return pa.nulls(len(found), field.type)


_NAMES = tuple(field.name for field in fields(FileRecord))
_PLACES = {name: place for place, name in enumerate(_NAMES)}
_values_of = attrgetter(*_NAMES)


def files_to_arrow(records: Sequence[FileRecord]) -> pa.Table:
    """`files` records as rows."""
    schema = SCHEMAS[FILES]
    columns = dict(zip(_NAMES, zip(*map(_values_of, records), strict=True), strict=True)) if records else {}
    columns["partition"] = tuple(list(r.partition.items()) for r in records)
    return pa.table([pa.array(columns.get(f.name, ()), f.type) for f in schema], schema=schema)


def files_from_arrow(table: pa.Table) -> list[FileRecord]:
    """Rows as `files` records."""
    columns = {name: table[name].to_pylist() for name in _NAMES}
    columns["partition"] = [dict(pairs or ()) for pairs in columns["partition"]]
    columns["columns"] = [tuple(names or ()) for names in columns["columns"]]
    return [FileRecord(*row) for row in zip(*columns.values(), strict=True)]


def stamped(records: Iterable[FileRecord], seq: int) -> list[FileRecord]:
    """The records as the change of that number makes them visible."""
    return [_changed(record, seq=seq) for record in records]


def stamped_rows(rows: pa.Table, seq: int) -> pa.Table:
    """The same for rows of kind `files`, without an object a row."""
    at = rows.column_names.index("seq")
    return rows.set_column(at, "seq", pa.repeat(pa.scalar(seq, _LONG), len(rows)))


def without_columns(rows: pa.Table, gone: Iterable[str]) -> pa.Table:
    """The rows of kind `files` that have some columns posted, without these. Cost: vectorised."""
    codes, posted = column_sets(rows["columns"])
    left = [[column for column in columns if column not in gone] for columns in posted]
    touched = pa.array([len(a) != len(b) for a, b in zip(posted, left, strict=True)], pa.bool_())
    stripped = pa.array(left, rows["columns"].type).take(codes)
    rows = rows.set_column(rows.column_names.index("columns"), "columns", stripped)
    return rows.filter(touched.take(codes))


def column_sets(lists: pa.ChunkedArray) -> tuple[pa.Array, list[list[str]]]:
    """Per row the number of its list of column ids, and the distinct lists. Cost: vectorised."""
    codes = pc.binary_join(lists, _JOINT).combine_chunks().dictionary_encode()
    found = [text.split(_JOINT) if text else [] for text in codes.dictionary.to_pylist()]
    return codes.indices, found


_JOINT = "\x1f"
"""Joins the ids of posted columns into one text."""


def reclaimed(record: FileRecord, space: str | None, base: int | None) -> FileRecord:
    """The record with another claim; without one nothing of the file is posted."""
    return _changed(record, space=space, base=base, columns=record.columns if space is not None else ())


def _changed(record: FileRecord, **values: Any) -> FileRecord:
    """What `dataclasses.replace` does, three times as fast: merges move hundreds of thousands of records."""
    every = list(_values_of(record))
    for name, value in values.items():
        every[_PLACES[name]] = value
    return FileRecord(*every)


def newest_per_path(table: pa.Table) -> pa.Table:
    """The rows of highest `seq` per path; among equals the last one.

    Vectorised: one dictionary encoding of the paths and one take.
    """
    if not len(table):
        return table
    seq = np.asarray(table["seq"], dtype=np.int64)
    order = np.argsort(seq, kind="stable")
    codes = np.asarray(_codes(table["path"]), dtype=np.int64)
    last = np.empty(int(codes.max()) + 1, dtype=np.int64)
    # Of repeated indices numpy keeps the last assignment.
    last[codes[order]] = order
    return table if len(last) == len(table) else table.take(pa.array(np.sort(last)))


def _codes(paths: pa.ChunkedArray) -> npt.NDArray[Any]:
    return np.asarray(pc.dictionary_encode(paths.combine_chunks()).indices)


def ledger_to_arrow(ledger: Ledger) -> pa.Table:
    """A ledger record as one row."""
    row = asdict(ledger)
    proof = ledger.fingerprint
    del row["fingerprint"]
    row["fingerprint_version"] = None if proof is None else proof.version
    row["fingerprint_sha256"] = None if proof is None else proof.sha256
    row["fingerprint_table"] = None if proof is None else proof.table_id
    return pa.Table.from_pylist([row], schema=SCHEMAS[LEDGER])


def ledger_from_arrow(table: pa.Table) -> Ledger | None:
    """The newest ledger record; None where there is none."""
    if not len(table):
        return None
    row = max(table.to_pylist(), key=lambda r: int(r["seq"]))
    version, sha256, table_id = (row.pop(f"fingerprint_{n}") for n in ("version", "sha256", "table"))
    proof = None if version is None else Fingerprint(version, sha256, table_id)
    return Ledger(**row, fingerprint=proof)


def settings_to_arrow(settings: Settings, seq: int) -> pa.Table:
    """A settings record as one row."""
    row = {
        "seq": seq,
        "settings_version": settings.version,
        "index_id": settings.index_id,
        "format": settings.format,
        "indexed": [asdict(column) for column in settings.columns],
        "options": list(settings.options.items()),
        "dropped": list(settings.dropped),
    }
    return pa.Table.from_pylist([row], schema=SCHEMAS[SETTINGS])


def settings_from_arrow(table: pa.Table, path: str) -> tuple[Settings, int]:
    """The newest settings record and its seq.

    Raises:
        IndexFormatError: the record is of a format that this release does not read.
    """
    row = max(table.to_pylist(), key=lambda r: int(r["seq"] or 0))
    if row["format"] != FORMAT:
        raise IndexFormatError(path=path, found=row["format"], supported=FORMAT)
    settings = Settings(
        version=row["settings_version"],
        index_id=row["index_id"],
        format=row["format"],
        columns=tuple(IndexedColumn(**column) for column in row["indexed"]),
        options=dict(row["options"] or ()),
        dropped=tuple(row["dropped"] or ()),
    )
    return settings, int(row["seq"])
