"""The demo with tables of Iceberg: pyiceberg writes them, and its own scan answers beside the index.

Two tables of an SQL catalog get a random commit each, one after the other: appends, deletes, overwrites, new
columns, rollbacks, branches, expired snapshots. `tailbit run` follows both by their names in the catalog, is
killed with SIGKILL right after a commit, and started again. At the end the index and what pyiceberg reads at
each snapshot, which DuckDB counts, answer the same questions. No second Spark is needed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
from pyiceberg.table import Table

import tailbit
from demo.processes import Child, DemoError, signals_wait
from demo.run import console
from demo.screen import comparison
from support.iceberg_catalog import TABLES, Sales, change
from support.waiting import wait_until

QUESTIONS = (
    "city = 'Lima' AND qty >= 2",
    "NOT qty = 3 AND city IS NULL",
    "city IN ('Oslo', 'Kyiv') AND k % 3 = 1",
)
"""Conditions; `k` is not indexed, so what is said of it stays as a residual filter."""
COMMITS, SEED = 14, 3
"""Commits of each table, and the seed of their kinds."""
KILLED_AFTER = 5
"""The number of the commit of each table after which the indexer is killed."""
PAUSE_S = 0.2
"""Seconds between two commits, so that a person can watch."""
CONFIGURATION = """\
[application]
name = "iceberg-demo"
checkpoint = "{folder}/checkpoint"
metrics = "off"
ui = false

[defaults]
idle_poll = "200ms"
storage_options = {{ "catalog.uri" = "{uri}" }}
"""
TABLE = """
[[table]]
id = "{name}"
path = "iceberg://prod/sales.{name}"
columns = ["city", "qty"]
"""


def main() -> int:
    """Run the demo; return 0 if every answer is equal and the indexes are sound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the tables go; emptied first")
    folder: Path = parser.parse_args().folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    return Demo(folder).run()


class Demo:
    """One run: the catalog with its tables, and the process that follows them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.console, self.started = folder, console(), time.monotonic()
        self.sales = Sales(folder / "lake")
        versions = TABLES.items()
        self.tables = {name: self.sales.create(name, **{"format-version": v}) for name, v in versions}
        self.indexer: Child | None = None

    def run(self) -> int:
        """Make the commits, follow them, and compare the answers."""
        text = CONFIGURATION.format(folder=self.folder, uri=self.sales.uri)
        text += "".join(TABLE.format(name=name) for name in self.tables)
        (self.folder / "tailbit.toml").write_text(text)
        rng = random.Random(SEED)
        try:
            for number in range(COMMITS):
                for name, table in self.tables.items():
                    self._say("pyiceberg", f"{name}: {change(table, rng, number)}, {head_of(table)}")
                if number == KILLED_AFTER and self.indexer is not None:
                    self.indexer.kill()
                    self._say("indexer", "killed with SIGKILL")
                if number in (1, KILLED_AFTER):
                    self._start()
                if number == KILLED_AFTER - 1:
                    self._wait()
                time.sleep(PAUSE_S)
            self._wait()
        finally:
            if self.indexer is not None:
                self.indexer.kill()
        checks = (self._ask, self._verify)
        equal = [check(name, table) for name, table in self.tables.items() for check in checks]
        verdict = "every answer equal" if all(equal) else "NOT EQUAL: see above"
        self.console.print(f"\n{verdict}, {time.monotonic() - self.started:.0f} s in all", style="bold")
        return 0 if all(equal) else 1

    def _start(self) -> None:
        arguments = ["tailbit.cli", "run", "--config", str(self.folder / "tailbit.toml")]
        with signals_wait():
            self.indexer = Child("indexer", self.folder / "indexer.log", arguments)
        self._say("indexer", f"started (process {self.indexer.process.pid})")

    def _wait(self) -> None:
        """Wait until both indexes cover the heads of their tables."""
        for name in self.tables:
            snapshot = wait_until(partial(self._covered, name))
            self._say("indexer", f"{name}: covered {snapshot}")

    def _opened(self, name: str) -> tailbit.IndexedTable:
        return tailbit.open(f"iceberg://prod/sales.{name}", storage_options=self.sales.options)

    def _covered(self, name: str) -> str:
        """Return the newest snapshot if the index covers it; empty if not yet."""
        assert self.indexer is not None
        self.indexer.check()
        answer = self._opened(name).where()
        return str(answer.version_name) if answer.covered_version == answer.version else ""

    def _ask(self, name: str, table: Table) -> bool:
        """Ask each question at each snapshot, and compare with the rows that pyiceberg reads."""
        opened, shown, equal = self._opened(name), [], []
        for snapshot in table.snapshots():
            truth = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
            version = str(snapshot.snapshot_id)
            cities = Counter(truth["city"].to_pylist())
            equal.append(opened.where(version=version).facets("city") == cities)
            for question in QUESTIONS:
                started = time.perf_counter()
                mine = opened.where(question, version=version).count()
                took = time.perf_counter() - started
                equal.append(mine == counted(truth, question))
                mark = "[green]✓[/]" if equal[-1] else "[red]✗[/]"
                shown.append([question, version, f"{mine}", f"{1000 * took:.1f}", mark])
        self.console.print(f"\n{name}: {len(shown)} answers beside those of pyiceberg's own scan")
        self.console.print(comparison(("question", "snapshot", "rows", "ms", "equal"), shown[-6:]))
        return all(equal)

    def _verify(self, name: str, table: Table) -> bool:
        report = self._opened(name).verify()
        said = "sound" if report.sound else "NOT SOUND"
        self.console.print(
            f"{name}: verify: {report.postings} postings, {report.positions} positions: {said}"
        )
        return report.sound

    def _say(self, who: str, event: str) -> None:
        line = f"{time.monotonic() - self.started:6.1f} s  {who:<9} {event}"
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def head_of(table: Table) -> str:
    """Return the id of the current snapshot."""
    snapshot = table.current_snapshot()
    return "no snapshot" if snapshot is None else f"snapshot {snapshot.snapshot_id}"


def counted(rows: pa.Table, condition: str) -> int:
    """Count the rows of a condition with DuckDB."""
    with duckdb.connect() as engine:
        engine.register("rows_read", rows)
        [(found,)] = engine.sql(f"SELECT count(*) FROM rows_read WHERE {condition}").fetchall()
    return int(found)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DemoError as ended:
        sys.exit(ended.describe())
