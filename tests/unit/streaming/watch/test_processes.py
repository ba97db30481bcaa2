"""The processes below a run are found and ended, whatever their state."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from support.waiting import HANG_S, wait_until
from tailbit.streaming.watch.processes import Process, below_this, cpu_of_thread, end, end_stopped

_BUSY = "while True: pass"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", _BUSY], start_new_session=True)
    yield process
    process.kill()
    process.wait(HANG_S)


def seen(child: subprocess.Popen[bytes]) -> Process | None:
    return next((process for process in below_this() if process.pid == child.pid), None)


def test_a_process_that_was_stopped_is_ended_and_others_are_left(child: subprocess.Popen[bytes]) -> None:
    end_stopped()
    assert child.poll() is None
    child.send_signal(signal.SIGSTOP)
    wait_until(lambda: (found := seen(child)) and found.is_stopped)
    end_stopped()
    assert child.wait(HANG_S) == -signal.SIGKILL
    assert seen(child) is None


def test_the_cpu_time_of_a_process_grows_while_it_works_and_not_while_it_is_stopped(
    child: subprocess.Popen[bytes],
) -> None:
    def cpu() -> float:
        found = seen(child)
        assert found is not None
        return found.cpu

    first = cpu()
    wait_until(lambda: cpu() > first)
    child.send_signal(signal.SIGSTOP)
    wait_until(lambda: (found := seen(child)) and found.is_stopped)
    stopped = cpu()
    sum(range(10**7))
    assert cpu() == stopped


def test_a_process_that_has_gone_is_ended_without_a_word(child: subprocess.Popen[bytes]) -> None:
    found = seen(child)
    assert found is not None
    child.kill()
    child.wait(HANG_S)
    end([found])


def test_once_the_java_that_started_it_has_ended_the_processes_of_others_are_not_its_own(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "25333")
    monkeypatch.setattr(os, "getppid", lambda: 1)
    below = {process.pid for process in below_this()}
    assert child.pid in below
    own = {process.pid for process in psutil.Process().children(recursive=True)}
    assert below <= own | {child.pid}


def test_the_cpu_time_of_a_thread_that_is_not_there_is_none() -> None:
    assert cpu_of_thread(os.getpid()) > 0
    assert cpu_of_thread(2**22 + 1) == 0
