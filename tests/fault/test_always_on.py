"""The shipped command goes on through what passes by itself, and leaves no process behind when it ends."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import write_deltalake

import tailbit
from support.profiles import variants
from support.shipped import JUMPS, Shipped
from support.tables import rows, three_commits
from support.waiting import HANG_S

pytestmark = pytest.mark.spark


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Shipped]:
    """The command at work; it covers three versions."""
    found = Shipped(three_commits(str(tmp_path / "orders")), tmp_path / "output", jumping=JUMPS)
    # Tests that were started with nohup are deaf to it, and so would be what they start.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    found.start("--columns", "k,v")
    signal.signal(signal.SIGHUP, before)
    try:
        found.wait(lambda: found.covered() == 2)
        yield found
    finally:
        found.kill_group()


@pytest.mark.parametrize("ending", variants([signal.SIGTERM, signal.SIGHUP], 1), ids=lambda s: s.name)
def test_a_command_goes_on_when_workers_die_the_table_vanishes_and_the_clock_jumps_and_ends_whole_on_a_signal(
    run: Shipped, ending: signal.Signals
) -> None:
    run.wait(lambda: run.told() and run.told()[-1].get("idle"))
    run.kill(run.descendants("python"))
    write_deltalake(run.table, rows(30), mode="append")
    run.wait(lambda: run.covered() == 3)
    os.rename(run.table, f"{run.table}.away")
    run.wait(lambda: "tried again in" in run.told()[-1].get("notice", ""))
    os.rename(f"{run.table}.away", run.table)
    write_deltalake(run.table, rows(40), mode="append")
    run.wait(lambda: run.covered() == 4)
    commits = 0
    for hours in (30, -30) if JUMPS else ():
        run.jump(hours)
        while abs(_committed_at(run) - time.time() - 3600 * hours) > 3600:
            write_deltalake(run.table, rows(50), mode="append")
            commits += 1
            run.wait_covered(4 + commits)
    run.descendants("")
    os.killpg(run.process.pid, ending)
    assert run.process.wait(HANG_S) == 0
    run.wait_gone()
    assert not [s for s in run.output.read_text().splitlines() if s.startswith("Traceback")]
    opened = tailbit.open(run.table)
    assert opened.verify(derive=9).problems == []
    assert (opened.where("k >= 0").count(), opened.where("k >= 0").files_scanned) == (50 + 10 * commits, 0)


def _committed_at(run: Shipped) -> float:
    """When the newest commit of the index was made, in seconds since 1970 by the clock of the command."""
    newest = max(Path(run.index, "_delta_log").glob("*.json"))
    adds = [line["add"] for line in map(json.loads, newest.read_text().splitlines()) if "add" in line]
    return float(max((add["modificationTime"] for add in adds), default=0)) / 1000


def test_no_java_and_no_worker_outlives_a_command_that_was_killed(run: Shipped) -> None:
    run.kill_alone()
    run.wait_gone()
