"""The data files of a Hudi table: those in its folders, and the live ones as a list.

A folder of data holds `.hoodie_partition_metadata`. Source: Hudi technical specification, File layout.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from tailbit.base.errors import MalformedLogError, UnsafePathError
from tailbit.tables import compute as pc
from tailbit.tables.file_list import FileList, stored_columns, stored_schema
from tailbit.tables.hudi.groups import BaseFile, FileGroup, LogFile, base_file, log_file
from tailbit.tables.hudi.log_files.hidden import FIELDS, MergedRows
from tailbit.tables.hudi.words import LOG
from tailbit.tables.model import FileSlice
from tailbit.tables.storage import Storage

STORED = stored_schema(pa.struct([(name, pa.string()) for name in FIELDS]))
PARTITION_MARK = ".hoodie_partition_metadata"
_INDEX = "_tailbit"


class HudiFiles(FileList):
    """The live base files and log blocks of a table, without statistics: the timeline has none."""

    @classmethod
    def stored(cls, slices: Sequence[FileSlice]) -> pa.Table:
        """Return slices as a table of schema STORED, in the order given."""
        hidden = [
            slice_.hidden.stored if isinstance(slice_.hidden, MergedRows) else None for slice_ in slices
        ]
        return stored_columns(slices, STORED, hidden, [None] * len(slices))

    def _hidden_ids(self, stored: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.struct_field(stored, [FIELDS.index("id")])

    def _hidden(self, stored: Any) -> MergedRows | None:
        return None if stored is None else MergedRows(**stored)

    def _statistics(self, text: str | None) -> None:
        return None

    def of_group(self, group: FileGroup) -> str | None:
        """Return the path of the live file of a group; None if the group is not shown. Cost: a bisection."""
        at, _ = self._find(group.prefix)
        path = self.paths[at].as_py() if at < len(self) else ""
        return path if path.startswith(group.prefix) else None

    def blocks_of(self, group: FileGroup) -> list[str]:
        """Return the paths of the live log blocks of a group. Cost: a bisection, and a step per block."""
        at, out = self._find(group.log_prefix)[0], []
        while at < len(self) and (path := self.paths[at].as_py()).startswith(group.log_prefix):
            out.append(path)
            at += 1
        return out


class ListedFiles(NamedTuple):
    """The base files and the log files below a table's root."""

    bases: list[BaseFile]
    logs: list[LogFile]


def list_files(storage: Storage) -> ListedFiles:
    """Return the data files below a table's root, including those of instants that never completed.

    Cost: a listing of every folder; in an object store a request per thousand files.
    """
    entries = storage.walk("", (LOG, _INDEX))
    split = [(*entry.name.rpartition("/")[::2], entry.size) for entry in entries]
    folders = {folder for folder, name, _ in split if name == PARTITION_MARK}
    files = [(folder, name, size) for folder, name, size in split if folder in folders]
    bases = (base_file(*file) for file in files)
    logs = (log_file(folder, name) for folder, name, _ in files)
    return ListedFiles([f for f in bases if f is not None], [f for f in logs if f is not None])


def check_folder(folder: object, root: str, file: str) -> str:
    """Check a folder name from the metadata of an instant in `file`, and return the name.

    Raises:
        MalformedLogError: the name is no text.
        UnsafePathError: the name leads out of the table.
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

    A group has several files of one instant if a task was retried and its first file was not cleaned up.
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
