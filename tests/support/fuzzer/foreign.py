"""A table that deltalake writes, with what the fuzzer asks of a history; its rows are read by its own log."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from support.histories import DeltalakeHistory
from support.oracle import live_rows
from support.predicates import COLUMNS, Asked


@dataclass(frozen=True)
class ForeignVersion:
    """A version that stays readable: nothing is vacuumed."""

    path: str
    version: int

    @property
    def key(self) -> str:
        """All versions have rows of one schema."""
        return "one schema"

    @property
    def asked(self) -> Sequence[Asked]:
        """The columns that predicates may speak of."""
        return COLUMNS

    def rows(self) -> pa.Table:
        """Every row with its `file` and `position`, in their order."""
        return live_rows(self.path, self.version).sort_by([("file", "ascending"), ("position", "ascending")])


class ForeignHistory:
    """A history by deltalake."""

    def __init__(self, path: str, rng: random.Random) -> None:
        self.path, self._made = path, DeltalakeHistory(path, rng)
        self.done = self._made.done

    def step(self) -> str:
        """Apply one random operation; its name."""
        return self._made.step()

    def head(self) -> ForeignVersion:
        return ForeignVersion(self.path, self._made.head())

    def readable(self) -> list[ForeignVersion]:
        return [ForeignVersion(self.path, v) for v in range(self._made.head() + 1)]
