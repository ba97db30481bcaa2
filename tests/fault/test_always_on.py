"""The shipped command goes on through what passes by itself, and leaves no process behind when it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.profiles import variants
from support.waiting import HANG_S, wait_until
from tailbit.errors import TailbitError
from tailbit.index.store.table import MetadataTable

pytestmark = pytest.mark.spark


def rows(first: int) -> pa.Table:
    keys = list(range(first, first + 10))
    return pa.table({"k": pa.array(keys, pa.int64()), "v": [f"v{k % 3}" for k in keys]})


@dataclass
class Run:
    """`tailbit run` of a table in a session of its own, and every process that it ever started."""

    table: str
    process: subprocess.Popen[str]
    output: Path
    seen: dict[int, psutil.Process]

    def wait(self, what: Callable[[], Any]) -> None:
        """Return once `what` is true; the command must not end before."""
        wait_until(what, lambda: None if self.process.poll() is None else self.output.read_text()[-3000:])

    def children(self) -> list[psutil.Process]:
        found = psutil.Process(self.process.pid).children(recursive=True)
        self.seen.update({child.pid: child for child in found})
        return found

    def left(self) -> list[psutil.Process]:
        """The processes that it started and that live on."""
        alive = [p for p in self.seen.values() if p.is_running()]
        return [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]

    def told(self) -> list[dict[str, Any]]:
        lines = self.output.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def covered(self) -> int | None:
        try:
            ledger = MetadataTable.open(f"{self.table}/_tailbit").state.ledger
        except TailbitError:
            return None
        return None if ledger is None else ledger.covered


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    table, output = str(tmp_path / "orders"), tmp_path / "output"
    for first in (0, 10, 20):
        write_deltalake(table, rows(first), mode="append")
    command = [sys.executable, "-m", "tailbit.cli", "run", table, "--json", "--columns", "k,v"]
    # Tests that were started with nohup are deaf to it, and so would be what they start.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with output.open("w") as to:
        process = subprocess.Popen(command, stdout=to, stderr=to, text=True, start_new_session=True)
    signal.signal(signal.SIGHUP, before)
    found = Run(table, process, output, {})
    found.wait(lambda: found.covered() == 2)
    found.children()
    yield found
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("ending", variants([signal.SIGTERM, signal.SIGHUP], 1), ids=lambda s: s.name)
def test_a_command_goes_on_when_workers_die_and_the_table_vanishes_and_ends_whole_on_a_signal_to_its_group(
    run: Run, ending: signal.Signals
) -> None:
    run.wait(lambda: run.told() and run.told()[-1].get("idle"))
    for child in run.children():
        with suppress(psutil.Error):
            if child.name().startswith("python"):
                child.kill()
    write_deltalake(run.table, rows(30), mode="append")
    run.wait(lambda: run.covered() == 3)
    os.rename(run.table, f"{run.table}.away")
    run.wait(lambda: "tried again in" in run.told()[-1].get("notice", ""))
    os.rename(f"{run.table}.away", run.table)
    write_deltalake(run.table, rows(40), mode="append")
    run.wait(lambda: run.covered() == 4)
    run.children()
    os.killpg(run.process.pid, ending)
    assert run.process.wait(HANG_S) == 0
    wait_until(lambda: not run.left())
    assert not [s for s in run.output.read_text().splitlines() if s.startswith("Traceback")]
    opened = tailbit.open(run.table)
    assert opened.verify(derive=9).problems == []
    assert (opened.where("k >= 0").count(), opened.where("k >= 0").files_scanned) == (50, 0)


def test_no_java_and_no_worker_outlives_a_command_that_was_killed(run: Run) -> None:
    run.process.kill()
    run.process.wait()
    wait_until(lambda: not run.left())
