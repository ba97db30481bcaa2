"""The signals that a run obeys, also while its main thread is in a call that does not return."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def signals(reload: threading.Event | None = None) -> Iterator[threading.Event]:
    """Yield an event that SIGTERM, SIGINT and SIGHUP set while the block runs.

    `reload`: an event that SIGHUP sets instead. A signal that is ignored when the block begins, as SIGHUP is
    under nohup, stays ignored unless it sets `reload`. In another thread than the main one, no signal sets an
    event.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    events = dict.fromkeys(_STOPPING, stop) | ({} if reload is None else {signal.SIGHUP: reload})

    def ask(number: int, frame: FrameType | None) -> None:
        events[signal.Signals(number)].set()

    ignored = [n for n in events if events[n] is stop and signal.getsignal(n) is signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in events if number not in ignored}
    try:
        with _woken(events):
            yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _woken(events: Mapping[signal.Signals, threading.Event]) -> Iterator[None]:
    """Set the event of a signal even while the main thread is in a call that does not return.

    Python runs a signal handler only in the main thread and between two instructions. But the byte that a
    signal writes to the wake-up descriptor arrives at once.
    """
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)

    def wake() -> None:
        while received := ours.recv(64):
            for number, event in events.items():
                if number in received:
                    event.set()

    threading.Thread(target=wake, name="tailbit-signals", daemon=True).start()
    before = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        pythons.close()
