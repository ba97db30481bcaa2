"""A writer of a soak: it appends, deletes by deletion vector and by rewriting, and compacts."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from support.delta_builder import Action, DeltaBuilder
from support.soak.account import SCHEMA, Account

ROWS, FILES = 40, 24
"""Rows of a commit; live files beyond which small files are compacted."""

CHECKPOINT_EVERY = 40
"""Commits from one log checkpoint of the table to the next."""


@dataclass
class Writer:
    """Writes one table; the account is told of a version before its commit can be seen."""

    path: str
    account: Account
    rng: random.Random
    builder: DeltaBuilder = field(init=False)
    files: dict[str, list[int]] = field(default_factory=dict)
    """The keys of each live file by its path, in the order of the file."""
    hidden: dict[str, set[int]] = field(default_factory=dict)
    """Positions that a deletion vector hides."""

    def __post_init__(self) -> None:
        vectors = {"delta.enableDeletionVectors": "true"}
        self.builder = DeltaBuilder(self.path).create(
            SCHEMA, features=["deletionVectors"], configuration=vectors
        )

    def step(self) -> None:
        """One commit of a random kind."""
        kinds = [self.append, self.append, self.append, self.hide, self.rewrite]
        change = self.compact if len(self.files) > FILES else self.rng.choice(kinds)
        actions = change() if self.files else self.append()
        self.builder.commit(actions)
        self.account.head = self.builder.version
        if self.builder.version % CHECKPOINT_EVERY == 0:
            self.builder.checkpoint()

    def append(self) -> list[Action]:
        """A file of new rows."""
        first = len(self.account.rows)
        keys = range(first, first + ROWS)
        names = [None if self.rng.random() < 0.1 else f"v{self.rng.randrange(7)}" for _ in keys]
        rows = pa.table([list(keys), names, [key % 100 for key in keys]], schema=SCHEMA)
        self.account.append(self.builder.version + 1, rows)
        return [self._file(list(keys))]

    def hide(self) -> list[Action]:
        """Some rows of one file go by a deletion vector."""
        path = self.rng.choice(list(self.files))
        live = sorted(set(range(len(self.files[path]))) - self.hidden.get(path, set()))
        gone = self.rng.sample(live, min(len(live), 5))
        self._delete([self.files[path][at] for at in gone])
        self.hidden[path] = self.hidden.get(path, set()) | set(gone)
        (vector,) = self.builder.stored_vectors(sorted(self.hidden[path]))
        return self.builder.hide(path, vector)

    def rewrite(self) -> list[Action]:
        """A file goes and comes again without some of its rows."""
        path = self.rng.choice(list(self.files))
        kept = self._live(path)
        gone = set(self.rng.sample(kept, len(kept) // 3))
        self._delete(sorted(gone))
        return [*self._remove([path]), self._file([key for key in kept if key not in gone])]

    def compact(self) -> list[Action]:
        """Many small files become one; no row comes or goes."""
        paths = list(self.files)[: FILES - 4]
        keys = [key for path in paths for key in self._live(path)]
        return [*self._remove(paths), self._file(keys)]

    def _live(self, path: str) -> list[int]:
        hidden = self.hidden.get(path, set())
        return [key for at, key in enumerate(self.files[path]) if at not in hidden]

    def _delete(self, keys: list[int]) -> None:
        self.account.delete(self.builder.version + 1, np.asarray(keys, np.int64))

    def _remove(self, paths: list[str]) -> list[Action]:
        removed = [self.builder.remove(path) for path in paths]
        for path in paths:
            del self.files[path]
            self.hidden.pop(path, None)
        return removed

    def _file(self, keys: list[int]) -> Action:
        rows = self.account.rows.take(pa.array(keys, pa.int64()))
        action = self.builder.data_file(rows, row_group_size=max(1, len(keys) // 2))
        self.files[action["add"]["path"]] = keys
        return action
