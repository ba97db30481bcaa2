"""Rounds of random queries of several tables: each with the index in two ways, and without as the judge.

A query is planned in both ways, and run where the index served a scan of it: else its plan is the one
without the index.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from support.fuzzer.tally import Tally
from support.plain_sql.statements import SHAPES, Branch, branch
from support.plain_sql.table import PIECES, RandomTable
from tailbit.spark.acceleration import Acceleration

TABLES, EACH = 4, 4
"""Tables of a field, and queries of each in a round."""

ROUNDS = 36
"""Rounds of a field: to make its tables takes as long as six of them."""


@dataclass(frozen=True)
class Mode:
    """A way in which queries of some shapes are served: `serve` is the setting.

    An `early` mode serves before Delta lists files. Of the others a round asks one, in statements of
    `together` queries of a table: the early rule serves no statement of several scans of one.
    """

    name: str
    serve: str
    shapes: tuple[str, ...]
    early: bool = False
    together: int = 1

    def __str__(self) -> str:
        return f"{self.name}, {'early' if self.early else 'late'}"


ALL = "files,counts,groups,rows"
MODES = (
    Mode("files", "files", (*SHAPES,)),
    Mode("rows", "rows", ("rows",), together=2),
    Mode("rows", "rows", ("rows",), early=True),
    Mode("counts", "counts", ("counts",), together=2),
    Mode("counts", ALL, ("counts",), early=True),
    Mode("groups", "groups", ("groups",), together=2),
    Mode("groups", ALL, ("groups",), early=True),
)
"""Every mode is judged, and counts the scans that it has served: another one is added here."""

SETTINGS: dict[str, tuple[str, ...]] = {
    "spark.sql.ansi.enabled": ("true", "true", "false"),
    "spark.sql.session.timeZone": ("UTC", "UTC", "America/New_York", "Asia/Kolkata"),
    "spark.sql.parquet.enableVectorizedReader": ("true", "false"),
    "spark.sql.parquet.filterPushdown": ("true", "true", "false"),
    "spark.sql.files.maxPartitionBytes": ("128m", "128m", "128m", "20000"),
    "spark.sql.adaptive.enabled": ("false", "false", "true"),
    "spark.sql.optimizer.inSetConversionThreshold": ("10", "2"),
    "spark.databricks.delta.stats.skipping": ("true", "false", "false"),
    "spark.sql.readSideCharPadding": ("true", "true", "false"),
    "spark.sql.codegen.wholeStage": ("false",) * 15 + ("true",),
}
"""Settings of a session, drawn anew for each round."""

Rows = dict[int, list[tuple[str | None, ...]]]
Answer = tuple[Mode, Sequence[Branch], Rows | str]


@dataclass
class Rounds(Tally):
    """What rounds did: `served` scans by mode, `refused` queries that raise without the index too.

    `row_reader`: the scans whose files Spark's row-based Parquet reader read.
    """

    conditions: int = 0
    lagging: int = 0
    answers: int = 0
    refused: int = 0
    row_reader: int = 0
    served: Counter[str] = field(default_factory=Counter)

    def cells(self) -> dict[str, int]:
        """Return the numbers of the record."""
        served = {f"served: {mode}": self.served[str(mode)] for mode in MODES}
        return {
            "conditions": self.conditions,
            "with lag": self.lagging,
            "answers": self.answers,
            **served,
        } | {"by the row-based reader": self.row_reader}

    def lacking(self) -> list[str]:
        """Return the modes that have served no scan, of which nothing is proven."""
        idle = [f"never served: {mode}" for mode in MODES if not self.served[str(mode)]]
        return idle if self.row_reader else [*idle, "never served: files, by the row-based reader"]


def _asked(turn: int, shape: str) -> tuple[str, list[Mode]]:
    """Return a shape and the modes of a round: the early one, and another late one in each turn."""
    late = [mode for mode in MODES if shape in mode.shapes and not mode.early]
    return shape, [late[turn % len(late)], *(mode for mode in MODES if shape in mode.shapes and mode.early)]


class Field:
    """Some tables, and rounds of queries of them."""

    def __init__(self, acceleration: Acceleration, folder: str, seed: int, tables: int = TABLES) -> None:
        self.acceleration, self.spark, self.seed = acceleration, acceleration._spark, seed
        self.rng, self.tally, self._served = random.Random(seed), Rounds(), self._all_served()
        self.tables = [
            RandomTable(self.spark, f"{folder}/t {seed} {number}", self.rng, f"t{number}", number % 4 > 0)
            for number in range(tables)
        ]

    def go(self, rounds: int = ROUNDS) -> Rounds:
        """Make the tables, ask the rounds, and leave nothing of them."""
        for table in self.tables:
            table.make()
        self.acceleration._entry.forget()
        for number in range(rounds):
            turn, shape = divmod(number, len(SHAPES))
            with self._settings():
                self._round(*_asked(turn, [*SHAPES][shape]))
        for table in self.tables:
            for version in table.versions:
                self.spark.catalog.dropTempView(version.view)
            shutil.rmtree(table.path)
        for name in PIECES:
            self.spark.conf.unset(name)
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

    def _round(self, shape: str, modes: Sequence[Mode]) -> None:
        number = len(self.tables)
        branches = [branch(self.rng, shape, n, self.tables[n % number]) for n in range(number * EACH)]
        self.tally.conditions += len(branches)
        self.tally.lagging += sum(not one.version.covered for one in branches)
        answers = [answer for mode in modes for answer in self._answers(mode, branches)]
        served = {one.number for _, statement, _ in answers for one in statement}
        expected = self._judged([one for one in branches if one.number in served])
        for mode, statement, rows in answers:
            self._compare(mode, statement, rows, expected)

    def _judged(self, branches: Sequence[Branch]) -> Rows:
        """Return the rows of each query without the index; a query that raises is left out."""
        if not branches:
            return {}
        self.spark.conf.set("spark.tailbit.enabled", "false")
        try:
            rows = self._rows(branches)
            if isinstance(rows, dict):
                return rows
            alone = {one.number: self._rows([one]) for one in branches}
            self.tally.refused += sum(isinstance(rows, str) for rows in alone.values())
            return {n: rows[n] for n, rows in alone.items() if isinstance(rows, dict)}
        finally:
            self.spark.conf.set("spark.tailbit.enabled", "true")

    def _answers(self, mode: Mode, branches: Sequence[Branch]) -> Iterator[Answer]:
        """Ask queries in a mode; yield the statements of which the index served a scan, with their rows."""
        number = len(self.tables)
        by_table = [branches[n::number] for n in range(number)]
        self.spark.conf.set("spark.tailbit.serve", mode.serve)
        for queries in by_table:
            for begin in range(0, len(queries), mode.together):
                statement = queries[begin : begin + mode.together]
                if (rows := self._rows(statement, self._count_served)) is not None:
                    self.tally.answers += len(statement)
                    yield mode, statement, rows
        self.spark.conf.set("spark.tailbit.serve", ALL)

    def _count_served(self) -> bool:
        """Count the scans of the planned statement that the index has served; return whether there is one."""
        before, self._served = self._served, self._all_served()
        is_served = self._served > before
        for scan in self.acceleration.last() if is_served else ():
            if scan.served is not None:
                self.tally.served[f"{scan.served}, {'early' if scan.early else 'late'}"] += 1
                is_by_row = self.spark.conf.get("spark.sql.parquet.enableVectorizedReader") == "false"
                self.tally.row_reader += scan.served == "files" and is_by_row
        return is_served

    def _all_served(self) -> int:
        return sum(self.acceleration.served(mode) for mode in ALL.split(","))

    def _compare(self, mode: Mode, statement: Sequence[Branch], rows: Rows | str, expected: Rows) -> None:
        """Compare the rows of a statement with those without the index; queries that differ are findings."""
        if isinstance(rows, str):
            if all(one.number in expected for one in statement):
                self._finding(mode, statement[0], rows, expected[statement[0].number])
            return
        for one in statement:
            plain = expected.get(one.number)
            if plain is not None and rows[one.number] != plain:
                self._finding(mode, one, rows[one.number], plain)

    def _rows(
        self, branches: Sequence[Branch], if_planned: Callable[[], bool] = lambda: True
    ) -> Rows | str | None:
        """Return the rows of each query, sorted, or the error that is raised; None where it is not run."""
        statement = "\nUNION ALL ".join(f"({one.sql})" for one in branches)
        rows: Rows = defaultdict(list)
        try:
            frame = self.spark.sql(statement)
            frame._jdf.queryExecution().optimizedPlan()
            if not if_planned():
                return None
            for branch_, *cells in frame.collect():
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
