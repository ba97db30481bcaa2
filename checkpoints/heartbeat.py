"""A sign of life beside the index, so that a second indexer steps back before it does any work.

Advice only: what keeps two indexers from harming each other is the index commit. A heartbeat is taken
over when it is old, or at once when its process ran on this machine and is dead. How old it is, the clock of
the store alone says, by which hosts whose clocks differ agree. One from the future (that clock was put back)
is watched: it is alive if it changes.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from tailbit.errors import IndexerRunningError, StorageError
from tailbit.tables.storage import Storage

NAME = "_heartbeat"
INTERVAL_S = 5.0
LIMIT_S = 30.0
"""A heartbeat older than this is dead: six beats missed."""

WATCH_S = 2 * INTERVAL_S + 1
"""How long one from the future is watched."""

_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Beat:
    """One sign of life. `started` tells a process from a later one with the same pid; 0 where unknown.

    `machine`: within it a pid means one process; hosts may share a name, containers of a host number their
    processes apart. Empty where unknown.
    """

    run: str
    host: str
    machine: str
    pid: int
    started: int
    batch: int

    @property
    def owner(self) -> str:
        """Host and process, for people."""
        return f"{self.host}, process {self.pid}"


class Heartbeat:
    """The heartbeat of one indexer run: claimed, kept alive by a thread, released.

    At most one claim is held at a time, as far as a store without locks can tell.
    """

    def __init__(self, storage: Storage, watch_s: float = WATCH_S) -> None:
        self._storage, self._watch_s = storage, watch_s
        pid = os.getpid()
        self._beat = Beat(uuid.uuid4().hex, socket.gethostname(), _machine(), pid, _started(pid), -1)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def claim(self) -> None:
        """Make the heartbeat ours, and keep it so until `release`. One from the future is watched first.

        Raises:
            IndexerRunningError: another indexer has a fresh heartbeat here.
        """
        current = read_heartbeat(self._storage)
        if current is not None:
            self._check(current)
            self._storage.delete(NAME)
        try:
            self._storage.put_if_absent(NAME, self._encoded())
        except FileExistsError:
            winner = read_heartbeat(self._storage)
            if winner is not None:
                raise self._running(winner, 0.0) from None
        self._thread = threading.Thread(target=self._keep, name="tailbit-heartbeat", daemon=True)
        self._thread.start()

    def note(self, batch: int) -> None:
        """Remember the batch at work; shown with the next beat."""
        self._beat = replace(self._beat, batch=batch)

    def release(self) -> None:
        """Stop beating, and remove the heartbeat if it is still ours."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        current = read_heartbeat(self._storage)
        if current is not None and current.run == self._beat.run:
            self._storage.delete(NAME)

    def _check(self, other: Beat) -> None:
        if _dead(other):
            return
        age = _age_s(self._storage, self._storage.clock_ms())
        if age is None or age >= LIMIT_S:
            return
        if age > -INTERVAL_S or self._changes():
            raise self._running(other, age)

    def _changes(self) -> bool:
        """Whether another sign of life comes."""
        before, until = self._storage.stat(NAME), time.monotonic() + self._watch_s
        while time.monotonic() < until:
            if self._storage.stat(NAME) != before:
                return True
            self._stop.wait(_LOOK_EVERY_S)
        return False

    def _running(self, other: Beat, age: float) -> IndexerRunningError:
        root = self._storage.root
        return IndexerRunningError(owner=other.owner, path=root, age=max(0.0, age), limit=LIMIT_S)

    def _keep(self) -> None:
        """Beat until released; a beat that cannot be written is tried again, for it is advice only."""
        while not self._stop.wait(INTERVAL_S):
            try:
                self._storage.put(NAME, self._encoded())
            except StorageError:
                continue

    def _encoded(self) -> bytes:
        return orjson.dumps(asdict(self._beat))


def read_heartbeat(storage: Storage) -> Beat | None:
    """The last sign of life, None where there is none or it cannot be read."""
    try:
        return Beat(**orjson.loads(storage.read(NAME)))
    except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
        return None


def running(storage: Storage) -> Beat | None:
    """The sign of life of an indexer that may be at work: fresh by the clock here.

    For people: the clock of the store is not asked, since whoever only looks may not be allowed to write.
    """
    beat = read_heartbeat(storage)
    if beat is None or _dead(beat):
        return None
    age = _age_s(storage, time.time_ns() // 1_000_000)
    return beat if age is not None and abs(age) < LIMIT_S else None


def _age_s(storage: Storage, now_ms: int) -> float | None:
    """How long ago the last sign of life was written; None where it has gone."""
    found = storage.stat(NAME)
    return None if found is None else now_ms / 1000 - found.mtime_ns / 1e9


def _dead(beat: Beat) -> bool:
    """Whether the process of a beat is known to be gone: it ran here, and is not there any more."""
    if not beat.machine or beat.machine != _machine():
        return False
    try:
        os.kill(beat.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _started(beat.pid) != beat.started


def _machine() -> str:
    """This start of this machine, and the space of its pids; empty where nothing tells them."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> int:
    """The start time of a process in clock ticks since boot; 0 where nothing tells it, -1 for a corpse."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return -1 if fields[0] in "ZX" else int(fields[19])
