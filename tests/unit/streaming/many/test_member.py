"""Work for a table that takes CPU time is a sign of life, whatever process does it; a wait is none."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from support.waiting import wait_until
from tailbit.checkpoints.liveness import Liveness
from tailbit.streaming.config.model import TableEntry
from tailbit.streaming.many.member import Member, TableLife
from tailbit.streaming.watch.processes import sees_cpu_time
from tailbit.streaming.watch.thread_pool import Job

pytestmark = pytest.mark.skipif(not sees_cpu_time(), reason="no /proc: the CPU time of processes is not seen")


@pytest.fixture
def member() -> Member:
    """A table whose work waits in a thread."""
    member = Member(TableEntry(path="/lake/orders", id="orders"), TableLife("orders", Liveness()))
    member.job, member.at_work = Job(lambda: None), True
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, daemon=True)
    thread.start()
    member.job.began, member.job.thread = time.monotonic(), thread.native_id or 0
    return member


def test_a_process_that_computes_for_a_table_is_a_sign_of_its_life(member: Member, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as worker:
        (tmp_path / str(worker.pid)).touch()

        def signed() -> bool:
            member.sign_if_busy(str(tmp_path))
            return member.life.signed > 0.0

        wait_until(signed)
        worker.kill()


def test_a_process_that_waits_for_a_table_is_none(member: Member, tmp_path: Path) -> None:
    waits = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=-1, stdout=-1)
    with waits as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        (tmp_path / str(worker.pid)).touch()
        member.cpu.is_busy(1e9)
        member.sign_if_busy(str(tmp_path))
        signed = member.life.signed
        for _ in range(20):
            member.sign_if_busy(str(tmp_path))
        assert member.life.signed == signed
        worker.kill()
