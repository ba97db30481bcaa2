"""File groups, and the names of the base files and log files in them.

A base file is `<file id>_<write token>_<requested instant>.parquet`, a log file
`.<file id>_<instant>.log.<number>_<write token>`; all files of one folder and file id are a file group. The
instant in the name of a log file is the instant that wrote the log file from table version 8 on, and the
instant of its base file in version 6. Files that end in `.cdc` hold changes, not rows. Source: Hudi technical
specification, File layout.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tailbit.base.dataclass import dataclass
from tailbit.tables.model import FileSlice

_BASE = re.compile(r"([^_/]+)_[^_/]*_([0-9]{14,17})\.parquet")
_LOG = re.compile(r"\.([^_/]+)_([0-9]{14,17})\.log\.([0-9]{1,9})(?:_([0-9]+-[0-9]+-[0-9]+))?")


class FileGroup(NamedTuple):
    """The identity of a file group: its folder below the root (empty for the root), and its file id."""

    folder: str
    file_id: str

    @property
    def prefix(self) -> str:
        """The common prefix of the paths of all base files of the group."""
        return f"{self.folder}/{self.file_id}_" if self.folder else f"{self.file_id}_"

    @property
    def log_prefix(self) -> str:
        """The common prefix of the paths of all log files of the group."""
        return f"{self.folder}/.{self.file_id}_" if self.folder else f".{self.file_id}_"


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A base file: its group, its name, the instant that wrote it; `rows` is None if it is unknown."""

    group: FileGroup
    name: str
    requested: str
    size: int
    rows: int | None = None

    @property
    def path(self) -> str:
        """The path below the table's root."""
        return f"{self.group.folder}/{self.name}" if self.group.folder else self.name

    def slice(self) -> FileSlice:
        """Return the file as a slice with modification time 0, since commits do not give that time."""
        return FileSlice(self.path, self.size, 0, self.rows)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file: its group, its name, the instant in the name, its number among the instant's log files."""

    group: FileGroup
    name: str
    instant: str
    number: int
    token: str

    @property
    def path(self) -> str:
        """The path below the table's root."""
        return f"{self.group.folder}/{self.name}" if self.group.folder else self.name

    @property
    def order(self) -> tuple[str, int, str]:
        """The sort key of the log files of a group, in the order in which Hudi reads them."""
        return self.instant, self.number, self.token


def base_file(folder: str, name: str, size: int, rows: int | None = None) -> BaseFile | None:
    """Return the base file with a name in a folder; None if the name is not that of a base file.

    >>> base_file("p0", "f1-0_0-1-1_20260101000000000.parquet", 7).path
    'p0/f1-0_0-1-1_20260101000000000.parquet'
    """
    match = _BASE.fullmatch(name)
    return None if match is None else BaseFile(FileGroup(folder, match[1]), name, match[2], size, rows)


def log_file(folder: str, name: str) -> LogFile | None:
    """Return the log file with a name in a folder; None if the name is not that of a log file.

    >>> log_file("p0", ".f1-0_20260101000000000.log.2_0-1-1").order
    ('20260101000000000', 2, '0-1-1')
    """
    match = _LOG.fullmatch(name)
    if match is None:
        return None
    return LogFile(FileGroup(folder, match[1]), name, match[2], int(match[3]), match[4] or "")


def requested_of(path: str) -> str:
    """Return the requested time of the instant that wrote a base file, from the file's path."""
    return path.rpartition("_")[2].removesuffix(".parquet")


def group_named(path: str) -> FileGroup:
    """Return the file group in the path of a base file or of a log block.

    >>> group_named("p0/.f1-0_20260101000000000.log.1_0-1-1!2")
    FileGroup(folder='p0', file_id='f1-0')
    """
    folder, _, name = path.rpartition("/")
    return FileGroup(folder, name.removeprefix(".").partition("_")[0])
