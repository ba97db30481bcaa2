"""The claim of an indexer to an index: a heartbeat file, by which a second indexer sees that one is at work.

A claim is advice only: the commit to the index is what keeps two indexers from harming each other. A beat
shows progress of the query: an indexer that hangs writes none, although its process lives. A claim is taken
over when its last beat is old by the clock of the store, which all hosts share even if their own clocks
differ. Two kinds of beats are first watched for a while, and count as alive if they change: one from the
future (the store's clock was put back), and an old one of a process that lives on this machine (the process
may just have woken up).

An application that indexes many tables has one claim with beats, its lease; its claim to each index is a mark
that names the lease, whose beats stand for those of every index. So an idle index costs next to no requests.
The mark is rewritten every few minutes, for readers that cannot read the lease.
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

from tailbit.base.errors import IndexerRunningError, StorageError, UnusableStorageError
from tailbit.base.wording import Tell, tell_nobody
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
from tailbit.tables.storage import SMALL, Stat, Storage
from tailbit.tables.storage.refusals import nothing_written

INTERVAL_S = 5.0
_BEATS = 6

LEASE_LIMIT_S = 15.0
"""Seconds without a beat after which an application is dead; its query gives a sign of life each second."""

RENEW_S, RENEW_LOCAL_S = 600.0, 60.0
"""Seconds between two writes of a mark: with the lease in an object store, and with the lease on a disk."""

_MISSING = 3
"""A mark whose lease cannot be read is dead once this number of writes is missing."""

_LOOK_EVERY_S = 0.5

LOOK_S = 1.0
"""Seconds between two looks at a claim by whoever stands by: each look is one request."""

_NEEDS_A_PLACE = (
    "An indexer writes into the index: free space there, make it writable for this user, or give another"
    " place by --index, then start again. Nothing is lost, and questions go on meanwhile."
)


class Claim:
    """The claim of one indexer run: acquired, renewed while the run works, then released.

    At most one run holds a claim at a time, as far as a store without locks can tell. `lost`: the error to
    raise once another indexer has taken over, which happens only after this run gave no sign of life for the
    limit. `builds`: the builds of this process, which each beat shows. `place`: where the claim's file is.

    Cost: some ten requests to acquire; then a write per beat, with a read before it for a lease, and two
    requests per renewal of a mark.
    """

    def __init__(
        self,
        storage: Storage,
        watch_s: float | None = None,
        life: Liveness | None = None,
        builds: Builds | None = None,
        *,
        of_application: bool = False,
        lease: Claim | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare a claim to the place of a store; nothing is written.

        `watch_s`: for how many seconds a doubtful beat is watched. `life`: the signs of life of the run; if
        None, a living process is enough, as for a command that ends soon. `of_application`: whether the claim
        is a lease, for which others stand by. `lease`: the lease of the run, which makes the claim a mark:
        no thread renews it, and `clock` says when it is due.
        """
        pid = os.getpid()
        self.place = storage.root
        self.lost: IndexerRunningError | None = None
        self._storage, self._lease, self._clock, self._is_lease = storage, lease, clock, of_application
        if lease is None:
            self.builds, self.life = builds or Builds(), life
            limit_s = LEASE_LIMIT_S if of_application else LIMIT_S
            self._interval_s = LEASE_LIMIT_S / _BEATS if of_application else INTERVAL_S
            owner = socket.gethostname(), this_machine(), pid, start_of(pid)
            self.beat = Beat(uuid.uuid4().hex, *owner, limit=limit_s)
        else:
            self.builds, self.life = lease.builds, lease.life
            self._interval_s = RENEW_S if lease._storage.remote else RENEW_LOCAL_S
            limit_s, mark = _MISSING * self._interval_s, uuid.uuid4().hex
            self.beat = replace(lease.beat, limit=limit_s, lease=lease.place, mark=mark)
        self._watch_s = (limit_s if of_application else LIMIT_S) if watch_s is None else watch_s
        self._due = 0.0
        self._current: Beat | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self, stop: threading.Event | None = None, tell: Tell = tell_nobody) -> None:
        """Take the place, and keep it until `release`: a claim with beats by a thread, a mark by `renew`.

        An old beat whose process may still be alive is first watched for a change, or until `stop` is set;
        `tell` receives one line about the wait.

        Raises:
            IndexerRunningError: another indexer has a fresh claim here.
            StorageError: nothing can be written here.
        """
        try:
            if self._is_lease and not self.beat.place:
                self.beat = replace(self.beat, place=self._id_of_place())
            self._take(stop or threading.Event(), tell)
        except StorageError as refused:
            if isinstance(refused, UnusableStorageError):
                raise nothing_written(self._storage.root, refused) from refused
            if refused.fields.get("path") not in (NAME, PLACE):
                raise
            reason = f"nothing can be written there: {refused.fields.get('reason')}"
            raise StorageError(path=self._storage.root, reason=reason, hint=_NEEDS_A_PLACE) from refused
        self._due = self._clock() + self._interval_s
        if self._lease is None:
            self._thread = threading.Thread(target=self._keep, name="tailbit-heartbeat", daemon=True)
            self._thread.start()

    def acquire_when_free(
        self,
        stop: threading.Event,
        tell: Tell,
        standing_by: Callable[[], None],
        could_take_over: Callable[[], None] = lambda: None,
    ) -> bool:
        """Acquire the lease once no other application is at work; return False if `stop` was set before.

        `standing_by`: called once, as soon as another application turns out to be at work.
        `could_take_over`: called before each sign of life of an application that stands by; it returns once
        what the application needs to take over answers.
        """
        last_owner = ""
        while not stop.is_set():
            try:
                self.acquire(stop, tell)
            except IndexerRunningError as running:
                if not last_owner:
                    standing_by()
                owner = str(running.fields["owner"])
                if owner != last_owner:
                    tell(f"standing by: {owner} is at work")
                last_owner = owner
                self._await_end(stop, owner, could_take_over)
            else:
                if last_owner:
                    tell(f"taken over from {last_owner}")
                return True
        return False

    def renew(self) -> None:
        """Check that the place is still this run's; rewrite a mark when it is due.

        Raises:
            IndexerRunningError: another indexer has taken over the place, or the lease.
            StorageError: the mark cannot be rewritten.
        """
        lost = self.lost if self._lease is None else self._lease.lost
        if lost is not None:
            raise lost
        if self._lease is None or self._clock() < self._due:
            return
        if self._is_anothers() and self.lost is not None:
            raise self.lost
        current = self._current
        if current is None or current.run != self.beat.run or current.mark in ("", self.beat.mark):
            # A later mark of the same run stays as it is.
            self._storage.put(NAME, self._encoded())
        self._due = self._clock() + self._interval_s

    def release(self) -> None:
        """Stop renewing the claim, and remove it unless another run, or a later mark, took it over.

        If the removal fails, the file grows old by itself.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(StorageError):
            current = read_heartbeat(self._storage)
            own_mark = self.beat.run, self.beat.mark
            if current is not None and (current.run, current.mark) == own_mark:
                self._storage.delete(NAME)

    def note(self, batch: int) -> None:
        """Record the current batch; the next beat shows it."""
        beating = self if self._lease is None else self._lease
        beating.beat = replace(beating.beat, batch=batch)

    def _take(self, stop: threading.Event, tell: Tell) -> None:
        current = read_heartbeat(self._storage)
        if current is not None and current.run == self.beat.run:
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

    def _id_of_place(self) -> str:
        """Return the id of the folder of the lease, which the first application there has given to it."""
        with suppress(FileExistsError):
            self._storage.put_if_absent(PLACE, uuid.uuid4().hex.encode())
        return self._storage.read(PLACE, SMALL).decode("ascii", "replace")

    def _await_end(self, stop: threading.Event, owner: str, could_take_over: Callable[[], None]) -> None:
        """Wait until the other application gives up the lease, has ended, or gave no sign for its limit."""
        other, seen, since = read_heartbeat(self._storage), None, time.monotonic()
        while not stop.wait(LOOK_S):
            could_take_over()
            if self.life is not None:
                self.life.wait_for(f"standing by: {owner} is at work")
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
            elif time.monotonic() - since >= LEASE_LIMIT_S:
                return

    def _judged(self, other: Beat, stop: threading.Event, tell: Tell) -> Stat | None:
        """Return the stat of another run's heartbeat file once that run is dead; None if it has none."""
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
            if self.life is not None:
                self.life.wait_for("waiting to see whether another indexer is alive")
            stop.wait(_LOOK_EVERY_S)
        return now

    def _running(self, other: Beat, age: float) -> IndexerRunningError:
        root = self._storage.root
        return IndexerRunningError(owner=other.owner, path=root, age=max(0.0, age), limit=other.limit)

    def _keep(self) -> None:
        """Rewrite the heartbeat file until `release`; a failed write is tried again at the next beat."""
        shown = -1 if self.life is None else self.life.lives
        beaten = _now()
        while not self._stop.wait(self._interval_s):
            is_silent = self.life is not None and self.life.lives == shown
            if is_silent and not self._is_lease:
                continue
            # The boundary of the thread, which must outlive every failure.
            with suppress(Exception):
                was_silent = _now() - beaten > self.beat.limit
                if (was_silent or self._is_lease) and self._is_anothers():
                    return
                if is_silent:
                    continue
                shown = -1 if self.life is None else self.life.lives
                self._storage.put(NAME, self._encoded())
                beaten = _now()

    def _is_anothers(self) -> bool:
        """Return whether another indexer has taken over while this one gave no sign; if so, set `lost`."""
        current = self._current = read_heartbeat(self._storage)
        if current is None or current.run == self.beat.run:
            return False
        self.lost = self._running(current, 0.0)
        return True

    def _encoded(self) -> bytes:
        doing = "" if self.life is None else self.life.doing
        beat = replace(self.beat, doing=doing, builds=self.builds.accounts())
        return orjson.dumps(asdict(beat))


def _now() -> float:
    """Return seconds by a clock that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _why_watched(other: Beat, age: float, watch_s: float) -> str:
    """Return the notice that another run's heartbeat is being watched, and why."""
    if age > 0:
        said = f"is {length(age)} old although its process lives: it hangs, or has just woken up"
    else:
        said = f"is {length(-age)} in the future: a clock was put back, or differs"
    return f"the last sign of life of {other.owner} {said}; waiting up to {watch_s:.0f} s for another"
