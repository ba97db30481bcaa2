"""The demo with tables of Hudi: real ones of both types, which are put back to their first instants.

Their instants are shown one after the other while `tailbit run` follows both tables, is killed with SIGKILL
right after one, and started again. At the end the index and the rows that Hudi's own Spark read at each
instant, which DuckDB counts, answer the same questions. Nothing of Hudi is needed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

import duckdb
import pyarrow as pa

import tailbit
from demo.processes import Child, DemoError, signals_wait
from demo.run import console
from demo.screen import comparison
from support.hudi import HudiInstant, HudiTable, unpack
from support.hudi_states import changes, replayed
from support.waiting import wait_until

TABLES = {"cow": "cow_v9_clustered", "mor": "mor_v9"}
"""The name of each table in the demo, and of its pack."""
QUESTIONS = (
    "city = 'Lima' AND qty >= 2",
    "NOT part = 'p1' AND city IS NULL",
    "city IN ('Oslo', 'Kyiv') AND id % 3 = 1",
)
"""Conditions; `id` is not indexed, so what is said of it stays as a residual filter."""
KILLED_AFTER = 5
"""The number of the instant after which the indexer is killed."""

PAUSE_S = 0.5
"""Seconds between two instants, so that a person can watch."""

CONFIGURATION = """\
[application]
name = "hudi-demo"
checkpoint = "{folder}/checkpoint"
metrics = "off"
ui = false

[defaults]
idle_poll = "200ms"
"""

TABLE = """
[[table]]
id = "{name}"
path = "{path}"
columns = ["city", "qty", "part"]
"""


def main() -> int:
    """Run the demo; return 0 if every answer is equal and the indexes are sound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the tables go; emptied first")
    folder: Path = parser.parse_args().folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    return Demo(folder).run()


class Demo:
    """One run: the tables, and the process that follows them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.console, self.started = folder, console(), time.monotonic()
        self.tables = {name: unpack(pack, folder / name) for name, pack in TABLES.items()}
        self.indexer: Child | None = None

    def run(self) -> int:
        """Show the instants, follow them, and compare the answers."""
        text = CONFIGURATION.format(folder=self.folder)
        for name, table in self.tables.items():
            text += TABLE.format(name=name, path=table.path)
        (self.folder / "tailbit.toml").write_text(text)
        try:
            for number, (name, instant) in enumerate(self._instants()):
                self._say("hudi", f"{name}: {instant.action} {instant.requested}")
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

    def _instants(self) -> Iterator[tuple[str, HudiInstant]]:
        """Show the instants of the tables in turn."""
        names, states = list(self.tables), [replayed(table) for table in self.tables.values()]
        for together in zip_longest(*states):
            yield from ((name, i) for name, i in zip(names, together, strict=True) if i is not None)

    def _start(self) -> None:
        arguments = ["tailbit.cli", "run", "--config", str(self.folder / "tailbit.toml")]
        with signals_wait():
            self.indexer = Child("indexer", self.folder / "indexer.log", arguments)
        self._say("indexer", f"started (process {self.indexer.process.pid})")

    def _wait(self) -> None:
        """Wait until both indexes cover what is shown."""
        for name, table in self.tables.items():
            version = wait_until(partial(self._covered, table))
            self._say("indexer", f"{name}: covered {version}")

    def _covered(self, table: HudiTable) -> str:
        """Return the newest version if the index covers it; empty if not yet."""
        assert self.indexer is not None
        self.indexer.check()
        answer = tailbit.open(table.path).where()
        return str(answer.version_name) if answer.covered_version == answer.version else ""

    def _ask(self, name: str, table: HudiTable) -> bool:
        """Ask each question at each instant, and compare with the rows that Hudi read."""
        opened, rows, equal = tailbit.open(table.path), [], []
        for question in QUESTIONS:
            for instant in changes(table):
                started = time.perf_counter()
                answer = opened.where(question, version=instant.requested)
                mine, took = answer.count(), time.perf_counter() - started
                truth = table.rows(instant)
                same = mine == counted(truth, question)
                same &= opened.where(version=instant.requested).facets("city") == cities(truth)
                equal.append(same)
                mark = "[green]✓[/]" if same else "[red]✗[/]"
                rows.append([question, instant.requested, f"{mine}", f"{1000 * took:.1f}", mark])
        self.console.print(f"\n{name}: {len(rows)} answers beside those of Hudi's own rows")
        header, many = ("question", "instant", "rows", "ms", "equal"), len(changes(table))
        shown = [row for n, row in enumerate(rows) if n % many in (many // 2, many - 1)]
        self.console.print(comparison(header, shown))
        return all(equal)

    def _verify(self, name: str, table: HudiTable) -> bool:
        report = tailbit.open(table.path).verify()
        said = "sound" if report.sound else "NOT SOUND"
        self.console.print(
            f"{name}: verify: {report.postings} postings, {report.positions} positions: {said}"
        )
        return report.sound

    def _say(self, who: str, event: str) -> None:
        line = f"{time.monotonic() - self.started:6.1f} s  {who:<8} {event}"
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


def counted(rows: pa.Table, condition: str) -> int:
    """Count the rows of a condition with DuckDB."""
    with duckdb.connect() as engine:
        engine.register("hudi_rows", rows)
        [(found,)] = engine.sql(f"SELECT count(*) FROM hudi_rows WHERE {condition}").fetchall()
    return int(found)


def cities(rows: pa.Table) -> Counter[str | None]:
    """Count the rows of each city."""
    return Counter(rows["city"].to_pylist())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DemoError as ended:
        sys.exit(ended.describe())
