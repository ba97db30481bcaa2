"""The snapshot of a table at one version: its columns and its live files, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.base.once import once
from tailbit.tables.file_list import FileList
from tailbit.tables.model import Version
from tailbit.tables.schema import Schema

_MOST_LISTED = 5
"""Most commits without an action that `set_aside` lists: the newest."""


@dataclass(frozen=True)
class Snapshot:
    """A table at one version. `timestamp_ms`: the time of its commit, 0 if the log no longer holds it.

    `files`: sorted by path. `read_schema`: reads the schema in the table's format, on first use.
    `blank_commits`: versions of the replayed commits that hold no action.
    """

    root: str
    version: Version
    timestamp_ms: int
    files: FileList
    read_schema: Callable[[], Schema] = field(repr=False, compare=False)
    blank_commits: tuple[Version, ...] = field(default=(), kw_only=True)

    @once
    def schema(self) -> Schema:
        """Return the columns with logical names and physical paths.

        Raises:
            MalformedLogError: the schema in the log is damaged.
        """
        return self.read_schema()

    def set_aside(self, numbers: Sequence[int] | None = None) -> list[str]:
        """Describe the parts of the log that were ignored because they cannot be used, one line each.

        Unreadable statistics of files count as such a part. `numbers`: the files (row numbers in `files`)
        whose statistics are checked; by default all. Cost: parses the statistics of these files.
        """
        out = []
        if self.blank_commits:
            listed = ", ".join(map(str, self.blank_commits[-_MOST_LISTED:]))
            many = len(self.blank_commits) > 1
            out.append(f"commit{'s' * many} {listed} of the log hold{'s' * (not many)} no action")
        unread = self.files.unreadable_statistics(numbers)
        if unread:
            files = f"{unread} file{'s' * (unread > 1)}"
            out.append(f"statistics of {files} could not be read and were not used")
        return out

    def schema_in(self, zone: str) -> Schema:
        """Return the schema with `zone` as the time zone of timestamp partition values without an offset."""
        return self.schema.in_zone(zone)
