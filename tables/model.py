"""The nouns of a lakehouse table: version, data type, column, file slice, slice change.

Everything above `tables` speaks of slices, not of Delta files. All values are frozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Version = int
"""A commit number of the source log, from 0, contiguous."""


@dataclass(frozen=True, slots=True)
class DataType:
    """A logical type by its Delta name; `precision` and `scale` for decimal, `fields` for struct.

    Names: boolean byte short integer long float double decimal string binary date timestamp timestamp_ntz
    struct array map, and whatever else a log says (void, variant, interval ...), kept by name.
    `raw` is the type as the log gives it (a string or a JSON object). `char_length`: n where the column is
    CHAR(n), whose values Spark fills up with spaces to n characters when it reads them; so do we.
    """

    name: str
    precision: int = 0
    scale: int = 0
    fields: tuple[Column, ...] = ()
    raw: Any = field(default=None, compare=False, hash=False)
    char_length: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf or top-level column.

    `name`: logical path, one part per nesting level. `physical`: the path in data files, statistics and
    partition values; it is what the index knows the column by, so a rename costs nothing. `field_ids`: one id
    per level where the table maps columns by id, else empty. `zone`: the zone of times that partition values
    give without one.
    """

    name: tuple[str, ...]
    physical: tuple[str, ...]
    type: DataType
    nullable: bool = True
    partition: bool = False
    field_id: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, hash=False)
    field_ids: tuple[int, ...] = ()
    zone: str = "UTC"

    @property
    def id(self) -> str:
        """The physical path as one string, parts quoted with backticks where they need it."""
        return ".".join(_quoted(p) for p in self.physical)

    @property
    def label(self) -> str:
        """The logical path as SQL text."""
        return ".".join(_quoted(p) for p in self.name)


def _quoted(part: str) -> str:
    return part if part.replace("_", "a").isalnum() else "`" + part.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The descriptor of the rows hidden from a data file.

    Source: Delta protocol, Deletion Vectors. `storage_type` is u, p or i.
    """

    storage_type: str
    path_or_inline: str
    offset: int | None
    size: int
    cardinality: int

    @property
    def id(self) -> str:
        """The identity of the vector: two descriptors with one id hide the same rows."""
        at = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline}{at}"


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A data file and the rows hidden from it.

    `path`: percent-decoded once, relative to the table's root where the log says so, else absolute (scheme
    `file:` removed). `size`: bytes. `mtime`: ms since 1970. `rows`: physical rows, None where the log has no
    numRecords. `partition`: physical column name to the log's text. `stats`: the log's JSON text.
    """

    path: str
    size: int
    mtime: int
    rows: int | None
    partition: Mapping[str, str | None] = field(default_factory=dict)
    hidden: DeletionVector | None = None
    stats: str | None = field(default=None, repr=False)

    @property
    def hidden_id(self) -> str:
        """The identity of the hidden rows; empty where none are hidden."""
        return "" if self.hidden is None else self.hidden.id


@dataclass(frozen=True, slots=True)
class SliceChange:
    """The net effect of commits on one path: old is None where it was not live, new where it is gone."""

    path: str
    old: FileSlice | None
    new: FileSlice | None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What proves that a commit is the one that was covered: version, sha256 of its bytes, table id."""

    version: Version
    sha256: str
    table_id: str
