"""A forked Python has the words, the files, the folder, the variables and the end of one that starts."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from support.forked import Forked, forked
from support.waiting import HANG_S

_SEEN = "import os, sys; print(sys.argv[1:], sys.stdin.read(), os.getcwd(), os.environ['SEEN'], sep='|')"


def test_a_forked_process_has_what_it_is_given(tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with Forked(["-c", _SEEN, "a", "b"], cwd=tmp_path, env={"SEEN": "here"}, text=True, **pipes) as process:
        assert process.communicate("asked") == (f"['a', 'b']|asked|{tmp_path}|here\n", None)


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("", 0),
        ("raise SystemExit(75)", 75),
        ("raise SystemExit('why')", 1),
        ("raise ValueError", 1),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import threading; threading.Timer(0.05, print, ['late']).start()", 0),
    ],
)
def test_a_forked_process_ends_as_one_that_starts(program: str, status: int) -> None:
    done = forked("-c", program)
    assert (done.returncode, done.stdout) == (status, "late\n" if "late" in program else "")


def test_a_forked_process_is_waited_for_and_signalled() -> None:
    process = Forked(["-c", "import os; os.read(0, 1)"], stdin=subprocess.PIPE, start_new_session=True)
    with process:
        assert (process.poll(), os.getsid(process.pid)) == (None, process.pid)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.terminate()
        assert process.wait(HANG_S) == -signal.SIGTERM


def test_variables_that_only_a_start_obeys_are_refused() -> None:
    with pytest.raises(AssertionError, match="PYTHONPATH"):
        forked("-c", "", env={"PYTHONPATH": "/elsewhere"})
