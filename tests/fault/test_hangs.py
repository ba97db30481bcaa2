"""A running indexer whose Java, planner, workers or storage hang ends with what is known, and leaves nothing
behind.

Each hang is a real SIGSTOP of a real process, or a call that never returns.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from deltalake import write_deltalake

from support.profiles import variants
from support.shipped import Shipped
from support.tables import rows
from support.waiting import HANG_S
from tailbit.checkpoints.signs import read_heartbeat
from tailbit.tables.storage import LocalStorage

pytestmark = pytest.mark.spark

LIMIT = "10s"


def started(run: Shipped, limit: str) -> None:
    """Start the command and return once it is idle."""
    run.start("--columns", "k,v", "--stall-limit", limit)
    run.wait(lambda: any(told.get("idle") for told in run.told()))


def chosen(run: Shipped, part: str) -> list[psutil.Process]:
    if part == "java":
        return run.descendants("java")
    named = [(process, " ".join(process.cmdline())) for process in run.descendants("python")]
    return [process for process, line in named if ("streaming_source_runner" in line) == (part == "planner")]


@pytest.mark.parametrize("part", variants(["java", "planner", "workers"], 2))
def test_a_part_of_a_run_that_hangs_ends_it_with_75_what_is_known_and_no_process_left(
    run: Shipped, part: str
) -> None:
    started(run, LIMIT)
    (java,) = run.descendants("java")
    stopped = chosen(run, part)
    assert stopped
    for process in stopped:
        process.suspend()
    write_deltalake(run.table, rows(30), mode="append")
    assert run.process.wait(HANG_S) == 75
    run.wait_gone()
    said = [line for line in run.output.read_text().splitlines() if not line.startswith("{")]
    assert len(said) == 2, said
    assert said[0].startswith(f"HungError: {run.table}: no sign of life since ")
    assert f"Java is process {java.pid}" in said[0]
    # Workers read which versions a batch takes: the next one has begun.
    assert f"last batch {int(part == 'workers')}" in said[0]
    assert "stopped" in said[0]
    assert read_heartbeat(LocalStorage(run.index)) is None


def test_a_batch_that_waits_for_ever_for_its_store_ends_the_run_with_75(run: Shipped) -> None:
    run.start("--columns", "k,v", "--stall-limit", LIMIT, fault="batch_planned=hang")
    assert run.process.wait(HANG_S) == 75
    assert "planning the work up to version 2" in run.output.read_text()


def test_sigterm_ends_a_run_whose_java_is_frozen_within_thirty_seconds(run: Shipped) -> None:
    started(run, "off")
    (java,) = run.descendants("java")
    java.suspend()
    assert run.terminate() == 75
    run.wait_gone()
    text = run.output.read_text()
    assert "NotDrainedError" in text
    assert re.search(r"not ended 2\d s after the signal", text)
    assert f"Java is process {java.pid}, which is stopped" in text


def test_sigterm_ends_a_start_that_hangs_with_0_for_no_batch_was_cut_off(run: Shipped) -> None:
    run.start("--columns", "k,v", "--stall-limit", "off")
    (java,) = run.wait(lambda: run.descendants("java"))
    java.suspend()
    assert run.terminate() == 0
    run.wait_gone()
    assert "Error" not in run.output.read_text()


def test_the_start_says_for_which_table_spark_starts_and_systemd_hears_that_the_run_is_up_lives_and_ends(
    run: Shipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "100000000")
        run.start("--columns", "k,v", "--stall-limit", "60s")
        heard: list[str] = []
        # The socket holds ten messages, so they are read as they come.
        run.wait(lambda: heard.extend(messages(systemd)) or any("up to date" in text for text in heard))
        inherited = [process.environ() for process in run.descendants("")]
        assert run.terminate() == 0
        heard += messages(systemd)
    notices = [
        told["notice"] for told in map(json.loads, run.output.read_text().splitlines()) if "notice" in told
    ]
    assert notices[0] == f"starting Spark for {run.table} …"
    assert notices[1].startswith("found Spark 4.")
    assert notices[2].startswith("Spark UI: http://127.0.0.1:")
    up = next(at for at, message in enumerate(heard) if message.startswith("READY=1"))
    assert heard[up].splitlines()[:2] == ["READY=1", "WATCHDOG_USEC=180000000"]
    assert "STATUS=starting Spark with master local[2]" in "\n".join(heard[:up]).splitlines()
    assert all(message.startswith("EXTEND_TIMEOUT_USEC=") for message in heard[:up])
    assert any("STATUS=covered v2 of v2 · up to date · " in message for message in heard[up:])
    assert heard.index("STOPPING=1") > up
    assert len(inherited) > 3
    assert not any({"NOTIFY_SOCKET", "WATCHDOG_USEC"} & child.keys() for child in inherited)


def messages(systemd: socket.socket) -> Iterator[str]:
    with suppress(BlockingIOError):
        while True:
            yield systemd.recv(4096).decode()
