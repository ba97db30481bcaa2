"""The nouns of a lakehouse table: version, data type, column, file slice, slice change, commit.

All code above `tables` uses these types, whatever the table's format. All values are frozen. What only the
format can read is behind two small protocols: `HiddenRows` and `Statistics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tailbit.base.dataclass import dataclass
from tailbit.base.wording import quoted

if TYPE_CHECKING:
    from pyroaring import BitMap

    from tailbit.tables.storage import Storage

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The name of a partition folder that stands for NULL."""

UUID = "uuid"
"""What `DataType.raw` is where a string is stored as the sixteen bytes of a UUID."""

UNKNOWN_SIZE = 0
"""The size of a file whose size the log does not give; no real data file has this size."""

Version = int
"""The number of a commit in the source log, 0 or more; numbers rise with commits, perhaps with gaps."""


VersionName = int | str
"""The name of a version for people and in JSON: its number, or a text where the format has another name."""


def after(version: Version) -> Version:
    """Return the least number that a later version may have: a bound, which need not be a commit.

    >>> after(7)
    8
    """
    return version + 1


@dataclass(frozen=True, slots=True)
class DataType:
    """A logical type by its name, whatever the format; `precision` and `scale` for decimal.

    `fields`: the fields of a struct, the element of an array, or the key and value of a map.

    Names: boolean byte short integer long float double decimal string binary date timestamp timestamp_ntz
    struct array map, and any other name that a log gives (void, variant, interval ...), which is kept. `raw`
    is the type as the log gives it (a string or a JSON object). `char_length`: n if the column is CHAR(n),
    whose values are padded with spaces to n characters on read, as Spark does. `promoted`: older files may
    hold values of other types, which become values of this type as Hudi promotes them.
    """

    name: str
    precision: int = 0
    scale: int = 0
    fields: tuple[Column, ...] = ()
    raw: Any = field(default=None, compare=False, hash=False)
    char_length: int = 0
    promoted: bool = field(default=False, compare=False, hash=False)

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    @property
    def sql(self) -> str:
        """The type as Spark SQL writes it, for people: INT, DECIMAL(10,2); other names are as in the log."""
        name = _SQL_NAMES.get(self.name)
        return str(self) if name is None else str(self).replace(self.name, name, 1)


_SQL_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"} | {
    name: name.upper()
    for name in (
        *("boolean", "float", "double", "decimal", "string", "binary", "date", "timestamp", "timestamp_ntz"),
        *("struct", "array", "map", "variant"),
    )
}


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf or top-level column.

    `name`: logical path, one part per nesting level. `physical`: the path in data files, statistics and
    partition values; the index stores this path, so a rename costs nothing. `field_ids`: one id per level if
    the table maps columns by id, else empty. `zone`: the time zone of partition values without an offset.
    `generated`: the SQL expression whose value the column always holds, or empty. `null_folder`: the index,
    from 0, of the folder in a data file's path that says if the column is NULL; None if there is none.
    `unit`: ms or us if the log declares the unit of times, whatever a data file says of its numbers; else
    empty. `default`: the value in data files that lack the column, None for NULL. `aliases`: per level the
    names that mean the column in data files without field ids, if the table says so; `in_folder`: such a file
    may lack the column because its value stands in the name of a folder, as `name=value`. `pruned`: a file
    with none of the fields that the column has now lacks the column, whatever fields it had before.
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
    generated: str = ""
    null_folder: int | None = None
    unit: str = ""
    default: Any = None
    aliases: tuple[tuple[str, ...], ...] = ()
    in_folder: bool = False
    pruned: bool = False

    def is_null_in(self, path: str) -> bool:
        """Return whether the folders of a data file say that the column is NULL, whatever the file holds."""
        if self.null_folder is None:
            return False
        folders = path.split("/")[:-1]
        name = folders[self.null_folder] if self.null_folder < len(folders) else ""
        return name.removeprefix(f"{self.name[-1]}=") == NULL_FOLDER

    @property
    def id(self) -> str:
        """The physical path as one string, with backticks around the parts that need quoting."""
        return _dotted(self.physical)

    @property
    def label(self) -> str:
        """The logical path as SQL text."""
        return _dotted(self.name)


@lru_cache(maxsize=4096)
def _dotted(parts: tuple[str, ...]) -> str:
    return ".".join(map(_part, parts))


def _part(part: str) -> str:
    return part if part.replace("_", "a").isalnum() else quoted(part)


class HiddenRows(Protocol):
    """A descriptor of a data file's hidden rows, which only the table format can read.

    A Delta deletion vector is one. The descriptor travels with its slice to other processes, so it must
    pickle.
    """

    @property
    def id(self) -> str:
        """The identity of the rows, not empty: two descriptors with the same id hide the same rows."""

    @property
    def cardinality(self) -> int | None:
        """The number of hidden rows; None if the log does not say."""

    def concerns(self, file: str, offset: object) -> bool:
        """Return whether a `HiddenRowsError` that names a file and an offset is about these rows."""

    def read(self, storage: Storage) -> BitMap:
        """Return the 0-based physical row numbers that are hidden.

        Raises:
            HiddenRowsError: the rows cannot be read, or do not match the descriptor.
        """


class FileBounds(NamedTuple):
    """The bounds of one column in one file.

    `min`, `max`: canonical values (int for integers, days and us; float; Decimal; str) or None; they bound
    every row that is not NULL, hidden or not. `null_count` is exact; `num_records` counts physical rows and
    is compared only with `null_count`. Unknown values are None.
    """

    min: Any
    max: Any
    null_count: int | None
    num_records: int | None


class Statistics(Protocol):
    """The statistics of one data file in its table format's form; they pickle, as their slice does."""

    def bounds(self, column: Column) -> FileBounds | None:
        """Return the bounds of a column, or None if there are none. Doubtful bounds are widened."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A data file and the rows hidden from it.

    `path`: percent-decoded once; relative to the table's root, or absolute if the log says so (scheme `file:`
    removed). A log that spells a path in an unusual way has that URI instead, behind `SPELLED` of storage.
    `size`: bytes, `UNKNOWN_SIZE` if the log does not say. `mtime`: ms since 1970, 0 if the log does not say.
    `rows`: physical rows according to the log, or None: a hint for splitting work and for display; no answer
    depends on it. `partition`: physical column name to the log's text. `hidden`: None if no row is hidden.
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
        """The identity of the hidden rows; empty if no row is hidden."""
        return "" if self.hidden is None else self.hidden.id

    def of_any_size(self) -> FileSlice:
        """Return the slice without a recorded size, for a first read, when no position is known yet.

        Positions that an index has recorded are valid only for a file of the recorded size.
        """
        return replace(self, size=UNKNOWN_SIZE)

    def bounds(self, column: Column) -> FileBounds | None:
        """Return the bounds of a column from the file's statistics, or None if they do not give any."""
        return None if self.stats is None else self.stats.bounds(column)


class SliceChange(NamedTuple):
    """The net effect of commits on one path: `old` is None if the path was not live, `new` if it is gone.

    Commits can remove what was not live, and leave live what they do not name. A reader that knows the slice
    before them compares its hidden rows with those of `old`, and asks the snapshot if they differ or if the
    change is not `settled`.
    """

    path: str
    old: FileSlice | None
    new: FileSlice | None
    settled: bool = True


class CommitInfo(NamedTuple):
    """The numbers of one commit. `bytes_added` sums the files that the commit added.

    `blank`: the commit's file holds no action, because its writer died or has not written it yet.
    """

    version: Version
    timestamp_ms: int
    operation: str
    files_added: int
    files_removed: int
    bytes_added: int
    blank: bool = False


class Changes(NamedTuple):
    """The net effect of the commits `first` to `last`, both included.

    `slices`: one change per path that any of the commits names, sorted by path. `old` is None if the range
    adds the path first; only the path and hidden rows of `old` are set. A file added and removed within the
    range has neither `old` nor `new`. `schema_changed`: one of the commits may have changed the schema.
    """

    first: Version
    last: Version
    slices: tuple[SliceChange, ...]
    commits: tuple[CommitInfo, ...]
    schema_changed: bool


class Fingerprint(NamedTuple):
    """The identity of a commit that an index has covered: version, sha256 of its bytes, table id."""

    version: Version
    sha256: str
    table_id: str
