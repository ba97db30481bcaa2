"""The heartbeat: a second indexer steps back, a dead one is in nobody's way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import orjson
import pytest

from tailbit.checkpoints.heartbeat import (
    INTERVAL_S,
    LIMIT_S,
    NAME,
    Beat,
    Heartbeat,
    _machine,
    read_heartbeat,
    running,
)
from tailbit.errors import IndexerRunningError
from tailbit.tables.storage import LocalStorage, Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return LocalStorage(str(tmp_path))


def write(storage: Storage, beat: Beat, age_s: float = 0.0) -> None:
    """A sign of life that was given so long ago by the clock of the store."""
    storage.put(NAME, orjson.dumps(asdict(beat)))
    at = time.time() - age_s
    os.utime(Path(storage.root, NAME), (at, at))


def taken(storage: Storage) -> bool:
    """Whether an indexer that starts now may work."""
    mine = Heartbeat(storage, watch_s=1)
    try:
        mine.claim()
    except IndexerRunningError:
        return False
    mine.release()
    return True


ELSEWHERE = Beat("run", "another-host", "another machine", 1, 0, 3)


def here(pid: int, started: int) -> Beat:
    return replace(ELSEWHERE, host=socket.gethostname(), machine=_machine(), pid=pid, started=started)


def test_a_second_indexer_is_refused_while_the_heartbeat_is_fresh(storage: Storage) -> None:
    first = Heartbeat(storage)
    first.claim()
    with pytest.raises(IndexerRunningError, match=f"process {os.getpid()}"):
        Heartbeat(storage).claim()
    first.release()


def test_a_released_heartbeat_leaves_no_trace(storage: Storage) -> None:
    first = Heartbeat(storage)
    first.claim()
    first.release()
    assert read_heartbeat(storage) is None
    second = Heartbeat(storage)
    second.claim()
    second.release()


@pytest.mark.parametrize(("age_s", "free"), [(LIMIT_S - 5, False), (LIMIT_S + 1, True)])
def test_a_heartbeat_of_another_host_is_taken_over_once_it_is_old(
    storage: Storage, age_s: float, free: bool
) -> None:
    write(storage, ELSEWHERE, age_s)
    assert (running(storage) is None, taken(storage)) == (free, free)


def test_a_heartbeat_from_the_future_is_taken_over_unless_it_changes(storage: Storage) -> None:
    write(storage, ELSEWHERE, age_s=-7200)
    assert taken(storage)
    write(storage, ELSEWHERE, age_s=-7200)
    mine = Heartbeat(storage, watch_s=60)
    beats = threading.Timer(0.2, write, (storage, ELSEWHERE, -7205))
    beats.start()
    with pytest.raises(IndexerRunningError, match="another-host"):
        mine.claim()
    beats.join()


def test_a_heartbeat_just_ahead_of_the_clock_is_fresh(storage: Storage) -> None:
    write(storage, ELSEWHERE, age_s=-INTERVAL_S / 2)
    assert running(storage) == ELSEWHERE
    assert not taken(storage)


def test_a_dead_process_of_this_machine_is_taken_over_at_once(storage: Storage) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write(storage, here(gone.pid, 1))
    assert taken(storage)


def test_a_process_of_another_machine_of_the_same_name_is_not_known_to_be_dead(storage: Storage) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write(storage, replace(here(gone.pid, 1), machine="another start of a machine of this name"))
    assert not taken(storage)


def test_a_process_that_was_killed_and_not_yet_reaped_counts_as_dead(storage: Storage) -> None:
    corpse = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = int(Path(f"/proc/{corpse.pid}/stat").read_text().rpartition(")")[2].split()[19])
    corpse.kill()
    os.waitid(os.P_PID, corpse.pid, os.WEXITED | os.WNOWAIT)
    write(storage, here(corpse.pid, started))
    assert taken(storage)
    corpse.wait()


@pytest.mark.parametrize("pid", [os.getppid(), os.getpid()], ids=["another", "this one"])
def test_a_live_process_that_only_has_the_pid_of_the_dead_one_is_no_owner(storage: Storage, pid: int) -> None:
    write(storage, here(pid, 1))
    assert taken(storage)


def test_a_damaged_heartbeat_is_no_heartbeat(storage: Storage) -> None:
    storage.put(NAME, b'{"run": ')
    assert taken(storage)


def test_release_leaves_the_heartbeat_of_whoever_took_over(storage: Storage) -> None:
    first = Heartbeat(storage)
    first.claim()
    write(storage, ELSEWHERE)
    first.release()
    assert read_heartbeat(storage) == ELSEWHERE
