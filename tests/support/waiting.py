"""Waiting for what other processes and threads do: for an event, and never for a length of time."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

HANG_S = 600.0
"""A wait of this many seconds is a hang. It only ends a test: no outcome depends on speed."""

PAUSE_S, MOST_PAUSE_S = 0.02, 0.3
"""The pause between two looks: thrice as long as a look takes, within these limits. What is awaited often
starts a Java meanwhile, and both need the processor."""

LOST_S = 30.0
"""A process that has not ended this many seconds after a signal may have missed it."""


def wait_until(what: Callable[[], Any], alive: Callable[[], str | None] = lambda: None) -> Any:
    """What `what` gives, once that is true.

    `alive` says why it can never be true any more (its process has died), else None.
    """
    began = time.monotonic()
    deadline = began + HANG_S
    while not (found := what()):
        death = alive()
        assert death is None, death
        looked = time.monotonic()
        assert looked < deadline, f"waited in vain for {HANG_S:.0f} s"
        time.sleep(min(MOST_PAUSE_S, max(PAUSE_S, 3 * (looked - began))))
        began = time.monotonic()
    return found


def signalled(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to a process that waits in a read, and wait until it has ended.

    One that comes between Python's last look for signals and the read is seen after the read, which is never:
    so it is sent again.
    """
    deadline = time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        process.send_signal(number)
        try:
            process.wait(LOST_S)
        except subprocess.TimeoutExpired:
            continue
        return


def end_with_parent() -> None:
    """Have Linux kill this process once the thread that started it has ended: PR_SET_PDEATHSIG."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
