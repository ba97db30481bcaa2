"""The base files of a Hudi table: their names, the folders they lie in, and the live ones as a list.

A base file is `<file id>_<write token>_<requested instant>.parquet`; all base files of one folder and file id
are a file group. A folder of data holds `.hoodie_partition_metadata`. Source: Hudi technical specification,
File layout.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from tailbit.errors import MalformedLogError, UnsafePathError
from tailbit.tables.file_list import FileList, stored_columns, stored_schema
from tailbit.tables.hudi.words import LOG
from tailbit.tables.model import FileSlice
from tailbit.tables.storage import Storage

STORED = stored_schema(pa.null())
PARTITION_MARK = ".hoodie_partition_metadata"
_NAME = re.compile(r"([^_/]+)_[^_/]*_([0-9]{14,17})\.parquet")
_INDEX = "_tailbit"


class FileGroup(NamedTuple):
    """What tells a file group from all others: the folder below the root, empty for the root, and the id."""

    folder: str
    file_id: str

    @property
    def prefix(self) -> str:
        """What the paths of all base files of the group begin with."""
        return f"{self.folder}/{self.file_id}_" if self.folder else f"{self.file_id}_"


@dataclass(frozen=True, slots=True)
class BaseFile:
    """A base file: its group, its name, the instant that wrote it; bytes and rows where they are known."""

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
        """Return the file as a slice. Only its name and its size tell it: commits give no other time."""
        return FileSlice(self.path, self.size, 0, self.rows)


class HudiFiles(FileList):
    """The live base files of a table: no row of them is hidden, and the timeline has no statistics."""

    @classmethod
    def stored(cls, slices: Sequence[FileSlice]) -> pa.Table:
        """Return slices as a table of schema STORED, in the order given."""
        nothing = [None] * len(slices)
        return stored_columns(slices, STORED, nothing, nothing)

    def _hidden_ids(self, stored: pa.ChunkedArray) -> pa.ChunkedArray:
        return stored.cast(pa.string())

    def _hidden(self, stored: Any) -> None:
        return None

    def _statistics(self, text: str | None) -> None:
        return None

    def of_group(self, group: FileGroup) -> str | None:
        """Return the path of the live file of a group; None if the group is not shown. Cost: a bisection."""
        at, _ = self._find(group.prefix)
        path = self.paths[at].as_py() if at < len(self) else ""
        return path if path.startswith(group.prefix) else None


def base_file(folder: str, name: str, size: int, rows: int | None = None) -> BaseFile | None:
    """Return the base file of a name in a folder; None if the name is that of another file.

    >>> base_file("p0", "f1-0_0-1-1_20260101000000000.parquet", 7).path
    'p0/f1-0_0-1-1_20260101000000000.parquet'
    """
    match = _NAME.fullmatch(name)
    return None if match is None else BaseFile(FileGroup(folder, match[1]), name, match[2], size, rows)


def list_base_files(storage: Storage) -> list[BaseFile]:
    """Return the base files below a table's root, also those of instants that never completed.

    Cost: a listing of every folder; in an object store a request per thousand files.
    """
    entries = storage.walk("", (LOG, _INDEX))
    split = [(*entry.name.rpartition("/")[::2], entry.size) for entry in entries]
    folders = {folder for folder, name, _ in split if name == PARTITION_MARK}
    files = (base_file(folder, name, size) for folder, name, size in split if folder in folders)
    return [file for file in files if file is not None]


def check_folder(folder: object, root: str, file: str) -> str:
    """Return the name of a folder that the metadata of an instant give.

    Raises:
        MalformedLogError: it is no text.
        UnsafePathError: it leads out of the table.
    """
    if not isinstance(folder, str):
        raise MalformedLogError(file=file, reason=f"a folder is named {folder!r}")
    parts = folder.split("/") if folder else []
    if "\0" in folder or any(part in ("", ".", "..") for part in parts):
        raise UnsafePathError(file=folder, path=root, reason=f"{file} names a folder outside of the table")
    return folder


def newest_of_groups(
    files: Iterable[BaseFile], hidden: Collection[FileGroup]
) -> dict[FileGroup, list[BaseFile]]:
    """Return, by group, the files of the greatest requested instant; groups of `hidden` are left out.

    More than one file of a group has one instant if a task wrote it twice and its leavings are still there.
    """
    newest: dict[FileGroup, list[BaseFile]] = {}
    for file in files:
        if file.group in hidden:
            continue
        known = newest.get(file.group)
        if known is None or known[0].requested < file.requested:
            newest[file.group] = [file]
        elif known[0].requested == file.requested:
            known.append(file)
    return newest
