"""One fuzzed history from its seed: operations, an index that follows or does not, questions, the verdict."""

from __future__ import annotations

import os
import random
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import tailbit
from support.fuzzer.asks import Ask, Version, ask, new_predicate
from support.fuzzer.built import BuiltHistory
from support.fuzzer.follower import Follower
from support.fuzzer.judge import Mismatch, Verdict, by_duckdb, judge

CHECKS_A_HISTORY = 250


@dataclass
class Report:
    """What came of some histories. `findings`: what was wrong, with all that is needed to see it again."""

    checks: int = 0
    histories: int = 0
    findings: list[str] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Report) -> Report:
        self.checks += other.checks
        self.histories += other.histories
        self.findings += other.findings
        self.operations += other.operations
        return self


class Run:
    """A history while it is made and asked."""

    def __init__(self, seed: int, checks: int, folder: str) -> None:
        self.seed, self.checks = seed, checks
        self.rng = random.Random(seed)
        self.history = BuiltHistory(os.path.join(folder, "t b%"), self.rng)
        self.follower = Follower(self.history.path, self.rng, self.indexable)
        self.asks: list[Ask] = []
        self.wrong: list[str] = []

    def indexable(self) -> list[str]:
        """The columns that an index could have now."""
        return [column.spark for column in self.history.head().asked]

    def go(self) -> None:
        """All of it: while the table changes a third of the checks, the rest in each state of the index."""
        steps = self.rng.randint(6, 14)
        for number in range(steps):
            moved = self.follower.move()
            self.history.done.append(f"[{moved}]")
            self.history.step()
            self._ask(f"after {moved}", self._recent(), self.checks * (number + 1) // (3 * steps))
        for number, (name, become) in enumerate(self._ends()):
            become()
            wanted = self.checks // 3 + (self.checks - self.checks // 3) * (number + 1) // 6
            self._ask(name, self.history.readable(), wanted)

    def _ends(self) -> list[tuple[str, Callable[[], None]]]:
        follower = self.follower
        return [
            ("as it was left", lambda: None),
            ("complete", self._complete),
            ("merged", follower.compact),
            ("half built", self._half_built),
            ("rebuilt", self._complete),
            ("absent", follower.lose),
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
        """The head, and any other version that can be read."""
        return [self.history.head(), self.rng.choice(self.history.readable())]

    def _ask(self, moment: str, versions: Sequence[Version], until: int) -> None:
        opened = self.follower.opened()
        for number in range(max(0, until - len(self.asks))):
            version = versions[number % len(versions)]
            predicate = new_predicate(self.rng, version)
            self.asks.append(ask(opened, version, predicate, moment, self.rng))

    def findings(self, mismatches: Sequence[Mismatch]) -> Iterator[str]:
        """What was wrong, each with the seed and the operations."""
        for problem in (*self.wrong, *map(str, mismatches)):
            yield f"history {self.seed}: {problem}\n  after {', '.join(self.history.done)}"


def run_history(seed: int, checks: int = CHECKS_A_HISTORY, verdict: Verdict = by_duckdb) -> Report:
    """Make one history, ask `checks` questions, and judge the answers; nothing raised is lost."""
    with tempfile.TemporaryDirectory() as folder:
        run = None
        try:
            run = Run(seed, checks, folder)
            run.go()
            findings = list(run.findings(judge(run.asks, verdict)))
        except Exception:  # A history that stops is a finding: the next ones must still be made.
            done = "" if run is None else f"\n  after {', '.join(run.history.done)}"
            findings = [f"history {seed}: stopped{done}\n{traceback.format_exc()}"]
        if run is None:
            return Report(0, 1, findings)
        return Report(len(run.asks), 1, findings, Counter(run.history.done))
