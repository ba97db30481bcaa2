"""`tailbit demo` ends well: every answer equal, the index sound, and no process left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

TAILBIT = os.path.join(os.path.dirname(sys.executable), "tailbit")


def processes_of(folder: Path) -> list[psutil.Process]:
    """Processes that were started for a demo in a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in part for part in process.info["cmdline"] or ()):
            found.append(process)
    return found


def test_the_demo_kills_its_indexer_and_every_answer_is_equal(tmp_path: Path) -> None:
    done = subprocess.run(
        [TAILBIT, "demo", "--folder", str(tmp_path)], capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed with SIGKILL" in done.stdout
    assert "every answer equal" in done.stdout
    assert "✗" not in done.stdout
    assert psutil.wait_procs(processes_of(tmp_path), timeout=10)[1] == []


def test_an_interrupted_demo_leaves_no_process(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [TAILBIT, "demo", "--folder", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "writer.log").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    demo.send_signal(signal.SIGINT)
    assert demo.wait(30) == 130
    assert psutil.wait_procs(processes_of(tmp_path), timeout=10)[1] == []
