"""Who commits to the index: delta-rs where it can reach the store, else this project by a conditional put."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from tailbit.index.model import IndexFile
from tailbit.index.store.log_writer import LogWriter
from tailbit.tables.storage import Storage


class CommitLog(Protocol):
    """Writes commits on top of a version that the caller has seen, never on top of another."""

    def create(self, index_id: str, files: Sequence[IndexFile]) -> None:
        """Make the table, with its first files, in one commit; CommitConflictError where there is one."""

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
        """Write version `based_on + 1`, or nothing; CommitConflictError where another writer was first."""

    def checkpoint(self) -> None:
        """Write a log checkpoint and delete the commits before it that are older than the retention."""


_DECODED = re.compile("%[0-9A-Fa-f]{2}")
"""What delta-rs takes for an encoded byte in a path, however the path is given: it reads another folder."""


def commit_log(storage: Storage, path: str, schema: pa.Schema) -> CommitLog:
    """What commits to the index in a store; `path` is what errors call it."""
    if storage.uri is None or _DECODED.search(storage.uri):
        from tailbit.index.store.stored_log import StoredLog

        return StoredLog(storage, path, schema)
    return LogWriter(storage, path, schema)
