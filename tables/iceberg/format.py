"""Iceberg as a format of tables: how its tables are named and opened, and its words in errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tailbit.base.errors import RequirementError
from tailbit.tables.iceberg.words import CATALOG, WORDS
from tailbit.tables.storage import Storage, StorageOptions
from tailbit.tables.storage.store import LENDERS, METADATA_FILE, TABLE_FORMAT
from tailbit.tables.table import Format, Table

_CATALOGS_OF_SPARK = "org.apache.iceberg."
_FEWEST_NAMES = 3  # of a table of a catalog: the catalog, a namespace, the table


class _Iceberg(Format):
    """The format of Iceberg. Its modules are loaded for its tables alone, pyiceberg for those of catalogs."""

    words = WORDS
    yields = True

    def open(self, storage: Storage) -> Table:
        from tailbit.tables.iceberg.table import IcebergTable

        return IcebergTable.open(storage)

    def located(self, path: str, options: StorageOptions) -> tuple[str, StorageOptions] | None:
        """Return the root of a table given by its metadata file, or by the URI of a table of a catalog."""
        if path.startswith(CATALOG):
            from tailbit.tables.iceberg.catalogs import CatalogTable
            from tailbit.tables.iceberg.metadata import placed
            from tailbit.tables.storage.locations import with_access

            location, properties = CatalogTable(path, options).answer()
            root, _ = placed(location)
            return root, _with_metadata(with_access(root, properties, options), path)
        if not path.endswith((".metadata.json", ".metadata.json.gz")):
            return None
        above, _, name = path.replace("\\", "/").rpartition("/")
        root, _, folder = above.rpartition("/")
        root = root or ("/" if path.startswith("/") else ".")
        return root, _with_metadata(options, f"{folder}/{name}")

    def named(self, names: Sequence[str], class_in_spark: str) -> str | None:
        is_of_another = bool(class_in_spark) and not class_in_spark.startswith(_CATALOGS_OF_SPARK)
        if len(names) < _FEWEST_NAMES or is_of_another:
            return None
        try:
            from tailbit.tables.iceberg.catalogs import uri_in_catalog
        except RequirementError:
            return None
        return uri_in_catalog(tuple(names))


def _with_metadata(options: StorageOptions, metadata: str) -> StorageOptions:
    """Return options that say which metadata file of a table is the current one."""
    return StorageOptions.of({**dict(options), METADATA_FILE: metadata, TABLE_FORMAT: WORDS.sql_name})


def _lent(options: StorageOptions) -> Mapping[str, Any]:
    from tailbit.tables.iceberg.catalogs import lent

    return lent(options)


FORMAT = _Iceberg()
LENDERS[CATALOG.rstrip(":/")] = _lent
