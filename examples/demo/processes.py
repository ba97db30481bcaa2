"""The processes that the demo starts, each in its own process group, so that none outlives the demo.

A Spark process consists of two, Python and Java, so signals are sent to the group.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from tailbit.errors import TailbitError

_QUICK_JAVA = "-XX:TieredStopAtLevel=1 " + os.environ.get("JDK_JAVA_OPTIONS", "")
"""JVM options: in a run of a minute the optimising compiler costs more than it saves."""

_PATHS = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))))
"""Where a process finds this package, from any folder."""


class DemoError(TailbitError):
    """A process of the demo ended by itself."""

    template = "the {name} ended with status {status}:\n{tail}"
    hint = "Its whole output is in {log}; keep it with --folder."


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """Defer signals while a process is started, until that process can be cleaned up.

    Handlers are deferred rather than signals masked, because a new process would inherit a mask.
    """
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    handlers = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for waiting in came:
        signal.raise_signal(waiting)


class Child:
    """A process of this program in its own process group; its output goes to a log file."""

    def __init__(self, name: str, log: Path, arguments: list[str], talks: bool = False) -> None:
        self.name, self.log = name, log
        pipe = subprocess.PIPE if talks else None
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=pipe or subprocess.DEVNULL,
                stdout=pipe or out,
                stderr=out,
                env=os.environ | {"JDK_JAVA_OPTIONS": _QUICK_JAVA, "PYTHONPATH": _PATHS},
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise if the process has ended.

        Raises:
            DemoError: the process has ended.
        """
        status = self.process.poll()
        if status is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise DemoError(name=self.name, status=status, tail=tail, log=str(self.log))

    def kill(self) -> None:
        """Send SIGKILL to the whole group: nothing is flushed."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float) -> int | None:
        """Send SIGTERM; return the exit status, or None if the process had to be killed after `seconds`."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Writer(Child):
    """The writer process, which answers each command with one JSON line."""

    def __init__(self, table: str, log: Path) -> None:
        super().__init__("writer", log, ["demo.writer", table], talks=True)
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, do: str, **arguments: Any) -> None:
        """Send a command; the answer will arrive in `answers`.

        Raises:
            DemoError: the writer is gone.
        """
        self.check()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self.process.stdin.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(json.loads(line))
