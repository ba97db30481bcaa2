"""The properties of a Hudi table: `.hoodie/hoodie.properties`, in the format of Java's `Properties`.

Source: java.util.Properties, load; Hudi technical specification, Table properties.

The gate for Hudi tables: a kind of table whose rows are not proven equal to Spark's is refused by name.

Properties that only writers need (indexes, payload classes, merge modes of COPY_ON_WRITE, services) pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    MalformedLogError,
    NotATableError,
    TableInTransitionError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from tailbit.tables.hudi.format import LOG, WORDS
from tailbit.tables.hudi.log_files.plan import refused_rules
from tailbit.tables.schema import Schema
from tailbit.tables.storage import Storage

FILE = f"{LOG}/hoodie.properties"
BACKUP = f"{FILE}.backup"
"""The copy that Hudi keeps while it rewrites the properties."""
SMALL = 1 << 20
VERSIONS = (6, 8, 9)
"""The table versions that are read."""
_NO_PROPERTIES = "Give the folder of a whole table, or restore the file from a backup."
_UPGRADE = "Upgrade the table with Hudi 1.x (hoodie.write.table.version, or hudi-cli)."
_TOO_NEW = "Use a tailbit release that lists it, or downgrade the table with Hudi (hudi-cli)."
NEWEST = "(newest)"
"""The version in errors that concern the table as a whole."""

_ENTRY = re.compile(r"((?:[^\\:=\s]|\\.)*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.S)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class TableProperties:
    """The properties of a table by name, and those that tell how to read its timeline.

    `version`: the version of the table's format. `active`: the folder of the active timeline; `history`: the
    folder of archived instants. Both are relative to the table's root.
    """

    values: Mapping[str, str]
    version: int
    active: str
    history: str

    @property
    def has_completion_times(self) -> bool:
        """Whether the names of completed instants hold the completion time, as from table version 8 on."""
        return self.version >= 8

    @property
    def has_meta_columns(self) -> bool:
        """Whether the table fills Hudi's own columns; only then are they shown."""
        return self.values.get("hoodie.populate.meta.fields", "true").lower() != "false"

    @property
    def is_merged(self) -> bool:
        """Whether the rows of the table result from merging base files and log files."""
        return is_merged(self.values)


def is_merged(values: Mapping[str, str]) -> bool:
    """Return whether the properties are those of a MERGE_ON_READ table."""
    return values.get("hoodie.table.type", "").upper() == "MERGE_ON_READ"


def read_properties(storage: Storage) -> TableProperties:
    """Read the properties of the table below a root.

    Raises:
        NotATableError: there is no file of properties.
        TableInTransitionError: Hudi is writing the properties at this moment, or died while it did.
        MalformedLogError: the properties are damaged.
        UnsupportedFeatureError: the table has another version than those that are read.
        UnsafePathError: a folder of the timeline is outside of the table.
    """
    try:
        values = parse_properties(storage.read(FILE, SMALL))
    except FileNotFoundError:
        if storage.exists(BACKUP):
            raise TableInTransitionError(path=storage.root, file=FILE) from None
        raise NotATableError(
            path=storage.root, reason=f"it has no {FILE}", kind=WORDS.kind, log=LOG, hint=_NO_PROPERTIES
        ) from None
    if "hoodie.table.version" not in values and storage.exists(BACKUP):
        raise TableInTransitionError(path=storage.root, file=FILE)
    version = _version_of(values, storage.root)
    if version >= 8:
        active = _folder(values, "hoodie.timeline.path", "timeline", LOG, storage.root)
        history = _folder(values, "hoodie.timeline.history.path", "history", active, storage.root)
    else:
        active = LOG
        history = _folder(values, "hoodie.archivelog.folder", "archived", LOG, storage.root)
    return TableProperties(values, version, active, history)


def _version_of(values: Mapping[str, str], root: str) -> int:
    """Return the table version."""
    text = values.get("hoodie.table.version")
    if text is None:
        raise MalformedLogError(file=FILE, reason="it has no hoodie.table.version")
    if not re.fullmatch(r"[0-9]{1,4}", text):
        raise MalformedLogError(file=FILE, reason=f"hoodie.table.version is {text!r}, not a number")
    version = int(text)
    if version not in VERSIONS:
        raise UnsupportedFeatureError(
            path=root,
            version=NEWEST,
            feature=f"hudi table version {version}",
            hint=_TOO_NEW if version > VERSIONS[-1] else _UPGRADE,
        )
    layout, expected = values.get("hoodie.timeline.layout.version"), "2" if version >= 8 else "1"
    if layout not in (None, expected):
        reason = f"table version {version} has timeline layout {layout}, and should have {expected}"
        raise MalformedLogError(file=FILE, reason=reason)
    return version


def _folder(values: Mapping[str, str], name: str, usual: str, parent: str, root: str) -> str:
    """Return the path of the folder below `parent` that a property names; `usual` if it is not set."""
    text = values.get(name) or usual
    steps = text.split("/")
    if "\0" in text or any(step in ("", ".", "..") for step in steps):
        raise UnsafePathError(file=text, path=root, reason=f"{name} must be the name of a folder in {parent}")
    return f"{parent}/{text}"


def parse_properties(data: bytes) -> dict[str, str]:
    r"""Return the properties in a file that Java wrote; the last value of a name that occurs twice.

    >>> parse_properties(b"#saved\na\\:b=c\\=d\n")
    {'a:b': 'c=d'}
    """
    values = {}
    for line in _logical_lines(data.decode("latin-1")):
        match = _ENTRY.fullmatch(line)
        if match is not None:
            values[_unescaped(match[1])] = _unescaped(match[2])
    return values


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines that hold a property; a line that ends in an odd number of backslashes continues."""
    begun: str | None = None
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if begun is None and (not line or line[0] in "#!"):
            continue
        whole = (begun or "") + line
        goes_on = (len(whole) - len(whole.rstrip("\\"))) % 2 == 1
        begun = whole[:-1] if goes_on else None
        if not goes_on:
            yield whole
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _CONTROL.get(code, code)


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
