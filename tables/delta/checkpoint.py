"""Log checkpoints in all forms, read as columns: classic, multi-part, V2 with JSON or Parquet manifest and sidecars.

Input: the files of one complete checkpoint. Output: live files, protocol, metadata. Only the leaf columns that are
needed are decoded, and no Python object is made per file, except for paths that hold an escape. Tombstones and
transactions are skipped. Source: Delta protocol, Checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailbit.errors import MalformedLogError
from tailbit.tables.delta.actions import Metadata, decode_path, parse_actions
from tailbit.tables.delta.file_list import DV_TYPE, STORED, stored_table
from tailbit.tables.delta.listing import LOG, LogCheckpoint
from tailbit.tables.delta.protocol import Protocol
from tailbit.tables.parquet_leaves import ParquetNode, parquet_tree, read_leaves
from tailbit.tables.storage import Storage

_WANTED: tuple[tuple[str, ...], ...] = (
    *(
        ("add", name)
        for name in ("path", "size", "modificationTime", "partitionValues", "deletionVector", "stats")
    ),
    ("add", "stats_parsed", "numRecords"),
    *(("protocol", n) for n in ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures")),
    *(("metaData", name) for name in ("id", "schemaString", "partitionColumns", "configuration")),
    ("sidecar", "path"),
)


@dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint says: live files of schema STORED in any order, protocol and metadata."""

    files: pa.Table
    protocol: Protocol | None
    metadata: Metadata | None


def read_checkpoint(storage: Storage, checkpoint: LogCheckpoint, files: bool = True) -> CheckpointState:
    """The state that a checkpoint holds; without `files`, its protocol and metadata alone.

    Cost: decoding the needed columns; memory about twice the decoded text of paths and statistics.

    Raises:
        MalformedLogError: a file of it cannot be read, lacks a column, or a sidecar is missing.
        FileNotFoundError: the checkpoint itself is gone.
    """
    tables: list[pa.Table] = []
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    sidecars: list[str] = []
    for name in checkpoint.files:
        part = _read_json(storage, name) if name.endswith(".json") else _read_parquet(storage, name, files)
        tables.append(part.files)
        protocol, metadata = protocol or part.protocol, metadata or part.metadata
        sidecars += part.sidecars
    for name in sidecars if files else ():
        tables.append(_read_sidecar(storage, name, checkpoint.files[0]))
    return CheckpointState(pa.concat_tables(tables), protocol, metadata)


@dataclass(frozen=True)
class _Part(CheckpointState):
    sidecars: Sequence[str] = ()


def _read_json(storage: Storage, name: str) -> _Part:
    found = parse_actions(storage.read(name), name)
    return _Part(stored_table(list(found.adds.values())), found.protocol, found.metadata, found.sidecars)


def _read_sidecar(storage: Storage, path: str, manifest: str) -> pa.Table:
    name = decode_path(path, manifest)
    name = name if "/" in name else f"{LOG}/_sidecars/{name}"
    try:
        return _read_parquet(storage, name, True).files
    except FileNotFoundError as gone:
        raise MalformedLogError(file=manifest, reason=f"its sidecar {path!r} is missing") from gone


def _read_parquet(storage: Storage, name: str, files: bool) -> _Part:
    wanted = _WANTED if files else tuple(w for w in _WANTED if w[0] != "add")
    try:
        with storage.open(name) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            leaves = [leaf for path in wanted for leaf in _leaves(parquet_tree(file), path)]
            table = read_leaves(file, sorted(leaves), None, use_threads=True)
        return _part(table, name)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as wrong:
        raise MalformedLogError(file=name, reason=f"the log checkpoint cannot be read: {wrong}") from wrong


def _leaves(tree: ParquetNode, path: Iterable[str]) -> range:
    """The leaves of a path; none where the file lacks it."""
    at: ParquetNode | None = tree
    for step in path:
        at = at.child(step) if at is not None else None
    return at.leaves if at is not None else range(0)


def _part(table: pa.Table, name: str) -> _Part:
    protocol = _only(table, "protocol", "minReaderVersion")
    metadata = _only(table, "metaData", "id")
    side = _column(table, "sidecar", "path")
    return _Part(
        _files(table, name),
        Protocol.parse(protocol, name) if protocol else None,
        Metadata.parse(metadata, name) if metadata else None,
        side.drop_null().to_pylist() if side is not None else (),
    )


def _column(table: pa.Table, action: str, field: str) -> pa.ChunkedArray | None:
    """One field of an action as a column; None where the file lacks it."""
    if action not in table.column_names:
        return None
    type_ = table.schema.field(action).type
    return pc.struct_field(table[action], field) if type_.get_field_index(field) >= 0 else None


def _only(table: pa.Table, action: str, key: str) -> dict[str, object] | None:
    """The one row of an action as a Python object."""
    keys = _column(table, action, key)
    if keys is None:
        return None
    rows = table[action].filter(pc.is_valid(keys))
    return rows[0].as_py() if len(rows) else None


def _files(table: pa.Table, name: str) -> pa.Table:
    paths = _column(table, "add", "path")
    if paths is None:
        return STORED.empty_table()
    if paths.null_count:
        table = table.select(["add"]).filter(pc.is_valid(paths))
    count = table.num_rows
    counted = _column(table, "add", "stats_parsed")
    columns = {
        "path": decode_paths(_needed(table, "path", pa.string(), name), name),
        "size": _needed(table, "size", pa.int64(), name),
        "mtime": _needed(table, "modificationTime", pa.int64(), name),
        "counted": pa.nulls(count, pa.int64()) if counted is None else pc.struct_field(counted, "numRecords"),
        "partition": _optional(table, "partitionValues", STORED.field("partition").type),
        "dv": _vectors(_column(table, "add", "deletionVector"), count, name),
        "stats": _optional(table, "stats", pa.large_string()),
    }
    return pa.table(columns).cast(STORED)


def _needed(table: pa.Table, field: str, type_: pa.DataType, name: str) -> pa.ChunkedArray:
    found = _column(table, "add", field)
    if found is None or found.null_count:
        raise MalformedLogError(file=name, reason=f"add.{field} is missing")
    return found.cast(type_)


def _optional(table: pa.Table, field: str, type_: pa.DataType) -> pa.ChunkedArray | pa.Array:
    found = _column(table, "add", field)
    return pa.nulls(table.num_rows, type_) if found is None else found.cast(type_)


def _vectors(found: pa.ChunkedArray | None, count: int, name: str) -> pa.Array:
    """Deletion vectors as DV_TYPE; null where there is none or an empty one.

    Raises:
        MalformedLogError: a descriptor that lacks a field, or of an unknown storage type.
    """
    if found is None:
        return pa.nulls(count, DV_TYPE)
    flat = {f.name: pc.struct_field(found, f.name).cast(f.type).combine_chunks() for f in DV_TYPE}
    kinds = flat["storageType"]
    there = pc.fill_null(pc.not_equal(kinds, ""), False)
    if not pc.any(there).as_py():
        return pa.nulls(count, DV_TYPE)
    unknown = set(pc.unique(kinds.filter(there)).to_pylist()) - {"u", "p", "i"}
    if unknown:
        raise MalformedLogError(file=name, reason=f"deletion vector storage type {min(unknown)!r} is unknown")
    for field in ("pathOrInlineDv", "sizeInBytes", "cardinality"):
        if flat[field].filter(there).null_count:
            raise MalformedLogError(file=name, reason=f"a deletion vector lacks {field}")
    return pa.StructArray.from_arrays(list(flat.values()), fields=list(DV_TYPE), mask=pc.invert(there))


def decode_paths(paths: pa.ChunkedArray, name: str) -> pa.Array:
    """Paths of the log, each percent-decoded once. Cost: per path only where one holds an escape or a scheme."""
    flat = pa.concat_arrays([pa.array([], pa.string()), *paths.chunks])
    odd = pc.or_(pc.match_substring(flat, "%"), pc.starts_with(flat, "file:"))
    odd = pc.or_(odd, pc.equal(pc.binary_length(flat), 0))
    if not pc.any(odd).as_py():
        return flat
    folder = lru_cache(maxsize=4096)(decode_path)
    plain = [_decoded(folder, path, name) for path in flat.filter(odd).to_pylist()]
    return pc.replace_with_mask(flat, odd, pa.array(plain, pa.string()))


def _decoded(folder: Callable[[str, str], str], path: str, name: str) -> str:
    """Decode a path by its folder, which many files share, and its own name."""
    above, slash, own = path.rpartition("/")
    if not slash or not above or "%" in own or path.startswith("file:"):
        return decode_path(path, name)
    return f"{folder(above, name)}/{own}"
