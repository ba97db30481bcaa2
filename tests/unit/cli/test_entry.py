"""A signal to the command before it has begun anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tailbit.cli import AGAIN, CONFIGURATION

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


def test_a_run_of_a_configuration_reads_it_after_a_sighup_that_comes_first() -> None:
    done = ended(signal.SIGHUP, 'run", "--config')
    assert done.returncode == CONFIGURATION
    assert "nowhere: the configuration cannot be read: No such file or directory" in done.stderr
    assert ended(signal.SIGTERM, 'run", "--config').returncode == 0


def test_a_question_ends_by_the_signal_and_an_ignored_signal_stays_ignored() -> None:
    assert ended(signal.SIGTERM, "count").returncode == -signal.SIGTERM
    assert ended(signal.SIGHUP, "run", "signal.SIG_IGN").returncode == AGAIN


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("3", "3")])
def test_a_command_makes_no_threads_for_linear_algebra_unless_told_to(
    given: str | None, expected: str
) -> None:
    """Such threads spin for 0.1 s of CPU time, as much as importing numpy takes."""
    name = "OPENBLAS_NUM_THREADS"
    environment = {key: value for key, value in os.environ.items() if key != name}
    environment |= {} if given is None else {name: given}
    code = "import os, sys, tailbit.cli.main as m; from tailbit.cli import entry; "
    code += (
        "assert 'numpy' not in sys.modules; m.main = lambda: print(os.environ[entry._THREADS]); entry.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected
