"""The mark of an application on an index: a heartbeat file that names the application's lease.

The beats of the lease stand for those of every index, so an idle index costs next to no requests. The mark
itself is rewritten every few minutes, for readers that cannot read the lease.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from tailbit.checkpoints.heartbeat import Heartbeat
from tailbit.checkpoints.signs import NAME
from tailbit.tables.storage import Storage

RENEW_S, RENEW_LOCAL_S = 600.0, 60.0
"""Seconds between two writes of a mark: with the lease in an object store, and with the lease on a disk."""

_MISSING = 3
"""A mark whose lease cannot be read is dead once this number of writes is missing."""


class Mark(Heartbeat):
    """The claim of an application to one index, for as long as the application has its lease.

    Cost: some ten requests to claim, then two per renewal.
    """

    def __init__(
        self, storage: Storage, lease: Heartbeat, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare the mark of the application that holds `lease`; nothing is written."""
        self._renew_s = RENEW_S if lease.is_remote else RENEW_LOCAL_S
        super().__init__(storage, life=lease.life, limit_s=_MISSING * self._renew_s, builds=lease.builds)
        self._lease, self._clock = lease, clock
        nonce = uuid.uuid4().hex
        self._beat = replace(lease.beat, limit=self._limit_s, lease=lease.place, mark=nonce)
        self._due = 0.0

    def claim(self, stop: threading.Event | None = None, tell: Callable[[str], None] | None = None) -> None:
        """Write the mark, as `Heartbeat.claim` does; no thread rewrites it.

        Raises:
            IndexerRunningError: another indexer is at work on this index.
            StorageError: nothing can be written here.
        """
        self._take_or_name(stop, tell)
        self._due = self._clock() + self._renew_s

    def note(self, batch: int) -> None:
        """Record the current batch; the next beat of the lease shows it."""
        self._lease.note(batch)

    def check(self) -> None:
        """Check that the index is still this application's; rewrite the mark when it is due.

        Raises:
            IndexerRunningError: another indexer has taken over the index, or the lease.
            StorageError: the mark cannot be rewritten.
        """
        if self._lease.lost is not None:
            raise self._lease.lost
        if self._clock() < self._due:
            return
        if self._is_anothers() and self.lost is not None:
            raise self.lost
        current = self._current
        if current is None or current.run != self._beat.run or current.mark in ("", self._beat.mark):
            # A later mark of the same run stays as it is.
            self._storage.put(NAME, self._encoded())
        self._due = self._clock() + self._renew_s
