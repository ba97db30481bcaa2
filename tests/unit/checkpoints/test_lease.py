"""The lease of an application: one is at work, another stands by and takes over."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import orjson
import pytest

from support.waiting import HANG_S, wait_until
from tailbit.checkpoints import claim as module
from tailbit.checkpoints.claim import application_lease
from tailbit.checkpoints.liveness import Liveness
from tailbit.checkpoints.signs import NAME, Beat, read_heartbeat
from tailbit.errors import StorageError
from tailbit.tables.storage import LocalStorage, Stat, Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return LocalStorage(str(tmp_path))


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
        self.lease = application_lease(storage, Liveness())
        self.won: Future[bool] = ThreadPoolExecutor(1).submit(
            self.lease.acquire_when_free, self.stop, self.said.append, self.is_ready.set
        )
        assert self.is_ready.wait(HANG_S)


def other(storage: Storage, limit_s: float) -> None:
    beat = Beat("run", "another-host", "another machine", 1, limit=limit_s)
    storage.put(NAME, orjson.dumps(asdict(beat)))


def test_an_application_alone_has_the_lease_at_once(storage: Storage) -> None:
    lease = application_lease(storage, Liveness())
    said: list[str] = []
    assert lease.acquire_when_free(threading.Event(), said.append, lambda: said.append("stands by"))
    assert said == []
    lease.release()


def test_a_lease_that_is_given_up_is_taken_over_at_once(storage: Storage) -> None:
    first = application_lease(storage, Liveness())
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
    lease = application_lease(storage, Liveness())
    monkeypatch.setattr(lease, "_interval_s", 0.01)
    lease.acquire()
    other(storage, HANG_S)
    wait_until(lambda: lease.lost is not None)
    lease.release()
    assert read_heartbeat(storage) is not None


def test_one_that_stands_by_gives_no_sign_of_life_while_what_it_needs_does_not_answer(
    storage: Storage,
) -> None:
    leader = application_lease(storage, Liveness())
    leader.acquire()
    life, stop, asked, answers = Liveness(), threading.Event(), threading.Event(), threading.Event()
    standing = application_lease(storage, life)

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
    first = application_lease(storage, Liveness())
    first.acquire()
    second = Standing(storage)
    second.stop.set()
    assert second.won.result(HANG_S) is False
    first.release()


def test_of_two_that_both_took_a_lease_one_keeps_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = [Liveness(), Liveness()]
    first, second = (application_lease(storage, life) for life in lives)
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
