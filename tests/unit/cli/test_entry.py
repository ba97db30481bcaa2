"""A signal to the command before it has begun anything."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tailbit.cli.statuses import AGAIN

_SIGNALLED = """
import os, signal, sys
class AtTheFirstOf:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, AtTheFirstOf())
signal.signal({number}, {before})
sys.argv = ["tailbit", "{command}", "nowhere"]
from tailbit.cli.entry import main
main()
"""


def ended(number: int, command: str, before: str = "signal.SIG_DFL") -> subprocess.CompletedProcess[str]:
    """The command, which gets a signal before the first heavy import."""
    code = _SIGNALLED.format(number=int(number), command=command, before=before)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda s: s.name)
def test_a_run_that_has_not_imported_anything_yet_ends_with_0_on_a_signal(number: signal.Signals) -> None:
    done = ended(number, "run")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_question_ends_by_the_signal_and_an_ignored_signal_stays_ignored() -> None:
    assert ended(signal.SIGTERM, "count").returncode == -signal.SIGTERM
    assert ended(signal.SIGHUP, "run", "signal.SIG_IGN").returncode == AGAIN
