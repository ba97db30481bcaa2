"""Manifest lists and manifests, decoded into columns by field id.

A manifest is never changed, so its decoded entries are cached by path. Entries that are no longer live are
left out. Source: Iceberg specification, Manifest Lists, Manifests, Sequence Number Inheritance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from tailbit.base.errors import MalformedLogError, UnsupportedFeatureError
from tailbit.tables.arrow import arrow_array
from tailbit.tables.cache import Cache, share
from tailbit.tables.iceberg.avro import Records, read_records
from tailbit.tables.iceberg.metadata import PartitionField, SnapshotEntry, TableMetadata
from tailbit.tables.iceberg.paths import Location
from tailbit.tables.storage import Storage

DATA, POSITIONS, EQUALITY = 0, 1, 2
"""The contents of the file of an entry."""
_DELETED = 2
_ADDED = 1
_NUMBERS = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.int64())]))
_VALUES = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.binary())]))
_TUPLE = pa.list_(pa.struct([("source", pa.int32()), ("transform", pa.string()), ("value", pa.binary())]))
STATS = pa.struct(
    [
        ("spec", pa.int32()),
        ("sequence", pa.int64()),
        ("rows", pa.int64()),
        ("partition", _TUPLE),
        ("nulls", _NUMBERS),
        ("nans", _NUMBERS),
        ("lower", _VALUES),
        ("upper", _VALUES),
    ]
)
"""What a manifest says of a file: the values of the fields of its partition spec, the others by field id."""
ENTRIES = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("content", pa.int32()),
        ("format", pa.string()),
        ("stats", STATS),
        ("keys", pa.list_(pa.int32())),
        ("concerns", pa.string()),
        ("offset", pa.int64()),
        ("length", pa.int64()),
    ]
)
"""The live entries of a manifest; paths are below the root. `concerns`: the data file of a delete file."""

_ENTRIES: Cache[tuple[Storage, str], pa.Table] = Cache(share(1 / 16))
_LISTS: Cache[tuple[Storage, str], tuple[Manifest, ...]] = Cache(share(1 / 64))
_A_MANIFEST = 512


class Manifest(NamedTuple):
    """A manifest as its list names it; `sequence`: what entries without a sequence number inherit."""

    path: str
    spec: int
    has_deletes: bool
    sequence: int


def manifests_of(storage: Storage, location: Location, snapshot: SnapshotEntry) -> tuple[Manifest, ...]:
    """Return the manifests of a snapshot; cached by the path of the manifest list.

    Raises:
        FileNotFoundError: the manifest list is gone.
        MalformedLogError: the manifest list is damaged.
        UnsupportedFeatureError: manifests are encrypted.
    """
    if not snapshot.manifest_list:
        return tuple(_bare(storage, location.below(path)) for path in snapshot.manifests)
    path = location.below(snapshot.manifest_list)

    def load() -> tuple[tuple[Manifest, ...], int]:
        if "key-id" in snapshot.summary:
            raise _encrypted(storage, snapshot.id)
        records = read_records(_bytes(storage, path), path)
        if any(key is not None for key in records.column(519)):
            raise _encrypted(storage, snapshot.id)
        contents = records.column(517, default=0)
        unknown = set(contents) - {0, 1}
        if unknown:
            raise MalformedLogError(file=path, reason=f"it has manifests of content {unknown.pop()}")
        rows = zip(
            map(location.below, records.column(500)),
            records.column(502),
            (content == 1 for content in contents),
            records.column(515, default=0),
            strict=True,
        )
        manifests = tuple(Manifest(*row) for row in rows)
        return manifests, _A_MANIFEST * len(manifests)

    return _LISTS.get((storage, path), load)


def _bare(storage: Storage, path: str) -> Manifest:
    """Return a manifest that no list describes, as in format version 1: its own header has its spec."""
    records = read_records(_bytes(storage, path), path)
    return Manifest(path, int(records.header.get("partition-spec-id", 0)), False, 0)


def entries_of(storage: Storage, metadata: TableMetadata, manifest: Manifest) -> pa.Table:
    """Return the live entries of a manifest as a table of ENTRIES; cached by path.

    Raises:
        FileNotFoundError: the manifest is gone.
        MalformedLogError: the manifest is damaged.
        UnsupportedFeatureError: a file is encrypted.
    """

    def load() -> tuple[pa.Table, int]:
        records = read_records(_bytes(storage, manifest.path), manifest.path)
        table = _entries(records, storage, metadata, manifest)
        return table, table.nbytes

    return _ENTRIES.get((storage, manifest.path), load)


def _entries(records: Records, storage: Storage, metadata: TableMetadata, manifest: Manifest) -> pa.Table:
    location = metadata.location
    if manifest.spec not in metadata.specs:
        reason = f"it is of partition spec {manifest.spec}, which the table does not have"
        raise MalformedLogError(file=manifest.path, reason=reason)
    statuses = records.column(0)
    if not set(statuses) <= {0, 1, 2}:
        raise MalformedLogError(file=manifest.path, reason="it has an entry of unknown status")
    live = [row for row, status in enumerate(statuses) if status != _DELETED]
    statuses = [statuses[row] for row in live]
    file = records.within(2, live)
    if any(key is not None for key in file.column(131)):
        raise _encrypted(storage, "of the table")
    contents = file.column(134, default=0)
    if not set(contents) <= {DATA, POSITIONS, EQUALITY}:
        raise MalformedLogError(file=manifest.path, reason="it has a file of unknown content")
    given = records.column(3, rows=live)
    sequences = [
        (manifest.sequence if status == _ADDED or not manifest.sequence else None) if own is None else own
        for own, status in zip(given, statuses, strict=True)
    ]
    if None in sequences:
        raise MalformedLogError(file=manifest.path, reason="an existing entry has no sequence number")
    rows = file.column(103)
    stats = [
        arrow_array([manifest.spec] * len(live), pa.int32()),
        arrow_array(sequences, pa.int64()),
        arrow_array(rows, pa.int64()),
        _tuples(file.partitions(102), metadata.specs[manifest.spec]),
        *(file.maps(id_, type_) for id_, type_ in ((110, _NUMBERS), (137, _NUMBERS))),
        *(file.maps(id_, _VALUES) for id_ in (125, 128)),
    ]
    concerned = (None if path is None else location.below(path) for path in file.column(143))
    return pa.Table.from_arrays(
        [
            arrow_array(list(map(location.below, file.column(100))), pa.string()),
            arrow_array(file.column(104), pa.int64()),
            arrow_array(rows, pa.int64()),
            arrow_array(contents, pa.int32()),
            arrow_array(file.column(101), pa.string()),
            pa.StructArray.from_arrays(stats, fields=list(STATS)),
            pa.array(file.column(135), pa.list_(pa.int32())),
            arrow_array(list(concerned), pa.string()),
            arrow_array(file.column(144), pa.int64()),
            arrow_array(file.column(145), pa.int64()),
        ],
        schema=ENTRIES,
    )


def _tuples(partitions: Sequence[Mapping[int, bytes | None]], fields: Sequence[PartitionField]) -> pa.Array:
    """Return partition tuples with source and transform of each field, in the order of the spec."""
    listed = [
        [{"source": f.source, "transform": f.transform, "value": values.get(f.id)} for f in fields]
        for values in partitions
    ]
    return pa.array(listed, _TUPLE)


def _bytes(storage: Storage, path: str) -> bytes:
    """Read a file of the metadata."""
    name, stat = storage.locate(path)
    if stat is None:
        raise FileNotFoundError(path)
    return storage.read(name)


def _encrypted(storage: Storage, version: object) -> UnsupportedFeatureError:
    hint = "Copy the rows into a table without encryption: no key is ever asked for."
    return UnsupportedFeatureError(path=storage.root, version=version, feature="encryption", hint=hint)
