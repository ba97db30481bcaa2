"""A thread beside the batches deletes old files of the index and reads the others again (sweep and scrub).

No batch waits for the thread. Merges belong to `merging`; commits write the checkpoints of the index's log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tailbit.base.errors import CorruptIndexError
from tailbit.index.kinds.files.kind import FILES
from tailbit.index.kinds.rows import kind_of
from tailbit.index.maintenance.sweep import KEPT_S, Sweeper, Swept
from tailbit.index.repair.scrub import Scrubber
from tailbit.streaming.upkeep.mending import Mender
from tailbit.streaming.upkeep.unreadable import Retrier

EVERY_S = 60.0
"""Seconds between two passes."""


class Upkeep:
    """The thread that sweeps and scrubs an index (deletes old files, checks others) every `every_s` seconds.

    Each pass opens the index for itself and lets go of it in the end, so that between passes an index is in
    memory once. `mender`: that of the thread that commits batches, which has the file records in memory and
    mends damage to them after the next batch. Other damage is mended at once. A failed pass is repeated when
    the next is due: nothing depends on a pass, and a batch with the same trouble reports it by name.
    `first_s`: seconds until the first pass, by default `every_s`: indexes that are kept together should not
    all have their passes at one time. `rest_s`: most seconds between two passes over an index without
    changes, once a pass has left nothing to do: passes in between are left out. `failure`: why the last pass
    failed, or None; `passes`: number of successful passes.
    """

    def __init__(
        self,
        mender: Mender,
        every_s: float = EVERY_S,
        kept_s: float = KEPT_S,
        rest_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        first_s: float | None = None,
    ) -> None:
        self._first_s = every_s if first_s is None else first_s
        self._mender, self._every_s, self._kept_s = mender, every_s, kept_s
        self._rest_s, self._clock = rest_s, clock
        self._stop, self._woken = threading.Event(), threading.Event()
        self._swept, self._read_last = Swept(), ""
        self._due: dict[str, tuple[float, float]] = {}
        self._rest_until = 0.0
        self._thread = threading.Thread(target=self._keep, name="tailbit-upkeep", daemon=True)
        self.failure: Exception | None = None
        self.passes = 0

    def start(self) -> None:
        """Start the thread; the first pass comes after `first_s`."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after the current file; a second call does nothing."""
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def wake(self) -> None:
        """Let the next pass run even if it would be left out: the index has changed."""
        self._woken.set()

    def _keep(self) -> None:
        pause = self._first_s
        while not self._stop.wait(pause):
            self.look_if_due()
            pause = self._every_s

    def look_if_due(self) -> None:
        """Run one pass, unless the index rests."""
        if self._woken.is_set() or self._clock() >= self._rest_until:
            self.look()

    def look(self) -> None:
        """Run one pass."""
        is_left = True
        self._woken.clear()
        try:
            is_left = self._pass()
        except CorruptIndexError as damage:
            # Damage to what every look at the index reads first; the thread that commits has that in memory.
            self._mender.note(damage)
            self.failure = damage
            return
        except Exception as error:
            # The boundary of the thread: it must outlive every failure. An OSError is a file of the log that
            # another process cleaned up between listing and reading.
            self.failure = error
            return
        finally:
            self._rest_until = 0.0 if is_left else self._clock() + self._rest_s
        self.failure = None
        self.passes += 1

    def _pass(self) -> bool:
        """Run one pass; return whether the next one has something to do even if the index does not change."""
        mine = self._mender.of_another_thread()
        sweeper = Sweeper(mine.index, self._kept_s, memory=self._swept)
        scrubber = Scrubber(mine.index, last=self._read_last)
        sweeper.sweep()
        mine.mend_noted()
        Retrier(mine.table, mine.index, due=self._due).look()
        for damage in scrubber.look():
            if kind_of(damage.fields["file"]) == FILES.name:
                self._mender.note(damage)
            else:
                mine.mend(damage)
        self._read_last = scrubber.last
        ledger = mine.index.state.ledger
        unread = ledger is not None and bool(ledger.uncounted)
        return sweeper.has_waiting or unread or not scrubber.is_through
