"""The lease of an application: of several with one configuration, its holder works and the others stand by.

A lease is one heartbeat for all indexes of the application. Like every heartbeat it is advice: two
applications that both hold it for a moment lose nothing, since each commit to an index has one winner.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from tailbit.checkpoints.builds import Builds
from tailbit.checkpoints.heartbeat import Heartbeat
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.signs import NAME, PLACE, lives, read_heartbeat
from tailbit.errors import IndexerRunningError, StorageError
from tailbit.tables.storage import SMALL, Storage

LIMIT_S = 15.0
"""Seconds without a beat after which an application is dead; its query gives a sign of life each second."""

LOOK_S = 1.0
"""Seconds between two looks at the lease by an application that stands by: each look is one request."""


class Lease(Heartbeat):
    """The heartbeat of an application, claimed as soon as no other application holds it.

    Cost: two requests per beat; there is one beat each 2.5 s while there are signs of life.
    """

    checks_each_beat = True

    def __init__(self, storage: Storage, life: Liveness, builds: Builds | None = None) -> None:
        """Prepare the lease of an application with these signs of life; nothing is written."""
        super().__init__(storage, watch_s=LIMIT_S, life=life, limit_s=LIMIT_S, builds=builds)
        self._signs = life

    def _take(self, stop: threading.Event, tell: Callable[[str], None]) -> None:
        """Write the lease, as `Heartbeat._take` does; give its folder an id if it has none."""
        if not self._beat.place:
            self._beat = replace(self._beat, place=self._id_of_place())
        super()._take(stop, tell)

    def _id_of_place(self) -> str:
        """Return the id of the folder of the lease, which the first application there has given to it."""
        with suppress(FileExistsError):
            self._storage.put_if_absent(PLACE, uuid.uuid4().hex.encode())
        return self._storage.read(PLACE, SMALL).decode("ascii", "replace")

    def claim_when_free(
        self,
        stop: threading.Event,
        tell: Callable[[str], None],
        standing_by: Callable[[], None],
        could_take_over: Callable[[], None] = lambda: None,
    ) -> bool:
        """Claim the lease once no other application is at work; return False if `stop` was set before.

        `standing_by`: called once, as soon as another application turns out to be at work.
        `could_take_over`: called before each sign of life of an application that stands by; it returns once
        what the application needs to take over answers.

        Raises:
            StorageError: nothing can be written where the lease is kept.
        """
        told = ""
        while not stop.is_set():
            try:
                self.claim(stop, tell)
            except IndexerRunningError as running:
                if not told:
                    standing_by()
                owner = str(running.fields["owner"])
                if owner != told:
                    tell(f"standing by: {owner} is at work")
                told = owner
                self._await_end(stop, owner, could_take_over)
            else:
                if told:
                    tell(f"taken over from {told}")
                return True
        return False

    def _await_end(self, stop: threading.Event, owner: str, could_take_over: Callable[[], None]) -> None:
        """Wait until the other application gives up the lease, has ended, or gave no sign for `LIMIT_S`."""
        other, seen, since = read_heartbeat(self._storage), None, time.monotonic()
        while not stop.wait(LOOK_S):
            could_take_over()
            self._signs.wait_for(f"standing by: {owner} is at work")
            try:
                now = self._storage.stat(NAME)
            except StorageError:
                # An application that cannot see whether another is at work must not begin.
                since = time.monotonic()
                continue
            if now is None or other is None or lives(other) is False:
                return
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since >= LIMIT_S:
                return
