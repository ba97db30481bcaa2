"""A fuzzed history of which questions of analytics are asked, instead of predicates alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from support.analytics.answers import answered
from support.analytics.judge import Answered, judged
from support.analytics.questions import random_question
from support.fuzzer.asks import Version
from support.fuzzer.judge import Verdict, by_duckdb
from support.fuzzer.model import State
from support.fuzzer.run import CHECKS_A_HISTORY, Report, Run, history_seeds, reported


class AnalyticsRun(Run):
    """A history while it is made and asked; every answer is judged in the end."""

    def __init__(self, seed: int, checks: int, folder: str) -> None:
        super().__init__(seed, checks, folder, "varied")
        self.answers: list[Answered] = []

    @property
    def count(self) -> int:
        """Questions asked so far."""
        return len(self.answers)

    def ask(self, moment: str, versions: Sequence[Version], until: int) -> None:
        """Ask about one version after the other until `until` questions have been asked."""
        opened, count = self.follower.opened(), until - self.count
        states = cast(Sequence[State], versions)
        for number in range(count):
            state = states[-1 - number * len(states) // count]
            question = random_question(self.rng, state, states)
            self.answers.append(Answered(question, moment, answered(opened, question, self.rng)))

    def judged(self, verdict: Verdict = by_duckdb) -> Sequence[object]:
        """What was answered otherwise than by DuckDB."""
        return judged(self.answers)


def run_analytics(seed: int, checks: int = CHECKS_A_HISTORY) -> Report:
    """Make one history, ask `checks` questions, and judge the answers; nothing raised is lost."""
    return reported(seed, lambda folder: AnalyticsRun(seed, checks, folder))


def fuzz_analytics(seed: int, checks: int, each: int) -> Report:
    """Histories of `each` checks, one after the other, until `checks` checks are done."""
    total = Report()
    for one in history_seeds(seed, checks, each):
        total += run_analytics(one, each)
    return total
