"""The load as a command: `python -m support.load --seconds 600`, in the folder tests.

Writers, each a process, append to one table at a fixed rate while the shipped indexer follows. Then it is all
killed and started again, and the time until it covers a new commit is taken. In the end the index must hold
every row once. Prints a row of figures; exit status 1 where the index is not right or does not keep up.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

from deltalake import DeltaTable, write_deltalake
from numpy.random import default_rng
from rich.console import Console

import tailbit
from support.load.gauge import Gauge
from support.load.past import make_past
from support.load.writer import ROWS, rows
from support.marks import reported
from support.shipped import Shipped
from support.waiting import wait_until

BEGIN, END = "<!-- load: begin -->", "<!-- load: end -->"

LOOK_S = 1.0
"""Pause between looks: how often is measured, not a wait for something."""


def main() -> int:
    """Load as the command line says."""
    asked = _arguments()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/events"
        for seed in range(2):
            write_deltalake(table, rows(default_rng(seed)), mode="append")
        shipped = Shipped(table, Path(folder, "output"))
        past = make_past(table, shipped.index, ["k", "v"], asked.behind) if asked.behind else 0
        shipped.start("--columns", "k,v")
        try:
            shipped.wait_covered(1 + past)
            gauge = Gauge(shipped)
            commits = _write(table, asked, gauge, console)
            lagging = time.monotonic()
            wait_until(lambda: gauge.covered() >= gauge.table.head(), shipped.death)
            drained = time.monotonic() - lagging
            records = gauge.index.version
            recovery = _recovery(table, shipped)
            status = shipped.terminate()
        finally:
            shipped.kill_group()
        cells = _cells(asked, gauge, commits, past, records, drained, recovery)
        findings = _findings(table, gauge, past + commits, status)
    return reported(cells, findings, asked.record, BEGIN, END)


def _write(table: str, asked: argparse.Namespace, gauge: Gauge, console: Console) -> int:
    """Let the writers write, and look on; how many commits they made."""
    each = str(asked.rate / asked.writers)
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", "support.load.writer", table, str(seed), each, str(asked.seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in range(2, 2 + asked.writers)
    ]
    try:
        while any(writer.poll() is None for writer in writers):
            found = gauge.look()
            console.print(
                f"{found.at:5.0f} s  {found.versions:4} versions behind, {found.lag_s:5.2f} s;"
                f" MB {found.driver_mb:.0f}, Java {found.java_mb:.0f}, workers {found.workers_mb:.0f};"
                f" {found.handles} handles, {found.files} files",
                highlight=False,
                soft_wrap=True,
            )
            time.sleep(LOOK_S)
        told = [writer.communicate()[0] for writer in writers]
        if any(writer.returncode for writer in writers):
            raise RuntimeError("a writer has failed: see above")
        return sum(map(int, told))
    finally:
        for writer in writers:
            writer.kill()


def _recovery(table: str, shipped: Shipped) -> float:
    """Seconds from the start after a SIGKILL of everything until a commit made meanwhile is covered."""
    shipped.kill_group()
    write_deltalake(table, rows(default_rng(1)), mode="append")
    began = shipped.start()
    shipped.wait_covered(DeltaTable(table).version())
    return time.monotonic() - began


def _findings(table: str, gauge: Gauge, commits: int, status: int) -> list[str]:
    opened, wanted = tailbit.open(table), (commits + 3) * ROWS
    answer = opened.where("k >= 0")
    found = [] if status == 0 else [f"exit status {status} after SIGTERM"]
    if (answer.count(), answer.files_scanned) != (wanted, 0):
        found.append(f"{answer.count()} rows, {answer.files_scanned} files scanned; {wanted} were written")
    found += [f"verify: {problem}" for problem in opened.verify().problems]
    early, late = gauge.between(lambda sample: sample.lag_s)
    if late > 2 * early + 1:
        found.append(f"the lag grows: median {early:.1f} s in the second tenth, {late:.1f} s in the last")
    return found


def _cells(
    asked: argparse.Namespace,
    gauge: Gauge,
    commits: int,
    past: int,
    records: int,
    drained: float,
    recovery: float,
) -> dict[str, object]:
    lags = [sample.lag_s for sample in gauge.samples]
    seconds = gauge.samples[-1].at
    changes = {
        "MB of the command": gauge.between(lambda s: s.driver_mb),
        "of Java": gauge.between(lambda s: s.java_mb),
        "of workers": gauge.between(lambda s: s.workers_mb),
        "open files": gauge.between(lambda s: s.handles),
    }
    p99 = quantiles(lags, n=100, method="inclusive")[98]
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date(),
        "minutes": f"{seconds / 60:.0f}",
        "writers": asked.writers,
        "commits before": f"{past:,}",
        "commits": f"{commits:,}",
        "a second (asked)": f"{commits / seconds:.1f} ({asked.rate:g})",
        "lag s: median, p99, most": f"{median(lags):.2f}, {p99:.2f}, {max(lags):.2f}",
        "drained after s": f"{drained:.1f}",
        **{name: f"{first:.0f} → {last:.0f}" for name, (first, last) in changes.items()},
        "files of the index, most": max(sample.files for sample in gauge.samples),
        "commits of the index": f"{records:,}",
        "recovery after SIGKILL s": f"{recovery:.1f}",
    }


def _long_enough(text: str) -> float:
    seconds = float(text)
    if seconds < 60:
        raise argparse.ArgumentTypeError("in less than a minute nothing can be seen to grow")
    return seconds


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.load", description=__doc__)
    parser.add_argument("--seconds", type=_long_enough, default=600, help="60 or more")
    parser.add_argument("--rate", type=float, default=20, help="commits a second of all writers together")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument(
        "--behind", type=int, default=0, help="commits of the index before the load, each of one of the table"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a sound run there")
    return parser.parse_args()
