"""A heartbeat file beside the index, so that a second indexer steps back before it does any work.

The heartbeat is advice only: the commit to the index is what keeps two indexers from harming each other. It
shows progress of the query: an indexer that hangs gives no heartbeat, although its process lives. A heartbeat
is taken over when it is old by the clock of the store, which all hosts share even if their own clocks differ.
Two kinds of heartbeats are watched first, and count as alive if they change: one from the future (the store's
clock was put back), and an old one of a process that lives on this machine (it may just have woken up).
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path

import orjson

from tailbit.checkpoints.liveness import Liveness
from tailbit.errors import IndexerRunningError, MalformedLogError, StorageError, UnusableStorageError
from tailbit.tables.storage import SMALL, Stat, Storage
from tailbit.tables.storage.conditional_puts import nothing_written

NAME = "_heartbeat"
INTERVAL_S = 5.0
LIMIT_S = 30.0
"""A heartbeat of another machine that is older than this is dead: six beats are missing."""

_LOOK_EVERY_S = 0.5

_NEEDS_A_PLACE = (
    "An indexer writes into the index: free space there, make it writable for this user, or give another"
    " place by --index, then start again. Nothing is lost, and questions go on meanwhile."
)
_PIDS = 2**31


@dataclass(frozen=True, slots=True)
class Beat:
    """One stored heartbeat of an indexer process.

    `started`: start time of the process, which tells it from a later process with the same pid; 0 if unknown.
    `machine`: the scope in which a pid means one process, since hosts may share a name and containers of a
    host number their processes separately; empty if unknown. `doing`: the work of the indexer, in words.
    """

    run: str = ""
    host: str = ""
    machine: str = ""
    pid: int = 0
    started: int = 0
    batch: int = -1
    doing: str = ""

    @property
    def owner(self) -> str:
        """Return host and process, for people."""
        return f"{self.host}, process {self.pid}"


class State(Enum):
    """What the last heartbeat of an indexer says about its process: alive, stale or dead."""

    ALIVE = "alive"
    """The heartbeat is fresh."""
    STALE = "stale"
    """The heartbeat is old: the indexer hangs, or was killed on another machine."""
    DEAD = "dead"
    """The process, of this machine, has ended."""


@dataclass(frozen=True, slots=True)
class LastSign:
    """The last heartbeat of an indexer; `seconds`: its age, negative if its time is in the future."""

    beat: Beat
    seconds: float
    state: State

    @property
    def meaning(self) -> str:
        """Return age and meaning of the heartbeat, for people."""
        if self.state is State.ALIVE:
            return f"{length(max(0.0, self.seconds))} ago: {self.beat.doing or 'at work'}"
        if self.state is State.DEAD:
            return f"{length(max(0.0, self.seconds))} ago: killed"
        if self.seconds < 0:
            return f"{length(-self.seconds)} in the future: a clock was put back, or differs"
        return f"{length(self.seconds)} ago: hung or killed" + (
            self.beat.doing and f", at: {self.beat.doing}"
        )


class Heartbeat:
    """The heartbeat file of one indexer run: claimed, rewritten while the run works, then removed.

    At most one run holds the file at a time, as far as a store without locks can tell. `life`: the signs of
    life of the run; if None, a living process is enough, as for a command that ends soon. `lost`: the error
    to raise once another indexer has taken over, which happens only after this run gave no sign for `LIMIT_S`
    seconds.
    """

    def __init__(self, storage: Storage, watch_s: float = LIMIT_S, life: Liveness | None = None) -> None:
        self._storage, self._watch_s, self._life = storage, watch_s, life
        self.lost: IndexerRunningError | None = None
        pid = os.getpid()
        self._beat = Beat(uuid.uuid4().hex, socket.gethostname(), this_machine(), pid, start_of(pid))
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def claim(self, stop: threading.Event | None = None, tell: Callable[[str], None] | None = None) -> None:
        """Claim the heartbeat, and keep it until `release`.

        If the process of an old heartbeat may still be alive, the heartbeat is watched for a change first,
        for `LIMIT_S` seconds or until `stop` is set; `tell` receives one line about that.

        Raises:
            IndexerRunningError: another indexer has a fresh heartbeat here.
            StorageError: nothing can be written here.
        """
        try:
            self._take(stop or threading.Event(), tell or _tell_nobody)
        except StorageError as refused:
            if isinstance(refused, UnusableStorageError):
                raise nothing_written(self._storage.root, refused) from refused
            if refused.fields.get("path") != NAME:
                raise
            reason = f"nothing can be written there: {refused.fields.get('reason')}"
            raise StorageError(path=self._storage.root, reason=reason, hint=_NEEDS_A_PLACE) from refused
        self._thread = threading.Thread(target=self._keep, name="tailbit-heartbeat", daemon=True)
        self._thread.start()

    def _take(self, stop: threading.Event, tell: Callable[[str], None]) -> None:
        current = read_heartbeat(self._storage)
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

    def note(self, batch: int) -> None:
        """Record the current batch; the next beat shows it."""
        self._beat = replace(self._beat, batch=batch)
        if self._life is not None:
            self._life.batch = batch

    def release(self) -> None:
        """Stop rewriting the heartbeat file, and remove it unless another run took it over.

        If the removal fails, the file grows old by itself.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with suppress(StorageError):
            current = read_heartbeat(self._storage)
            if current is not None and current.run == self._beat.run:
                self._storage.delete(NAME)

    def _judged(self, other: Beat, stop: threading.Event, tell: Callable[[str], None]) -> Stat | None:
        """Return the stat of another run's heartbeat file once it counts as dead; None if the file has gone.

        Raises:
            IndexerRunningError: the heartbeat is alive.
        """
        seen, lives = self._storage.stat(NAME), _lives(other)
        if seen is None or lives is False:
            return seen
        age = self._storage.clock_ms() / 1000 - seen.mtime_ns / 1e9
        if -INTERVAL_S < age < LIMIT_S:
            raise self._running(other, age)
        if age > 0 and not lives:
            return seen
        tell(_why_watched(other, age, self._watch_s))
        now = self._changed(seen, stop)
        if now is not None and now != seen:
            raise self._running(other, 0.0)
        return now

    def _changed(self, seen: Stat, stop: threading.Event) -> Stat | None:
        """Return the heartbeat file's stat as soon as it differs from `seen`, or at the end of the watch."""
        until = time.monotonic() + self._watch_s
        while (now := self._storage.stat(NAME)) == seen and time.monotonic() < until and not stop.is_set():
            if self._life is not None:
                self._life.wait_for("waiting to see whether another indexer is alive")
            stop.wait(_LOOK_EVERY_S)
        return now

    def _running(self, other: Beat, age: float) -> IndexerRunningError:
        root = self._storage.root
        return IndexerRunningError(owner=other.owner, path=root, age=max(0.0, age), limit=LIMIT_S)

    def _keep(self) -> None:
        """Rewrite the heartbeat file until `release`; a failed write is retried, as heartbeats are advice."""
        lives = -1 if self._life is None else self._life.lives
        beaten = time.monotonic()
        while not self._stop.wait(INTERVAL_S):
            if self._life is not None and self._life.lives == lives:
                continue
            with suppress(StorageError):
                if time.monotonic() - beaten > LIMIT_S and self._is_anothers():
                    return
                lives = -1 if self._life is None else self._life.lives
                self._storage.put(NAME, self._encoded())
                beaten = time.monotonic()

    def _is_anothers(self) -> bool:
        """Return whether another indexer has taken over while this one gave no sign; if so, set `lost`."""
        current = read_heartbeat(self._storage)
        if current is None or current.run == self._beat.run:
            return False
        self.lost = self._running(current, 0.0)
        return True

    def _encoded(self) -> bytes:
        doing = "" if self._life is None else self._life.doing
        return orjson.dumps(asdict(replace(self._beat, doing=doing)))


def _tell_nobody(line: str) -> None:
    """Drop a notice; the default where no callback is given."""


def _why_watched(other: Beat, age: float, watch_s: float) -> str:
    """Return the notice that another run's heartbeat is being watched, and why."""
    if age > 0:
        said = f"is {length(age)} old although its process lives: it hangs, or has just woken up"
    else:
        said = f"is {length(-age)} in the future: a clock was put back, or differs"
    return f"the last sign of life of {other.owner} {said}; waiting up to {watch_s:.0f} s for another"


def length(seconds: float) -> str:
    """Format a length of time for people, in its largest unit.

    >>> length(12.3), length(250), length(7300)
    ('12 s', '4 min', '2 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.0f} h"


def read_heartbeat(storage: Storage) -> Beat | None:
    """Return the last sign of life, or None if there is none or it cannot be read."""
    try:
        stored = orjson.loads(storage.read(NAME, SMALL))
        # Another release may write more fields, or fewer.
        beat = Beat(**{name: stored[name] for name in Beat.__slots__ if name in stored})
        return beat if isinstance(beat.pid, int) and 0 <= beat.pid < _PIDS else None
    except (FileNotFoundError, MalformedLogError, ValueError, TypeError):
        return None


def last_sign(storage: Storage) -> LastSign | None:
    """Return the last sign of life of an indexer and its meaning; None if there is none.

    Its age is by the clock of this machine: learning the clock of a store needs a write, which a mere reader
    may not be allowed.
    """
    beat, seen = read_heartbeat(storage), storage.stat(NAME)
    if beat is None or seen is None:
        return None
    seconds = time.time() - seen.mtime_ns / 1e9
    if _lives(beat) is False:
        return LastSign(beat, seconds, State.DEAD)
    return LastSign(beat, seconds, State.ALIVE if abs(seconds) < LIMIT_S else State.STALE)


def running_indexer(storage: Storage) -> str | None:
    """Return host and process of the indexer at work on an index; None if none gives a sign of life."""
    last = last_sign(storage)
    return last.beat.owner if last is not None and last.state is State.ALIVE else None


def _lives(beat: Beat) -> bool | None:
    """Return whether the process that wrote a heartbeat is alive; None if unknown, as on another machine.

    Unknown also for the calling process itself, which may have left an old heartbeat behind.
    """
    if not beat.machine or beat.machine != this_machine():
        return None
    try:
        os.kill(beat.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    started = start_of(beat.pid)
    if started and started != beat.started:
        return False
    return True if started and beat.pid != os.getpid() else None


def this_machine() -> str:
    """Return an id of this boot of this machine and of its pid namespace; empty if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def start_of(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot; 0 if unknown, -1 for a dead process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return -1 if fields[0] in "ZX" else int(fields[19])
