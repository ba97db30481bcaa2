"""The heartbeat file of an index, by which a second indexer sees that another is at work, and stops.

The heartbeat is advice only: the commit to the index is what keeps two indexers from harming each other. A
heartbeat shows progress of the query: an indexer that hangs writes none, although its process lives. A
heartbeat is taken over when it is old by the clock of the store, which all hosts share even if their own
clocks differ. Two kinds of heartbeats are first watched for a while, and count as alive if they change: one
from the future (the store's clock was put back), and an old one of a process that lives on this machine (the
process may just have woken up).

An application that indexes many tables keeps one heartbeat, its lease; the heartbeat file of each index only
names that lease (`mark`), and a reader of the file looks at the lease for signs of life.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace

import orjson

from tailbit.checkpoints.builds import Builds
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.signs import (
    LIMIT_S,
    NAME,
    PLACE,
    Beat,
    Signs,
    length,
    lives,
    read_heartbeat,
    signs_of,
    start_of,
    this_machine,
)
from tailbit.errors import IndexerRunningError, StorageError, UnusableStorageError
from tailbit.tables.storage import Stat, Storage
from tailbit.tables.storage.conditional_puts import nothing_written

INTERVAL_S = 5.0
_BEATS = 6

_LOOK_EVERY_S = 0.5

_NEEDS_A_PLACE = (
    "An indexer writes into the index: free space there, make it writable for this user, or give another"
    " place by --index, then start again. Nothing is lost, and questions go on meanwhile."
)


class Heartbeat:
    """The heartbeat file of one indexer run: claimed, rewritten while the run works, then removed.

    At most one run holds the file at a time, as far as a store without locks can tell. `watch_s`: for how
    many seconds `claim` watches a doubtful heartbeat. `life`: the signs of life of the run; if None, a living
    process is enough, as for a command that ends soon. `limit_s`: seconds after which a beat is old; beats
    are a sixth of that apart. `builds`: the builds of this process, which each beat shows. `lost`: the error
    to raise once another indexer has taken over, which happens only after this run gave no sign of life for
    `limit_s`.
    """

    checks_each_beat = False
    """Whether there is a look for another indexer in place of each beat that is due and before it.

    Otherwise there is one only before a beat after a long silence.
    """

    def __init__(
        self,
        storage: Storage,
        watch_s: float = LIMIT_S,
        life: Liveness | None = None,
        limit_s: float | None = None,
        builds: Builds | None = None,
    ) -> None:
        self.builds = builds or Builds()
        self._storage, self._watch_s, self._life = storage, watch_s, life
        self._limit_s = LIMIT_S if limit_s is None else limit_s
        self._interval_s = INTERVAL_S if limit_s is None else limit_s / _BEATS
        self.lost: IndexerRunningError | None = None
        pid = os.getpid()
        self._beat = Beat(
            uuid.uuid4().hex,
            socket.gethostname(),
            this_machine(),
            pid,
            start_of(pid),
            limit=self._limit_s,
        )
        self._current: Beat | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def claim(self, stop: threading.Event | None = None, tell: Callable[[str], None] | None = None) -> None:
        """Claim the heartbeat, and keep it until `release`.

        An old heartbeat whose process may still be alive is first watched for a change, for `watch_s` seconds
        or until `stop` is set; `tell` receives one line about the wait.

        Raises:
            IndexerRunningError: another indexer has a fresh heartbeat here.
            StorageError: nothing can be written here.
        """
        self._take_or_name(stop, tell)
        self._thread = threading.Thread(target=self._keep, name="tailbit-heartbeat", daemon=True)
        self._thread.start()

    def _take_or_name(self, stop: threading.Event | None, tell: Callable[[str], None] | None) -> None:
        """Write the heartbeat file; if the store refuses, raise an error with the folder and a remedy."""
        try:
            self._take(stop or threading.Event(), tell or _tell_nobody)
        except StorageError as refused:
            if isinstance(refused, UnusableStorageError):
                raise nothing_written(self._storage.root, refused) from refused
            if refused.fields.get("path") not in (NAME, PLACE):
                raise
            reason = f"nothing can be written there: {refused.fields.get('reason')}"
            raise StorageError(path=self._storage.root, reason=reason, hint=_NEEDS_A_PLACE) from refused

    def _take(self, stop: threading.Event, tell: Callable[[str], None]) -> None:
        current = read_heartbeat(self._storage)
        if current is not None and current.run == self._beat.run:
            self._storage.put(NAME, self._encoded())
            return
        if current is not None:
            judged = self._judged(current, stop, tell)
            if judged is not None:
                if self._storage.stat(NAME) != judged:
                    raise self._running(current, 0.0)
                self._storage.delete(NAME)
        try:
            self._storage.put_if_absent(NAME, self._encoded())
        except FileExistsError:
            winner = read_heartbeat(self._storage)
            if winner is not None:
                raise self._running(winner, 0.0) from None

    @property
    def beat(self) -> Beat:
        """Return the run, process and machine that this heartbeat is of."""
        return self._beat

    @property
    def place(self) -> str:
        """Return where the heartbeat file is."""
        return self._storage.root

    @property
    def is_remote(self) -> bool:
        """Return whether the heartbeat file is in an object store."""
        return self._storage.remote

    @property
    def life(self) -> Liveness | None:
        """Return the signs of life that this heartbeat shows."""
        return self._life

    def note(self, batch: int) -> None:
        """Record the current batch; the next beat shows it."""
        self._beat = replace(self._beat, batch=batch)

    def release(self) -> None:
        """Stop rewriting the heartbeat file, and remove it unless another run, or a later mark, took it over.

        If the removal fails, the file grows old by itself.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(StorageError):
            current = read_heartbeat(self._storage)
            mine = self._beat.run, self._beat.mark
            if current is not None and (current.run, current.mark) == mine:
                self._storage.delete(NAME)

    def _judged(self, other: Beat, stop: threading.Event, tell: Callable[[str], None]) -> Stat | None:
        """Return the stat of another run's heartbeat file once that run counts as dead; None if it has none.

        Raises:
            IndexerRunningError: the heartbeat is alive.
        """
        file, living = self._storage.stat(NAME), lives(other)
        if file is None or living is False:
            return file
        signs = signs_of(self._storage, other, file)
        if signs is None:
            return file
        # Hosts share the clock of an object store; asking it needs a write, which our own folder allows.
        clock = self._storage if signs.storage.remote and self._storage.remote else signs.storage
        age = clock.clock_ms() / 1000 - signs.seen.mtime_ns / 1e9
        if -INTERVAL_S < age < signs.beat.limit:
            raise self._running(signs.beat, age)
        if age > 0 and not living:
            return file
        tell(_why_watched(other, age, self._watch_s))
        now = self._changed(signs, stop)
        if stop.is_set():
            # Nothing was learnt: the other one may live.
            raise self._running(signs.beat, age)
        if now is not None and now != signs.seen:
            raise self._running(signs.beat, 0.0)
        return file if other.lease else now

    def _changed(self, signs: Signs, stop: threading.Event) -> Stat | None:
        """Return the stat of the heartbeat file as soon as it changes, or as it is when the watch ends."""
        until = time.monotonic() + self._watch_s
        while (now := signs.storage.stat(NAME)) == signs.seen and time.monotonic() < until:
            if stop.is_set():
                break
            if self._life is not None:
                self._life.wait_for("waiting to see whether another indexer is alive")
            stop.wait(_LOOK_EVERY_S)
        return now

    def _running(self, other: Beat, age: float) -> IndexerRunningError:
        root = self._storage.root
        return IndexerRunningError(owner=other.owner, path=root, age=max(0.0, age), limit=other.limit)

    def _keep(self) -> None:
        """Rewrite the heartbeat file until `release`; a failed write is tried again at the next beat."""
        shown = -1 if self._life is None else self._life.lives
        beaten = _now()
        while not self._stop.wait(self._interval_s):
            is_silent = self._life is not None and self._life.lives == shown
            if is_silent and not self.checks_each_beat:
                continue
            # The boundary of the thread, which must outlive every failure.
            with suppress(Exception):
                was_silent = _now() - beaten > self._limit_s
                if (was_silent or self.checks_each_beat) and self._is_anothers():
                    return
                if is_silent:
                    continue
                shown = -1 if self._life is None else self._life.lives
                self._storage.put(NAME, self._encoded())
                beaten = _now()

    def _is_anothers(self) -> bool:
        """Return whether another indexer has taken over while this one gave no sign; if so, set `lost`."""
        current = self._current = read_heartbeat(self._storage)
        if current is None or current.run == self._beat.run:
            return False
        self.lost = self._running(current, 0.0)
        return True

    def _encoded(self) -> bytes:
        doing = "" if self._life is None else self._life.doing
        beat = replace(self._beat, doing=doing, builds=self.builds.accounts())
        return orjson.dumps(asdict(beat))


def _now() -> float:
    """Return seconds by a clock that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _tell_nobody(line: str) -> None:
    """Drop a notice; the default where no callback is given."""


def _why_watched(other: Beat, age: float, watch_s: float) -> str:
    """Return the notice that another run's heartbeat is being watched, and why."""
    if age > 0:
        said = f"is {length(age)} old although its process lives: it hangs, or has just woken up"
    else:
        said = f"is {length(-age)} in the future: a clock was put back, or differs"
    return f"the last sign of life of {other.owner} {said}; waiting up to {watch_s:.0f} s for another"
