"""Choice of the writer of the index's log: delta-rs, or conditional puts in stores that it cannot reach."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from tailbit.index.model import IndexFile
from tailbit.index.store.log_writer import LogWriter
from tailbit.tables.storage import Storage


class CommitLog(Protocol):
    """Writer of commits on top of a version that the caller has read, never on top of another version."""

    def create(self, index_id: str, files: Sequence[IndexFile]) -> None:
        """Create the table with its first files in one commit; CommitConflictError if a table exists."""

    def commit(
        self,
        based_on: int,
        index_id: str,
        seq: int,
        adds: Sequence[IndexFile],
        removes: Sequence[IndexFile],
        *,
        data_change: bool,
    ) -> None:
        """Write version `based_on + 1` or nothing; raise CommitConflictError if another writer was first."""

    def checkpoint(self) -> None:
        """Write a log checkpoint and delete the commits before it that are older than the retention."""


_DECODED = re.compile("%[0-9A-Fa-f]{2}")
"""A path segment that delta-rs decodes as a percent-encoded byte, so that it reads another folder."""


def commit_log(storage: Storage, path: str, schema: pa.Schema) -> CommitLog:
    """Return the writer of commits to the index in a store; error messages call the index `path`."""
    if storage.uri is None or _DECODED.search(storage.uri):
        from tailbit.index.store.stored_log import StoredLog

        return StoredLog(storage, path, schema)
    return LogWriter(storage, path, schema)
