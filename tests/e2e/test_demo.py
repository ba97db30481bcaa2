"""The demos, of all formats, end well: every answer equal, indexes sound, no process left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support.waiting import HANG_S, wait_until

TESTS = Path(__file__).parents[1]
EXAMPLES = TESTS.parent / "examples"


def processes_of(folder: Path) -> list[psutil.Process]:
    """Processes that were started for a demo in a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in part for part in process.info["cmdline"] or ()):
            found.append(process)
    return found


def start_demo(folder: Path) -> subprocess.Popen[str]:
    """The demo as a person starts it, but with its output in a file: no terminal."""
    with (folder / "said").open("w") as said:
        command = [sys.executable, "-m", "demo", "--folder", folder]
        return subprocess.Popen(command, cwd=EXAMPLES, stdout=said, stderr=said, text=True)


def test_the_demo_kills_its_indexer_and_every_answer_is_equal(tmp_path: Path) -> None:
    demo = start_demo(tmp_path)
    try:
        status = demo.wait(3 * HANG_S)
    finally:
        demo.terminate()
        demo.wait(HANG_S)
    said = (tmp_path / "said").read_text()
    assert status == 0, said
    assert "killed with SIGKILL" in said
    assert "every answer equal" in said
    assert "tailbit.spark.accelerate(spark)" in said
    assert said.count(" counts ") >= 3, said
    assert "✗" not in said
    assert psutil.wait_procs(processes_of(tmp_path), timeout=HANG_S)[1] == []


def test_an_interrupted_demo_leaves_no_process(tmp_path: Path) -> None:
    demo = start_demo(tmp_path)
    wait_until((tmp_path / "writer.log").exists)
    demo.terminate()
    assert demo.wait(HANG_S) == 130
    assert psutil.wait_procs(processes_of(tmp_path), timeout=HANG_S)[1] == []


@pytest.mark.parametrize("name", ["hudi_demo", "iceberg_demo"])
def test_the_demo_of_other_formats_kills_its_indexer_and_every_answer_is_equal(
    tmp_path: Path, name: str
) -> None:
    command = [sys.executable, "-m", f"support.{name}", "--folder", tmp_path / "demo"]
    found = os.environ | {"PYTHONPATH": str(EXAMPLES)}
    demo = subprocess.run(
        command, cwd=TESTS, env=found, capture_output=True, text=True, timeout=3 * HANG_S, check=False
    )
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert "killed with SIGKILL" in demo.stdout
    assert "every answer equal" in demo.stdout
    assert "✗" not in demo.stdout
    assert psutil.wait_procs(processes_of(tmp_path), timeout=HANG_S)[1] == []
