"""Upkeep of a soak: compact, vacuum, verify, alter and repair at random moments, beside all else."""

from __future__ import annotations

import random
from dataclasses import dataclass

import tailbit
from support.soak.tally import Tally
from tailbit.errors import CommitConflictError, CorruptIndexError, NoIndexError

EXPECTED = (NoIndexError, CommitConflictError, CorruptIndexError)
"""What upkeep may say while an indexer is at work in an index that faults hit."""


@dataclass
class Caretaker:
    """Does what an operator does by hand."""

    path: str
    tally: Tally
    rng: random.Random

    def step(self) -> None:
        """One piece of upkeep."""
        done = self.rng.choice([self.compact, self.vacuum, self.verify, self.alter, self.repair])
        try:
            done()
        except EXPECTED as error:
            name = f"{done.__name__}: {type(error).__name__}"
        except Exception as error:
            self.tally.found(f"{done.__name__}: {type(error).__name__}: {error}")
            return
        else:
            name = done.__name__
        with self.tally.lock:
            self.tally.upkeep[name] += 1

    def compact(self) -> None:
        """Merge what is due."""
        tailbit.open(self.path).compact()

    def vacuum(self) -> None:
        """Delete what no state refers to, with the age that users have."""
        tailbit.open(self.path).vacuum()

    def verify(self) -> None:
        """Check all; what it finds of injected damage is right, so only an error is a finding."""
        tailbit.open(self.path).verify(samples=20, seed=self.rng.randrange(1000), derive=2)

    def alter(self) -> None:
        """The column w comes or goes."""
        table = tailbit.open(self.path)
        if "w" in table.indexed():
            table.alter(drop=["w"])
        else:
            table.alter(add=["w"])

    def repair(self) -> None:
        """Take out what is wrong."""
        tailbit.open(self.path).repair(samples=20)
