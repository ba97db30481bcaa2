"""Deletion of leftover files of an index while its indexer works, pass by pass.

A file may be deleted once no reader can need it. A file that a merge or a commit removed from the index is
kept for `KEPT_S`, because a running query may still read it; nobody time-travels through the index, which
holds every version of the source by itself. A file that was never in the index may belong to a running batch,
so it is kept for `UNCOMMITTED_HOURS`, which is longer than any batch. The clock of the store gives the age of
a file. If that clock has jumped, as clocks do after a sleep of the machine, no such file is deleted until
those hours have really passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import field

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import IndexLogError
from tailbit.index.maintenance.vacuum import delete, referenced, unreferenced
from tailbit.index.store.table import MetadataTable

KEPT_S = 600.0
"""Seconds for which removed files are kept for running queries."""

UNCOMMITTED_HOURS = 6.0
"""Files that no commit ever named, such as those of a killed writer, are deleted when they are older than
this."""

LIST_EVERY_S = 3600.0
"""Seconds between listings of the folders for uncommitted files; the first pass lists them too."""

JUMP_S = 60.0
"""A clock has jumped if it advanced by 60 s more than have passed."""


@dataclass
class Swept:
    """The memory of the passes over one index, which a later sweeper can take over.

    `gone_since`: for each file that waits for its deletion, when a pass first saw that it had left the index.
    `list_at`: when folders are listed next; None before the first pass. `ahead_s`: seconds by which the clock
    of the store was ahead at the last listing.
    """

    gone_since: dict[str, float] = field(default_factory=dict)
    list_at: float | None = None
    ahead_s: float = 0.0


class Sweeper:
    """Deleter of files that left an index long enough ago, with an index object of its own.

    `memory`: one per indexer, with the files seen to leave the index. Only tombstones show such files,
    so a pass is needed at least every `stored_checkpoints.TOMBSTONE_RETENTION`. Cost of a pass: the commits
    that the log holds, and the files deleted; every `LIST_EVERY_S`, folders are listed too.
    """

    def __init__(
        self,
        index: MetadataTable,
        kept_s: float = KEPT_S,
        clock: Callable[[], float] = time.monotonic,
        memory: Swept | None = None,
    ) -> None:
        self._index, self._kept_s, self._clock = index, kept_s, clock
        self._memory = memory or Swept()
        if self._memory.list_at is None:
            self._memory.list_at, self._memory.ahead_s = clock(), self._ahead()

    @property
    def has_waiting(self) -> bool:
        """Return whether files have left the index that are not old enough to be deleted."""
        return bool(self._memory.gone_since)

    def sweep(self) -> list[str]:
        """Delete the files that are due by now; return their paths, sorted.

        Raises:
            StorageError: the store refused; the files deleted so far were not referenced.
            NoIndexError: the index has been deleted.
            IndexLogError: the index's log cannot be read.
        """
        # The order matters: a file that another commit adds in between is live, and was not referenced
        # before.
        was = self._referenced()
        self._index.refresh()
        now, live = self._clock(), self._index.state.files
        # An index restored from a backup may name files again that had left it.
        memory = self._memory
        known = {path: since for path, since in memory.gone_since.items() if path not in live}
        memory.gone_since = dict.fromkeys(was.difference(live), now) | known
        due = {path for path, since in memory.gone_since.items() if now - since >= self._kept_s}
        if memory.list_at is None or now >= memory.list_at:
            before, memory.ahead_s = memory.ahead_s, self._ahead()
            if memory.ahead_s - before > JUMP_S:
                memory.list_at = now + UNCOMMITTED_HOURS * 3600
            else:
                memory.list_at = now + LIST_EVERY_S
                due |= set(unreferenced(self._index, UNCOMMITTED_HOURS)).difference(memory.gone_since)
        delete(self._index, sorted(due))
        for path in due:
            memory.gone_since.pop(path, None)
        return sorted(due)

    def _referenced(self) -> set[str]:
        """Return the files that the index or a tombstone names; first repair an unreadable log checkpoint."""
        try:
            return referenced(self._index)
        except IndexLogError:
            self._index.refresh()
            self._index.checkpoint_log()
            return referenced(self._index)

    def _ahead(self) -> float:
        """Return by how many seconds the clock of the store is ahead of one that never jumps."""
        return self._index.storage.clock_ms() / 1000 - self._clock()
