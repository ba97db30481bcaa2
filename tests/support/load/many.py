"""The load of an application: `python -m support.load.many --tables 20 --seconds 1200`, in the folder tests.

One writer appends to tables at random, at one rate for all, while `tailbit run --config` follows. Lag of a
commit: from the return of the writer to the line that says that it is covered. Memory is the proportional set
size of the command and all that it started. In the end each index must hold every row once. Prints a row of
figures; exit status 1 where an index is not right or a commit was never told of, and, once the row is
recorded, where lag or memory are above their limits.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import sys
import tempfile
import time
from bisect import bisect_left
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import psutil
from deltalake import write_deltalake

import tailbit
from support.application import Application
from support.load.writer import ROWS, Appender, rows
from support.marks import reported

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"

SAMPLE_S = 5.0
"""Seconds between two looks at the memory."""

PARTS = ("command", "Java", "workers")
"""What the processes of an application are, in the order of the figures of their memory."""

SEEN = (1, 4, 9)
"""The tenths of the time whose memory is reported."""


Memory = npt.NDArray[np.float64]
"""Megabytes of the parts of the application, and of all together."""


class Commit(NamedTuple):
    """A commit of the writer, and when it was there, by the clock that all processes share."""

    table: str
    version: int
    at: float


class Told:
    """The lines of the application, read as they come: when each version of each table was covered."""

    def __init__(self, application: Application, names: list[str]) -> None:
        self._lines = application.said.open("rb")
        self._part = b""
        self.covered: dict[str, list[tuple[int, float]]] = {name: [] for name in names}

    def read(self) -> None:
        """Read what has come since."""
        now, lines = time.monotonic(), (self._part + self._lines.read()).split(b"\n")
        self._part = lines.pop()
        for line in lines:
            told = orjson.loads(line) if line.startswith(b"{") else {}
            if told.get("covered_version") is not None:
                self.covered[Path(told["table"]).name].append((told["covered_version"], now))

    def lag(self, commit: Commit) -> float | None:
        """The lag of a commit; None if it is not covered yet."""
        told = self.covered[commit.table]
        place = bisect_left(told, (commit.version, 0.0))
        return max(0.0, told[place][1] - commit.at) if place < len(told) else None


class Load:
    """Commits to tables at random, and what is seen of the application meanwhile."""

    def __init__(self, application: Application, names: list[str], asked: argparse.Namespace) -> None:
        self._application, self._asked = application, asked
        self._chance, self._rng = random.Random(asked.seed), np.random.default_rng(asked.seed)
        self._writers = {name: Appender(application.table(name)) for name in names}
        self.told = Told(application, names)
        self.commits: list[Commit] = []
        self.memory: list[tuple[float, ...]] = []
        self._appended = dict.fromkeys(names, 0)
        self.cpu = 0.0

    def run(self) -> None:
        """Write for as long as asked, then wait until all is covered."""
        began = due = time.monotonic()
        before, sampled = self._cpu(), began
        while (now := time.monotonic()) < began + self._asked.seconds:
            self.told.read()
            if now >= due:
                name = self._chance.choice(list(self._writers))
                self.commits.append(Commit(name, self._written(name), time.monotonic()))
                due = max(due + 1 / self._asked.rate, now - 1.0)
            if now >= sampled:
                self.memory.append(self._memory_mb())
                sampled = now + SAMPLE_S
            time.sleep(max(0.0, min(0.01, due - time.monotonic())))
        self.seconds = time.monotonic() - began
        self.cpu = (self._cpu() - before) / self.seconds
        while any(self.told.lag(commit) is None for commit in self.commits[-len(self._writers) * 20 :]):
            if time.monotonic() > began + self.seconds + 120 or self._application.death():
                return
            self.told.read()
            time.sleep(0.01)

    def _written(self, name: str) -> int:
        """Commit to a table: rows, or its small files made one where it has as many as asked for."""
        self._appended[name] += 1
        if self._asked.compact and self._appended[name] % self._asked.compact == 0:
            return self._writers[name].compact()
        return self._writers[name].append(rows(self._rng))

    def rows_of(self, name: str) -> int:
        """How many rows a table has in the end."""
        compacted = self._appended[name] // self._asked.compact if self._asked.compact else 0
        return ROWS * (1 + self._appended[name] - compacted)

    def _memory_mb(self) -> tuple[float, ...]:
        """Return the memory of the command, of Java, and of the workers that Java started."""
        command, *started = self._application.processes()
        sums = dict.fromkeys(PARTS, 0.0) | {"command": command.memory_full_info().pss / 1e6}
        for process in started:
            with suppress(psutil.NoSuchProcess):
                part = "Java" if process.name() == "java" else "workers"
                sums[part] += process.memory_full_info().pss / 1e6
        return tuple(sums.values())

    def _cpu(self) -> float:
        """CPU seconds of the application; what a process that has ended took is counted by its parent."""
        total = 0.0
        for process in self._application.processes():
            with suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])
        return total


def main() -> int:
    """Load as the command line says."""
    asked = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        names = [f"t{number}" for number in range(asked.tables)]
        application = Application(Path(folder))
        application.configure(*names)
        for name in names:
            write_deltalake(application.table(name), rows(np.random.default_rng(0)))
        application.start("--json")
        try:
            application.wait_for_head(*names)
            load = Load(application, names, asked)
            load.run()
            findings = _findings(application, load, names)
        finally:
            application.end_of_test()
    cells, missed = _cells(asked, load), _missed(asked, load)
    status = reported(cells, findings, asked.record, BEGIN, END)
    print("\n".join(missed))
    return 1 if missed else status


def _findings(application: Application, load: Load, names: list[str]) -> list[str]:
    """Whatever is not as it must be; ends the application."""
    found = [f"never told of: {commit}" for commit in load.commits if load.told.lag(commit) is None][:5]
    status = application.end()
    found += [f"exit status {status} after SIGTERM"] * bool(status)
    for name in names:
        opened = tailbit.open(application.table(name))
        answer = opened.where("v >= ''")
        wanted = load.rows_of(name)
        if (answer.count(), answer.files_scanned) != (wanted, 0):
            found.append(
                f"{name}: {answer.count()} rows, {wanted} written; {answer.files_scanned} files scanned"
            )
        found += [f"{name}: {problem}" for problem in opened.verify().problems]
    return found


def _missed(asked: argparse.Namespace, load: Load) -> list[str]:
    """Whatever is above its limit."""
    p99 = _p99(_lags(load))
    missed = [f"lag: p99 of {p99:.2f} s, at most {asked.p99:g} asked"] * (p99 > asked.p99)
    *_, middle, end = (float(seen[-1]) for seen in _memory_seen(load)[1])
    if end > middle * (1 + asked.growth / 100):
        missed.append(f"memory: {middle:.0f} → {end:.0f} MB from the fifth to the last tenth")
    return missed


def _lags(load: Load) -> list[float]:
    return [lag for commit in load.commits if (lag := load.told.lag(commit)) is not None]


def _memory_seen(load: Load) -> tuple[Memory, list[Memory]]:
    """Return all samples of the memory with their sum as last column, and medians of tenths of the time."""
    parts = np.array(load.memory)
    memory = np.column_stack([parts, parts.sum(axis=1)])
    tenths = np.array_split(memory, 10) if len(memory) >= 10 else [memory] * 10
    return memory, [np.median(tenths[number], axis=0) for number in SEEN]


def _cells(asked: argparse.Namespace, load: Load) -> dict[str, object]:
    lags, (memory, seen) = _lags(load), _memory_seen(load)
    parts_and_all = [" → ".join(f"{mb:.0f}" for mb in part) for part in np.transpose(seen)]
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date(),
        "seed": asked.seed,
        "minutes": f"{load.seconds / 60:.0f}",
        "tables": asked.tables,
        "commits": f"{len(load.commits):,}",
        "a second (asked)": f"{len(load.commits) / load.seconds:.1f} ({asked.rate:g})",
        "lag s: median, p99, most": f"{median(lags):.2f}, {_p99(lags):.2f}, {max(lags):.2f}",
        "compacted after": f"{asked.compact or 'never'}",
        f"MB of {', '.join(PARTS)}, all: second, fifth, last tenth": ", ".join(parts_and_all),
        "MB of all, most": f"{memory[:, -1].max():.0f}",
        "cores": f"{load.cpu:.2f}",
        "load of the machine, cores": f"{os.getloadavg()[2]:.1f}, {psutil.cpu_count()}",
    }


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m support.load.many", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--rate", type=float, default=20, help="commits a second to all tables together")
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument(
        "--compact",
        type=int,
        default=200,
        metavar="N",
        help="each N-th commit of a table makes its files one; 0: none",
    )
    parser.add_argument(
        "--p99", type=float, default=1.0, help="most seconds of the 99th percentile of the lag"
    )
    parser.add_argument(
        "--growth", type=float, default=3.0, help="most per cent that memory grows from the middle to the end"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the result of a sound run there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
