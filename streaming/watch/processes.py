"""The processes below a run: their CPU time, by which they are seen to be at work, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tailbit.base.dataclass import dataclass

_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Environment variable that spark-submit sets: its Java then is the parent of this process."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process: `session` as of setsid (from `ps` its group), `state` as of `ps`, `cpu` in CPU seconds."""

    pid: int
    parent: int
    session: int
    name: str
    state: str
    cpu: float

    @property
    def is_java(self) -> bool:
        """Return whether the process runs Java."""
        return self.name.startswith("java")

    @property
    def is_stopped(self) -> bool:
        """Return whether the process was stopped by a signal or a debugger."""
        return self.state in "Tt"


def below_this() -> list[Process]:
    """Return the living descendants of this process, parents first.

    Under spark-submit, Java is the parent of this process and counts as a descendant; once Java has ended,
    the parent is a process of others. Java leads a session of its own, so a worker whose parent has died is
    still found.
    """
    listed = {process.pid: process for process in _all() if process.state not in "ZX"}
    own, parent = os.getpid(), listed.get(os.getppid())
    root = parent.pid if _SUBMITTED in os.environ and parent is not None and parent.is_java else own
    reached, below = [root], {root}
    for pid in reached:
        sessions = {pid} if listed.get(pid) is not None and listed[pid].is_java else set()
        for process in listed.values():
            if process.pid not in below and (process.parent == pid or process.session in sessions):
                below.add(process.pid)
                reached.append(process.pid)
    return [listed[pid] for pid in reached if pid != own and pid in listed]


def java_of(processes: Iterable[Process]) -> Process | None:
    """Return the Java process of Spark among processes; None if there is none."""
    return next((process for process in processes if process.is_java), None)


def end(processes: Iterable[Process]) -> None:
    """Kill processes; those that have ended meanwhile are ignored."""
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)


def end_stopped() -> None:
    """Kill the stopped descendants of this process: they would not notice that Java has ended."""
    end(process for process in below_this() if process.is_stopped)


def cpu_of_thread(native_id: int) -> float:
    """Return the CPU time of a thread of this process in seconds; 0 if unknown."""
    process = _parsed(Path(f"/proc/self/task/{native_id}/stat"))
    return 0.0 if process is None else process.cpu


def sees_cpu_time() -> bool:
    """Return whether the CPU time of threads and processes of this machine is known."""
    return Path("/proc/self/stat").exists()


def cpu_of_process(pid: int) -> float:
    """Return the CPU time of a process in seconds; 0 if unknown."""
    process = _parsed(Path(f"/proc/{pid}/stat"))
    return 0.0 if process is None else process.cpu


def _all() -> Iterator[Process]:
    if not sees_cpu_time():
        yield from _all_by_ps()
        return
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            process = _parsed(Path("/proc", entry, "stat"))
            if process is not None:
                yield process


def _parsed(stat: Path) -> Process | None:
    """Parse a process from its `stat` file in `/proc`; None if the process has ended."""
    try:
        text = stat.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    head, _, tail = text.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    cpu = (int(fields[11]) + int(fields[12])) / _TICKS
    return Process(int(pid), int(fields[1]), int(fields[3]), name, fields[0], cpu)


def _all_by_ps() -> Iterator[Process]:
    columns = ["ps", "-A", "-o", "pid=,ppid=,pgid=,state=,time=,comm="]
    done = subprocess.run(columns, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        pid, parent, group, state, time, name = line.split(None, 5)
        yield Process(int(pid), int(parent), int(group), os.path.basename(name), state[0], _seconds(time))


def _seconds(clock: str) -> float:
    """Return the seconds of `1-02:03:04` or `3:04.05`.

    >>> _seconds("1-02:03:04"), _seconds("3:04.5")
    (93784.0, 184.5)
    """
    days, _, rest = clock.rpartition("-")
    total = 0.0
    for digits in rest.split(":"):
        total = total * 60 + float(digits)
    return total + 86400 * int(days or 0)


WINDOW_S = 5.0
"""Seconds over which the growth of CPU time counts at most: what was done or not done before says nothing."""

EVERY_S = 1.0
"""Seconds between two looks at the CPU time."""

BUSY = 0.02
"""Least part of a core that a Python process at work takes, over a few seconds."""


class Rate:
    """A check whether a sum of CPU seconds grows by more than `part` of a core, over a second or more."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._from, self._since = 0.0, time.monotonic()

    def is_busy(self, cpu: float) -> bool:
        """Return whether the sum, now `cpu`, grew that fast since the growth was last counted anew.

        It is counted anew after each call that returns True, after `WINDOW_S`, and once the sum shrinks, as
        it does when processes end.
        """
        now = time.monotonic()
        if cpu < self._from:
            self._from, self._since = cpu, now
            return False
        busy = cpu - self._from > self._share * max(now - self._since, EVERY_S)
        if busy or now - self._since > WINDOW_S:
            self._from, self._since = cpu, now
        return busy
