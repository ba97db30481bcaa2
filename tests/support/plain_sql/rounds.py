"""Rounds of random queries of several tables: each with the index in some ways, and without as the judge."""

from __future__ import annotations

import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from support.plain_sql.statements import SHAPES, Branch, branch
from support.plain_sql.table import RandomTable
from tailbit.spark.acceleration import Acceleration

TABLES, EACH = 4, 4
"""Tables of a field, and queries of each in a round."""

ROUNDS = 36
"""Rounds of a field: to make its tables takes as long as six of them."""


@dataclass(frozen=True)
class Mode:
    """A way in which queries of some shapes are served: `serve` is the setting.

    An `early` mode is asked in statements that scan each table once, the others in those of several scans.
    """

    name: str
    serve: str
    shapes: tuple[str, ...]
    early: bool = False

    def __str__(self) -> str:
        return f"{self.name}, {'early' if self.early else 'late'}"


ALL = "files,counts,groups,rows,positions"
MODES = (
    Mode("files", "files", (*SHAPES,)),
    Mode("positions", "positions", (*SHAPES,)),
    Mode("rows", "rows", ("rows",)),
    Mode("rows", "rows", ("rows",), early=True),
    Mode("counts", "counts", ("counts",)),
    Mode("counts", ALL, ("counts",), early=True),
    Mode("groups", "groups", ("groups",)),
    Mode("groups", ALL, ("groups",), early=True),
)
"""Every mode is judged, and counts the scans that it has served: another one is added here."""

SETTINGS: dict[str, tuple[str, ...]] = {
    "spark.sql.ansi.enabled": ("true", "true", "false"),
    "spark.sql.session.timeZone": ("UTC", "UTC", "America/New_York", "Asia/Kolkata"),
    "spark.sql.parquet.enableVectorizedReader": ("true", "true", "true", "false"),
    "spark.sql.parquet.filterPushdown": ("true", "true", "false"),
    "spark.sql.files.maxPartitionBytes": ("128m", "128m", "8192"),
    "spark.sql.adaptive.enabled": ("false", "false", "true"),
    "spark.sql.optimizer.inSetConversionThreshold": ("10", "2"),
    "spark.databricks.delta.stats.skipping": ("true", "true", "false"),
    "spark.sql.readSideCharPadding": ("true", "true", "false"),
    "spark.sql.codegen.wholeStage": ("false",) * 15 + ("true",),
}
"""Settings of a session, drawn anew for each round."""

Rows = dict[int, list[tuple[str | None, ...]]]


@dataclass
class Tally:
    """What rounds did: `served` scans by mode, `refused` queries that raise without the index too."""

    conditions: int = 0
    lagging: int = 0
    answers: int = 0
    refused: int = 0
    served: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def __iadd__(self, other: Tally) -> Tally:
        for name in ("conditions", "lagging", "answers", "refused", "findings"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.served += other.served
        return self


class Field:
    """Some tables, and rounds of queries of them."""

    def __init__(self, acceleration: Acceleration, folder: str, seed: int, tables: int = TABLES) -> None:
        self.acceleration, self.spark, self.seed = acceleration, acceleration._spark, seed
        self.rng, self.tally = random.Random(seed), Tally()
        self.tables = [
            RandomTable(self.spark, f"{folder}/t {seed} {number}", self.rng, f"t{number}", number % 4 > 0)
            for number in range(tables)
        ]

    def go(self, rounds: int = ROUNDS) -> Tally:
        """Make the tables, ask the rounds, and leave nothing of them."""
        self.spark.conf.set("spark.tailbit.knownMs", "0")
        for table in self.tables:
            table.make()
        self.acceleration._entry.forget()
        for number in range(rounds):
            shape = [*SHAPES][number % len(SHAPES)]
            with self._settings():
                self._round(shape)
        self.spark.conf.unset("spark.tailbit.knownMs")
        for table in self.tables:
            for version in table.versions:
                self.spark.catalog.dropTempView(version.view)
            shutil.rmtree(table.path)
        return self.tally

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """Draw the settings of the session, for a block."""
        before = {name: self.spark.conf.get(name) for name in SETTINGS}
        for name, values in SETTINGS.items():
            self.spark.conf.set(name, self.rng.choice(values))
        yield
        for name, value in before.items():
            self.spark.conf.set(name, value)

    def _round(self, shape: str) -> None:
        number = len(self.tables)
        branches = [branch(self.rng, shape, n, self.tables[n % number]) for n in range(number * EACH)]
        self.tally.conditions += len(branches)
        self.tally.lagging += sum(not one.version.covered for one in branches)
        expected = self._judged(branches)
        branches = [one for one in branches if one.number in expected]
        for mode in MODES:
            if shape in mode.shapes:
                self._compare(mode, branches, expected)

    def _judged(self, branches: Sequence[Branch]) -> Rows:
        """Return the rows of each query without the index; a query that raises is left out."""
        self.spark.conf.set("spark.tailbit.enabled", "false")
        try:
            rows = self._rows(branches)
            if isinstance(rows, dict):
                return rows
            alone = {one.number: self._rows([one]) for one in branches}
            self.tally.refused += sum(isinstance(rows, str) for rows in alone.values())
            return {n: rows[n] for n, rows in alone.items() if not isinstance(rows, str)}
        finally:
            self.spark.conf.set("spark.tailbit.enabled", "true")

    def _compare(self, mode: Mode, branches: Sequence[Branch], expected: Rows) -> None:
        """Ask the queries of a mode, several in a statement; those that differ are findings."""
        number = len(self.tables)
        statements = [branches]
        if mode.early:
            statements = [[one for one in branches if one.number // number == n] for n in range(EACH)]
        self.spark.conf.set("spark.tailbit.serve", mode.serve)
        for statement in filter(None, statements):
            rows = self._rows(statement)
            for scan in self.acceleration.last():
                if scan.served is not None:
                    self.tally.served[f"{scan.served}, {'early' if scan.early else 'late'}"] += 1
            self.tally.answers += len(statement)
            for one in statement:
                ours = rows if isinstance(rows, str) else rows[one.number]
                if ours != expected[one.number]:
                    self._finding(mode, one, ours, expected[one.number])
        self.spark.conf.set("spark.tailbit.serve", ALL)

    def _rows(self, branches: Sequence[Branch]) -> Rows | str:
        """Return the rows of each query, sorted, or the error that is raised."""
        statement = "\nUNION ALL ".join(f"({one.sql})" for one in branches)
        rows: Rows = defaultdict(list)
        try:
            for branch_, *cells in self.spark.sql(statement).collect():
                rows[branch_].append(tuple(cells))
        except (PySparkException, Py4JError) as error:
            return str(error)[:1500]
        return {one.number: sorted(rows[one.number], key=str) for one in branches}

    def _finding(self, mode: Mode, one: Branch, ours: Any, plain: Any) -> None:
        settings = {name: self.spark.conf.get(name) for name in SETTINGS}
        story = "\n  ".join(one.table.story)
        if isinstance(ours, list):
            ours, plain = [row for row in ours if row not in plain], [row for row in plain if row not in ours]
        self.tally.findings.append(
            f"field {self.seed}, {mode} at version {one.version.number} of\n  {story}\n"
            f"  {one.sql}\n  {settings}\n"
            f"  with the index only {str(ours)[:1500]}\n  without it only {str(plain)[:500]}"
        )
