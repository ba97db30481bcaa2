"""What the writers of a soak wrote, by their own account: which rows are live at which version."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

NEVER = np.iinfo(np.int64).max
"""The version at which a live row dies."""

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), ("w", pa.int32())])


@dataclass(frozen=True)
class Difference:
    """How the keys of an answer differ from those of the account."""

    lost: int
    twice: int
    foreign: int

    @property
    def none(self) -> bool:
        """Whether the answer is right."""
        return not (self.lost or self.twice or self.foreign)


@dataclass
class Account:
    """Every row ever written, with the versions in which it is live: from `born` up to, not with, `died`.

    A version stands here before its commit can be seen, so whoever sees a version finds it here.
    """

    rows: pa.Table = field(default_factory=SCHEMA.empty_table)
    born: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    died: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    head: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def append(self, version: int, rows: pa.Table) -> None:
        """Rows that come with a version; `k` counts on, so that it is their place in the account."""
        with self._lock:
            self.rows = pa.concat_tables([self.rows, rows])
            self.born = np.concatenate([self.born, np.full(len(rows), version)])
            self.died = np.concatenate([self.died, np.full(len(rows), NEVER)])

    def delete(self, version: int, keys: npt.NDArray[np.int64]) -> None:
        """Rows that go with a version."""
        with self._lock:
            self.died = self.died.copy()
            self.died[keys] = version

    def expected(self, version: int, predicate: str) -> list[int]:
        """The keys of the rows that DuckDB finds TRUE at a version, in order."""
        with self._lock:
            rows, live = self.rows, (self.born <= version) & (version < self.died)
        with duckdb.connect(config={"threads": 1}) as engine:
            engine.register("live", rows.filter(pa.array(live)))
            found = engine.sql(f"SELECT k FROM live WHERE {predicate} ORDER BY k").fetchall()
        return [key for (key,) in found]

    def difference(self, version: int, predicate: str, keys: list[int]) -> Difference:
        """Compare the keys of an answer, in any order."""
        expected, found = set(self.expected(version, predicate)), Counter(keys)
        return Difference(
            lost=len(expected - set(found)),
            twice=sum(times - 1 for times in found.values()),
            foreign=len(set(found) - expected),
        )
