"""Data files that could not be read are tried again with back-off; one that can be read is posted.

Such a file does not stop the stream. Its batch records it with the reason, questions read it by themselves,
and all else goes on. That it can be read is seen here; a new round then posts it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from tailbit.errors import CommitConflictError, TailbitError
from tailbit.index.maintenance.new_round import ask_for_round
from tailbit.index.model import LedgerState
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.readable import why_unreadable
from tailbit.streaming.upkeep.mending import Tell
from tailbit.tables.table import Table

FIRST_S, LONGEST_S = 60.0, 3600.0
"""The pause after a file was tried, doubled each time, and the longest."""


class Retrier:
    """Tries the recorded files of one index that could not be read, each when it is due."""

    def __init__(
        self, table: Table, index: MetadataTable, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._table, self._index, self._clock = table, index, clock
        self._due: dict[str, tuple[float, float]] = {}

    def look(self) -> bool:
        """Ask for a new round where a file that is due can be read; True where one is asked for.

        Cost: nothing while all live files are counted; else one pass over the records, and the columns of the
        files that are due, up to the first that can be read.

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
        """Files that could not be read; of all others it is forgotten when they are due."""
        unread = self._index.state.recorded.unread()
        self._due = {path: self._due[path] for path in unread if path in self._due}
        return unread

    def _can_be_read(self, path: str, now: float) -> bool:
        """Whether a file that is due can be read; it is due again after twice the pause."""
        pause = min(2 * self._due.get(path, (now, FIRST_S / 2))[1], LONGEST_S)
        self._due[path] = now + pause, pause
        snapshot = self._table.snapshot(self._table.head())
        slice_, leaves = snapshot.files.get(path), {leaf.id: leaf for leaf in snapshot.schema.leaves()}
        columns = [leaves[c.id] for c in self._index.state.settings.columns if c.id in leaves]
        return slice_ is not None and why_unreadable(self._table.storage, slice_, columns) is None


def retry_now(table: Table, index: MetadataTable, tell: Tell) -> None:
    """Try all files that could not be read, before a run begins, and tell why others still cannot be."""
    with suppress(TailbitError):
        if Retrier(table, index).look() or not index.state.recorded.unread():
            return
        for reason, files in index.state.recorded.errors().items():
            tell(f"not indexed, {files} data file{'s' * (files > 1)}: {reason}")
