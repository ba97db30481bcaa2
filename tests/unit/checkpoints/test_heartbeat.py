"""The heartbeat: a second indexer steps back, a dead one is in nobody's way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import orjson
import pytest

from support.waiting import HANG_S, wait_until
from tailbit.checkpoints import claim
from tailbit.checkpoints import claim as module
from tailbit.checkpoints.claim import INTERVAL_S, Claim
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.signs import (
    LIMIT_S,
    NAME,
    Beat,
    State,
    last_sign,
    read_heartbeat,
    running_indexer,
    start_of,
    this_machine,
)
from tailbit.errors import IndexerRunningError, StorageError
from tailbit.tables.storage import LocalStorage, Stat, Storage


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
    mine = Claim(storage, watch_s=1)
    try:
        mine.acquire()
    except IndexerRunningError:
        return False
    mine.release()
    return True


class ReadOnly(LocalStorage):
    def delete(self, rel: str) -> None:
        raise StorageError(path=rel, reason="Read-only file system")


def test_a_heartbeat_that_cannot_be_removed_does_not_hide_why_the_run_ended(tmp_path: Path) -> None:
    mine = Claim(ReadOnly(str(tmp_path)))
    mine.acquire()
    mine.release()
    assert read_heartbeat(LocalStorage(str(tmp_path))) is not None


ELSEWHERE = Beat("run", "another-host", "another machine", 1, 0, 3)


@contextmanager
def beating(storage: Storage, of: Beat = ELSEWHERE) -> Iterator[None]:
    """Signs of life from the future come, of an indexer elsewhere."""
    stop = threading.Event()

    def beat() -> None:
        n = 0
        while not stop.wait(0.1):
            write(storage, of, age_s=-7200 - (n := n + 1))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def here(pid: int, started: int) -> Beat:
    return replace(ELSEWHERE, host=socket.gethostname(), machine=this_machine(), pid=pid, started=started)


def test_a_second_indexer_is_refused_while_the_heartbeat_is_fresh(storage: Storage) -> None:
    first = Claim(storage)
    first.acquire()
    with pytest.raises(IndexerRunningError, match=f"process {os.getpid()}"):
        Claim(storage).acquire()
    first.release()


def test_a_released_heartbeat_leaves_no_trace(storage: Storage) -> None:
    first = Claim(storage)
    first.acquire()
    first.release()
    assert read_heartbeat(storage) is None
    second = Claim(storage)
    second.acquire()
    second.release()


@pytest.mark.parametrize(("age_s", "free"), [(0.0, False), (LIMIT_S + 1, True)])
def test_a_heartbeat_of_another_host_is_taken_over_once_it_is_old(
    storage: Storage, age_s: float, free: bool
) -> None:
    write(storage, ELSEWHERE, age_s)
    assert (running_indexer(storage) is None, taken(storage)) == (free, free)


def test_a_heartbeat_from_the_future_is_taken_over_unless_it_changes(storage: Storage) -> None:
    write(storage, ELSEWHERE, age_s=-7200)
    assert taken(storage)
    write(storage, ELSEWHERE, age_s=-7200)
    with beating(storage), pytest.raises(IndexerRunningError, match="another-host"):
        Claim(storage, watch_s=HANG_S).acquire()


def test_of_several_that_watch_one_heartbeat_from_the_future_one_takes_over(storage: Storage) -> None:
    write(storage, ELSEWHERE, age_s=-7200)
    starters = [Claim(storage, watch_s=0.5) for _ in range(4)]
    with ThreadPoolExecutor(len(starters)) as pool:
        won = [f for f in [pool.submit(starter.acquire) for starter in starters] if f.exception() is None]
    assert len(won) == 1
    for starter in starters:
        starter.release()


def test_a_heartbeat_that_is_released_while_it_is_watched_leaves_the_way_free(storage: Storage) -> None:
    write(storage, ELSEWHERE, age_s=-7200)
    gone = threading.Timer(0.2, storage.delete, (NAME,))
    gone.start()
    mine = Claim(storage, watch_s=HANG_S)
    mine.acquire()
    mine.release()


def test_a_watch_ends_when_the_command_is_to_stop_and_leaves_the_other_s_heartbeat(storage: Storage) -> None:
    write(storage, ELSEWHERE, age_s=-7200)
    stop = threading.Event()
    stop.set()
    with pytest.raises(IndexerRunningError):
        Claim(storage, watch_s=HANG_S).acquire(stop)
    assert storage.stat(NAME) is not None


def test_a_heartbeat_of_another_release_is_read_for_what_it_tells(storage: Storage) -> None:
    storage.put(NAME, orjson.dumps({"run": "r", "host": "another-host", "pid": 1, "at": 5.0, "more": 1}))
    assert not taken(storage)


def test_a_heartbeat_just_ahead_of_the_clock_is_fresh(storage: Storage) -> None:
    write(storage, ELSEWHERE, age_s=1 - INTERVAL_S)
    assert running_indexer(storage) == ELSEWHERE.owner
    assert not taken(storage)


@contextmanager
def other_process() -> Iterator[int]:
    """The pid of a process of this machine that lives meanwhile."""
    lives = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        yield lives.pid
    finally:
        lives.kill()
        lives.wait()


@pytest.mark.parametrize("age_s", [7200.0, -7200.0])
def test_a_live_process_whose_heartbeat_is_old_is_watched_and_taken_over_unless_it_gives_a_sign(
    storage: Storage, age_s: float
) -> None:
    """It hangs; or it has just woken up with the machine, or its clock has jumped."""
    with other_process() as pid:
        beat = here(pid, start_of(pid))
        write(storage, beat, age_s)
        told: list[str] = []
        with beating(storage, beat), pytest.raises(IndexerRunningError, match=str(pid)):
            Claim(storage, watch_s=HANG_S).acquire(tell=told.append)
        assert len(told) == 1
        assert "2 h" in told[0]
        assert f"waiting up to {HANG_S:.0f} s" in told[0]
        write(storage, beat, age_s)
        assert running_indexer(storage) is None
        assert taken(storage)


def test_a_heartbeat_is_of_the_signs_of_life_and_not_of_its_thread(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "INTERVAL_S", 0.01)
    life = Liveness()
    mine = Claim(storage, life=life)
    mine.acquire()

    def beaten(doing: str) -> Stat:
        life.sign(doing)
        wait_until(lambda: (read_heartbeat(storage) or ELSEWHERE).doing == doing)
        seen = storage.stat(NAME)
        assert seen is not None
        return seen

    try:
        before = beaten("first")
        looks = iter(range(50))
        wait_until(lambda: time.sleep(0.01) or next(looks) == 49)
        assert storage.stat(NAME) == before
        assert beaten("second") != before
    finally:
        mine.release()


def test_an_indexer_that_was_taken_over_while_it_hung_steps_back_when_it_goes_on(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "INTERVAL_S", 0.01)
    monkeypatch.setattr(claim, "LIMIT_S", 0.05)
    life = Liveness()
    mine = Claim(storage, life=life)
    mine.acquire()
    write(storage, ELSEWHERE)
    time.sleep(0.06)
    life.sign()
    wait_until(lambda: mine.lost is not None)
    assert read_heartbeat(storage) == ELSEWHERE
    mine.release()


@pytest.mark.parametrize(
    ("age_s", "meaning"),
    [(3.0, "3 s ago: at work"), (250.0, "4 min ago: hung or killed"), (-7200.0, "2 h in the future")],
)
def test_the_last_sign_of_life_is_told_with_its_age_and_what_that_means(
    storage: Storage, age_s: float, meaning: str
) -> None:
    write(storage, ELSEWHERE, age_s)
    last = last_sign(storage)
    assert last is not None
    assert last.meaning.startswith(meaning)


def test_the_sign_of_a_process_that_was_killed_here_is_told_so(storage: Storage) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    write(storage, here(gone.pid, 1), 250.0)
    last = last_sign(storage)
    assert last is not None
    assert (last.state, last.meaning) == (State.DEAD, "4 min ago: killed")


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
    started = start_of(corpse.pid)
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
    first = Claim(storage)
    first.acquire()
    write(storage, ELSEWHERE)
    first.release()
    assert read_heartbeat(storage) == ELSEWHERE


@pytest.mark.parametrize("left_behind", [True, False])
def test_a_place_that_cannot_be_written_is_named_as_the_index_with_what_to_do(
    storage: Storage, left_behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if left_behind:
        storage.put(NAME, orjson.dumps(asdict(Beat(machine=this_machine(), pid=2**22 + 1))))

    def refuse(*_: object) -> None:
        raise StorageError(path=NAME, reason="Read-only file system")

    for method in ("put_if_absent", "delete"):
        monkeypatch.setattr(LocalStorage, method, refuse)
    with pytest.raises(StorageError, match="nothing can be written there: Read-only") as met:
        Claim(storage).acquire()
    assert storage.root in str(met.value)
    assert "--index" in met.value.hint
    assert met.value.retryable


@pytest.mark.parametrize("pid", ["x", -1, 2**63 - 1, None, [1], 5.0])
def test_a_heartbeat_that_names_no_process_is_nobodys(storage: Storage, pid: object) -> None:
    storage.put(NAME, orjson.dumps({"pid": pid, "machine": this_machine()}))
    assert running_indexer(storage) is None
    beat = Claim(storage)
    beat.acquire()
    beat.release()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks come without a pause; a machine that is slow does not make a beat old."""
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "LEASE_LIMIT_S", HANG_S)


@pytest.fixture
def ages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat of another machine is old soon, once it says so itself."""
    monkeypatch.setattr(module, "LEASE_LIMIT_S", _SHORT_S)


_SHORT_S = 0.3


class Standing:
    """An application that stands by: what it said, and whether it has the lease."""

    def __init__(self, storage: Storage) -> None:
        self.said: list[str] = []
        self.stop, self.is_ready = threading.Event(), threading.Event()
        self.lease = Claim(storage, life=Liveness(), of_application=True)
        self.won: Future[bool] = ThreadPoolExecutor(1).submit(
            self.lease.acquire_when_free, self.stop, self.said.append, self.is_ready.set
        )
        assert self.is_ready.wait(HANG_S)


def other(storage: Storage, limit_s: float) -> None:
    beat = Beat("run", "another-host", "another machine", 1, limit=limit_s)
    storage.put(NAME, orjson.dumps(asdict(beat)))


def test_an_application_alone_has_the_lease_at_once(storage: Storage) -> None:
    lease = Claim(storage, life=Liveness(), of_application=True)
    said: list[str] = []
    assert lease.acquire_when_free(threading.Event(), said.append, lambda: said.append("stands by"))
    assert said == []
    lease.release()


def test_a_lease_that_is_given_up_is_taken_over_at_once(storage: Storage) -> None:
    first = Claim(storage, life=Liveness(), of_application=True)
    first.acquire()
    second = Standing(storage)
    first.release()
    assert second.won.result(HANG_S)
    assert [line.partition(":")[0].partition(" from")[0] for line in second.said] == [
        "standing by",
        "taken over",
    ]
    second.lease.release()


def test_a_lease_without_beats_is_taken_over(storage: Storage, ages: None) -> None:
    other(storage, HANG_S)
    second = Standing(storage)
    other(storage, _SHORT_S)
    assert second.won.result(HANG_S)
    second.lease.release()


def test_a_lease_that_cannot_be_seen_is_not_taken_over(
    storage: Storage, ages: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    other(storage, HANG_S)
    looks: list[str] = []

    def refuse(self: LocalStorage, rel: str) -> Stat | None:
        looks.append(rel)
        raise StorageError(path=rel, reason="the store does not answer")

    second = Standing(storage)
    with monkeypatch.context() as refused:
        refused.setattr(LocalStorage, "stat", refuse)
        until = time.monotonic() + 0.5
        wait_until(lambda: len(looks) > 3 and time.monotonic() > until)
        assert not second.won.done()
        other(storage, _SHORT_S)
    assert second.won.result(HANG_S)
    second.lease.release()


def test_one_at_work_that_gives_no_sign_learns_that_another_took_over(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Claim(storage, life=Liveness(), of_application=True)
    monkeypatch.setattr(lease, "_interval_s", 0.01)
    lease.acquire()
    other(storage, HANG_S)
    wait_until(lambda: lease.lost is not None)
    lease.release()
    assert read_heartbeat(storage) is not None


def test_one_that_stands_by_gives_no_sign_of_life_while_what_it_needs_does_not_answer(
    storage: Storage,
) -> None:
    leader = Claim(storage, life=Liveness(), of_application=True)
    leader.acquire()
    life, stop, asked, answers = Liveness(), threading.Event(), threading.Event(), threading.Event()
    standing = Claim(storage, life=life, of_application=True)

    def could_take_over() -> None:
        asked.set()
        answers.wait(HANG_S)

    won = ThreadPoolExecutor(1).submit(
        standing.acquire_when_free, stop, list[str]().append, lambda: None, could_take_over
    )
    assert asked.wait(HANG_S)
    assert life.lives == 0
    answers.set()
    wait_until(lambda: life.lives > 0)
    stop.set()
    assert not won.result(HANG_S)
    leader.release()


def test_standing_by_ends_when_the_command_is_to_stop(storage: Storage) -> None:
    first = Claim(storage, life=Liveness(), of_application=True)
    first.acquire()
    second = Standing(storage)
    second.stop.set()
    assert second.won.result(HANG_S) is False
    first.release()


def test_of_two_that_both_took_a_lease_one_keeps_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = [Liveness(), Liveness()]
    first, second = (Claim(storage, life=life, of_application=True) for life in lives)
    for lease in (first, second):
        lease._interval_s = 0.01
    first.acquire()
    storage.delete(NAME)
    second.acquire()

    def one_is_lost() -> bool:
        for life in lives:
            life.sign()
        return first.lost is not None or second.lost is not None

    wait_until(one_is_lost)
    keeper = first if first.lost is None else second
    wait_until(lambda: (read_heartbeat(storage) or Beat()).run == keeper.beat.run)
    first.release()
    second.release()
    assert read_heartbeat(storage) is None
