"""The state of a table at one version: its columns and its live files, whatever the format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tailbit.once import once
from tailbit.tables.file_list import FileList
from tailbit.tables.model import Version
from tailbit.tables.schema import Schema


@dataclass(frozen=True)
class Snapshot:
    """A table at one version. `timestamp_ms`: of its commit, 0 where the log no longer tells.

    `files`: sorted by path. `read_schema`: given by the format, called when the schema is first asked.
    """

    root: str
    version: Version
    timestamp_ms: int
    files: FileList
    read_schema: Callable[[], Schema] = field(repr=False, compare=False)

    @once
    def schema(self) -> Schema:
        """Columns with logical names and physical paths.

        Raises:
            MalformedLogError: the schema that the log holds is damaged.
        """
        return self.read_schema()

    def schema_in(self, zone: str) -> Schema:
        """The schema where partition values that are times without a zone are in `zone`."""
        return self.schema.in_zone(zone)
