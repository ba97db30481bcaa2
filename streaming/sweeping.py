"""A thread beside the batches deletes old files of the index and reads the others again (sweep and scrub).

No batch waits for the thread. Merges belong to `merging`; commits write the checkpoints of the index's log.

A data file that cannot be read does not stop the stream. Its batch records the file with the reason,
questions read the file directly, and everything else goes on. It is tried again with back-off; once it can be
read, a new round builds its postings.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tailbit.base.errors import CommitConflictError, CorruptIndexError, TailbitError
from tailbit.base.wording import Tell
from tailbit.index.kinds.files import FILES
from tailbit.index.kinds.kind import kind_of
from tailbit.index.maintenance.create import ask_for_round
from tailbit.index.maintenance.repair import Scrubber
from tailbit.index.maintenance.vacuum import KEPT_S, Sweeper, Swept
from tailbit.index.model import LedgerState
from tailbit.index.sql.terms import indexed_columns_of
from tailbit.index.store.table import MetadataTable
from tailbit.index.write.posting import why_unreadable
from tailbit.streaming.opening import Mender
from tailbit.tables.table import Table

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
        mender = self._mender.of_another_thread()
        sweeper = Sweeper(mender.index, self._kept_s, memory=self._swept)
        scrubber = Scrubber(mender.index, last=self._read_last)
        sweeper.sweep()
        mender.mend_noted()
        Retrier(mender.table, mender.index, due=self._due).look()
        for damage in scrubber.look():
            if kind_of(damage.fields["file"]) == FILES.name:
                self._mender.note(damage)
            else:
                mender.mend(damage)
        self._read_last = scrubber.last
        ledger = mender.index.state.ledger
        unread = ledger is not None and bool(ledger.uncounted)
        return sweeper.has_waiting or unread or not scrubber.is_through


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
