"""The heartbeat: a second indexer steps back, a dead one is in nobody's way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import orjson
import pytest

from tailbit.checkpoints.heartbeat import LIMIT_S, NAME, Beat, Heartbeat, read_heartbeat
from tailbit.errors import IndexerRunningError
from tailbit.tables.storage import LocalStorage, Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return LocalStorage(str(tmp_path))


def write(storage: Storage, beat: Beat) -> None:
    storage.put(NAME, orjson.dumps(asdict(beat)))


ELSEWHERE = Beat("run", "another-host", 1, 0, 3, 1000.0)


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


def test_a_heartbeat_of_another_host_is_taken_over_once_it_is_old(storage: Storage) -> None:
    write(storage, ELSEWHERE)
    with pytest.raises(IndexerRunningError, match="another-host"):
        Heartbeat(storage, clock=lambda: 1000.0 + LIMIT_S - 1).claim()
    late = Heartbeat(storage, clock=lambda: 1000.0 + LIMIT_S + 1)
    late.claim()
    late.release()


def test_a_dead_process_of_this_host_is_taken_over_at_once(storage: Storage) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write(storage, replace(ELSEWHERE, host=socket.gethostname(), pid=gone.pid))
    now = Heartbeat(storage, clock=lambda: 1000.0)
    now.claim()
    now.release()


def test_a_process_that_was_killed_and_not_yet_reaped_counts_as_dead(storage: Storage) -> None:
    corpse = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = int(Path(f"/proc/{corpse.pid}/stat").read_text().rpartition(")")[2].split()[19])
    corpse.kill()
    os.waitid(os.P_PID, corpse.pid, os.WEXITED | os.WNOWAIT)
    write(storage, replace(ELSEWHERE, host=socket.gethostname(), pid=corpse.pid, started=started))
    now = Heartbeat(storage, clock=lambda: 1000.0)
    now.claim()
    now.release()
    corpse.wait()


def test_a_live_process_that_only_has_the_pid_of_the_dead_one_is_no_owner(storage: Storage) -> None:
    write(storage, replace(ELSEWHERE, host=socket.gethostname(), pid=os.getppid(), started=1))
    now = Heartbeat(storage, clock=lambda: 1000.0)
    now.claim()
    now.release()


def test_a_damaged_heartbeat_is_no_heartbeat(storage: Storage) -> None:
    storage.put(NAME, b'{"run": ')
    now = Heartbeat(storage)
    now.claim()
    now.release()


def test_release_leaves_the_heartbeat_of_whoever_took_over(storage: Storage) -> None:
    first = Heartbeat(storage)
    first.claim()
    write(storage, ELSEWHERE)
    first.release()
    assert read_heartbeat(storage) == ELSEWHERE
