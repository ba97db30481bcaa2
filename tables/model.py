"""The nouns of a lakehouse table: version, data type, column, file slice, slice change, commit.

Everything above `tables` speaks of these, whatever the table's format. All values are frozen. What only the
format can read stands behind two small protocols: `HiddenRows` and `Statistics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from pyroaring import BitMap

    from tailbit.tables.storage import Storage

UNKNOWN_SIZE = 0
"""The size of a file of which the log says none; of no data file can it be the true one."""

Version = int
"""A commit number of the source log, from 0, contiguous."""


@dataclass(frozen=True, slots=True)
class DataType:
    """A logical type by its Delta name, whatever the format; `precision` and `scale` for decimal.

    `fields`: of a struct; the element of an array; key and value of a map.

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
        return _dotted(self.physical)

    @property
    def label(self) -> str:
        """The logical path as SQL text."""
        return _dotted(self.name)


@lru_cache(maxsize=4096)
def _dotted(parts: tuple[str, ...]) -> str:
    return ".".join(map(_quoted, parts))


def _quoted(part: str) -> str:
    return part if part.replace("_", "a").isalnum() else "`" + part.replace("`", "``") + "`"


class HiddenRows(Protocol):
    """The description of the rows hidden from a data file; a table format knows how to read them.

    A Delta deletion vector is one. It travels with its slice to other processes, so it must pickle.
    """

    @property
    def id(self) -> str:
        """The identity of the rows, not empty: two descriptions with one id hide the same rows."""

    @property
    def cardinality(self) -> int:
        """The number of hidden rows."""

    @property
    def place(self) -> tuple[str, int]:
        """The file and the offset in it, as a `DeletionVectorError` names them."""

    def read(self, storage: Storage) -> BitMap:
        """The 0-based physical row numbers that are hidden.

        Raises:
            DeletionVectorError: they cannot be read, or are not those that were described.
        """


class FileBounds(NamedTuple):
    """What statistics say of one column in one file.

    `min`, `max`: canonical values (int for integers, days and us; float; Decimal; str) or None; they bound
    every row that is not NULL, hidden or not. `null_count` is exact; `num_records` counts physical rows and
    is compared with `null_count` alone. What is unknown is None.
    """

    min: Any
    max: Any
    null_count: int | None
    num_records: int | None


class Statistics(Protocol):
    """The statistics of one data file, as its table format keeps them; they pickle, as their slice does."""

    def bounds(self, column: Column) -> FileBounds | None:
        """Return the bounds of a column; None where nothing is known of it. In doubt, bounds are wider."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A data file and the rows hidden from it.

    `path`: percent-decoded once, relative to the table's root where the log says so, else absolute (scheme
    `file:` removed). `size`: bytes, `UNKNOWN_SIZE` where the log does not say. `mtime`: ms since 1970, 0
    likewise. `rows`: physical rows as the log has them, None where it does not say: a hint for work to be
    shared out and shown, on which no answer rests. `partition`: physical column name to the log's text.
    `hidden`: None where no row is hidden.
    """

    path: str
    size: int
    mtime: int
    rows: int | None
    partition: Mapping[str, str | None] = field(default_factory=dict)
    hidden: HiddenRows | None = None
    stats: Statistics | None = field(default=None, repr=False)

    @property
    def hidden_id(self) -> str:
        """The identity of the hidden rows; empty where none are hidden."""
        return "" if self.hidden is None else self.hidden.id

    def of_any_size(self) -> FileSlice:
        """Return the slice as it is read where no position in it is known yet: whatever size the file has.

        Positions that an index has recorded hold for a file of the recorded size alone.
        """
        return replace(self, size=UNKNOWN_SIZE)

    def bounds(self, column: Column) -> FileBounds | None:
        """Return the bounds of a column by the file's statistics; None where they say nothing about it."""
        return None if self.stats is None else self.stats.bounds(column)


@dataclass(frozen=True, slots=True)
class SliceChange:
    """The net effect of commits on one path: old is None where it was not live, new where it is gone."""

    path: str
    old: FileSlice | None
    new: FileSlice | None


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """What one commit did, in numbers. `bytes_added` counts the files that it added.

    `blank`: its file holds no action, as that of a writer that died, or that has not written it yet.
    """

    version: Version
    timestamp_ms: int
    operation: str
    files_added: int
    files_removed: int
    bytes_added: int
    blank: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """The net effect of the commits `first` to `last`, both included.

    `slices`: one change per path that any of the commits names, sorted by path. Of `old` only path and hidden
    rows are sure; it is None where the range adds the path first. A file added and removed within the range
    has neither old nor new. `schema_changed`: one of the commits may have changed the schema.
    """

    first: Version
    last: Version
    slices: tuple[SliceChange, ...]
    commits: tuple[CommitInfo, ...]
    schema_changed: bool


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What proves that a commit is the one that was covered: version, sha256 of its bytes, table id."""

    version: Version
    sha256: str
    table_id: str
