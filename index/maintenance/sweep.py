"""An index at work deletes its own leavings, pass by pass, beside the commits that make them.

Which files may go is a function of what readers may still ask. A file that a merge or a commit took out of
the index is kept for `KEPT_S`, since an open answer may still read it; nobody travels in time through the
index, which holds every version of the source by itself. A file that was never in the index may be of a batch
in flight, so it is kept for `UNCOMMITTED_HOURS`: longer than any batch lasts. How old it is, the clock of the
store says; where that has jumped, as clocks do after a sleep of the machine, no such file goes before those
hours have really passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tailbit.errors import IndexLogError
from tailbit.index.maintenance.vacuum import delete, referenced, unreferenced
from tailbit.index.store.table import MetadataTable

KEPT_S = 600.0
"""An answer that is open goes on for this many seconds after its files were merged away."""

UNCOMMITTED_HOURS = 6.0
"""Files that no commit ever named, as a killed writer leaves them, go when they are older than this."""

LIST_EVERY_S = 3600.0
"""How often folders are listed for such files; the first pass lists them too."""

JUMP_S = 60.0
"""A clock has jumped if it went on by 60 s more than have passed."""


class Sweeper:
    """Deletes what has been out of an index for long enough; one an indexer, with an index of its own.

    What it has seen leave it remembers, so it needs a pass at least every `log_writer.TOMBSTONE_RETENTION`.
    Cost of a pass: the commits that the log holds, and the files deleted; no folder is listed.
    """

    def __init__(
        self, index: MetadataTable, kept_s: float = KEPT_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._index, self._kept_s, self._clock = index, kept_s, clock
        self._gone_since: dict[str, float] = {}
        self._list_at = clock()
        self._ahead_s = self._ahead()

    def sweep(self) -> list[str]:
        """Delete what may go by now; the paths, sorted.

        Raises:
            StorageError: the store refused; what is deleted so far is unreferenced all the same.
            NoIndexError: the index has been deleted.
            IndexLogError: its log cannot be read.
        """
        # In this order: what another commit adds in between is live, and was not referenced before.
        was = self._referenced()
        self._index.refresh()
        now, live = self._clock(), self._index.state.files
        # An index that was put back from a backup may name again what had left it.
        known = {path: since for path, since in self._gone_since.items() if path not in live}
        self._gone_since = dict.fromkeys(was.difference(live), now) | known
        due = {path for path, since in self._gone_since.items() if now - since >= self._kept_s}
        if now >= self._list_at:
            before, self._ahead_s = self._ahead_s, self._ahead()
            if self._ahead_s - before > JUMP_S:
                self._list_at = now + UNCOMMITTED_HOURS * 3600
            else:
                self._list_at = now + LIST_EVERY_S
                due |= set(unreferenced(self._index, UNCOMMITTED_HOURS)).difference(self._gone_since)
        delete(self._index, sorted(due))
        for path in due:
            self._gone_since.pop(path, None)
        return sorted(due)

    def _referenced(self) -> set[str]:
        """As `referenced`; a log checkpoint that cannot be read is made anew first."""
        try:
            return referenced(self._index)
        except IndexLogError:
            self._index.refresh()
            self._index.checkpoint_log()
            return referenced(self._index)

    def _ahead(self) -> float:
        """By how many seconds the clock of the store is ahead of one that never jumps."""
        return self._index.storage.clock_ms() / 1000 - self._clock()
