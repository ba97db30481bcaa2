"""Systemd is told what it needs to know of a run, over a real socket."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.waiting import HANG_S, wait_until
from tailbit.base.wording import tell_nobody
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.watch.thread_pool import ThreadPool, run_each
from tailbit.streaming.watch.watchdog import ServiceManager, Supervision, Watchdog

LIMIT_S = 60.0


class Systemd:
    """The other end of the socket, as systemd binds it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.end.bind("\0" + address[1:] if address.startswith("@") else address)
        self.end.setblocking(False)

    def heard(self) -> list[str]:
        """The messages that came since this was last asked."""
        messages = []
        while True:
            try:
                messages.append(self.end.recv(4096).decode())
            except BlockingIOError:
                return messages


@pytest.fixture(params=["a path", "an abstract name"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    """Listens at a socket of either kind."""
    path = request.param == "a path"
    found = Systemd(str(tmp_path / "notify") if path else f"@tailbit-tests-{os.getpid()}")
    yield found
    found.end.close()


def manager_at(systemd: Systemd, stall_limit_s: float = LIMIT_S, **more: str) -> ServiceManager:
    """The service manager that such an environment names."""
    found = ServiceManager.taken_from({"NOTIFY_SOCKET": systemd.address, **more}, stall_limit_s)
    assert found is not None
    return found


def test_systemd_hears_of_a_start_its_readiness_signs_of_life_and_the_end(systemd: Systemd) -> None:
    manager = manager_at(systemd)
    manager.lives("starting Spark")
    manager.up()
    manager.note("covered v4 of v9")
    manager.lives("batch 2")
    manager.up()
    manager.ends()
    manager.ends()
    assert systemd.heard() == [
        "EXTEND_TIMEOUT_USEC=120000000\nSTATUS=starting Spark",
        "READY=1",
        "WATCHDOG=1\nSTATUS=covered v4 of v9 · batch 2",
        "STOPPING=1",
    ]


def test_a_status_is_one_short_line_whatever_is_done(systemd: Systemd) -> None:
    manager = manager_at(systemd)
    manager.lives("waiting after StorageError: one\ntwo\x1b[2J\nREADY=1 " + "é" * 5000)
    (message,) = systemd.heard()
    assert message.splitlines()[1].startswith("STATUS=waiting after StorageError: one two\\x1b[2J READY=1 é")
    assert len(message.splitlines()) == 2
    assert len(message.encode()) < 4096


def test_readiness_that_could_not_be_told_is_told_with_the_next_sign_of_life(tmp_path: Path) -> None:
    address = str(tmp_path / "later")
    manager = ServiceManager.taken_from({"NOTIFY_SOCKET": address})
    assert manager is not None
    manager.up()
    systemd = Systemd(address)
    manager.lives("batch 0")
    manager.lives("batch 1")
    assert systemd.heard() == ["READY=1\nWATCHDOG=1\nSTATUS=batch 0", "WATCHDOG=1\nSTATUS=batch 1"]
    systemd.end.close()


def test_the_watchdog_of_systemd_waits_for_three_stall_limits_at_least(systemd: Systemd) -> None:
    for limit_s, watchdog_us, told in (
        (600.0, "180000000", "READY=1\nWATCHDOG_USEC=1800000000"),
        (60.0, "180000000", "READY=1"),
        (0.0, "180000000", "READY=1"),
        (600.0, "", "READY=1"),
    ):
        manager_at(systemd, limit_s, WATCHDOG_USEC=watchdog_us).up()
        assert systemd.heard() == [told]


def test_the_variables_of_systemd_are_taken_so_that_no_child_process_inherits_them() -> None:
    environment = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "2", "HOME": "/h"}
    assert ServiceManager.taken_from(environment) is not None
    assert environment == {"HOME": "/h"}


@pytest.mark.parametrize("address", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:1234"}])
def test_without_a_socket_of_this_machine_there_is_no_service_manager(address: dict[str, str]) -> None:
    assert ServiceManager.taken_from(address) is None


def test_a_run_that_hangs_gives_systemd_no_sign_and_one_that_is_asked_to_end_says_so(
    systemd: Systemd,
) -> None:
    manager, life, stop = manager_at(systemd), Liveness("starting"), threading.Event()
    manager.up()
    hears = Supervision(LIMIT_S, on_life=manager.lives, on_up=manager.up, on_end=manager.ends)
    watchdog = Watchdog("t", life, stop, tell_nobody, hears)
    for _ in range(50):
        watchdog.look(1.0)
    assert systemd.heard() == ["READY=1", "WATCHDOG=1\nSTATUS=starting"]
    stop.set()
    watchdog.look(1.0)
    assert systemd.heard() == ["STOPPING=1"]


@pytest.fixture
def answer() -> Iterator[threading.Event]:
    """What a hanging job waits for."""
    event = threading.Event()
    yield event
    event.set()


def test_of_two_threads_two_are_at_work_and_the_third_job_waits(answer: threading.Event) -> None:
    pool = ThreadPool("pool", 2)
    jobs = [pool.submit(lambda: answer.wait(HANG_S)) for _ in range(3)]
    wait_until(lambda: jobs[1].began is not None)
    assert jobs[2].began is None
    answer.set()
    assert [job.result.result(HANG_S) for job in jobs] == [True, True, True]


def test_a_job_that_is_given_up_holds_up_no_other_and_may_still_end(answer: threading.Event) -> None:
    pool = ThreadPool("pool", 1)
    stuck, other = pool.submit(lambda: answer.wait(HANG_S)), pool.submit(lambda: 5)
    wait_until(lambda: stuck.began is not None)
    assert other.began is None
    assert pool.give_up(stuck)
    assert other.result.result(HANG_S) == 5
    assert not pool.give_up(stuck)
    answer.set()
    assert stuck.result.result(HANG_S) is True


def test_a_thread_that_was_replaced_ends_with_its_job(answer: threading.Event) -> None:
    pool = ThreadPool("pool that shrinks", 1)
    stuck = pool.submit(lambda: answer.wait(HANG_S))
    wait_until(lambda: stuck.began is not None)
    pool.give_up(stuck)
    pool.submit(lambda: 1).result.result(HANG_S)

    def threads() -> int:
        return sum(thread.name == "pool that shrinks" for thread in threading.enumerate())

    assert threads() == 2
    answer.set()
    wait_until(lambda: threads() == 1)


def test_an_error_of_a_job_is_its_result_and_the_thread_goes_on() -> None:
    pool = ThreadPool("pool", 1)

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        pool.submit(fail).result.result(HANG_S)
    assert pool.submit(lambda: 1).result.result(HANG_S) == 1


def test_a_pool_that_is_closed_waits_for_work_that_goes_on_and_not_for_what_was_given_up(
    answer: threading.Event,
) -> None:
    pool = ThreadPool("pool", 1)
    stuck = pool.submit(lambda: answer.wait(HANG_S))
    wait_until(lambda: stuck.began is not None)
    assert not pool.close(0.0)
    pool.give_up(stuck)
    assert pool.close(HANG_S)
    assert pool.submit(lambda: 1).result.cancelled()


def test_of_many_values_those_that_take_too_long_have_another_answer(answer: threading.Event) -> None:
    def act(value: int) -> str:
        if value % 2:
            answer.wait(HANG_S)
        return f"{value}"

    assert run_each(act, range(6), lambda value: "late", 2, 0.2) == ["0", "late", "2", "late", "4", "late"]


def test_where_no_value_is_answered_the_others_are_not_waited_for_one_after_the_other(
    answer: threading.Event,
) -> None:
    waits: list[int] = []
    begun: list[int] = []

    def act(value: int) -> str:
        begun.append(value)
        answer.wait(HANG_S)
        return "answered"

    found = run_each(act, range(100), str, 2, 0.2, lambda: waits.append(1))
    assert found == [str(value) for value in range(100)]
    assert 2 < len(begun) < 20
    assert waits


def test_values_are_not_waited_for_once_all_is_to_stop(answer: threading.Event) -> None:
    stop = threading.Event()
    found = run_each(lambda value: answer.wait(HANG_S), range(3), str, 2, HANG_S, stop.set, stop)
    assert found == ["0", "1", "2"]
