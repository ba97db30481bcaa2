"""A reader of a soak: asks at random versions while all else goes on, and compares with the account."""

from __future__ import annotations

import random
from dataclasses import dataclass

import tailbit
from support.soak.account import Account
from support.soak.tally import Tally

NEW_HANDLE = 0.1
"""The share of questions that open the table anew."""

PREDICATES = (
    "v = 'v{a}'",
    "v IN ('v{a}', 'v{b}')",
    "v <> 'v{a}'",
    "v IS NULL",
    "NOT (v = 'v{a}' OR w < {p})",
    "v = 'v{a}' AND w BETWEEN {p} AND {q}",
    "k BETWEEN {m} AND {n}",
    "k >= {m} AND v IS NOT NULL",
    "w = {p} OR v = 'v{b}'",
    "k % 3 = 1 AND v >= 'v{a}'",
)


@dataclass
class Asker:
    """Keeps a handle as a service does."""

    path: str
    account: Account
    tally: Tally
    rng: random.Random

    def __post_init__(self) -> None:
        self.handle = tailbit.open(self.path)

    def step(self) -> None:
        """One question: its rows, its count and its facets against the account."""
        if self.rng.random() < NEW_HANDLE:
            self.handle = tailbit.open(self.path)
        head = self.account.head
        version = None if self.rng.random() < 0.5 else self.rng.randint(0, head)
        predicate = self._predicate()
        try:
            answer = self.handle.where(predicate, version=version)
            keys = answer.read(["k"])["k"].to_pylist()
            counts = (answer.count(), sum(answer.facets("v").values()))
            at = answer.version
        except Exception as error:
            self.tally.answer(0, 0, f"{predicate} at {version}: {type(error).__name__}: {error}")
            return
        found = self.account.difference(at, predicate, keys)
        right = found.none and counts == (len(keys), len(keys))
        finding = None if right else f"{predicate} at {at} (asked {version}): {found}, counted {counts}"
        self.tally.answer(found.lost, found.twice, finding)

    def _predicate(self) -> str:
        low, high = sorted(self.rng.randint(0, len(self.account.rows)) for _ in range(2))
        p, q = sorted(self.rng.randrange(100) for _ in range(2))
        a, b = self.rng.randrange(7), self.rng.randrange(7)
        return self.rng.choice(PREDICATES).format(a=a, b=b, p=p, q=q, m=low, n=high)
