"""The shipped command `tailbit run` as a process that can be killed in every way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from support.waiting import HANG_S, wait_until
from tailbit.errors import TailbitError
from tailbit.index.store.table import MetadataTable

_FAKETIME = find_spec("libfaketime")
"""A library to preload, which stands between a process and the clock; there is one for Linux on x86-64."""

FAKETIME = (
    None
    if _FAKETIME is None or _FAKETIME.origin is None
    else Path(_FAKETIME.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
)
"""The library itself."""

JUMPS = FAKETIME is not None
"""Whether a clock can be let jump here."""

TOLD = 2000
"""Characters of the end of the output that a finding quotes."""


@dataclass
class Shipped:
    """One command at a time on one table, in a session of its own; all that it says goes to one file.

    `jumping`: its Python processes go by a clock that jumps when told to; Java goes by the machine's.
    """

    table: str
    output: Path
    jumping: bool = False
    process: subprocess.Popen[bytes] = field(init=False)
    _started: dict[int, psutil.Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.jumping:
            self.jump(0)

    @property
    def index(self) -> str:
        return f"{self.table}/_tailbit"

    def start(self, *arguments: str, fault: str | None = None) -> float:
        """Start it; `fault` as in TAILBIT_FAULT. The time at which it was started."""
        environment = self.environment() | ({} if fault is None else {"TAILBIT_FAULT": fault})
        with self.output.open("ab") as to:
            self.process = subprocess.Popen(
                self.command(*arguments), env=environment, stdout=to, stderr=to, start_new_session=True
            )
        return time.monotonic()

    def environment(self) -> dict[str, str]:
        """What it is started with, but for a fault."""
        own = {name: value for name, value in os.environ.items() if name != "TAILBIT_FAULT"}
        return own | (self._clock_settings() if self.jumping else {})

    def jump(self, hours: int) -> None:
        """Let the clock be `hours` ahead of the machine's; its processes see it within a second."""
        new = self._clock.with_suffix(".new")
        new.write_text(f"{hours:+}h\n")
        new.replace(self._clock)

    @property
    def _clock(self) -> Path:
        return self.output.with_name(f"{self.output.name}.clock")

    def _clock_settings(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_SKIP_CMDS": "java",
            "NO_FAKE_STAT": "1",
        }

    def command(self, *arguments: str) -> list[str]:
        """The words of the command line."""
        return [sys.executable, "-m", "tailbit.cli", "run", self.table, "--json", *arguments]

    def covered(self) -> int:
        """The version that the index covers; -1 where there is none."""
        return covered(self.table)

    def wait_covered(self, version: int) -> None:
        """Return once a version is covered; the command must not end before."""
        self.wait(lambda: self.covered() >= version)

    def wait(self, what: Callable[[], Any]) -> Any:
        """What `what` gives, once that is true; the command must not end before."""
        return wait_until(what, self.death)

    def told(self) -> list[dict[str, Any]]:
        """Its lines of JSON."""
        lines = self.output.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def death(self) -> str | None:
        """What it said last, where it has ended."""
        if self.process.poll() is None:
            return None
        said = self.output.read_bytes()[-TOLD:].decode(errors="replace")
        return f"ended with {self.process.returncode}: {said}"

    def descendants(self, name: str) -> list[psutil.Process]:
        """Its live processes whose name begins so."""
        with suppress(psutil.Error):
            found = psutil.Process(self.process.pid).children(recursive=True)
            self._started.update({child.pid: child for child in found})
        return [process for process in self._started.values() if _lives(process) and _named(process, name)]

    def kill(self, processes: list[psutil.Process]) -> None:
        for process in processes:
            with suppress(psutil.Error):
                process.kill()

    def kill_group(self) -> None:
        """The command, Java and the workers die at once; one that has ended already is left in peace."""
        self.descendants("")
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(HANG_S)

    def kill_alone(self) -> None:
        """The command dies; Java and the workers must follow by themselves."""
        self.descendants("")
        self.process.kill()
        self.process.wait(HANG_S)

    def terminate(self) -> int:
        """SIGTERM; its exit status."""
        self.descendants("")
        self.process.terminate()
        return self.process.wait(HANG_S)

    def wait_gone(self) -> None:
        """Return once none of the processes that it started lives."""
        wait_until(lambda: not any(_lives(process) for process in self._started.values()))
        self._started.clear()


def covered(table: str) -> int:
    """The version that the index of a table covers; -1 where there is none."""
    try:
        return covered_by(MetadataTable.open(f"{table}/_tailbit"))
    except TailbitError:
        return -1


def covered_by(index: MetadataTable) -> int:
    """The version that an open index covers; -1 where there is none."""
    ledger = index.state.ledger
    return -1 if ledger is None or ledger.covered is None else ledger.covered


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _named(process: psutil.Process, name: str) -> bool:
    with suppress(psutil.Error):
        return bool(process.name().startswith(name))
    return False
