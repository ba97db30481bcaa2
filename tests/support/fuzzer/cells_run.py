"""Any condition about a history of edge values, answered with indexes of every kind and without.

The judge is the table as it is read without an index, whose conditions Spark judges in other kinds of fuzzer.
What raises must raise an error of the same class either way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from support.fuzzer.asks import Version
from support.fuzzer.definitions import RandomDefinition
from support.fuzzer.follower import Follower
from support.fuzzer.judge import Verdict, by_duckdb
from support.fuzzer.run import CHECKS_A_HISTORY, Report, Run, reported
from support.fuzzer.term_conditions import TermConditions, definition_of_terms
from support.implications import TERMS
from tailbit.api import IndexedTable
from tailbit.errors import TailbitError
from tailbit.tables import open_table

ZONES = ("UTC", "UTC", "UTC", "Europe/Berlin")


@dataclass(frozen=True)
class Answered:
    """A condition at a version in a time zone, and what was said with an index and without."""

    condition: str
    version: int
    zone: str
    moment: str
    found: str
    expected: str

    def __str__(self) -> str:
        asked = f"{self.condition}\n  at version {self.version} in {self.zone}, index {self.moment}"
        return f"{asked}\n  with:    {self.found}\n  without: {self.expected}"


class CellsFollower(Follower):
    """An index whose definitions are of the terms that are asked, too."""

    def definition(self) -> RandomDefinition:
        """A definition over columns as they were named at first, or of terms of every function."""
        return definition_of_terms(self.rng, self.partitions())


class CellsRun(Run):
    """A history while it is made, and asked with its index and without."""

    def __init__(self, seed: int, checks: int, folder: str) -> None:
        super().__init__(seed, checks, folder, "cells")
        self.follower = CellsFollower(self.history.path, self.rng, self.indexable, self.partitions)
        self.made = TermConditions(self.rng)
        self.answers: list[Answered] = []

    @property
    def count(self) -> int:
        """Questions asked so far."""
        return len(self.answers)

    def ask(self, moment: str, versions: Sequence[Version], until: int) -> None:
        """Ask about one version after the other until `until` questions have been asked."""
        opened, count = self.follower.opened(), until - self.count
        plain = IndexedTable(open_table(self.history.path), os.path.join(self.history.path, "no index"))
        terms = self._terms(opened)
        for number in range(count):
            version = versions[-1 - number * len(versions) // count].version
            condition, zone = self.made.condition(terms), self.rng.choice(ZONES)
            said = [self._said(table, condition, version, zone) for table in (opened, plain)]
            self.answers.append(Answered(condition, version, zone, moment, *said))

    def _terms(self, opened: IndexedTable) -> list[str]:
        """The terms that are indexed now, and some that are not."""
        indexed = [text for index in opened.indexes() for text in index.terms if text != "*"]
        return [*indexed, *self.rng.sample(TERMS, 3)]

    def _said(self, table: IndexedTable, condition: str, version: int, zone: str) -> str:
        """The count and the positions, now and then the rows; of an error its class."""
        try:
            answer = table.where(condition, version=version, zone=zone)
            early = answer.count()
            positions: Mapping[str, Any] = answer.positions()
            found = {path: at.tolist() for path, at in sorted(positions.items()) if len(at)}
            rows = answer.read().to_pylist() if len(self.answers) % 12 == 0 else []
        except TailbitError as error:
            return type(error).__name__
        return f"{early} rows, {found}, {rows}"

    def judged(self, verdict: Verdict = by_duckdb) -> Sequence[object]:
        """What was answered otherwise than without an index."""
        return [answer for answer in self.answers if answer.found != answer.expected]


def run_cells(seed: int, checks: int = CHECKS_A_HISTORY) -> Report:
    """Make one history, ask `checks` questions with its index and without; nothing raised is lost."""
    return reported(seed, lambda folder: CellsRun(seed, checks, folder))
