"""Manifest lists and manifests, decoded into columns by field id.

A manifest is never changed, so its decoded entries are cached by path. Entries that are no longer live are
left out. Source: Iceberg specification, Manifest Lists, Manifests, Sequence Number Inheritance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tailbit.base.errors import MalformedLogError, UnsupportedFeatureError
from tailbit.tables import compute as pc
from tailbit.tables.ahead import in_order, shared_out
from tailbit.tables.arrow import arrow_array, arrow_scalar, numpy_of
from tailbit.tables.cache import Cache, share
from tailbit.tables.iceberg.avro import Blocks, Records, blocks_of, is_loaded, one_file, read_records
from tailbit.tables.iceberg.metadata import Location, PartitionField, SnapshotEntry, TableMetadata
from tailbit.tables.storage import Storage, at_once

DATA, POSITIONS, EQUALITY = 0, 1, 2
"""The contents of the file of an entry."""
_ADDED, _DELETED = 1, 2
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

_ENTRIES: Cache[tuple[Storage, str, str], pa.Table] = Cache(share(1 / 32))
_LISTS: Cache[tuple[Storage, str, str], tuple[Manifest, ...]] = Cache(share(1 / 128))
_A_MANIFEST = 512
_DAMAGE = (
    *(MalformedLogError, KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError),
    *(StopIteration, pa.ArrowException),
)
"""What a file of another form raises while it is decoded."""
_FEW = 24
"""Most manifests for which polars is not loaded."""


class Manifest(NamedTuple):
    """A manifest as its list names it; `sequence`: what entries without a sequence number inherit."""

    path: str
    spec: int
    has_deletes: bool
    sequence: int


def manifests_of(storage: Storage, location: Location, snapshot: SnapshotEntry) -> tuple[Manifest, ...]:
    """Return the manifests of a snapshot; cached by the path of the manifest list."""
    if not snapshot.manifest_list:
        return tuple(_bare(storage, location.below(path)) for path in snapshot.manifests)
    path = location.below(snapshot.manifest_list)

    def load() -> tuple[tuple[Manifest, ...], int]:
        if "key-id" in snapshot.summary:
            raise _encrypted(storage, snapshot.id)
        data = _bytes(storage, path)
        try:
            return listed(data)
        except (FileNotFoundError, MalformedLogError):
            raise
        except _DAMAGE as wrong:
            raise MalformedLogError(file=path, reason=f"it is no manifest list: {wrong!r}") from wrong

    def listed(data: bytes) -> tuple[tuple[Manifest, ...], int]:
        records = read_records(data, path)
        if records.column(519, pa.binary()).null_count < len(records.rows):
            raise _encrypted(storage, snapshot.id)
        contents = [content or 0 for content in records.column(517, pa.int32()).to_pylist()]
        unknown = set(contents) - {0, 1}
        if unknown:
            raise MalformedLogError(file=path, reason=f"it has manifests of content {unknown.pop()}")
        rows = zip(
            map(location.below, records.column(500, pa.string()).to_pylist()),
            records.column(502, pa.int32()).to_pylist(),
            (content == 1 for content in contents),
            (sequence or 0 for sequence in records.column(515, pa.int64()).to_pylist()),
            strict=True,
        )
        manifests = tuple(Manifest(*row) for row in rows)
        return manifests, _A_MANIFEST * len(manifests)

    return _LISTS.get((storage, location.text, path), load)


def _bare(storage: Storage, path: str) -> Manifest:
    """Return a manifest that no list describes, as in format version 1: its own header has its spec."""
    records = read_records(_bytes(storage, path), path)
    return Manifest(path, int(records.header.get("partition-spec-id", 0)), False, 0)


def entries_of(
    storage: Storage, metadata: TableMetadata, snapshot: object, manifests: Sequence[Manifest]
) -> list[pa.Table]:
    """Return the live entries of each of some manifests as a table of ENTRIES; cached by path.

    `snapshot`: the id of the one that has them, for errors. Manifests of one header are decoded together:
    calls would cost more than their entries.
    """
    tables = {
        manifest: _ENTRIES.cached((storage, metadata.location.text, manifest.path)) for manifest in manifests
    }
    unread = [manifest for manifest, table in tables.items() if table is None]
    groups = _grouped(unread, [*at_once(storage, [partial(_blocks, storage, m.path) for m in unread])])
    quickly = len(unread) > _FEW or is_loaded()
    decoded = in_order(partial(_decoded, group, storage, metadata, snapshot, quickly) for group in groups)
    for group, own in zip(groups, decoded, strict=True):
        for (manifest, _), table in zip(group, own, strict=True):
            tables[manifest] = _ENTRIES.hold(
                (storage, metadata.location.text, manifest.path), table, table.nbytes
            )
    return [table for table in tables.values() if table is not None]


Group = Sequence[tuple[Manifest, Blocks]]
"""Manifests of one header and one partition spec, which are decoded as one file."""


def _blocks(storage: Storage, path: str) -> Blocks:
    return blocks_of(_bytes(storage, path), path)


def _grouped(manifests: Sequence[Manifest], files: Sequence[Blocks]) -> list[Group]:
    """Return manifests in groups: as large as all cores can have a share."""
    alike: dict[object, list[tuple[Manifest, Blocks]]] = {}
    for manifest, file in zip(manifests, files, strict=True):
        alike.setdefault((file.header, manifest.spec), []).append((manifest, file))
    groups: list[Group] = []
    for group in alike.values():
        groups += shared_out(group, [1] * len(group), _FEW)
    return groups


def _decoded(
    group: Group, storage: Storage, metadata: TableMetadata, snapshot: object, quickly: bool, alone: bool
) -> list[pa.Table]:
    """Return the live entries of each manifest of a group; `alone` (of `in_order`) is ignored."""
    try:
        records = read_records(one_file([file for _, file in group]), group[0][0].path, quickly)
        return _entries(group, records, storage, metadata, snapshot)
    except _DAMAGE as wrong:
        if len(group) > 1:
            # Decoded alone, the damaged one is named.
            return [_decoded([file], storage, metadata, snapshot, quickly, alone)[0] for file in group]
        if isinstance(wrong, MalformedLogError):
            raise
        raise MalformedLogError(file=group[0][0].path, reason=f"it is no manifest: {wrong!r}") from wrong


def _entries(
    group: Group, records: Records, storage: Storage, metadata: TableMetadata, snapshot: object
) -> list[pa.Table]:
    """Return the live entries of each manifest of a group from the records of all."""
    first, sizes = group[0][0], [file.records for _, file in group]
    if first.spec not in metadata.specs:
        reason = f"it is of partition spec {first.spec}, which the table does not have"
        raise MalformedLogError(file=first.path, reason=reason)
    statuses = numpy_of(records.column(0, pa.int32()))
    file = records.within(2)
    contents = pc.coalesce(file.column(134, pa.int32()), arrow_scalar(DATA, pa.int32()))
    for values, allowed, entry in (
        (statuses, (0, _ADDED, _DELETED), "an entry of unknown status"),
        (numpy_of(contents), (DATA, POSITIONS, EQUALITY), "a file of unknown content"),
    ):
        if not np.isin(values, allowed).all():
            raise MalformedLogError(file=first.path, reason=f"it has {entry}")
    if file.column(131, pa.binary()).null_count < len(statuses):
        raise _encrypted(storage, snapshot)
    inherited = np.repeat(np.array([manifest.sequence for manifest, _ in group], np.int64), sizes)
    inherits = (statuses == _ADDED) | (inherited == 0)
    given = records.column(3, pa.int64())
    sequences = pc.coalesce(given, arrow_array(inherited, mask=~inherits))
    rows, location = file.column(103, pa.int64()), metadata.location
    numbers, tuples = file.partitions(102)
    stats = [
        pa.repeat(arrow_scalar(first.spec, pa.int32()), len(statuses)),
        sequences,
        rows,
        pc.take(_tuples(tuples, metadata.specs[first.spec]), arrow_array(numbers, pa.int64())),
        *(file.column(id_, type_) for id_, type_ in ((110, _NUMBERS), (137, _NUMBERS))),
        *(file.column(id_, _VALUES) for id_ in (125, 128)),
    ]
    concerned = file.column(143, pa.string())
    if concerned.null_count < len(concerned):
        paths = (None if path is None else location.below(path) for path in concerned.to_pylist())
        concerned = arrow_array(list(paths), pa.string())
    table = pa.Table.from_arrays(
        [
            arrow_array(location.all_below(file.column(100, pa.string()).to_pylist()), pa.string()),
            file.column(104, pa.int64()),
            rows,
            contents,
            file.column(101, pa.string()),
            pa.StructArray.from_arrays(stats, fields=list(STATS)),
            file.column(135, pa.list_(pa.int32())),
            concerned,
            file.column(144, pa.int64()),
            file.column(145, pa.int64()),
        ],
        schema=ENTRIES,
    )
    live = statuses != _DELETED
    if numpy_of(pc.is_null(sequences), dtype=bool)[live].any():
        raise MalformedLogError(file=first.path, reason="an existing entry has no sequence number")
    ends = np.cumsum(sizes)
    lives = np.concatenate([[0], np.cumsum(live)])
    table = table if live.all() else pc.filter(table, arrow_array(live))
    bounds = [(int(lives[end - size]), int(lives[end])) for size, end in zip(sizes, ends, strict=True)]
    return [table.slice(begin, end - begin) for begin, end in bounds]


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
