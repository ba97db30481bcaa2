"""Log checkpoints in all forms, read as columns: classic, multi-part, V2 with manifest and sidecars.

Input: the files of one complete checkpoint. Output: live files, protocol, metadata. Only the needed leaf
columns are decoded, the statistics on first use, and no Python object is made per file, except for paths that
hold an escape. Tombstones and transactions are skipped. Source: Delta protocol, Checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, nested_array, no_rows, numpy_of
from tailbit.tables.delta.actions import Metadata, parse_actions
from tailbit.tables.delta.files import DV_TYPE, STORED, DeltaFiles
from tailbit.tables.delta.log import LogCheckpoint
from tailbit.tables.delta.paths import decode_path, file_paths
from tailbit.tables.delta.protocol import Protocol
from tailbit.tables.delta.words import LOG
from tailbit.tables.model import UNKNOWN_SIZE
from tailbit.tables.parquet.file import ParquetFile, ParquetNode, open_parquet, parquet_tree, read_leaves
from tailbit.tables.snapshot import LateStats
from tailbit.tables.storage import Storage, at_once

_END = 4 << 20
"""Bytes fetched first, at the end of a log checkpoint: a checkpoint of 10,000 files takes one request."""

_ADD = ("path", "size", "modificationTime", "partitionValues", "deletionVector")
_COLUMNS: tuple[tuple[str, ...], ...] = (
    *(("add", name) for name in _ADD),
    ("add", "stats_parsed", "numRecords"),
    *(("protocol", n) for n in ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures")),
    *(("metaData", name) for name in ("id", "schemaString", "partitionColumns", "configuration")),
    ("sidecar", "path"),
)


Arrow = TypeVar("Arrow", pa.Table, pa.ChunkedArray)


@dataclass(frozen=True)
class CheckpointState:
    """The state in a checkpoint: live files of schema STORED in any order, protocol and metadata.

    `late_stats` reads the statistics of the files whose `origin` is set. The function keeps the checkpoint's
    files open, so that a log cleanup cannot take the statistics away.
    """

    files: pa.Table
    protocol: Protocol | None
    metadata: Metadata | None
    late_stats: LateStats | None = None


def read_checkpoint(storage: Storage, checkpoint: LogCheckpoint, files: bool = True) -> CheckpointState:
    """Read the state in a checkpoint; without `files`, only the protocol and metadata.

    Cost: decodes the needed columns except the statistics.

    Raises:
        MalformedLogError: a file of the checkpoint cannot be read or lacks a column, or a sidecar is missing.
        FileNotFoundError: the checkpoint itself is gone.
    """
    states = list(at_once(storage, [partial(_read, storage, name, files) for name in checkpoint.files]))
    if files:
        names = [(side, state.name) for state in states for side in state.sidecars]
        states += at_once(
            storage, [partial(_read_sidecar, storage, side, manifest) for side, manifest in names]
        )
    stored = [state for state in states if state.stats is not None]
    return CheckpointState(
        pa.concat_tables(_numbered(states)),
        next((state.protocol for state in states if state.protocol), None),
        next((state.metadata for state in states if state.metadata), None),
        _late(stored) if stored else None,
    )


@dataclass(frozen=True)
class _FileState:
    """One file of a checkpoint. `stats` reads the statistics of `files`, or is None if `files` holds them."""

    name: str
    files: pa.Table
    protocol: Protocol | None
    metadata: Metadata | None
    sidecars: Sequence[str]
    stats: LateStats | None


def _numbered(states: Sequence[_FileState]) -> list[pa.Table]:
    """Return the files of all parts; `origin` numbers the files whose statistics are read late."""
    out, start = [], 0
    for state in states:
        table = state.files
        if state.stats is not None:
            numbers = np.arange(start, start + table.num_rows, dtype=np.int64)
            origin = pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
            table = table.set_column(table.schema.get_field_index("origin"), "origin", origin)
            start += table.num_rows
        out.append(table)
    return out


def _late(states: Sequence[_FileState]) -> LateStats:
    @cache
    def load() -> pa.ChunkedArray:
        columns = [state.stats() for state in states if state.stats is not None]
        return pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.large_string())

    return load


def _read(storage: Storage, name: str, files: bool) -> _FileState:
    if not name.endswith(".json"):
        return _read_parquet(storage, name, files)
    manifest = parse_actions(storage.read(name), name)
    table = DeltaFiles.stored(list(manifest.adds.values()))
    return _FileState(name, table, manifest.protocol, manifest.metadata, manifest.sidecars, None)


def _read_sidecar(storage: Storage, path: str, manifest: str) -> _FileState:
    name = decode_path(path, manifest)
    try:
        file = storage.resolve(name if "/" in name else f"{LOG}/_sidecars/{name}")
        return _read_parquet(storage, file, True)
    except FileNotFoundError as gone:
        raise MalformedLogError(file=manifest, reason=f"its sidecar {path!r} is missing") from gone


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn errors of the Parquet reader on damaged bytes into a MalformedLogError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as wrong:
        raise MalformedLogError(file=name, reason=f"the log checkpoint cannot be read: {wrong}") from wrong


def _read_parquet(storage: Storage, name: str, files: bool) -> _FileState:
    paths = _COLUMNS if files else tuple(w for w in _COLUMNS if w[0] != "add")
    with _readable(name):
        file = open_parquet(storage.open(name, _END if files else 0), page_checksum_verification=True)
        tree = parquet_tree(file.schema_arrow, file.metadata.num_columns)
        leaves = sorted(leaf for path in paths for leaf in _leaves(tree, path))
        table = read_leaves(file, leaves, None, use_threads=True)
        return _file_state(table, name, _stats_reader(file, tree, table, name))


def _stats_reader(file: ParquetFile, tree: ParquetNode, table: pa.Table, name: str) -> LateStats | None:
    """Return a function that reads the statistics of the add actions, or None if the file has none."""
    leaves, paths = _leaves(tree, ("add", "stats")), _column(table, "add", "path")
    if not leaves or paths is None:
        return None

    def load() -> pa.ChunkedArray:
        with _readable(name):
            texts = pc.struct_field(read_leaves(file, leaves, None, use_threads=True)["add"], "stats")
            texts = pc.cast(texts, pa.large_string())
            texts.validate(full=True)
            return _valid(texts, paths) if paths.null_count else texts

    return load


def _leaves(tree: ParquetNode, path: Iterable[str]) -> range:
    """Return the leaves below a path; an empty range if the file lacks the path."""
    node: ParquetNode | None = tree
    for step in path:
        node = node.child(step) if node is not None else None
    return node.leaves if node is not None else range(0)


def _file_state(table: pa.Table, name: str, stats: LateStats | None) -> _FileState:
    protocol = _only(table, "protocol", "minReaderVersion")
    metadata = _only(table, "metaData", "id")
    settings = _column(table, "metaData", "configuration")
    if settings is not None and not pa.types.is_map(settings.type):
        raise ValueError(f"configuration is of type {settings.type}")
    side = _column(table, "sidecar", "path")
    return _FileState(
        name,
        _files(table, name),
        Protocol.parse(protocol, name) if protocol else None,
        Metadata.parse(metadata, name) if metadata else None,
        pc.drop_null(side).to_pylist() if side is not None else (),
        stats,
    )


def _column(table: pa.Table, action: str, field: str) -> pa.ChunkedArray | None:
    """Return one field of an action as a column, or None if the file lacks the field."""
    if action not in table.column_names:
        return None
    type_ = table.schema.field(action).type
    return pc.struct_field(table[action], field) if type_.get_field_index(field) >= 0 else None


def _only(table: pa.Table, action: str, key: str) -> dict[str, object] | None:
    """Return the single non-null row of an action as a Python object, or None if all rows are null."""
    keys = _column(table, action, key)
    if keys is None:
        return None
    rows = pc.filter(table[action], pc.is_valid(keys))
    return rows[0].as_py() if len(rows) else None


def _files(table: pa.Table, name: str) -> pa.Table:
    paths = _column(table, "add", "path")
    if paths is None:
        return no_rows(STORED)
    if paths.null_count:
        table = _valid(table.select(["add"]), paths)
    count = table.num_rows
    counted = _column(table, "add", "stats_parsed")
    unknown = arrow_scalar(UNKNOWN_SIZE, pa.int64())
    # No answer needs size and time, so a missing size or time is 0.
    columns = {
        "path": file_paths(_add(table, "path", pa.string()), name),
        "size": pc.max_element_wise(filled(_add(table, "size", pa.int64()), UNKNOWN_SIZE), unknown),
        "mtime": filled(_add(table, "modificationTime", pa.int64()), 0),
        "counted": pa.nulls(count, pa.int64()) if counted is None else _counted(counted),
        "partition": _add(table, "partitionValues", STORED.field("partition").type),
        "hidden": _vectors(_column(table, "add", "deletionVector"), count, name),
        "stats": pa.nulls(count, pa.large_string()),
        "origin": pa.nulls(count, pa.int64()),
    }
    out = pa.Table.from_arrays([pc.cast(columns[field.name], field.type) for field in STORED], schema=STORED)
    out.validate(full=True)
    return out


def _valid(table: Arrow, keys: pa.ChunkedArray) -> Arrow:
    """Return the rows whose key is not null: a slice if these rows are contiguous, as writers put them.

    Otherwise the rows are copied.
    """
    there = np.flatnonzero(numpy_of(pc.is_valid(keys), dtype=bool))
    if len(there) and there[-1] - there[0] + 1 == len(there):
        return table.slice(int(there[0]), len(there))
    return pc.take(table, arrow_array(there)) if len(there) else table.slice(0, 0)


def _add(table: pa.Table, field: str, type_: pa.DataType) -> pa.ChunkedArray | pa.Array:
    """Return a field of the add actions; NULLs if the file lacks the field."""
    column = _column(table, "add", field)
    return pa.nulls(table.num_rows, type_) if column is None else _as(column, type_, field)


def _counted(parsed: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the row counts of parsed statistics; null for negative counts."""
    rows = _as(pc.struct_field(parsed, "numRecords"), pa.int64(), "numRecords")
    return pc.if_else(pc.greater_equal(rows, arrow_scalar(0)), rows, arrow_scalar(None, pa.int64()))


def _as(column: pa.ChunkedArray, type_: pa.DataType, field: str) -> pa.ChunkedArray:
    """Cast a column to the expected type; only integers become integers."""
    if pa.types.is_integer(type_) and not pa.types.is_signed_integer(column.type):
        raise ValueError(f"{field} is of type {column.type}")
    return pc.cast(column, type_)


def _vectors(column: pa.ChunkedArray | None, count: int, name: str) -> pa.Array:
    """Return deletion vectors as DV_TYPE; null for a missing or empty vector."""
    if column is None:
        return pa.nulls(count, DV_TYPE)
    flat = {f.name: _as(pc.struct_field(column, f.name), f.type, f.name).combine_chunks() for f in DV_TYPE}
    kinds = flat["storageType"]
    there = filled(pc.not_equal(kinds, arrow_scalar("")), False)
    if not pc.any(there).as_py():
        return pa.nulls(count, DV_TYPE)
    unknown = set(pc.unique(pc.filter(kinds, there)).to_pylist()) - {"u", "p", "i"}
    if unknown:
        raise MalformedLogError(file=name, reason=f"deletion vector storage type {min(unknown)!r} is unknown")
    for field in ("pathOrInlineDv", "sizeInBytes", "cardinality"):
        if pc.filter(flat[field], there).null_count:
            raise MalformedLogError(file=name, reason=f"a deletion vector lacks {field}")
    return nested_array(DV_TYPE, list(flat.values()), null=~numpy_of(there))
