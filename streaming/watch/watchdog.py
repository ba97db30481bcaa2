"""The end of a run: asked for by a signal, or forced by the watchdog; and what systemd is told of a run.

The watchdog ends a run that gives no sign of life for its limit, or does not end when asked to. It never asks
Java or a store for anything, so it cannot hang with them. A run that hangs prints one line with what is known
and ends with status 75, which tells a supervisor to restart it. systemd is told by datagrams that a run is
ready, alive or stopping. Source: sd_notify(3).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import HungError, NotDrainedError, TailbitError
from tailbit.base.system import STOPPING
from tailbit.base.wording import Tell, tell_nobody, visible
from tailbit.checkpoints.liveness import Liveness, OnLife
from tailbit.checkpoints.signs import length
from tailbit.streaming.watch.processes import Process, below_this, end, java_of


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
    events = dict.fromkeys(STOPPING, stop) | ({} if reload is None else {signal.SIGHUP: reload})

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


STALL_S = 60.0
"""Default limit: a run that gives no sign of life for this many seconds hangs."""

START_S = 300.0
"""Seconds that Spark may take to start while its Java uses the CPU, as on a machine that others keep busy."""

_JAVA_STARTS_S = 1.0
"""Java that used this many seconds of CPU within the limit is still starting, and does not hang."""

DRAIN_S = 22.0
"""Seconds that a batch in flight has to end after SIGTERM or Ctrl-C. With what follows the run ends within
30."""

GRACE_S = 4.0
"""Seconds that the run has to end by itself after its child processes were killed."""

LAST_ACT_S = 2.0
"""Most seconds for `last_acts`, such as to remove the heartbeat, if the run does not end by itself."""

FIRST_LINE_S = 30.0
"""A run that only waits says so after this many seconds, then after twice as many, and so on."""

FIRST_STEP_LINE_S = 60.0
"""A step of work beside the batches that lasts this many seconds is reported, then after twice as long, and
so on. Such a step does not end the run: the batches do not wait for it."""

AGAIN = 75


def do_nothing() -> None:
    """Do nothing; the default callback."""


_TICK_S = 0.5
_LONGEST_TICK_S = 2.0
"""A tick that took longer was the sleep of this very process or of the machine, and counts as this long."""


@dataclass(frozen=True, slots=True)
class Supervision:
    """When a run counts as hung, and the callbacks that learn of its signs of life.

    A sign of life: a counter of work moved (file indexed, task done, poll answered), or a known wait goes on;
    before the query runs, also that Java uses the CPU, for five minutes at most.
    `stall_limit_s`: seconds without a sign after which the run is ended; 0 for never. `on_life`: called with
    the current work in words after signs, once a second at most. `announce`: receives lines about the start.
    `on_up`: called when the query runs, or the run found nothing to do. `on_end`: called when the run is
    asked to end, or ends. `on_up` and `on_end` may be called more than once.
    """

    stall_limit_s: float = STALL_S
    on_life: OnLife | None = None
    announce: Tell = tell_nobody
    on_up: Callable[[], None] = do_nothing
    on_end: Callable[[], None] = do_nothing


class Watchdog:
    """A context manager whose thread ends a run that hangs, or that does not end in time when asked to.

    The thread kills the run's child processes. If the `with` block does not end by that, the thread calls
    `last_acts`, and this process exits with status 75. `stop`: set when the run is asked to end.

    Raises at the end of the `with` block:
        HungError: the run hung, and its child processes were killed.
        NotDrainedError: the run did not end in time after it was asked to; its child processes were killed.
    """

    def __init__(
        self, table: str, life: Liveness, stop: threading.Event, tell: Tell, supervision: Supervision
    ) -> None:
        self._table, self._life, self._stop, self._tell = table, life, stop, tell
        self._limit_s, self._on_life = supervision.stall_limit_s, supervision.on_life
        self._on_end = supervision.on_end
        self.last_acts: list[Callable[[], None]] = []
        self._ended = threading.Event()
        self._failure: TailbitError | None = None
        self._still, self._quiet, self._asked, self._same = 0.0, 0.0, 0.0, 0.0
        self._next_line = self._next_work_line = FIRST_LINE_S
        self._work = ""
        self._step, self._step_s, self._next_step_line = 0, 0.0, FIRST_STEP_LINE_S
        self._announce = supervision.announce
        self._lives = self._moves = -1
        self._told = 0.0
        self._since = time.time()
        self._elapsed, self._java_s = 0.0, 0.0
        self._thread = threading.Thread(target=self._watch, name="tailbit-watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        """Start the watching thread."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, met: BaseException | None, _: TracebackType | None
    ) -> None:
        """Raise the watchdog's reason for ending the run, in place of the errors that the end caused."""
        self._ended.set()
        self._on_end()
        if self._failure is not None:
            raise self._failure from met

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(_TICK_S):
            now = time.monotonic()
            failure = self.look(min(now - before, _LONGEST_TICK_S))
            before = now
            if failure is not None:
                self._end_run(failure)
                return

    def look(self, seconds: float) -> TailbitError | None:
        """Count the signs of the last `seconds`; return the error that the run must end with, or None."""
        self._count(seconds)
        if self._stop.is_set():
            self._on_end()
        if self._asked >= DRAIN_S:
            return NotDrainedError(table=self._table, seconds=self._asked, known=self._known())
        if self._limit_s and self._still >= self._limit_s and not self._java_starts():
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._since))
            return HungError(table=self._table, since=since, seconds=self._still, known=self._known())
        if self._quiet >= self._next_line and not self._stop.is_set():
            self._next_line *= 2
            self._tell(f"{self._table}: no progress for {length(self._quiet)}: {self._life.doing}")
        self._tell_of_long_work(seconds)
        self._tell_of_long_step(seconds)
        return None

    def _java_starts(self) -> bool:
        """Return whether Spark has not started yet and its Java is at work; then the limit begins anew."""
        if self._life.begun or self._elapsed >= START_S:
            return False
        java = java_of(below_this())
        used = 0.0 if java is None else java.cpu
        starts = used - self._java_s >= _JAVA_STARTS_S
        self._java_s, self._still = used, 0.0 if starts else self._still
        return starts

    def _tell_of_long_step(self, seconds: float) -> None:
        """Report at growing intervals that one step beside the batches goes on; the step may hang."""
        if not self._life.beside or self._life.steps != self._step:
            self._step, self._step_s, self._next_step_line = self._life.steps, 0.0, FIRST_STEP_LINE_S
            return
        self._step_s += seconds
        if self._step_s >= self._next_step_line and not self._stop.is_set():
            self._next_step_line *= 2
            lasts = f"one step has lasted {length(self._step_s)}"
            self._tell(f"{self._table}: {self._life.beside}; {lasts}, and the stream goes on beside it")

    def _tell_of_long_work(self, seconds: float) -> None:
        """Announce at growing intervals that the same work goes on, as in a large batch."""
        waits = self._life.idle or self._life.waits
        work = "" if waits else self._life.doing_now
        self._same = self._same + seconds if work == self._work else 0.0
        if not self._same:
            self._work, self._next_work_line = work, FIRST_LINE_S
        if work and self._same >= self._next_work_line and not self._quiet and not self._stop.is_set():
            self._next_work_line = 2 * self._same
            self._announce(f"{self._table}: at work for {length(self._same)}: {work}")

    def _count(self, seconds: float) -> None:
        """Add `seconds` to the time without signs, or reset that time after a sign."""
        self._asked += seconds * self._stop.is_set()
        self._elapsed += seconds
        self._still, self._quiet = self._still + seconds, self._quiet + seconds
        if self._life.moves != self._moves:
            self._moves, self._quiet, self._next_line = self._life.moves, 0.0, FIRST_LINE_S
        if self._life.lives != self._lives:
            self._lives, self._still, self._since = self._life.lives, 0.0, time.time()
            now = time.monotonic()
            if self._on_life is not None and now - self._told >= 1.0:
                self._told = now
                self._on_life(self._life.doing)

    def _known(self) -> str:
        """Return what is known of a run that hangs, as text."""
        life, processes = self._life, below_this()
        java = java_of(processes)
        said = [life.doing]
        if life.batch >= 0 or not life.begun:
            said.insert(0, f"last batch {life.batch}" if life.batch >= 0 else "no batch yet")
        if life.answered is not None:
            said.append(f"Spark last answered {length(time.monotonic() - life.answered)} ago")
        said.append("no Java runs" if java is None else _of_java(java))
        said += [
            f"process {p.pid} ({p.name}) is stopped" for p in processes if p.is_stopped and p is not java
        ]
        return "; ".join(said)

    def _end_run(self, failure: TailbitError) -> None:
        """Kill the child processes; end this process too if the run does not end by that."""
        self._failure = failure
        self._on_end()
        end(below_this())
        if self._ended.wait(GRACE_S):
            return
        end(below_this())
        acts = threading.Thread(target=lambda: [act() for act in self.last_acts], daemon=True)
        acts.start()
        acts.join(LAST_ACT_S)
        sys.stderr.write(failure.describe() + "\n")
        sys.stderr.flush()
        os._exit(AGAIN)


def _of_java(java: Process) -> str:
    return f"Java is process {java.pid}" + (", which is stopped" if java.is_stopped else "")


SOCKET, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
"""Environment variables that systemd sets for a service with `Type=notify`."""

EXTENSION_S = 120
"""Seconds by which each sign of life extends the time for a start, however long the start has taken."""

STALLS = 3
"""Stall limits that systemd waits at least for a sign of life, so that the run's own watchdog acts first."""

_SEND_S = 1.0
_STATUS_CHARACTERS = 500
"""Most characters of a status: systemd drops a message of more than 4,096 bytes."""


class ServiceManager:
    """The systemd that started this process.

    A message that cannot be delivered is dropped, but READY=1 is sent again with the next sign of life. Cost:
    one datagram per message; a full socket delays the sender for a second at most. Safe to use from any
    thread.
    """

    def __init__(self, address: str, watchdog_s: float = 0.0, stall_limit_s: float = 0.0) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.settimeout(_SEND_S)
        longer = 0.0 < watchdog_s < STALLS * stall_limit_s
        self._up = ["READY=1"]
        if longer:
            self._up.append(f"WATCHDOG_USEC={round(STALLS * stall_limit_s * 1e6)}")
        self._is_up = self._up_is_told = self._is_ending = False
        self._progress = ""

    @classmethod
    def taken_from(
        cls, environment: MutableMapping[str, str] = os.environ, stall_limit_s: float = 0.0
    ) -> ServiceManager | None:
        """Return the service manager that the environment names; None without one.

        Removes the variables from the environment, so that Java and the workers do not inherit them.
        `stall_limit_s`: the run's own limit in seconds, 0 for none; systemd is told to wait at least `STALLS`
        times that long.
        """
        address = environment.pop(SOCKET, "")
        watchdog_us = environment.pop(WATCHDOG_US, "")
        environment.pop(WATCHDOG_PID, None)
        if not address.startswith(("/", "@")):
            return None
        watchdog_s = int(watchdog_us) / 1e6 if watchdog_us.isdecimal() else 0.0
        return cls(address, watchdog_s, stall_limit_s)

    def note(self, progress: str) -> None:
        """Save how far the index is, for the next status message."""
        self._progress = progress

    def up(self) -> None:
        """Send that the query runs; from then on systemd waits for signs of life."""
        self._is_up = True
        self._send()

    def lives(self, doing: str) -> None:
        """Send a sign of life with the current work; during the start, ask for more time."""
        sign = "WATCHDOG=1" if self._is_up else f"EXTEND_TIMEOUT_USEC={EXTENSION_S * 1_000_000}"
        self._send(sign, self._status(doing))

    def ends(self) -> None:
        """Send once that the run is about to end."""
        if not self._is_ending:
            self._is_ending = True
            self._send("STOPPING=1")

    def _status(self, doing: str) -> str:
        text = " · ".join(phrase for phrase in (self._progress, doing) if phrase)
        return "STATUS=" + visible(" ".join(text.split()))[:_STATUS_CHARACTERS]

    def _send(self, *assignments: str) -> None:
        first = self._up if self._is_up and not self._up_is_told else []
        message = "\n".join([*first, *assignments])
        if not message:
            return
        with suppress(OSError):
            self._socket.sendto(message.encode(errors="replace"), self._address)
            self._up_is_told = self._is_up
