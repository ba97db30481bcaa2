"""Where the command begins: signals are obeyed before anything heavy is imported."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from tailbit.base.system import STOPPING
from tailbit.cli import INTERRUPTED

_RUN, _CONFIG = "run", "--config"
_THREADS = "OPENBLAS_NUM_THREADS"
"""Threads of numpy's linear algebra, which tailbit does not use; they would spin for 0.1 s of CPU time."""


def main() -> None:
    """Run the command line; on a signal, a `run` that has begun no work ends with status 0.

    Later `run` itself obeys signals; once its exit status is decided, no signal changes the status. An
    ignored signal, as under nohup, stays ignored.
    """
    os.environ.setdefault(_THREADS, "1")
    running = sys.argv[1:2] == [_RUN]
    if running:
        _obey(_end)
        if any(word.partition("=")[0] == _CONFIG for word in sys.argv[2:]) and hasattr(signal, "SIGHUP"):
            # SIGHUP asks to read the configuration again, which has not even been read yet.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        from tailbit.cli.main import main as command

        command()
    except KeyboardInterrupt:
        # The interrupt came where the command does not handle it, for example while it was loaded.
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    finally:
        if running:
            _obey(signal.SIG_IGN)


def _obey(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """End at once: an exception could be caught or printed by a module that is being imported."""
    os._exit(0)
