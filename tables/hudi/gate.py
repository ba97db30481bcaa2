"""The gate for Hudi tables: a kind of table whose rows are not proven equal to Spark's is refused by name.

Properties that only writers need (indexes, payload classes, merge modes of COPY_ON_WRITE, services) pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tailbit.base.errors import UnsupportedFeatureError
from tailbit.tables.hudi.log_files.plan import refused_rules
from tailbit.tables.hudi.properties import NEWEST, TableProperties, is_merged
from tailbit.tables.hudi.words import LOG
from tailbit.tables.schema import Schema

READ = {
    "hoodie.table.type": ("COPY_ON_WRITE", "MERGE_ON_READ"),
    "hoodie.table.base.file.format": ("PARQUET",),
    "hoodie.table.multiple.base.file.formats.enable": ("FALSE",),
    "hoodie.table.format": ("NATIVE",),
    "hoodie.bootstrap.base.path": ("",),
    "hoodie.datasource.write.drop.partition.columns": ("FALSE",),
    "hoodie.datasource.write.slash.separated.date.partitioning": ("FALSE",),
    "hoodie.partition.metafile.use.base.format": ("FALSE",),
    "hoodie.table.keygenerator.type": ("SIMPLE", "COMPLEX", "NON_PARTITION"),
}
"""The property values with which a table is read, in capitals; a property that is absent passes."""
GENERATORS = ("Simple", "Complex", "Nonpartitioned")
"""The key generators with which a table is read: class names without package, `KeyGenerator` and `Avro`."""
_METADATA = f"/{LOG}/metadata"
_HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
_ENCODES = "hoodie.datasource.write.partitionpath.urlencode"
_ENCODED = re.compile("%[0-9a-fA-F]{2}")
_PARTITIONED = "hoodie.table.partition.fields"
PARTITION_TYPES = frozenset(("string", "integer", "long", "date"))
"""The types of partition columns for which Spark is proven to read the written values from folder names."""


def check_readable(properties: TableProperties, root: str, version: str = NEWEST) -> None:
    """Check that a table's properties are those of a kind of table that is read.

    Raises:
        UnsupportedFeatureError: a property has a value with which no table is read, or the table is Hudi's
            own metadata table; the error names `version`, the newest instant.
    """
    if root.endswith(_METADATA):
        raise UnsupportedFeatureError(
            path=root,
            version=version,
            feature="the format of Hudi's own metadata table",
            hint=f"Give the folder that holds {LOG}: {root.removesuffix(_METADATA)}.",
        )
    for name, value in refused(properties.values).items():
        raise UnsupportedFeatureError(
            path=root,
            version=version,
            feature=f"{name}={value}",
            hint="Copy the rows into a COPY_ON_WRITE table of Parquet files with plain partition columns.",
        )


def refused(values: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that forbid to read the table, with their values.

    >>> refused({"hoodie.table.base.file.format": "ORC", "hoodie.table.name": "t"})
    {'hoodie.table.base.file.format': 'ORC'}
    """
    wrong = {
        name: values[name] for name, read in READ.items() if values.get(name, read[0]).upper() not in read
    }
    generator = values.get("hoodie.table.keygenerator.class", "")
    plain = generator.rpartition(".")[2].removesuffix("KeyGenerator").removesuffix("Avro")
    if generator and plain not in GENERATORS:
        wrong["hoodie.table.keygenerator.class"] = generator
    if is_merged(values):
        wrong |= refused_rules(values)
    return wrong


def check_folders(folders: Iterable[str], properties: TableProperties, root: str, version: str) -> None:
    """Check that Spark, which reads partition columns from folder names, finds the written values there.

    Raises:
        UnsupportedFeatureError: Spark finds another value in a folder's name; the error names `version`.
    """
    for folder in sorted(set(folders)):
        if names_another_value(folder, properties.values):
            raise UnsupportedFeatureError(
                path=root,
                version=version,
                feature=f"the partition folder {folder!r}, in whose name Spark finds another value",
                hint=f"Write the rows into a table with {_HIVE_STYLE}=true and {_ENCODES}=true.",
            )


def names_another_value(folder: str, values: Mapping[str, str]) -> bool:
    """Return whether Spark finds other values in the name of a folder than those that were written.

    Spark takes the part after a `=` in a folder's name for the value, and decodes `%` with two digits.
    Source: HoodieSparkUtils, parsePartitionColumnValues.

    >>> names_another_value("a=b", {"hoodie.datasource.write.hive_style_partitioning": "false"})
    True
    """
    if values.get(_ENCODES, "").lower() != "true" and _ENCODED.search(folder):
        return True
    return values.get(_HIVE_STYLE, "").lower() == "false" and "=" in folder


def partition_columns(properties: TableProperties) -> tuple[str, ...]:
    """Return the partition columns of a table, in the order of the folders."""
    names = (name.strip() for name in properties.values.get(_PARTITIONED, "").split(","))
    return tuple(name for name in names if name)


def check_partition_columns(schema: Schema, properties: TableProperties, root: str, version: str) -> None:
    """Check that partition columns have types that Spark reads from folder names as they were written.

    A timestamp, for example, is read as NULL.

    Raises:
        UnsupportedFeatureError: a column is of another type; the error names `version`.
    """
    named = set(partition_columns(properties))
    for column in schema.columns:
        if column.name[-1] in named and column.type.name not in PARTITION_TYPES:
            raise UnsupportedFeatureError(
                path=root,
                version=version,
                feature=f"the partition column {column.name[-1]} of type {column.type.name}",
                hint="Partition the table by a column of text, of whole numbers or of dates.",
            )
