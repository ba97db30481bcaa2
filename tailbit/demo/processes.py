"""The processes that the demo starts: each in a group of its own, so that none outlives it.

A process of Spark is two, Python and Java; signals go to the group.
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
"""In a run of a minute the optimising compiler costs more than it gives back: Spark scans sooner too."""


class DemoError(TailbitError):
    """A process of the demo ended by itself."""

    template = "the {name} ended with status {status}:\n{tail}"
    hint = "Its whole output is in {log}; keep it with --folder."


@contextlib.contextmanager
def signals_wait() -> Iterator[None]:
    """A signal that comes while a process is started is obeyed once somebody will see to that process's end.

    Only handlers are put off, which a new process does not inherit, as it would a mask.
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
    """A process of this program in its own process group; what it says goes to a log file."""

    def __init__(self, name: str, log: Path, arguments: list[str], talks: bool = False) -> None:
        self.name, self.log = name, log
        pipe = subprocess.PIPE if talks else None
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=pipe or subprocess.DEVNULL,
                stdout=pipe or out,
                stderr=out,
                env=os.environ | {"JDK_JAVA_OPTIONS": _QUICK_JAVA},
                start_new_session=True,
            )

    def check(self) -> None:
        """Pass while the process lives.

        Raises:
            DemoError: it ended.
        """
        status = self.process.poll()
        if status is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise DemoError(name=self.name, status=status, tail=tail, log=str(self.log))

    def kill(self) -> None:
        """SIGKILL to the whole group: nothing is flushed, nothing is said."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float) -> int | None:
        """SIGTERM; the exit status, or None where it had to be killed after `seconds`."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Writer(Child):
    """The writer, which answers one JSON line to each."""

    def __init__(self, table: str, log: Path) -> None:
        super().__init__("writer", log, ["tailbit.demo.writer", table], talks=True)
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def ask(self, do: str, **arguments: Any) -> None:
        """Send a command; its answer will be in `answers`.

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
