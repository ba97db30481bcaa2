"""What a count by key gives: distinct keys, the rows of each, and by which steps they were counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tailbit.arrays import Longs
from tailbit.index.grouping.choice import Choice, CountingWay
from tailbit.tables.model import Column


@dataclass(frozen=True)
class Step:
    """One step of a count, for `explain`: what was chosen, for how many rows (None: all), the ms it took.

    `took` is None where rows of a row space are read together with others, in a later step.
    """

    way: CountingWay
    rows: int | None
    took: float | None
    choice: Choice | None = None

    def account(self) -> dict[str, Any]:
        """The step as JSON can hold it."""
        estimates = {} if self.choice is None else self.choice.estimates
        return {
            "way": self.way.value,
            "row_space": None if self.choice is None else self.choice.space,
            "rows": self.rows,
            "estimates_ms": {way.value: round(ms, 3) for way, ms in estimates.items()},
            "took_ms": None if self.took is None else round(self.took, 3),
        }


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """Distinct whole keys of a column in order, null (NULL) first, and how many rows have each; none is zero.

    `steps`: how they were counted.
    """

    column: Column
    key_type: str
    keys: pa.BinaryArray
    counts: Longs
    values: Callable[[], list[Any]]
    steps: Sequence[Step] = field(default=())

    @property
    def nulls(self) -> int:
        """Rows that are NULL."""
        return int(self.counts[0]) if len(self.keys) and not self.keys[0].is_valid else 0

    def most_frequent_first(self) -> Longs:
        """Places of the keys by falling count, ties in the order of the keys."""
        return np.argsort(-self.counts, kind="stable")
