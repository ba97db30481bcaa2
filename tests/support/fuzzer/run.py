"""One fuzzed history from its seed: operations, an index that follows or does not, questions, the verdict."""

from __future__ import annotations

import os
import random
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

import tailbit
from support.fuzzer.arrays import ArrayHistory
from support.fuzzer.asks import Ask, Version, ask, new_predicate
from support.fuzzer.built import BuiltHistory
from support.fuzzer.cells import CellsHistory
from support.fuzzer.columns import label
from support.fuzzer.follower import Follower
from support.fuzzer.foreign import ForeignHistory
from support.fuzzer.hudi import HudiHistory
from support.fuzzer.hudi_merged import MergedHistory
from support.fuzzer.iceberg import IcebergHistory
from support.fuzzer.judge import Verdict, by_duckdb, judge
from support.fuzzer.model import State
from support.fuzzer.tally import Tally
from support.fuzzer.varied import VariedHistory
from support.predicates import Predicate

CHECKS_A_HISTORY = 500
"""Checks a history: enough that making the history costs less than asking about it."""

HISTORIES_A_SEED = 1_000_000
"""History n of a run with seed s has the seed s times this, plus n: each can be made again alone."""


class History(Protocol):
    """A table that random operations change; `done` names them."""

    path: str
    done: list[str]

    def step(self) -> str:
        """Apply one random operation; its name."""

    def head(self) -> Version:
        """The newest version."""

    def readable(self) -> Sequence[Version]:
        """The versions that can be read now, the head last."""


WRITERS: dict[str, Callable[[str, random.Random], History]] = {
    "built": BuiltHistory,
    "varied": VariedHistory,
    "arrays": ArrayHistory,
    "cells": CellsHistory,
    "deltalake": ForeignHistory,
    "hudi": HudiHistory,
    "hudi-merged": MergedHistory,
    "iceberg": IcebergHistory,
}


@dataclass
class Report(Tally):
    """What came of some histories."""

    checks: int = 0
    histories: int = 0
    operations: Counter[str] = field(default_factory=Counter)

    def cells(self) -> dict[str, int]:
        """Return the numbers of the record."""
        return {"histories": self.histories, "checks": self.checks}


class Run:
    """A history while it is made and asked."""

    def __init__(self, seed: int, checks: int, folder: str, writer: str = "built") -> None:
        self.seed, self.checks = seed, checks
        self.rng = random.Random(seed)
        self.history = WRITERS[writer](os.path.join(folder, "t b"), self.rng)
        self.follower = Follower(self.history.path, self.rng, self.indexable, self.partitions)
        self.asks: list[Ask] = []
        self.wrong: list[str] = []

    @property
    def count(self) -> int:
        """Questions asked so far."""
        return len(self.asks)

    def indexable(self) -> list[str]:
        """The columns that an index could have now."""
        return [column.spark for column in self.history.head().asked]

    def partitions(self) -> list[str]:
        """The columns that part the files now."""
        head = self.history.head()
        return [label([name]) for name in head.shape.partitions] if isinstance(head, State) else ["region"]

    def go(self) -> None:
        """All of it: a third of the checks while the table changes, the rest in each state of the index."""
        steps = self.rng.randint(6, 14)
        for number in range(steps):
            moved = self.follower.move()
            self.history.done.append(f"[{moved}]")
            self.history.step()
            self.ask(f"after {moved}", self._recent(), self.checks * (number + 1) // (3 * steps))
        asked, parts = self.checks // 3, self._ends()
        shares = list(accumulate(share for share, _, _ in parts))
        for upto, (_, name, become) in zip(shares, parts, strict=True):
            become()
            wanted = asked + (self.checks - asked) * upto // shares[-1]
            self.ask(name, self.history.readable(), wanted)

    def _ends(self) -> list[tuple[int, str, Callable[[], None]]]:
        """Share of the questions, state of the index, how it gets there. Questions without one are dear."""
        follower = self.follower
        return [
            (2, "as it was left", lambda: None),
            (4, "complete", self._complete),
            (3, "merged", follower.compact),
            (1, "half built", self._half_built),
            (3, "rebuilt", self._complete),
            (1, "absent", follower.lose),
        ]

    def _complete(self) -> None:
        self.follower.drain()
        opened = tailbit.open(self.history.path)
        self.wrong += [f"verify: {problem}" for problem in opened.verify(samples=20).problems]
        covered, head = opened.where().covered_version, self.history.head().version
        if covered != head:
            self.wrong.append(f"covered {covered} of {head} after draining")

    def _half_built(self) -> None:
        self.follower.lose()
        self.follower.step()

    def _recent(self) -> list[Version]:
        """The head, and any version that can be read."""
        return [self.history.head(), self.rng.choice(self.history.readable())]

    def ask(self, moment: str, versions: Sequence[Version], until: int) -> None:
        """Ask about one version after the other until `until` questions have been asked."""
        opened, count = self.follower.opened(), until - self.count
        for number in range(count):
            version = versions[-1 - number * len(versions) // count]
            self.asks.append(ask(opened, version, self._predicate(version), moment, self.rng))

    def _predicate(self, version: Version) -> Predicate:
        """A new one, or one that was just asked about a version of the same schema: the handle knows it."""
        before = [a.predicate for a in self.asks[-8:] if a.version.key == version.key]
        if before and self.rng.random() < 0.3:
            return self.rng.choice(before)
        return new_predicate(self.rng, version)

    def judged(self, verdict: Verdict = by_duckdb) -> Sequence[object]:
        """The answers that are not the judge's."""
        return judge(self.asks, verdict)

    def findings(self, mismatches: Sequence[object]) -> Iterator[str]:
        """What was wrong, each with the seed and the operations."""
        for problem in (*self.wrong, *map(str, mismatches)):
            yield f"history {self.seed}: {problem}\n  after {', '.join(self.history.done)}"


def run_history(
    seed: int, checks: int = CHECKS_A_HISTORY, writer: str = "built", verdict: Verdict = by_duckdb
) -> Report:
    """Make one history, ask `checks` questions, and judge the answers; nothing raised is lost."""
    return reported(seed, lambda folder: Run(seed, checks, folder, writer), verdict)


def reported(seed: int, made: Callable[[str], Run], verdict: Verdict = by_duckdb) -> Report:
    """What comes of a run in a folder of its own; an error is a finding."""
    with tempfile.TemporaryDirectory() as folder:
        run = None
        try:
            run = made(folder)
            run.go()
            findings = list(run.findings(run.judged(verdict)))
        except Exception:  # A history that stops is a finding, and the next ones must still be made.
            done = "" if run is None else f"\n  after {', '.join(run.history.done)}"
            findings = [f"history {seed}: stopped{done}\n{traceback.format_exc()}"]
        if run is None:
            return Report(findings, 0, 1)
        return Report(findings, run.count, 1, Counter(run.history.done))


def fuzz(
    seed: int,
    checks: int,
    each: int = CHECKS_A_HISTORY,
    writer: str = "built",
    verdict: Verdict = by_duckdb,
) -> Report:
    """Histories of `each` checks, one after the other, until `checks` checks are done."""
    total = Report()
    for one in history_seeds(seed, checks, each):
        total += run_history(one, each, writer, verdict)
    return total


def history_seeds(seed: int, checks: int, each: int) -> range:
    """The seeds of the histories of `each` checks that together have `checks` or more."""
    first = seed * HISTORIES_A_SEED
    return range(first, first + -(-checks // each))
