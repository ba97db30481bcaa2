"""What is measured of the command, its index and its lag while a load lasts."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil

from support.shipped import Shipped, covered_by
from tailbit.checkpoints.lag import Backlog
from tailbit.errors import TailbitError
from tailbit.index.store.table import MetadataTable
from tailbit.tables import Table, open_table

_MB = 1 << 20


class Sample(NamedTuple):
    """One look: seconds since the first, lag in versions and seconds, MB, open files, files of the index."""

    at: float
    versions: int
    lag_s: float
    driver_mb: float
    java_mb: float
    workers_mb: float
    handles: int
    files: int


@dataclass
class Gauge:
    """Looks at a running command; cost of a look follows what has changed since the one before."""

    shipped: Shipped
    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.index = MetadataTable.open(self.shipped.index)
        self.table: Table = open_table(self.shipped.table)
        self._backlog = Backlog(self.table)
        self.began = time.monotonic()

    def look(self) -> Sample:
        """Take a sample."""
        lag = self._backlog.lag(self.covered(), self.table.head())
        command = psutil.Process(self.shipped.process.pid)
        java, workers = self.shipped.descendants("java"), self.shipped.descendants("python")
        found = Sample(
            time.monotonic() - self.began,
            lag.versions,
            lag.seconds,
            _sum([command], _megabytes),
            _sum(java, _megabytes),
            _sum(workers, _megabytes),
            int(_sum([command, *java, *workers], lambda process: process.num_fds())),
            sum(1 for _ in Path(self.shipped.index).glob("kind=*/*")),
        )
        self.samples.append(found)
        return found

    def part(self, last: bool) -> list[Sample]:
        """The samples of the second tenth of the time, when all is warm, or of the last."""
        end = self.samples[-1].at
        low, high = (0.9 * end, end) if last else (0.1 * end, 0.2 * end)
        return [sample for sample in self.samples if low <= sample.at <= high] or self.samples[-1:]

    def between(self, of: Callable[[Sample], float]) -> tuple[float, float]:
        """The medians of the second tenth and of the last."""
        return median(map(of, self.part(last=False))), median(map(of, self.part(last=True)))

    def covered(self) -> int:
        """The version that the index covers."""
        with suppress(TailbitError):
            self.index.refresh()
        return covered_by(self.index)


def _megabytes(process: psutil.Process) -> float:
    """Its share of memory: what several processes share counts once in all."""
    return float(process.memory_full_info().pss) / _MB


def _sum(processes: list[psutil.Process], of: Callable[[psutil.Process], float]) -> float:
    found = 0.0
    for process in processes:
        with suppress(psutil.Error):
            found += of(process)
    return found
