"""Indexes made, dropped and rebuilt beside a stream: `python -m support.load.definitions`, in folder tests.

A writer, a process of its own, appends to one table at a fixed rate, and the shipped indexer follows. Every
few seconds a random CREATE INDEX, DROP INDEX or REBUILD of any kind is carried out. Ten times a second the
lag is looked at. With `--kills` the indexer and its Java are killed at random moments and started again; the
lag from a kill until the index has caught up stands by itself. In the end every index must be whole and
sound, with the counts that DuckDB has. Exit status 1 where anything is not.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from deltalake import write_deltalake
from numpy.random import default_rng
from rich.console import Console

from support.load.statements import Statements, unfinished, wrong
from support.load.writer import ROWS, Appender, rows
from support.marks import reported
from support.shipped import Shipped, covered_by
from tailbit.checkpoints.lag import Backlog
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table

MARKS = ("<!-- definitions: begin -->", "<!-- definitions: end -->")
MARKS_WITH_KILLS = ("<!-- definitions with kills: begin -->", "<!-- definitions with kills: end -->")

LOOK_S = 0.1
"""Pause between looks at the lag: how often is measured, not a wait for something."""

MOST_S = 0.5
"""The promised 99th percentile of the lag, of a machine that does nothing else."""


@dataclass
class LagGauge:
    """Lags in seconds, each of a look, in a thread; `after_kills`: those until the index had caught up."""

    shipped: Shipped
    lags: list[float] = field(default_factory=list)
    after_kills: list[float] = field(default_factory=list)
    killed: bool = False

    def __post_init__(self) -> None:
        self.index, self.table = MetadataTable.open(self.shipped.index), open_table(self.shipped.table)
        self._backlog, self._ended = Backlog(self.table), threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> LagGauge:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(LOOK_S):
            lags = self.after_kills if self.killed else self.lags
            self.index.refresh()
            lag = self._backlog.lag(covered_by(self.index), self.table.head()).seconds
            lags.append(lag)

    @contextmanager
    def after_a_kill(self) -> Iterator[None]:
        """Put the lags of the block by themselves."""
        self.killed = True
        try:
            yield
        finally:
            self.killed = False


@dataclass
class Beside:
    """What goes on beside the stream while the writer writes: statements and, if `kills`, kills."""

    shipped: Shipped
    statements: Statements
    gauge: LagGauge
    rng: random.Random
    pace_s: float
    kills: int = 0

    def act_until_written(self, writer: subprocess.Popen[str], kill_every: float, console: Console) -> None:
        """Act until the writer has ended; a kill comes every `kill_every` seconds or so, or never for 0."""
        began = time.monotonic()
        next_kill = self._next(began, kill_every)
        while writer.poll() is None:
            done = self.statements.act()
            recent = self.gauge.lags[-50:] or [0.0]
            console.print(
                f"{time.monotonic() - began:5.0f} s  {done:20} most lag of late {max(recent):5.2f} s",
                highlight=False,
                soft_wrap=True,
            )
            time.sleep(self.rng.uniform(0, 2 * self.pace_s))
            if kill_every and time.monotonic() >= next_kill:
                self._kill()
                next_kill = self._next(time.monotonic(), kill_every)

    def _next(self, now: float, every: float) -> float:
        return now + self.rng.uniform(0.5, 1.5) * every

    def _kill(self) -> None:
        """Kill the command, Java and workers, start it again, and return once it has caught up."""
        with self.gauge.after_a_kill():
            self.shipped.kill_group()
            self.kills += 1
            self.shipped.start()
            self.shipped.wait(lambda: self.shipped.covered() >= self.gauge.table.head())


def main() -> int:
    """Load as the command line says."""
    given = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        shipped = Shipped(f"{folder}/events", Path(folder, "output"))
        rng = default_rng(given.seed)
        appender = None
        for _ in range(given.files):
            if appender is None:
                write_deltalake(shipped.table, rows(rng), mode="append")
                appender = Appender(shipped.table)
            else:
                appender.append(rows(rng))
        shipped.start("--columns", "k")
        try:
            shipped.wait_covered(given.files - 1)
            cells, problems = _load(given, shipped)
        finally:
            shipped.kill_group()
            if given.keep is not None:
                given.keep.write_bytes(shipped.output.read_bytes())
    return reported(cells, problems, given.record, *(MARKS_WITH_KILLS if given.kill_every else MARKS))


def _load(given: argparse.Namespace, shipped: Shipped) -> tuple[dict[str, object], list[str]]:
    """Write, act and look on; return the figures, and what is wrong in the end."""
    statements, began = Statements(shipped.table, random.Random(given.seed)), time.monotonic()
    with LagGauge(shipped) as gauge:
        beside = Beside(shipped, statements, gauge, random.Random(-given.seed), given.pace)
        commits = _written(given, beside)
    ended = time.monotonic()
    statements.rebuild_deferred()
    shipped.wait(lambda: not unfinished(shipped.table))
    filled_s = time.monotonic() - ended
    shipped.wait(lambda: shipped.covered() >= gauge.table.head())
    status = shipped.terminate()
    problems = [] if status == 0 else [f"exit status {status} after SIGTERM"]
    wanted = (given.files + commits) * ROWS
    problems += wrong(shipped.table, list(statements.existing.values()), wanted)
    p99 = percentiles(gauge.lags)[98]
    if p99 > MOST_S and not given.kill_every:
        problems.append(f"lag p99 {p99:.2f} s; {MOST_S} s is promised of a machine that does nothing else")
    return _cells(given, beside, commits, ended - began, filled_s), problems


def _written(given: argparse.Namespace, beside: Beside) -> int:
    """Let the writer write, and act beside it; return how many commits it made."""
    arguments = [beside.shipped.table, str(given.seed + 1), str(given.rate), str(given.seconds)]
    writer = subprocess.Popen(
        [sys.executable, "-m", "support.load.writer", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        beside.act_until_written(writer, given.kill_every, Console(stderr=True))
        return int(writer.communicate()[0])
    finally:
        writer.kill()


def _cells(
    given: argparse.Namespace, beside: Beside, commits: int, seconds: float, filled_s: float
) -> dict[str, object]:
    statements, gauge = beside.statements, beside.gauge
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date(),
        "seed": given.seed,
        "minutes": f"{seconds / 60:.0f}",
        "commits": f"{commits:,}",
        "a second": f"{commits / seconds:.1f}",
        "files at the end": f"{given.files + commits:,}",
        **{f"{word}s": statements.done[word] for word in ("CREATE", "DROP", "REBUILD")},
        "slowest statement s": f"{statements.slowest_s:.2f}",
        "lag s: median, p95, p99, most": in_short(gauge.lags),
        "the last filled after s": f"{filled_s:.1f}",
        "kills": beside.kills,
        "lag after kills": in_short(gauge.after_kills),
        "load of the machine": f"{os.getloadavg()[2]:.1f}",
    }


def percentiles(lags: list[float]) -> list[float]:
    return quantiles(lags, n=100, method="inclusive")


def in_short(lags: list[float]) -> str:
    """Return median, 95th and 99th percentile and maximum of some lags as text."""
    if len(lags) < 2:
        return "none"
    cuts = percentiles(lags)
    return ", ".join(f"{lag:.2f}" for lag in (cuts[49], cuts[94], cuts[98], max(lags)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.load.definitions", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=2, help="commits a second")
    parser.add_argument("--files", type=int, default=2, help="files of the table before, one or more")
    parser.add_argument("--pace", type=float, default=4, help="seconds between two statements, on average")
    parser.add_argument("--kill-every", type=float, default=0, help="seconds between two kills; 0 for none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a sound run there")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="where to keep what the indexer said")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
