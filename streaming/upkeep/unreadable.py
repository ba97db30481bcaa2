"""Unreadable data files are retried with back-off; once a file can be read, its postings are built.

An unreadable file does not stop the stream. Its batch records the file with the reason, questions read the
file directly, and everything else goes on. This module notices that the file can be read; a new round then
builds its postings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from tailbit.base.errors import CommitConflictError, TailbitError
from tailbit.index.maintenance.new_round import ask_for_round
from tailbit.index.model import LedgerState
from tailbit.index.sql.terms import indexed_columns_of
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.readable import why_unreadable
from tailbit.streaming.upkeep.mending import Tell
from tailbit.tables.table import Table

FIRST_S, LONGEST_S = 60.0, 3600.0
"""The pause after the first retry, doubled by each further one, and the longest pause."""


class Retrier:
    """The retries of the unreadable files of one index, each when it is due.

    `due`: when each file is due, and after which pause; kept up to date for the next retrier of the index.
    """

    def __init__(
        self,
        table: Table,
        index: MetadataTable,
        clock: Callable[[], float] = time.monotonic,
        due: dict[str, tuple[float, float]] | None = None,
    ) -> None:
        self._table, self._index, self._clock = table, index, clock
        self._due = {} if due is None else due

    def look(self) -> bool:
        """Request a new round if an unreadable file that is due can be read; return whether it was requested.

        Cost: nothing while all live files are counted; else one pass over the file records, and reading the
        indexed columns of due files up to the first readable file.

        Raises:
            TailbitError: table or index cannot be read.
        """
        self._index.refresh()
        ledger, settings = self._index.state.ledger, self._index.state.settings
        if ledger is None or not ledger.uncounted or ledger.state is LedgerState.BUILDING:
            return False
        if ledger.settings_version != settings.version:
            return False
        now = self._clock()
        due = [path for path in self._unread() if self._due.get(path, (now, 0.0))[0] <= now]
        if not due or not any(self._can_be_read(path, now) for path in due):
            return False
        with suppress(CommitConflictError):
            ask_for_round(self._index)
            return True
        return False

    def _unread(self) -> list[str]:
        """Return the unreadable files; forget the due times of all others."""
        unread = self._index.state.recorded.unread()
        for path in self._due.keys() - set(unread):
            del self._due[path]
        return unread

    def _can_be_read(self, path: str, now: float) -> bool:
        """Return whether a file that is due can be read; if not, it is due again after twice the pause."""
        pause = min(2 * self._due.get(path, (now, FIRST_S / 2))[1], LONGEST_S)
        self._due[path] = now + pause, pause
        snapshot = self._table.snapshot(self._table.head())
        slice_ = snapshot.files.get(path)
        columns = indexed_columns_of(self._index.state.settings.definitions, snapshot.schema)
        return slice_ is not None and why_unreadable(self._table.storage, slice_, columns) is None


def retry_now(table: Table, index: MetadataTable, tell: Tell) -> None:
    """Retry all unreadable files before a run begins, and report why some still cannot be read."""
    with suppress(TailbitError):
        if Retrier(table, index).look() or not index.state.recorded.unread():
            return
        for reason, files in index.state.recorded.errors().items():
            tell(f"not indexed, {files} data file{'s' * (files > 1)}: {reason}")
