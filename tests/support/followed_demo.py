"""A demo with tables of a format that another library writes: what the demos of such formats share.

`tailbit run --config` follows the tables while they change, is killed with SIGKILL right after a change, and
started again. At the end the index, and the rows that the other library reads at each version, which DuckDB
counts, answer the same questions.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import duckdb
import pyarrow as pa

import tailbit
from demo.processes import Child, DemoError, signals_wait
from demo.run import console
from demo.screen import comparison
from support.waiting import wait_until

KILLED_AFTER = 5
"""The number of the step after which the indexer is killed."""


class Demo(ABC):
    """One run: the tables, and the process that follows them.

    `questions`: conditions, of which one asks a column without an index, too. `writer`: what changes the
    tables. `versions`: what a version is called. `truth`: whose rows are compared with. `pause_s`: seconds
    between two steps, so that a person can watch.
    """

    questions: ClassVar[Sequence[str]]
    writer: ClassVar[str]
    versions: ClassVar[str]
    truth: ClassVar[str]
    pause_s: ClassVar[float]

    def __init__(self, folder: Path) -> None:
        self.folder, self.console, self.started = folder, console(), time.monotonic()
        self.names = self.make()
        self.indexer: Child | None = None

    @abstractmethod
    def make(self) -> Sequence[str]:
        """Make the tables; return their names."""

    @abstractmethod
    def configuration(self) -> str:
        """Return the configuration of the application that follows them."""

    @abstractmethod
    def steps(self) -> Iterator[Sequence[str]]:
        """Change the tables step by step; yield what each step did."""

    @abstractmethod
    def opened(self, name: str) -> tailbit.IndexedTable:
        """Open a table."""

    @abstractmethod
    def rows(self, name: str) -> Iterator[tuple[str, pa.Table]]:
        """Yield the versions of a table, each with its rows as the other library reads them."""

    def run(self) -> int:
        """Make the changes, follow them, and compare the answers; return 0 if all are equal."""
        (self.folder / "tailbit.toml").write_text(self.configuration())
        try:
            for number, events in enumerate(self.steps()):
                for event in events:
                    self._say(self.writer, event)
                if number == KILLED_AFTER and self.indexer is not None:
                    self.indexer.kill()
                    self._say("indexer", "killed with SIGKILL")
                if number in (1, KILLED_AFTER):
                    self._start()
                if number == KILLED_AFTER - 1:
                    self._wait()
                time.sleep(self.pause_s)
            self._wait()
        finally:
            if self.indexer is not None:
                self.indexer.kill()
        equal = [check(name) for name in self.names for check in (self._ask, self._verify)]
        verdict = "every answer equal" if all(equal) else "NOT EQUAL: see above"
        self.console.print(f"\n{verdict}, {time.monotonic() - self.started:.0f} s in all", style="bold")
        return 0 if all(equal) else 1

    def _start(self) -> None:
        arguments = ["tailbit.cli", "run", "--config", str(self.folder / "tailbit.toml")]
        with signals_wait():
            self.indexer = Child("indexer", self.folder / "indexer.log", arguments)
        self._say("indexer", f"started (process {self.indexer.process.pid})")

    def _wait(self) -> None:
        """Wait until all indexes cover what is there."""
        for name in self.names:
            version = wait_until(partial(self._covered, name))
            self._say("indexer", f"{name}: covered {version}")

    def _covered(self, name: str) -> str:
        """Return the newest version if the index covers it; empty if not yet."""
        assert self.indexer is not None
        self.indexer.check()
        answer = self.opened(name).where()
        return str(answer.version_name) if answer.covered_version == answer.version else ""

    def _ask(self, name: str) -> bool:
        """Ask each question at each version, and compare with the rows of the other library."""
        opened, versions, shown = self.opened(name), list(self.rows(name)), []
        equal = [
            opened.where(version=version).facets("city") == Counter(truth["city"].to_pylist())
            for version, truth in versions
        ]
        for question in self.questions:
            for version, truth in versions:
                started = time.perf_counter()
                mine = opened.where(question, version=version).count()
                took = time.perf_counter() - started
                equal.append(mine == counted(truth, question))
                mark = "[green]✓[/]" if equal[-1] else "[red]✗[/]"
                shown.append([question, version, f"{mine}", f"{1000 * took:.1f}", mark])
        self.console.print(f"\n{name}: {len(shown)} answers beside those of {self.truth}")
        many = len(versions)
        shown = [row for n, row in enumerate(shown) if n % many in (many // 2, many - 1)]
        self.console.print(comparison(("question", self.versions, "rows", "ms", "equal"), shown))
        return all(equal)

    def _verify(self, name: str) -> bool:
        report = self.opened(name).verify()
        said = "sound" if report.sound else "NOT SOUND"
        self.console.print(
            f"{name}: verify: {report.postings} postings, {report.positions} positions: {said}"
        )
        return report.sound

    def _say(self, who: str, event: str) -> None:
        line = f"{time.monotonic() - self.started:6.1f} s  {who:<{max(8, len(self.writer))}} {event}"
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def counted(rows: pa.Table, condition: str) -> int:
    with duckdb.connect() as engine:
        engine.register("rows_read", rows)
        [(found,)] = engine.sql(f"SELECT count(*) FROM rows_read WHERE {condition}").fetchall()
    return int(found)


def main(demo: type[Demo], description: str | None) -> None:
    """Run a demo as a command; exit with 0 if every answer is equal and the indexes are sound."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--folder", type=Path, required=True, help="where the tables go; emptied first")
    folder: Path = parser.parse_args().folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    try:
        sys.exit(demo(folder).run())
    except DemoError as ended:
        sys.exit(ended.describe())
