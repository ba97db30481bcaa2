"""The snapshot of an Iceberg table at a version, from the manifests of its manifest list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import UnsupportedFeatureError
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_scalar
from tailbit.tables.iceberg.deletes import Deletes
from tailbit.tables.iceberg.files import IcebergFiles
from tailbit.tables.iceberg.manifests import ENTRIES, Manifest, entries_of, manifests_of
from tailbit.tables.iceberg.schema import SchemaReader, parse_schema
from tailbit.tables.iceberg.versions import Versions
from tailbit.tables.model import Version
from tailbit.tables.snapshot import Snapshot
from tailbit.tables.storage import Storage


@dataclass(frozen=True)
class IcebergSnapshot(Snapshot):
    """An Iceberg table at one version; `schema_id`: that of the schema which it is read with."""

    schema_id: int = field(kw_only=True)


def build_snapshot(storage: Storage, versions: Versions, version: Version) -> IcebergSnapshot:
    """Return the snapshot of a version that the metadata has.

    Cost: reads the manifest list, and those of its manifests that the process has not read yet.

    Raises:
        FileNotFoundError: a manifest or the manifest list is gone.
        MalformedLogError: a manifest is damaged, or names a file twice.
        UnsupportedFeatureError: a file is of a format that is not read, or encrypted.
    """
    metadata, entry = versions.metadata, versions.entry(version)
    manifests = () if entry is None else manifests_of(storage, metadata.location, entry)

    def entries(of: Sequence[Manifest]) -> pa.Table:
        tables = [entries_of(storage, metadata, manifest) for manifest in of]
        return pa.concat_tables(tables) if tables else ENTRIES.empty_table()

    schema = versions.schema_of(version)
    name = metadata.file if entry is None else entry.manifest_list or metadata.file
    data = entries([manifest for manifest in manifests if not manifest.has_deletes])
    _check_data(data, storage.root, "of no snapshot" if entry is None else entry.id)
    deletes = entries([manifest for manifest in manifests if manifest.has_deletes])
    hidden = Deletes(deletes.to_pylist(), metadata, storage.root).of(data)
    return IcebergSnapshot(
        root=storage.root,
        version=version,
        timestamp_ms=versions.time_of(version) or 0,
        files=IcebergFiles.of_entries(data, hidden, name),
        read_schema=lambda: parse_schema(
            metadata.schemas[schema],
            metadata.file,
            SchemaReader(metadata.name_mapping, metadata.identities),
        ),
        schema_id=schema,
    )


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
