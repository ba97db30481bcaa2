"""The stored heartbeat of an indexer, and its meaning: the indexer is at work, hangs, or has ended.

Cost of reading: two requests; four for an index that an application keeps, whose file only names the lease
that holds the beats.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Any

import orjson

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import MalformedLogError, TailbitError
from tailbit.tables.storage import SMALL, Stat, Storage, open_storage
from tailbit.tables.storage.locations import location_of

NAME = "_heartbeat"
PLACE = "_lease_place"
"""The file with the id of the folder of a lease."""

LIMIT_S = 30.0
"""A heartbeat of another machine that is older than this is dead: six beats are missing."""

MOST_BUILDS = 1000
"""Most builds that a heartbeat shows, so that it stays a small file."""

_PIDS = 2**31


@dataclass(frozen=True, slots=True)
class Beat:
    """One stored heartbeat of an indexer process.

    `started`: start time of the process, which tells it from a later process with the same pid; 0 if unknown.
    `machine`: the scope in which a pid means one process, since hosts may share a name and containers of a
    host number their processes separately; empty if unknown. `doing`: the work of the indexer, in words.
    `limit`: seconds after which this beat is old. `lease`: path or URL of the folder with the lease of the
    same run, whose beats stand for this one; empty if the run has no lease. `place`: id of that folder, since
    disks of two machines may have folders of one path; empty if unknown. `mark`: tells the marks of one run
    on one index from each other. `builds`: accounts of the builds at work (`BuildProgress.account`), by the
    id of their index.
    """

    run: str = ""
    host: str = ""
    machine: str = ""
    pid: int = 0
    started: int = 0
    batch: int = -1
    doing: str = ""
    limit: float = LIMIT_S
    lease: str = ""
    place: str = ""
    mark: str = ""
    builds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def owner(self) -> str:
        """Return host and process in words."""
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
    """The last heartbeat of an indexer.

    `seconds`: its age, negative if its time is in the future. `of_application`: whether the indexer is an
    application of many tables.
    """

    beat: Beat
    seconds: float
    state: State
    of_application: bool = False

    @property
    def meaning(self) -> str:
        """Return age and meaning of the heartbeat in words."""
        if self.state is State.ALIVE:
            return f"{length(max(0.0, self.seconds))} ago: {self.beat.doing or 'at work'}"
        if self.state is State.DEAD:
            return f"{length(max(0.0, self.seconds))} ago: killed"
        if self.seconds < 0:
            return f"{length(-self.seconds)} in the future: a clock was put back, or differs"
        return f"{length(self.seconds)} ago: hung or killed" + (
            self.beat.doing and f", at: {self.beat.doing}"
        )


@dataclass(frozen=True, slots=True)
class Signs:
    """The place of an indexer's signs of life: the storage of a heartbeat file, its content and its stat."""

    storage: Storage
    beat: Beat
    seen: Stat


def length(seconds: float) -> str:
    """Format a length of time for people, in its largest unit.

    >>> length(12.3), length(250), length(7300)
    ('12 s', '4 min', '2 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.0f} h"


def read_heartbeat(storage: Storage) -> Beat | None:
    """Return the stored heartbeat; None if the file is missing or cannot be parsed."""
    try:
        stored = orjson.loads(storage.read(NAME, SMALL))
        # Another release may write more fields, or fewer.
        beat = Beat(**{name: stored[name] for name in Beat.__slots__ if name in stored})
        return beat if _is_sound(beat) else None
    except (FileNotFoundError, MalformedLogError, ValueError, TypeError):
        return None


def _is_sound(beat: Beat) -> bool:
    """Return whether pid, lease, limit and builds of a stored heartbeat have the right types."""
    is_process = isinstance(beat.pid, int) and 0 <= beat.pid < _PIDS
    return (
        is_process
        and isinstance(beat.builds, dict)
        and isinstance(beat.lease, str)
        and isinstance(beat.limit, (int, float))
    )


def signs_of(storage: Storage, beat: Beat, seen: Stat) -> Signs | None:
    """Return where the signs of life of a heartbeat's run are: in the file itself, or in the lease it names.

    None if the lease was given up, or belongs to another run. If the lease cannot be read from here, as on
    the disk of another machine, the file itself counts, which is rewritten every few minutes. So it does if
    the folder of the lease has another id, as where this machine has a folder of the same path.
    """
    own = Signs(storage, beat, seen)
    if not beat.lease or not _may_be_asked(beat.lease, storage.root):
        return own
    try:
        place = open_storage(beat.lease, storage.options)
        current, stat = read_heartbeat(place), place.stat(NAME)
    except TailbitError:
        return own
    if current is None or stat is None:
        return None if place.remote or beat.machine == this_machine() else own
    if beat.place and current.place and current.place != beat.place:
        return own
    return Signs(place, current, stat) if current.run == beat.run else None


def _may_be_asked(lease: str, root: str) -> bool:
    """Return whether the store of a lease may receive the credentials of the index that names the lease.

    An Azure URL names a host, which would receive a token as it is; other stores receive only signatures.
    """
    there, here = location_of(lease), location_of(root)
    return there is None or there.kind != "az" or (here is not None and here.bucket == there.bucket)


def last_sign(storage: Storage) -> LastSign | None:
    """Return the last sign of life of an indexer and its meaning; None if there is none.

    The age is by the clock of this machine: to learn the clock of a store takes a write, which a mere reader
    may not be allowed.
    """
    beat, seen = read_heartbeat(storage), storage.stat(NAME)
    if beat is None or seen is None:
        return None
    signs = None if lives(beat) is False else signs_of(storage, beat, seen)
    if signs is None:
        return LastSign(beat, time.time() - seen.mtime_ns / 1e9, State.DEAD, bool(beat.lease))
    seconds = time.time() - signs.seen.mtime_ns / 1e9
    state = State.ALIVE if abs(seconds) < signs.beat.limit else State.STALE
    return LastSign(signs.beat, seconds, state, bool(beat.lease))


def running_indexer(storage: Storage) -> str | None:
    """Return host and process of the indexer at work on an index; None if none gives a sign of life."""
    last = last_sign(storage)
    return last.beat.owner if last is not None and last.state is State.ALIVE else None


def lives(beat: Beat) -> bool | None:
    """Return whether the process that wrote a heartbeat is alive; None if unknown, as on another machine.

    Unknown also for the calling process itself, which may have left an old heartbeat behind.
    """
    if not beat.machine or beat.machine != this_machine():
        return None
    if not process_exists(beat.pid):
        return False
    started = start_of(beat.pid)
    if started and started != beat.started:
        return False
    return True if started and beat.pid != os.getpid() else None


def process_exists(pid: int) -> bool:
    """Return whether there is a process of this id, of any user; a zombie counts too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
