"""The snapshot of an Iceberg table at a version, from the manifests of its manifest list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError, UnsupportedFeatureError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_scalar
from tailbit.tables.iceberg.deletes import Deletes
from tailbit.tables.iceberg.files import IcebergFiles
from tailbit.tables.iceberg.manifests import ENTRIES, Manifest, entries_of, manifests_of
from tailbit.tables.iceberg.metadata import SnapshotEntry, TableMetadata
from tailbit.tables.iceberg.schema import SchemaReader, parse_schema
from tailbit.tables.iceberg.versions import Versions
from tailbit.tables.model import FileSlice, Version
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage

_MOST_EXTENDED = 64
"""Most manifests in which a snapshot differs from the one that it is made from."""


@dataclass(frozen=True)
class IcebergSnapshot(Snapshot):
    """An Iceberg table at one version; `schema_id`: that of the schema which it is read with.

    `manifests`: those of its manifest list.
    """

    schema_id: int = field(kw_only=True)
    manifests: frozenset[Manifest] = field(kw_only=True, repr=False)


def build_snapshot(
    storage: Storage, versions: Versions, version: Version, near: Sequence[IcebergSnapshot] = ()
) -> IcebergSnapshot:
    """Return the snapshot of a version that the metadata has.

    `near`: snapshots that may have most of its manifests. Cost: reads the manifest list, and those of its
    manifests that the process has not read yet; only these are decoded if a near snapshot is extended.

    Raises:
        FileNotFoundError: a manifest or the manifest list is gone.
        MalformedLogError: a manifest is damaged, or names a file twice.
        UnsupportedFeatureError: a file is of a format that is not read, or encrypted.
    """
    metadata, entry = versions.metadata, versions.entry(version)
    manifests = frozenset(() if entry is None else manifests_of(storage, metadata.location, entry))
    schema = versions.schema_of(version)
    if schema not in metadata.schemas:
        raise MalformedLogError(file=metadata.file, reason=f"it names schema {schema} and does not have it")
    alike = (before for before in near if _is_near(before.manifests, manifests))
    before = min(alike, key=lambda before: len(before.manifests ^ manifests), default=None)
    reader = _Reader(storage, metadata, entry)
    files = reader.files(manifests) if before is None else reader.extended(before, manifests)
    return IcebergSnapshot(
        root=storage.root,
        version=version,
        timestamp_ms=versions.time_of(version) or 0,
        files=files,
        read_schema=lambda: parse_schema(
            metadata.schemas[schema],
            metadata.file,
            SchemaReader(metadata.name_mapping, metadata.identities),
        ),
        schema_id=schema,
        manifests=manifests,
    )


def _is_near(before: frozenset[Manifest], manifests: frozenset[Manifest]) -> bool:
    """Return whether few manifests differ, and no manifest of deletes does."""
    different = before ^ manifests
    return len(different) <= _MOST_EXTENDED and not any(manifest.has_deletes for manifest in different)


class _Reader(NamedTuple):
    """A reader of the files of a snapshot; `entry`: None for a table without a snapshot."""

    storage: Storage
    metadata: TableMetadata
    entry: SnapshotEntry | None

    def _entries(self, manifests: Iterable[Manifest], has_deletes: bool) -> pa.Table:
        chosen = sorted(manifest for manifest in manifests if manifest.has_deletes == has_deletes)
        tables = entries_of(self.storage, self.metadata, chosen)
        return pa.concat_tables(tables) if tables else ENTRIES.empty_table()

    def _listed(self, data: Iterable[Manifest], manifests: Iterable[Manifest]) -> IcebergFiles:
        """Return the files of some data manifests, with the deletes of all manifests that apply to them."""
        name = self.metadata.file if self.entry is None else self.entry.manifest_list or self.metadata.file
        entries = self._entries(data, has_deletes=False)
        _check_data(entries, self.storage.root, "of no snapshot" if self.entry is None else self.entry.id)
        deletes = self._entries(manifests, has_deletes=True).to_pylist()
        hidden = Deletes(deletes, self.metadata, self.storage.root).of(entries)
        return IcebergFiles.of_entries(entries, hidden, name)

    def files(self, manifests: frozenset[Manifest]) -> IcebergFiles:
        """Return the live files of a snapshot."""
        return self._listed(manifests, manifests)

    def extended(self, before: IcebergSnapshot, manifests: frozenset[Manifest]) -> IcebergFiles:
        """Return the live files from those of another snapshot with the same deletes."""
        assert isinstance(before.files, IcebergFiles)
        gone = self._entries(before.manifests - manifests, has_deletes=False)["path"].to_pylist()
        changed: dict[str, FileSlice | None] = dict.fromkeys(gone)
        added = self._listed(manifests - before.manifests, manifests)
        for slice_ in added:
            if slice_.path not in changed and before.files.get(slice_.path) is not None:
                raise MalformedLogError(file=self.metadata.file, reason=f"path {slice_.path!r} is live twice")
            changed[slice_.path] = slice_
        return before.files.overlaid(changed)


def paths_in(storage: Storage, metadata: TableMetadata, manifests: Iterable[Manifest]) -> list[str]:
    """Return the paths of the live files of some manifests of data."""
    reader = _Reader(storage, metadata, None)
    paths: list[str] = reader._entries(manifests, has_deletes=False)["path"].to_pylist()
    return paths


def _check_data(data: pa.Table, root: str, snapshot: object) -> None:
    """Check that all data files are Parquet."""
    for format_ in pc.unique(data["format"]).to_pylist():
        if str(format_).upper() != "PARQUET":
            named = pc.filter(data["path"], pc.equal(data["format"], arrow_scalar(format_)))[0].as_py()
            raise UnsupportedFeatureError(
                path=root,
                version=snapshot,
                feature=f"data files in {str(format_).upper()} ({named})",
                hint="Rewrite them as Parquet: write.format.default = parquet, CALL rewrite_data_files.",
            )
