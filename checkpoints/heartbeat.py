"""A sign of life beside the index, so that a second indexer steps back before it does any work.

Advice only: what keeps two indexers from harming each other is the index commit. A heartbeat is taken
over when it is old, or at once when its process ran on this host and is dead.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from tailbit.errors import IndexerRunningError, StorageError
from tailbit.tables.storage import Storage

NAME = "_heartbeat"
INTERVAL_S = 5.0
LIMIT_S = 30.0
"""A heartbeat older than this is dead: six beats missed."""


@dataclass(frozen=True, slots=True)
class Beat:
    """One sign of life. `started` tells a process from a later one with the same pid; 0 where unknown."""

    run: str
    host: str
    pid: int
    started: int
    batch: int
    at: float

    @property
    def owner(self) -> str:
        """Host and process, for people."""
        return f"{self.host}, process {self.pid}"


class Heartbeat:
    """The heartbeat of one indexer run: claimed, kept alive by a thread, released.

    At most one claim is held at a time, as far as a store without locks can tell.
    """

    def __init__(self, storage: Storage, clock: Callable[[], float] = time.time) -> None:
        self._storage, self._clock = storage, clock
        self._beat = Beat(uuid.uuid4().hex, socket.gethostname(), os.getpid(), _started(os.getpid()), -1, 0.0)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def claim(self) -> None:
        """Make the heartbeat ours, and keep it so until `release`.

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
                raise self._running(winner) from None
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
        if is_alive(other, self._clock()):
            raise self._running(other)

    def _running(self, other: Beat) -> IndexerRunningError:
        age = max(0.0, self._clock() - other.at)
        return IndexerRunningError(owner=other.owner, path=self._storage.root, age=age, limit=LIMIT_S)

    def _keep(self) -> None:
        """Beat until released; a beat that cannot be written is tried again, for it is advice only."""
        while not self._stop.wait(INTERVAL_S):
            try:
                self._storage.put(NAME, self._encoded())
            except StorageError:
                continue

    def _encoded(self) -> bytes:
        self._beat = replace(self._beat, at=self._clock())
        return orjson.dumps(asdict(self._beat))


def read_heartbeat(storage: Storage) -> Beat | None:
    """The last sign of life, None where there is none or it cannot be read."""
    try:
        return Beat(**orjson.loads(storage.read(NAME)))
    except (FileNotFoundError, orjson.JSONDecodeError, TypeError):
        return None


def is_alive(beat: Beat, now: float) -> bool:
    """Whether an indexer may still be at work: its last beat is fresh, and its process is not known gone."""
    return now - beat.at < LIMIT_S and not _dead(beat)


def _dead(beat: Beat) -> bool:
    """Whether the process of a beat is known to be gone: it ran here, and is not there any more."""
    if beat.host != socket.gethostname():
        return False
    if beat.pid == os.getpid():
        return False
    try:
        os.kill(beat.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _started(beat.pid) != beat.started


def _started(pid: int) -> int:
    """The start time of a process in clock ticks since boot; 0 where nothing tells it, -1 for a corpse."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return -1 if fields[0] in "ZX" else int(fields[19])
