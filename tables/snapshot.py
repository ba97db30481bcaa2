"""The state of a table at one version: its columns and its live files, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tailbit.once import once
from tailbit.tables.file_list import FileList
from tailbit.tables.model import Version
from tailbit.tables.schema import Schema

_TOLD = 5
"""Most commits without an action that are told of, the newest ones."""


@dataclass(frozen=True)
class Snapshot:
    """A table at one version. `timestamp_ms`: of its commit, 0 where the log no longer tells.

    `files`: sorted by path. `read_schema`: given by the format, called when the schema is first asked.
    `blank_commits`: versions whose commits hold no action, of those that the snapshot was rebuilt from.
    """

    root: str
    version: Version
    timestamp_ms: int
    files: FileList
    read_schema: Callable[[], Schema] = field(repr=False, compare=False)
    blank_commits: tuple[Version, ...] = field(default=(), kw_only=True)

    @once
    def schema(self) -> Schema:
        """Columns with logical names and physical paths.

        Raises:
            MalformedLogError: the schema that the log holds is damaged.
        """
        return self.read_schema()

    def set_aside(self, numbers: Sequence[int] | None = None) -> list[str]:
        """Return what of the log was not used, because it cannot be, a line each.

        `numbers`: the files (row numbers in `files`) whose statistics are looked at; all of them by default.
        Cost: a parse of the statistics of each of these files.
        """
        out = []
        if self.blank_commits:
            told = ", ".join(map(str, self.blank_commits[-_TOLD:]))
            many = len(self.blank_commits) > 1
            out.append(f"commit{'s' * many} {told} of the log hold{'s' * (not many)} no action")
        unread = self.files.unreadable_statistics(numbers)
        if unread:
            files = f"{unread} file{'s' * (unread > 1)}"
            out.append(f"statistics of {files} could not be read and were not used")
        return out

    def schema_in(self, zone: str) -> Schema:
        """The schema where partition values that are times without a zone are in `zone`."""
        return self.schema.in_zone(zone)
